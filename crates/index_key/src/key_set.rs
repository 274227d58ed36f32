//! The keys of one document in one index: a reusable buffer that key generation writes into.

use document::{Interruption, work};

use crate::error::KeyError;
use crate::long_key;
use crate::type_bits::TypeBits;

/// More keys than these are asked for.
const LARGE_BYTES: usize = 64 << 10;

/// What keys may take. One field's value is in the keys of every element of another's array, so that they may be many times the document.
#[derive(Debug, Clone, Copy)]
pub struct KeyLimits {
    /// Bytes of one key, with its type bits.
    pub key_bytes_max: usize,
    /// Whether so many bytes more may be allocated.
    pub may_allocate: fn(usize) -> bool,
}

/// One key with its type bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeyEntry<'a> {
    /// The key as it is stored (`long_key`), without record id.
    pub key: &'a [u8],
    /// What to store as the entry's value: type bits, empty for the usual types; and what a long key was shortened by.
    pub value: &'a [u8],
}

/// The keys of one document in one index, sorted and without duplicates.
#[derive(Debug, Clone, Default)]
pub struct KeySet {
    /// Key, then value, of every entry.
    bytes: Vec<u8>,
    spans: Vec<Span>,
    /// Per field of the pattern, a bit for each path component that led into an array.
    multikey_paths: Vec<u64>,
    type_bits: TypeBits,
    limits: Option<KeyLimits>,
    /// Bytes that were asked for.
    asked: usize,
}

#[derive(Debug, Clone, Copy)]
struct Span {
    start: u32,
    key_end: u32,
    end: u32,
}

impl KeySet {
    /// An empty set; allocates nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// An empty set of keys that are looked at while they are made.
    pub fn limited(limits: KeyLimits) -> Self {
        Self { limits: Some(limits), ..Self::default() }
    }

    /// Bytes that the keys take.
    #[inline]
    pub fn memory_bytes(&self) -> usize {
        self.bytes.len() + self.spans.len() * size_of::<Span>()
    }

    /// The number of keys.
    #[inline]
    pub fn len(&self) -> usize {
        self.spans.len()
    }

    /// True when the document has no key in the index (it is sparse).
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.spans.is_empty()
    }

    /// The keys in order.
    #[inline]
    pub fn iter(&self) -> impl ExactSizeIterator<Item = KeyEntry<'_>> {
        self.spans.iter().map(|span| self.entry(*span))
    }

    /// Whether a key is among them.
    pub fn has(&self, key: &[u8]) -> bool {
        self.spans.binary_search_by(|span| self.entry(*span).key.cmp(key)).is_ok()
    }

    /// True when some field led into an array.
    #[inline]
    pub fn is_multikey(&self) -> bool {
        self.multikey_paths.iter().any(|components| *components != 0)
    }

    /// For each field of the pattern, a bit for each component of its path that led into an array; empty when there
    /// were none.
    #[inline]
    pub fn multikey_paths(&self) -> &[u64] {
        &self.multikey_paths
    }

    #[inline]
    fn entry(&self, span: Span) -> KeyEntry<'_> {
        KeyEntry {
            key: self.bytes.get(span.start as usize..span.key_end as usize).unwrap_or_default(),
            value: self.bytes.get(span.key_end as usize..span.end as usize).unwrap_or_default(),
        }
    }

    /// Forgets all keys, keeping the memory.
    #[inline]
    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
        self.spans.clear();
        self.multikey_paths.clear();
        self.type_bits.clear();
        self.asked = LARGE_BYTES;
    }

    /// The buffers that the next key is written to; ended by `finish_key` or `abandon_key`.
    #[inline]
    pub(crate) fn begin_key(&mut self) -> (&mut Vec<u8>, &mut TypeBits) {
        self.type_bits.clear();
        (&mut self.bytes, &mut self.type_bits)
    }

    #[inline]
    pub(crate) fn finish_key(&mut self) {
        let start = self.spans.last().map_or(0, |span| span.end);
        let key_length = long_key::store(&mut self.bytes, start as usize, self.type_bits.as_bytes());
        let end = self.bytes.len() as u32;
        if key_length > long_key::KEY_BYTES_MAX {
            work::count(work::of_bytes((end - start) as usize));
        }
        self.spans.push(Span { start, key_end: start + key_length as u32, end });
    }

    /// Looks at the key that was finished last, where there are many: whether it is too long, and whether the buffers may double.
    ///
    /// # Errors
    /// `KeyTooLong`, `NoMemory`.
    pub(crate) fn check_limits(&mut self) -> Result<(), KeyError> {
        let Some(limits) = self.limits else { return Ok(()) };
        let bytes = self.spans.last().map_or(0, |span| (span.end - span.start) as usize);
        if bytes > limits.key_bytes_max {
            return Err(KeyError::KeyTooLong { bytes });
        }
        let taken = self.memory_bytes();
        if taken <= self.asked {
            return Ok(());
        }
        // Positions have 32 bits.
        if taken > u32::MAX as usize / 2 || !(limits.may_allocate)(taken) {
            return Err(KeyError::NoMemory { bytes: 2 * taken });
        }
        self.asked = 2 * taken;
        Ok(())
    }

    /// Whether so many bytes may be allocated beside the keys.
    pub(crate) fn has_room(&self, bytes: usize) -> bool {
        self.limits.is_none_or(|limits| (limits.may_allocate)(bytes))
    }

    /// Drops what was written since `begin_key`.
    #[inline]
    pub(crate) fn abandon_key(&mut self) {
        let start = self.spans.last().map_or(0, |span| span.end);
        self.bytes.truncate(start as usize);
    }

    /// Notes that the path component `component` of field `field` led into an array.
    pub(crate) fn note_array(&mut self, field: usize, component: usize, field_count: usize) {
        self.multikey_paths.resize(field_count, 0);
        if let Some(components) = self.multikey_paths.get_mut(field) {
            *components |= 1u64 << component.min(63);
        }
    }

    /// Sorts the keys and drops duplicates; among equal keys the first generated stays.
    ///
    /// # Errors
    /// The command is to stop.
    pub(crate) fn sort(&mut self) -> Result<(), Interruption> {
        let bytes = &self.bytes;
        let key = |span: &Span| bytes.get(span.start as usize..span.key_end as usize).unwrap_or_default();
        work::sort_by(&mut self.spans, |left, right| key(left).cmp(key(right)))?;
        self.spans.dedup_by(|later, earlier| key(later) == key(earlier));
        Ok(())
    }
}
