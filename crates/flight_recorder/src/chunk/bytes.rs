//! Numbers of as many bytes as they need. Called by `chunk` and `decode`.

use super::DamagedChunk;

/// Seven bits a byte, the lowest first.
pub(super) fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Small for numbers near zero on either side.
pub(super) fn zigzag(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)) as u64
}

pub(super) fn unzigzag(value: u64) -> i64 {
    (value >> 1) as i64 ^ -((value & 1) as i64)
}

pub(super) fn put_text(out: &mut Vec<u8>, text: &[u8]) {
    put_varint(out, text.len() as u64);
    out.extend_from_slice(text);
}

/// Takes bytes from the front.
pub(super) struct Reader<'a>(pub(super) &'a [u8]);

impl<'a> Reader<'a> {
    pub(super) fn byte(&mut self) -> Result<u8, DamagedChunk> {
        let (first, rest) = self.0.split_first().ok_or(DamagedChunk::Short)?;
        self.0 = rest;
        Ok(*first)
    }

    pub(super) fn varint(&mut self) -> Result<u64, DamagedChunk> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(DamagedChunk::Number)
    }

    /// A count of things of which each takes `bytes_each` at least, so that a damaged one claims no memory.
    pub(super) fn count(&mut self, bytes_each: usize) -> Result<usize, DamagedChunk> {
        let count = usize::try_from(self.varint()?).map_err(|_| DamagedChunk::Number)?;
        if count.saturating_mul(bytes_each) > self.0.len() { Err(DamagedChunk::Short) } else { Ok(count) }
    }

    pub(super) fn bytes(&mut self) -> Result<&'a [u8], DamagedChunk> {
        let length = self.count(1)?;
        let (bytes, rest) = self.0.split_at(length);
        self.0 = rest;
        Ok(bytes)
    }

    pub(super) fn text(&mut self) -> Result<&'a str, DamagedChunk> {
        std::str::from_utf8(self.bytes()?).map_err(|_| DamagedChunk::Text)
    }
}
