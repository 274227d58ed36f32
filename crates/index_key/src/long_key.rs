//! Keys that are longer than a tree takes: how they are stored, and how they are put together again.
//!
//! Called by `key_set` for every key that is made, by `transaction` and `collection` where entries are read or looked up.
//!
//! ```text
//! key up to KEY_BYTES_MAX    stored as it is; the entry's value is its type bits
//! longer                     key = its first KEY_BYTES_MAX bytes, SHA-256 of all of it
//!                            value = length of the type bits (4, little endian), type bits, the rest of the key
//! ```
//!
//! So equal keys are stored alike and others are not. No whole key begins like another, so that a shortened key stands among
//! whole ones where it belongs. Shortened keys with one beginning are a *group*; in it they stand in the order of their digests.

use document::work;
use sha2::{Digest, Sha256};

use crate::error::KeyError;
use crate::key_pattern::KeyPattern;
use crate::layout::AFTER_ALL;
use crate::reader::KeyReader;

/// Longest key that is stored as it is.
pub const KEY_BYTES_MAX: usize = 2039;

const DIGEST_BYTES: usize = 32;

/// Units of work that putting together a key is.
const RESTORE_UNITS: usize = 16;

/// What a long key's entry takes beside the key and its type bits.
pub const OVERHEAD_BYTES: usize = DIGEST_BYTES + 4;

/// Longest key as it is stored: a shortened one has just this length.
pub const STORED_KEY_BYTES_MAX: usize = KEY_BYTES_MAX + DIGEST_BYTES;

/// Whether a stored key is a shortened one.
#[inline]
pub fn is_shortened(stored_key: &[u8]) -> bool {
    stored_key.len() > KEY_BYTES_MAX
}

/// What a key or a position has in common with the keys of its group.
pub fn group_of(key: &[u8]) -> &[u8] {
    key.get(..KEY_BYTES_MAX).unwrap_or(key)
}

/// Makes a whole key what it is stored as.
pub fn shorten(key: &mut Vec<u8>) {
    if key.len() > KEY_BYTES_MAX {
        let digest = Sha256::digest(&*key);
        key.truncate(KEY_BYTES_MAX);
        key.extend_from_slice(&digest);
    }
}

/// Makes the key that `bytes` ends in, from `start` on, what it is stored as, followed by what its value begins with. Gives its length.
pub(crate) fn store(bytes: &mut Vec<u8>, start: usize, type_bits: &[u8]) -> usize {
    let key = bytes.get(start..).unwrap_or_default();
    if key.len() <= KEY_BYTES_MAX {
        let length = key.len();
        bytes.extend_from_slice(type_bits);
        return length;
    }
    let mut inserted = Sha256::digest(key).to_vec();
    inserted.extend_from_slice(&(type_bits.len() as u32).to_le_bytes());
    inserted.extend_from_slice(type_bits);
    let rest = start + KEY_BYTES_MAX;
    bytes.splice(rest..rest, inserted);
    STORED_KEY_BYTES_MAX
}

/// The rest of a shortened key, and its type bits.
fn split_value(value: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = value.split_first_chunk()?;
    let (type_bits, rest) = rest.split_at_checked(u32::from_le_bytes(*length) as usize)?;
    Some((rest, type_bits))
}

/// Writes a stored key as it was made over what is in `key`; gives its type bits.
///
/// # Errors
/// `Malformed`; `Interrupted`.
pub fn restore<'v>(stored_key: &[u8], value: &'v [u8], key: &mut Vec<u8>) -> Result<&'v [u8], KeyError> {
    key.clear();
    if !is_shortened(stored_key) {
        key.extend_from_slice(stored_key);
        return Ok(value);
    }
    work::done(RESTORE_UNITS + work::of_bytes(value.len()))?;
    let (rest, type_bits) = split_value(value).ok_or(KeyError::Malformed)?;
    key.extend_from_slice(group_of(stored_key));
    key.extend_from_slice(rest);
    Ok(type_bits)
}

/// Whether the bytes have a component for each field, and nothing behind.
pub fn is_whole(pattern: &KeyPattern, key: &[u8]) -> bool {
    let mut reader = KeyReader::new(pattern, key);
    for _ in pattern.fields() {
        if reader.rest().is_empty() {
            return false;
        }
        reader.skip_component();
    }
    reader.rest().is_empty()
}

/// The position just behind everything that begins with `prefix`, which may end within a component; `None`: nothing is behind.
pub fn after_all_with(prefix: &[u8]) -> Option<Vec<u8>> {
    let kept = prefix.iter().rposition(|byte| *byte != AFTER_ALL)?;
    let mut after = prefix.get(..=kept)?.to_vec();
    *after.last_mut()? += 1;
    Some(after)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_keys_come_back_as_they_were() {
        for length in [0, 1, KEY_BYTES_MAX, KEY_BYTES_MAX + 1, STORED_KEY_BYTES_MAX, 100_000] {
            let key: Vec<u8> = (0..length).map(|place| place as u8).collect();
            let mut bytes = b"before".to_vec();
            bytes.extend_from_slice(&key);
            let stored_length = store(&mut bytes, 6, b"bits");
            let (stored, value) = bytes[6..].split_at(stored_length);
            assert_eq!(is_shortened(stored), length > KEY_BYTES_MAX);
            let mut looked_up = key.clone();
            shorten(&mut looked_up);
            assert_eq!(looked_up, stored);
            let mut restored = b"what was there".to_vec();
            assert_eq!(restore(stored, value, &mut restored), Ok(&b"bits"[..]));
            assert_eq!(restored, key);
        }
    }

    #[test]
    fn damaged_values_are_told() {
        let stored = vec![1; STORED_KEY_BYTES_MAX];
        for value in [&b""[..], b"\x01\0\0", b"\x01\0\0\0", b"\xff\xff\xff\xffabc"] {
            assert_eq!(restore(&stored, value, &mut Vec::new()), Err(KeyError::Malformed));
        }
    }

    #[test]
    fn what_is_behind_a_prefix() {
        assert_eq!(after_all_with(b"ab"), Some(b"ac".to_vec()));
        assert_eq!(after_all_with(b"a\xff\xff"), Some(b"b".to_vec()));
        assert_eq!(after_all_with(b"\xff"), None);
    }
}
