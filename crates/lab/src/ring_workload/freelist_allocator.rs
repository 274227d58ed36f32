//! The allocator that SERVER-17561 describes, as a model: free space in 26 buckets by size; when nothing fits, the oldest documents are deleted one by one until
//! something does. Neighbouring free pieces are joined. So documents lie wherever there was room, and one insert may delete many.
//!
//! Called by the workload, with the same sizes that a server is given, so that one picture shows both.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

const BUCKETS: usize = 26;
/// Bytes of the smallest bucket.
const SMALLEST: u64 = 32;
/// Pieces of a bucket that are looked at before the next bucket is.
const LOOKS: usize = 30;
/// What a document takes beside itself.
const HEADER_BYTES: u64 = 16;

/// A capped collection of so many bytes.
pub(super) struct FreelistAllocator {
    /// Free pieces: offset and length.
    free: BTreeMap<u64, u64>,
    buckets: Vec<BTreeSet<u64>>,
    /// Documents in natural order: offset and length.
    documents: VecDeque<(u64, u64)>,
    /// Most documents that one insert deleted.
    pub(super) deleted_at_once_max: u64,
}

fn bucket_of(bytes: u64) -> usize {
    ((bytes / SMALLEST).max(1).ilog2() as usize).min(BUCKETS - 1)
}

impl FreelistAllocator {
    pub(super) fn new(bytes: u64) -> FreelistAllocator {
        let mut allocator = FreelistAllocator {
            free: BTreeMap::new(),
            buckets: vec![BTreeSet::new(); BUCKETS],
            documents: VecDeque::new(),
            deleted_at_once_max: 0,
        };
        allocator.add_free(0, bytes);
        allocator
    }

    pub(super) fn insert(&mut self, bytes: u64) {
        let bytes = (bytes + HEADER_BYTES).next_multiple_of(4);
        let mut deleted = 0;
        let offset = loop {
            match self.find(bytes) {
                Some(offset) => break offset,
                None => {
                    // Larger than everything: it does not go in at all.
                    let Some((offset, length)) = self.documents.pop_front() else { return };
                    self.give_back(offset, length);
                    deleted += 1;
                }
            }
        };
        let length = self.take_free(offset);
        if length > bytes {
            self.add_free(offset + bytes, length - bytes);
        }
        self.documents.push_back((offset, bytes));
        self.deleted_at_once_max = self.deleted_at_once_max.max(deleted);
    }

    /// Where the documents lie, in natural order.
    pub(super) fn positions(&self) -> Vec<u64> {
        self.documents.iter().map(|(offset, _)| *offset).collect()
    }

    fn find(&self, bytes: u64) -> Option<u64> {
        let fits = |offset: &&u64| self.free.get(*offset).is_some_and(|length| *length >= bytes);
        let first = bucket_of(bytes);
        self.buckets[first..].iter().find_map(|bucket| bucket.iter().take(LOOKS).find(fits).copied())
    }

    fn add_free(&mut self, offset: u64, length: u64) {
        self.free.insert(offset, length);
        self.buckets[bucket_of(length)].insert(offset);
    }

    fn take_free(&mut self, offset: u64) -> u64 {
        let length = self.free.remove(&offset).unwrap_or(0);
        self.buckets[bucket_of(length)].remove(&offset);
        length
    }

    /// Frees a piece and joins it with its neighbours.
    fn give_back(&mut self, mut offset: u64, mut length: u64) {
        if self.free.contains_key(&(offset + length)) {
            length += self.take_free(offset + length);
        }
        let before = self.free.range(..offset).next_back().map(|(start, bytes)| (*start, *bytes));
        if let Some((start, bytes)) = before.filter(|(start, bytes)| start + bytes == offset) {
            self.take_free(start);
            (offset, length) = (start, length + bytes);
        }
        self.add_free(offset, length);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::fragmentation;
    use crate::random::Random;

    fn is_whole(allocator: &FreelistAllocator, bytes: u64) {
        let pieces = allocator.free.iter().map(|(offset, length)| (*offset, *length));
        let mut all: Vec<(u64, u64)> = pieces.chain(allocator.documents.iter().copied()).collect();
        all.sort_unstable();
        let end = all.iter().fold(0, |at, (offset, length)| {
            assert_eq!(at, *offset, "pieces neither overlap nor leave gaps");
            offset + length
        });
        assert_eq!(end, bytes);
    }

    #[test]
    fn equal_sizes_stay_linear() {
        let mut allocator = FreelistAllocator::new(1 << 20);
        (0..10_000).for_each(|_| allocator.insert(1000));
        is_whole(&allocator, 1 << 20);
        assert!(fragmentation(&allocator.positions()).unwrap() < 1.5);
    }

    #[test]
    fn mixed_sizes_scatter() {
        let (mut allocator, mut random) = (FreelistAllocator::new(16 << 20), Random::new(1));
        for round in 0..100_000 {
            allocator.insert(if round % 5_000 < 4_990 { 20 + random.below(240) } else { 400_000 });
        }
        is_whole(&allocator, 16 << 20);
        assert!(allocator.deleted_at_once_max > 100, "{}", allocator.deleted_at_once_max);
        assert!(fragmentation(&allocator.positions()).unwrap() > 5.0);
    }
}
