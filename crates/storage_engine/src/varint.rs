//! Numbers of variable length: seven bits a byte, the lowest first, the highest bit set in all but the last byte (LEB128).
//!
//! Used by `page_store` for the page table on disk and by `page_cache` for buffered changes.

/// Appends a number.
pub(crate) fn push_varint(buffer: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        buffer.push(value as u8 | 0x80);
        value >>= 7;
    }
    buffer.push(value as u8);
}

/// Splits the first number off; `None` when there is none.
pub(crate) fn take_varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0_u64;
    for shift in (0..64).step_by(7) {
        let (byte, rest) = bytes.split_first()?;
        *bytes = rest;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}
