//! Small numbers in few bits: varints, and lists in blocks that take as many bits for each as the largest of them.

/// Numbers of a block.
const BLOCK: usize = 32;

/// Seven bits a byte, the lowest first.
pub(crate) fn write_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Reads one off the front.
pub(crate) fn read_varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0u64;
    for shift in (0..64).step_by(7) {
        let byte = take(bytes, 1)?.first().copied()?;
        value |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some(value);
        }
    }
    None
}

/// Reads a length or a number of things.
pub(crate) fn read_length(bytes: &mut &[u8]) -> Option<usize> {
    read_varint(bytes).and_then(|length| usize::try_from(length).ok())
}

/// Takes so many bytes off the front.
pub(crate) fn take<'a>(bytes: &mut &'a [u8], count: usize) -> Option<&'a [u8]> {
    let (taken, rest) = bytes.split_at_checked(count)?;
    *bytes = rest;
    Some(taken)
}

/// Small whichever its sign.
pub(crate) fn zigzag(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)) as u64
}

pub(crate) fn unzigzag(value: u64) -> i64 {
    (value >> 1) as i64 ^ -((value & 1) as i64)
}

/// Writes a list: for each block its width in bits, then the numbers.
pub(crate) fn write_packed(out: &mut Vec<u8>, values: &[u64]) {
    for block in values.chunks(BLOCK) {
        let width = 64 - block.iter().fold(0, |all, value| all | value).leading_zeros();
        out.push(width as u8);
        let (mut waiting, mut bits) = (0u128, 0u32);
        for value in block {
            waiting |= u128::from(*value) << bits;
            bits += width;
            while bits >= 8 {
                out.push(waiting as u8);
                waiting >>= 8;
                bits -= 8;
            }
        }
        if bits > 0 {
            out.push(waiting as u8);
        }
    }
}

/// Reads a list of so many numbers off the front.
pub(crate) fn read_packed(bytes: &mut &[u8], count: usize) -> Option<Vec<u64>> {
    // A block of zeros takes a byte: the count is no more than its caller has room for.
    let mut values = Vec::with_capacity(count.min(bytes.len().saturating_mul(BLOCK)));
    while values.len() < count {
        let in_block = BLOCK.min(count - values.len());
        let width = u32::from(take(bytes, 1)?.first().copied()?);
        if width > 64 {
            return None;
        }
        let packed = take(bytes, (in_block * width as usize).div_ceil(8))?;
        let mask = if width == 64 { u64::MAX } else { (1u64 << width) - 1 };
        let (mut waiting, mut bits, mut next) = (0u128, 0u32, packed.iter());
        for _ in 0..in_block {
            while bits < width {
                waiting |= u128::from(*next.next()?) << bits;
                bits += 8;
            }
            values.push(waiting as u64 & mask);
            waiting >>= width;
            bits -= width;
        }
    }
    Some(values)
}
