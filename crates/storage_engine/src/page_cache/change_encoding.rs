//! How changes lie in a buffer: a few bytes beside the key, because the memory for buffers decides how many changes a page
//! takes each time it is read and written.
//!
//! Called by `change_buffers`. A change is
//!
//! ```text
//! byte: what it is (3 bits: see `Shape`), length of the key (5 bits: 0 to 30, or 31: see below)
//! [varint: length of the key]  [varint: length of the value]
//! unless it is settled:
//!   varint: seconds of the commit timestamp, as the difference to those of the buffer's first change (zigzag)
//!   varint: the timestamp's counter within the second
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

/// Where the shape is in the first byte.
const SHAPE_SHIFT: u32 = 5;
/// A length of the key that is told behind, and the bits of one that is not.
const LONG_KEY: u8 = 31;

/// What the first byte says of a change beside the length of its key. Numbered as in a file.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Shape {
    is_removal: bool,
    is_settled: bool,
    value: ValueLength,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum ValueLength {
    None,
    One,
    Told,
}

/// Every shape at its number: a removal has no value.
const SHAPES: [Shape; 8] = {
    const fn insert(is_settled: bool, value: ValueLength) -> Shape {
        Shape { is_removal: false, is_settled, value }
    }
    [
        insert(false, ValueLength::None),
        insert(false, ValueLength::One),
        insert(false, ValueLength::Told),
        insert(true, ValueLength::None),
        insert(true, ValueLength::One),
        insert(true, ValueLength::Told),
        Shape { is_removal: true, is_settled: false, value: ValueLength::None },
        Shape { is_removal: true, is_settled: true, value: ValueLength::None },
    ]
};

impl Shape {
    fn of(change: &BufferedChange<'_>) -> u8 {
        let settled = u8::from(change.since == 0);
        match (change.is_removal, change.value.len()) {
            (true, _) => 6 + settled,
            (false, length) => settled * 3 + length.min(2) as u8,
        }
    }
}

impl<'a> BufferedChange<'a> {
    pub(super) fn encode(self, prefix_length: usize, first_seconds: u32, out: &mut Vec<u8>) {
        let suffix = &self.key[prefix_length..];
        let key_code = suffix.len().min(usize::from(LONG_KEY)) as u8;
        let shape = Shape::of(&self);
        out.push(shape << SHAPE_SHIFT | key_code);
        if key_code == LONG_KEY {
            push_varint(out, suffix.len() as u64);
        }
        if SHAPES[usize::from(shape)].value == ValueLength::Told {
            push_varint(out, self.value.len() as u64);
        }
        if self.since != 0 {
            let since = Timestamp(self.since);
            // Modulo 2^32, so that any two seconds have a difference.
            let later = since.seconds().wrapping_sub(first_seconds) as i32;
            push_varint(out, u64::from((later << 1 ^ later >> 31) as u32));
            push_varint(out, u64::from(since.increment()));
        }
        out.extend_from_slice(suffix);
        if !self.is_removal {
            out.extend_from_slice(self.value);
        }
    }

    /// Splits the first change off.
    fn decode(bytes: &'a [u8], first_seconds: u32) -> Option<(Self, &'a [u8])> {
        let (&head, mut rest) = bytes.split_first()?;
        let shape = SHAPES[usize::from(head >> SHAPE_SHIFT)];
        let key_length = match head & LONG_KEY {
            LONG_KEY => take_varint(&mut rest)? as usize,
            length => usize::from(length),
        };
        let value_length = match shape.value {
            ValueLength::None => 0,
            ValueLength::One => 1,
            ValueLength::Told => take_varint(&mut rest)? as usize,
        };
        let since = if shape.is_settled {
            0
        } else {
            let zigzag = take_varint(&mut rest)? as u32;
            let later = (zigzag >> 1) as i32 ^ -((zigzag & 1) as i32);
            let increment = take_varint(&mut rest)? as u32;
            Timestamp::new(first_seconds.wrapping_add(later as u32), increment).0
        };
        let (key, rest) = rest.split_at_checked(key_length)?;
        let (value, rest) = rest.split_at_checked(value_length)?;
        Some((Self { is_removal: shape.is_removal, since, key, value }, rest))
    }
}

impl<'a> EncodedChanges<'a> {
    /// The changes in the order they came.
    pub(super) fn iter(mut self) -> impl Iterator<Item = BufferedChange<'a>> {
        std::iter::from_fn(move || {
            let (change, rest) = self.split_first()?;
            self = rest;
            Some(change)
        })
    }

    /// The first change, and the bytes behind it.
    pub(super) fn split_first(self) -> Option<(BufferedChange<'a>, Self)> {
        let (change, bytes) = BufferedChange::decode(self.bytes, self.first_seconds)?;
        Some((change, Self { bytes, ..self }))
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
                (any::<bool>(), prop_oneof![Just(0), any::<u64>()], prop::collection::vec(any::<u8>(), 3..80), prop::collection::vec(any::<u8>(), 0..255)),
                0..20,
            ),
            first_seconds in any::<u32>(),
        ) {
            let changes: Vec<_> = parts
                .iter()
                .map(|(is_removal, since, key, value)| {
                    let value = if *is_removal { &[][..] } else { value };
                    BufferedChange { is_removal: *is_removal, since: *since, key, value }
                })
                .collect();
            let bytes = encoded(&changes, 3, first_seconds);
            let back: Vec<_> = EncodedChanges { bytes: &bytes, first_seconds, prefix_length: 3 }.iter().collect();
            let without_prefix: Vec<_> =
                changes.iter().map(|change| BufferedChange { key: &change.key[3..], ..*change }).collect();
            prop_assert_eq!(back, without_prefix);
        }
    }

    #[test]
    fn an_index_entry_takes_five_bytes_beside_its_key_and_one_once_it_is_settled() {
        let since = Timestamp::new(1_800_000_030, 90_000).0;
        let change = BufferedChange { is_removal: false, since, key: b"prefix+suffix", value: b"t" };
        assert_eq!(encoded(&[change], 7, 1_800_000_000).len(), 6 + 1 + 5);
        assert_eq!(encoded(&[BufferedChange { since: 0, ..change }], 7, 1_800_000_000).len(), 6 + 1 + 1);
    }
}
