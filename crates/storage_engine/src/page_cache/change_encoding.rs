//! How changes lie in a buffer: a few bytes beside the key, because the memory for buffers decides how many changes a page
//! takes each time it is read and written.
//!
//! Called by `change_buffers`. A change is
//!
//! ```text
//! byte: removal (1 bit), length of the value (2 bits: 0, 1, 2, or 3: see below), length of the key (5 bits: 0 to 30, or 31: see below)
//! [varint: length of the key]  [varint: length of the value]
//! varint: seconds of the commit timestamp, as the difference to those of the buffer's first change (zigzag)
//! varint: the timestamp's counter within the second
//! key without the leaf's prefix, value
//! ```

use platform::Timestamp;

use crate::varint::{push_varint, take_varint};

/// A change as it is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BufferedChange<'a> {
    /// Whether the key is removed; otherwise it is inserted.
    pub(crate) is_removal: bool,
    /// Commit timestamp; 0 when visible to all.
    pub(crate) since: u64,
    /// The key; without the leaf's prefix once it is in a buffer.
    pub(crate) key: &'a [u8],
    /// The value to insert.
    pub(crate) value: &'a [u8],
}

/// Changes as they lie in a buffer, with what is needed to read them.
#[derive(Debug, Clone, Copy)]
pub(crate) struct EncodedChanges<'a> {
    pub(crate) bytes: &'a [u8],
    /// Seconds of the commit timestamp of the buffer's first change.
    pub(crate) first_seconds: u32,
    /// Bytes of each key that are the leaf's prefix and left out.
    pub(crate) prefix_length: usize,
}

/// More than a change takes beside key and value.
pub(super) const HEADER_BYTES_MAX: usize = 1 + 3 + 2 + 5 + 5;

const REMOVAL_BIT: u8 = 1 << 7;
const VALUE_SHIFT: u32 = 5;
/// A length of the value that is told behind.
const LONG_VALUE: u8 = 3;
/// A length of the key that is told behind, and the bits of one that is not.
const LONG_KEY: u8 = 31;

impl<'a> BufferedChange<'a> {
    pub(super) fn encode(self, prefix_length: usize, first_seconds: u32, out: &mut Vec<u8>) {
        let suffix = &self.key[prefix_length..];
        let key_code = suffix.len().min(usize::from(LONG_KEY)) as u8;
        let value_code = self.value.len().min(usize::from(LONG_VALUE)) as u8;
        out.push(if self.is_removal { REMOVAL_BIT } else { 0 } | value_code << VALUE_SHIFT | key_code);
        if key_code == LONG_KEY {
            push_varint(out, suffix.len() as u64);
        }
        if value_code == LONG_VALUE {
            push_varint(out, self.value.len() as u64);
        }
        let since = Timestamp(self.since);
        // Modulo 2^32, so that any two seconds have a difference.
        let later = since.seconds().wrapping_sub(first_seconds) as i32;
        push_varint(out, u64::from((later << 1 ^ later >> 31) as u32));
        push_varint(out, u64::from(since.increment()));
        out.extend_from_slice(suffix);
        out.extend_from_slice(self.value);
    }

    /// Splits the first change off.
    fn decode(bytes: &'a [u8], first_seconds: u32) -> Option<(Self, &'a [u8])> {
        let (&head, mut rest) = bytes.split_first()?;
        let mut length_of = |code: u8, long: u8| match code == long {
            true => take_varint(&mut rest).map(|length| length as usize),
            false => Some(usize::from(code)),
        };
        let key_length = length_of(head & LONG_KEY, LONG_KEY)?;
        let value_length = length_of(head >> VALUE_SHIFT & LONG_VALUE, LONG_VALUE)?;
        let zigzag = take_varint(&mut rest)? as u32;
        let later = (zigzag >> 1) as i32 ^ -((zigzag & 1) as i32);
        let increment = take_varint(&mut rest)? as u32;
        let since = Timestamp::new(first_seconds.wrapping_add(later as u32), increment).0;
        let (key, rest) = rest.split_at_checked(key_length)?;
        let (value, rest) = rest.split_at_checked(value_length)?;
        Some((Self { is_removal: head & REMOVAL_BIT != 0, since, key, value }, rest))
    }
}

impl<'a> EncodedChanges<'a> {
    /// The changes in the order they came.
    pub(super) fn iter(self) -> impl Iterator<Item = BufferedChange<'a>> {
        let mut bytes = self.bytes;
        std::iter::from_fn(move || {
            let (change, rest) = BufferedChange::decode(bytes, self.first_seconds)?;
            bytes = rest;
            Some(change)
        })
    }

    /// The changes ordered by key; those of one key in the order they came.
    pub(crate) fn by_key(self) -> Vec<BufferedChange<'a>> {
        let mut changes = Vec::with_capacity(self.bytes.len() / 12);
        changes.extend(self.iter());
        changes.sort_by(|a, b| a.key.cmp(b.key));
        changes
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn encoded(changes: &[BufferedChange<'_>], prefix_length: usize, first_seconds: u32) -> Vec<u8> {
        let mut bytes = Vec::new();
        for change in changes {
            let before = bytes.len();
            change.encode(prefix_length, first_seconds, &mut bytes);
            let least = change.key.len() - prefix_length + change.value.len();
            assert!(bytes.len() - before <= least + HEADER_BYTES_MAX);
        }
        bytes
    }

    proptest! {
        #[test]
        fn changes_come_back_as_they_were(
            parts in prop::collection::vec(
                (any::<bool>(), any::<u64>(), prop::collection::vec(any::<u8>(), 3..80), prop::collection::vec(any::<u8>(), 0..255)),
                0..20,
            ),
            first_seconds in any::<u32>(),
        ) {
            let changes: Vec<_> = parts
                .iter()
                .map(|(is_removal, since, key, value)| BufferedChange { is_removal: *is_removal, since: *since, key, value })
                .collect();
            let bytes = encoded(&changes, 3, first_seconds);
            let back: Vec<_> = EncodedChanges { bytes: &bytes, first_seconds, prefix_length: 3 }.iter().collect();
            let without_prefix: Vec<_> =
                changes.iter().map(|change| BufferedChange { key: &change.key[3..], ..*change }).collect();
            prop_assert_eq!(back, without_prefix);
        }
    }

    #[test]
    fn an_index_entry_takes_five_bytes_beside_its_key() {
        let since = Timestamp::new(1_800_000_030, 90_000).0;
        let change = BufferedChange { is_removal: false, since, key: b"prefix+suffix", value: b"t" };
        assert_eq!(encoded(&[change], 7, 1_800_000_000).len(), 6 + 1 + 5);
    }
}
