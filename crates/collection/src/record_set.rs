//! A set of records of a collection, by their ids, which are dense.
//!
//! Used by an index that is being built (`index`), for the records that writers have changed meanwhile.

use std::collections::HashMap;

use crate::record_id::RecordId;

/// Records, a bit for each.
#[derive(Debug, Default)]
pub(crate) struct RecordSet(HashMap<i64, [u64; 64]>);

impl RecordSet {
    fn place(record_id: RecordId) -> (i64, usize, u64) {
        let within = (record_id.0 & 0xfff) as usize;
        (record_id.0 >> 12, within / 64, 1 << (within % 64))
    }

    pub(crate) fn add(&mut self, record_id: RecordId) {
        let (block, word, bit) = RecordSet::place(record_id);
        self.0.entry(block).or_insert([0; 64])[word] |= bit;
    }

    pub(crate) fn has(&self, record_id: RecordId) -> bool {
        let (block, word, bit) = RecordSet::place(record_id);
        self.0.get(&block).is_some_and(|words| words[word] & bit != 0)
    }
}
