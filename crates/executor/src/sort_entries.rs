//! The documents of a SORT in memory: one behind the other in blocks, and a small reference to each, which is what is sorted.
//!
//! A reference has the first bytes of its key behind what all keys begin with, so that most comparisons need nothing else.
//! Called by `sort`.

use std::cmp::Ordering;

use collection::RecordId;
use document::work;

use crate::error::Result;
use crate::sorted_runs::EntryRef;

/// Bytes of the first block and of later ones; what is larger has a block of its own.
const BLOCK_BYTES_MIN: usize = 4 << 10;
const BLOCK_BYTES_MAX: usize = 1 << 20;
/// What a reference costs: its place in the vector, which grows by doubling and is sorted through a second one.
const REFERENCE_BYTES: usize = 3 * size_of::<Reference>();
/// What stands before an entry's key: lengths, and a record id.
const HEADER_BYTES: usize = 20;

/// Where an entry is, and the beginning of its key.
#[derive(Debug, Clone, Copy)]
struct Reference {
    head: [u64; 2],
    block: u32,
    /// The place in the block, and in the highest byte how many bytes of the key the head has; `LONGER` where there are more.
    offset_and_length: u32,
}

/// Bits of a place in a block. Blocks in which more than one entry begins are no larger.
const OFFSET_BITS: u32 = 24;
/// Bytes of a head.
const HEAD_BYTES: usize = 16;
/// In place of a length: the key is longer than a head.
const LONGER: u32 = HEAD_BYTES as u32 + 1;

impl Reference {
    fn offset(self) -> usize {
        (self.offset_and_length & ((1 << OFFSET_BITS) - 1)) as usize
    }

    /// Takes on the head of what a key has behind what all keys begin with.
    fn set_head(&mut self, rest: &[u8]) {
        let mut bytes = [0; HEAD_BYTES];
        for (place, byte) in bytes.iter_mut().zip(rest) {
            *place = *byte;
        }
        let both = u128::from_be_bytes(bytes);
        self.head = [(both >> 64) as u64, both as u64];
        self.offset_and_length = self.offset() as u32 | (rest.len() as u32).min(LONGER) << OFFSET_BITS;
    }

    /// The order of two, if their heads tell it. What ends within its head is followed there by zeroes, so that of two with
    /// one head the shorter is less.
    #[inline]
    fn compare_heads(&self, other: &Reference) -> Option<Ordering> {
        let number = |head: &[u64; 2]| u128::from(head[0]) << 64 | u128::from(head[1]);
        let order = number(&self.head).cmp(&number(&other.head));
        let (length, other_length) = (self.offset_and_length >> OFFSET_BITS, other.offset_and_length >> OFFSET_BITS);
        match order {
            Ordering::Equal if length == LONGER && other_length == LONGER => None,
            order => Some(order.then(length.cmp(&other_length))),
        }
    }
}

/// See the module's head.
#[derive(Default)]
pub(crate) struct SortEntries {
    blocks: Vec<Vec<u8>>,
    block_bytes: usize,
    references: Vec<Reference>,
    /// How many bytes all keys have in common with the first.
    common: usize,
}

impl SortEntries {
    pub(crate) fn len(&self) -> usize {
        self.references.len()
    }

    /// Bytes that the entries take.
    pub(crate) fn bytes(&self) -> usize {
        self.block_bytes + self.references.len() * REFERENCE_BYTES
    }

    /// Bytes that they will take with one more, whose parts have so many bytes.
    pub(crate) fn bytes_with(&self, bytes: usize) -> usize {
        let length = HEADER_BYTES + bytes;
        let more = if self.has_room(length) { 0 } else { self.next_block(length) };
        self.bytes() + more + REFERENCE_BYTES
    }

    fn has_room(&self, length: usize) -> bool {
        self.blocks.last().is_some_and(|block| block.capacity() - block.len() >= length)
    }

    fn next_block(&self, length: usize) -> usize {
        self.block_bytes.clamp(BLOCK_BYTES_MIN, BLOCK_BYTES_MAX).max(length)
    }

    /// Adds an entry behind the others.
    pub(crate) fn push(&mut self, entry: &EntryRef<'_>) -> Result<()> {
        let length = HEADER_BYTES + entry.bytes();
        if !self.has_room(length) {
            let bytes = self.next_block(length);
            query_language::before_allocating_if_large(bytes)?;
            self.block_bytes += bytes;
            self.blocks.push(Vec::with_capacity(bytes));
        }
        query_language::growth::push(&mut self.references, Reference { head: [0; 2], block: 0, offset_and_length: 0 })?;
        self.common = match self.references.len() {
            1 => entry.key.len(),
            _ => self.common.min(common_length(self.key(0), entry.key)),
        };
        let number = self.blocks.len().saturating_sub(1) as u32;
        if let (Some(block), Some(reference)) = (self.blocks.last_mut(), self.references.last_mut()) {
            (reference.block, reference.offset_and_length) = (number, block.len() as u32);
            block.extend_from_slice(&(entry.key.len() as u32).to_le_bytes());
            block.extend_from_slice(&(entry.metadata.len() as u32).to_le_bytes());
            block.extend_from_slice(&(entry.document.len() as u32).to_le_bytes());
            block.extend_from_slice(&entry.record_id.map_or(NO_RECORD_ID, |record_id| record_id.0).to_le_bytes());
            block.extend_from_slice(entry.key);
            block.extend_from_slice(entry.metadata);
            block.extend_from_slice(entry.document);
        }
        Ok(())
    }

    /// An entry, in the order in which they are; `None` behind the last.
    pub(crate) fn get(&self, position: usize) -> Option<EntryRef<'_>> {
        self.entry(*self.references.get(position)?)
    }

    fn entry(&self, reference: Reference) -> Option<EntryRef<'_>> {
        let rest = self.blocks.get(reference.block as usize)?.get(reference.offset()..)?;
        let (key_length, rest) = rest.split_first_chunk()?;
        let (metadata_length, rest) = rest.split_first_chunk()?;
        let (document_length, rest) = rest.split_first_chunk()?;
        let (record_id, rest) = rest.split_first_chunk()?;
        let (key, rest) = rest.split_at_checked(u32::from_le_bytes(*key_length) as usize)?;
        let (metadata, rest) = rest.split_at_checked(u32::from_le_bytes(*metadata_length) as usize)?;
        let document = rest.get(..u32::from_le_bytes(*document_length) as usize)?;
        let record_id = i64::from_le_bytes(*record_id);
        let record_id = (record_id != NO_RECORD_ID).then_some(RecordId(record_id));
        Some(EntryRef { key, document, record_id, metadata })
    }

    fn key(&self, position: usize) -> &[u8] {
        self.get(position).map_or(&[], |entry| entry.key)
    }

    fn key_of(&self, reference: Reference) -> &[u8] {
        self.entry(reference).map_or(&[], |entry| entry.key)
    }

    /// In order, equal keys as they came; then without those beyond `limit`.
    pub(crate) fn arrange(&mut self, limit: usize) -> Result<()> {
        let mut references = std::mem::take(&mut self.references);
        for chunk in references.chunks_mut(CHUNK) {
            work::done(chunk.len())?;
            for reference in chunk {
                reference.set_head(self.key_of(*reference).get(self.common..).unwrap_or_default());
            }
        }
        work::sort_copies_by(&mut references, |left, right| {
            left.compare_heads(right).unwrap_or_else(|| {
                let (left, right) = (self.key_of(*left), self.key_of(*right));
                work::count(work::of_bytes(left.len().min(right.len())));
                left.cmp(right)
            })
        })?;
        self.references = references;
        if self.references.len() > limit {
            self.keep_first(limit)?;
        }
        Ok(())
    }

    /// Keeps only the first ones, in new blocks.
    fn keep_first(&mut self, limit: usize) -> Result<()> {
        let mut kept = SortEntries::default();
        for position in 0..limit {
            if let Some(entry) = self.get(position) {
                work::done(work::of_bytes(entry.bytes()))?;
                kept.push(&entry)?;
            }
        }
        *self = kept;
        Ok(())
    }
}

/// What an entry without a record id has in its place; ids are positive.
pub(crate) const NO_RECORD_ID: i64 = 0;

/// References that are counted together.
const CHUNK: usize = 64;

fn common_length(left: &[u8], right: &[u8]) -> usize {
    left.iter().zip(right).take_while(|(left, right)| left == right).count()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn entry<'e>(key: &'e [u8], document: &'e [u8]) -> EntryRef<'e> {
        EntryRef { key, document, record_id: Some(RecordId(7)), metadata: b"m" }
    }

    proptest! {
        #[test]
        fn entries_are_sorted_stably(
            keys in proptest::collection::vec(proptest::collection::vec(0u8..3, 0..20), 0..400),
            beginning in proptest::collection::vec(0u8..3, 0..6),
            limit in 0usize..250,
        ) {
            let mut entries = SortEntries::default();
            let keys: Vec<Vec<u8>> = keys.iter().map(|key| [&beginning[..], key].concat()).collect();
            for (number, key) in keys.iter().enumerate() {
                let document = number.to_le_bytes();
                let before = entries.bytes_with(key.len() + document.len() + 1);
                entries.push(&entry(key, &document)).unwrap();
                prop_assert_eq!(entries.bytes(), before);
            }
            entries.arrange(limit).unwrap();
            let mut expected: Vec<(&Vec<u8>, usize)> = keys.iter().zip(0..).collect();
            expected.sort();
            expected.truncate(limit);
            prop_assert_eq!(entries.len(), expected.len());
            for (position, (key, number)) in expected.into_iter().enumerate() {
                let found = entries.get(position).unwrap();
                prop_assert_eq!((found.key, found.document), (&key[..], &number.to_le_bytes()[..]));
                prop_assert_eq!((found.record_id, found.metadata), (Some(RecordId(7)), &b"m"[..]));
            }
        }
    }
}
