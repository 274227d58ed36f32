//! Record ids: the suffix of index entries, and the keys of the record tree.
//!
//! The suffix keeps the order of ids and can be read from its end, so that it can be split off a key of unknown
//! length: n bytes (1 to 9) hold, as one big-endian number, 4 bits of class, 8n - 8 bits of id, 4 bits of class.
//!
//! ```text
//! class 1       negative ids, 9 bytes (none are made today)
//! class n + 1   ids below 2^(8n - 8): 2 bytes up to 255, 3 up to 65,535, 4 up to 16.7 million, ...
//! ```
//!
//! The first byte is between 10 and AF, so ids stand between the `END` and `AFTER_ALL` of `layout.rs`.

const NEGATIVE_CLASS: u8 = 1;
const SIZE_MAX: u32 = 9;

/// Appends the suffix for `record_id`, 1 to 9 bytes.
#[inline]
pub fn append_record_id(out: &mut Vec<u8>, record_id: i64) {
    let bits = u64::BITS - record_id.leading_zeros();
    let size = bits.div_ceil(8) + 1;
    if size >= SIZE_MAX {
        return append_long(out, record_id);
    }
    let class = u64::from(size + 1);
    let number = class << (8 * size - 4) | (record_id as u64) << 4 | class;
    let bytes = (number << (64 - 8 * size)).to_be_bytes();
    let length = out.len() + size as usize;
    out.extend_from_slice(&bytes);
    out.truncate(length);
}

/// Ids that need all 64 bits.
fn append_long(out: &mut Vec<u8>, record_id: i64) {
    let class = u128::from(if record_id < 0 { NEGATIVE_CLASS } else { SIZE_MAX as u8 + 1 });
    let number = class << 68 | u128::from(record_id as u64) << 4 | class;
    out.extend_from_slice(number.to_be_bytes().get(7..).unwrap_or_default());
}

/// Splits an index entry into key and record id; `None` when it does not end in one.
#[inline]
pub fn split_record_id(entry: &[u8]) -> Option<(&[u8], i64)> {
    let class = entry.last()? & 0x0F;
    let size = if class == NEGATIVE_CLASS { SIZE_MAX as usize } else { usize::from(class).checked_sub(1)? };
    let (key, suffix) = entry.split_at_checked(entry.len().checked_sub(size)?)?;
    if size == 0 || suffix.first()? >> 4 != class {
        return None;
    }
    let number = suffix.iter().fold(0u128, |number, byte| number << 8 | u128::from(*byte));
    let id_bits = 8 * size as u32 - 8;
    let id = (number >> 4) as u64 & if id_bits >= 64 { u64::MAX } else { (1 << id_bits) - 1 };
    Some((key, id as i64))
}

/// The key of a record in the record tree: its id, big-endian, negative ids first.
#[inline]
pub fn record_key(record_id: i64) -> [u8; 8] {
    (record_id as u64 ^ 1 << 63).to_be_bytes()
}

/// The id in a key of the record tree; `None` when it is not 8 bytes long.
#[inline]
pub fn decode_record_key(key: &[u8]) -> Option<i64> {
    Some((u64::from_be_bytes(key.try_into().ok()?) ^ 1 << 63) as i64)
}
