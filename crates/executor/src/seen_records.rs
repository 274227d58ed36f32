//! The records that a plan has met already, where it may meet one again: by several keys of one index, or by several branches.
//!
//! Used by `index_scan`, `or_stage` and `sort_merge`. Record ids are given one after the other, so a compressed bitmap holds a hundred million of them
//! in some megabytes; what it takes is asked of the budget as it grows.

use collection::RecordId;
use platform::OperationMemory;
use roaring::RoaringTreemap;

use crate::error::{ExecutorError, Result};

/// Memory is asked for each time that so many have been added.
const ADDED_PER_QUESTION: u32 = 16_384;
/// Containers grow by doubling.
const SPARE: u64 = 2;

pub(crate) struct SeenRecords {
    records: RoaringTreemap,
    memory: OperationMemory,
    unasked: u32,
}

impl SeenRecords {
    pub(crate) fn new(memory: OperationMemory) -> SeenRecords {
        SeenRecords { records: RoaringTreemap::new(), memory, unasked: 0 }
    }

    /// Adds a record; whether it is a new one.
    ///
    /// # Errors
    /// There is no memory for more.
    pub(crate) fn insert(&mut self, record_id: RecordId) -> Result<bool> {
        // The order does not matter, only that each has a number of its own.
        let is_new = self.records.insert(record_id.0 as u64);
        self.unasked += u32::from(is_new);
        if self.unasked >= ADDED_PER_QUESTION {
            self.unasked = 0;
            let bytes = self.records.serialized_size() as u64 * SPARE;
            if !self.memory.holds(bytes) {
                let message = format!(
                    "the records that a plan has met already take more than the {} bytes it may have",
                    self.memory.share()
                );
                return Err(ExecutorError::MemoryLimit(message));
            }
        }
        Ok(is_new)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use platform::{MemoryBudget, SimulatedDisk, TemporaryStore, WorkingMemory};
    use proptest::prelude::*;

    use super::*;

    fn memory() -> WorkingMemory {
        let disk = std::sync::Arc::new(SimulatedDisk::new(1));
        let temporary = TemporaryStore::open(disk, std::path::Path::new("temporary")).unwrap();
        WorkingMemory::new(MemoryBudget::new(64 << 20), temporary)
    }

    #[test]
    fn many_records_take_little_and_are_counted() {
        let memory = memory();
        let before = memory.budget().used();
        let mut seen = SeenRecords::new(memory.begin());
        (0..3_000_000).for_each(|id| assert!(seen.insert(RecordId(id)).unwrap()));
        assert!(!seen.insert(RecordId(77)).unwrap());
        let counted = memory.budget().used() - before;
        assert!((100_000..4_000_000).contains(&counted), "{counted}");
        drop(seen);
        assert_eq!(memory.budget().used(), before);
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let memory = memory();
        let mut seen = SeenRecords::new(memory.begin());
        // As far apart as no server gives them.
        let refused = (0..4_000_000_i64).find_map(|id| seen.insert(RecordId(id << 20)).err());
        assert!(matches!(refused, Some(ExecutorError::MemoryLimit(_))));
    }

    proptest! {
        #[test]
        fn it_is_a_set(ids in prop::collection::vec(prop_oneof![any::<i64>(), 0_i64..50], 0..200)) {
            let (mut seen, mut model) = (SeenRecords::new(memory().begin()), HashSet::new());
            for id in ids {
                prop_assert_eq!(seen.insert(RecordId(id)).unwrap(), model.insert(id));
            }
        }
    }
}
