//! Index entries in sorted runs on temporary files: what a piece of a build has beyond its memory.
//!
//! Used by `sorted_fill`. Each run is sorted by itself; they are read together, always the smallest entry of all. So an index's entries come in the order
//! of its tree, and each leaf is written once for all of its entries instead of once for each.
//!
//! A record of a run: number of the tree (2 bytes, big endian) ‖ length of the key (4, little endian) ‖ record id (8) ‖ key ‖ value.

use std::cmp::Ordering;
use std::io;
use std::sync::Arc;

use collection::{CollectionError, RecordId};
use platform::{RunFormat, RunMerge, RunReader, TemporaryStore};

use crate::error::{Result, TransactionError};

/// Bytes before the key.
const HEADER_BYTES: usize = 2 + 4 + 8;

/// An entry of an index that is being built.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BuiltEntry<'a> {
    /// Among the trees of the build.
    pub(super) tree: usize,
    pub(super) record_id: RecordId,
    pub(super) key: &'a [u8],
    pub(super) value: &'a [u8],
}

/// How entries stand in a run: as bytes, which are taken apart where they are looked at.
#[derive(Clone, Copy)]
struct EntryFormat;

impl RunFormat for EntryFormat {
    type Run = RunReader;
    type Record = Vec<u8>;
    type Error = TransactionError;

    fn read(&self, run: &mut RunReader, _: &mut Vec<u8>, record: &mut Vec<u8>) -> Result<bool> {
        run.next(record).map_err(file_error)
    }

    fn compare(&self, left: &Vec<u8>, right: &Vec<u8>) -> Ordering {
        fn place(record: &[u8]) -> Option<(usize, &[u8])> {
            decode(record).map(|entry| (entry.tree, entry.key))
        }
        place(left).cmp(&place(right))
    }
}

/// Runs that are merged.
pub(super) struct SortedRuns {
    merge: RunMerge<EntryFormat>,
    len: usize,
    /// What was given out last.
    record: Vec<u8>,
}

impl Default for SortedRuns {
    fn default() -> Self {
        SortedRuns { merge: RunMerge::new(usize::MAX), len: 0, record: Vec::new() }
    }
}

impl SortedRuns {
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Writes a run; the entries are in order.
    pub(super) fn add<'a>(
        &mut self,
        files: &Arc<TemporaryStore>,
        entries: impl Iterator<Item = BuiltEntry<'a>>,
    ) -> Result<()> {
        let mut writer = files.begin_run().map_err(file_error)?;
        for entry in entries {
            let tree = (entry.tree as u16).to_be_bytes();
            let key_length = (entry.key.len() as u32).to_le_bytes();
            let record_id = entry.record_id.0.to_le_bytes();
            writer.append(&[&tree, &key_length, &record_id, entry.key, entry.value]).map_err(file_error)?;
        }
        let mut reader = writer.finish().map_err(file_error)?;
        reader.give_back_behind();
        self.merge.add(EntryFormat, reader)?;
        self.len += 1;
        Ok(())
    }

    /// Removes one run, and no entry is given out any more; `false` when there is none.
    pub(super) fn remove_one(&mut self) -> bool {
        let is_removed = self.merge.close_one();
        if !is_removed {
            *self = SortedRuns::default();
        }
        is_removed
    }

    /// The smallest entry that has not been given out yet.
    pub(super) fn next(&mut self) -> Result<Option<BuiltEntry<'_>>> {
        if !self.merge.next(&mut self.record)? {
            return Ok(None);
        }
        decode(&self.record).map(Some).ok_or_else(damaged)
    }
}

fn decode(record: &[u8]) -> Option<BuiltEntry<'_>> {
    let (header, rest) = record.split_first_chunk::<HEADER_BYTES>()?;
    let [tree_high, tree_low, length_0, length_1, length_2, length_3, record_id @ ..] = *header;
    let key_length = u32::from_le_bytes([length_0, length_1, length_2, length_3]) as usize;
    let (key, value) = rest.split_at_checked(key_length)?;
    let tree = usize::from(u16::from_be_bytes([tree_high, tree_low]));
    Some(BuiltEntry { tree, record_id: RecordId(i64::from_le_bytes(record_id)), key, value })
}

fn damaged() -> TransactionError {
    CollectionError::Damaged("a temporary file of an index build is damaged".to_owned()).into()
}

fn file_error(error: io::Error) -> TransactionError {
    if platform::is_disk_full(&error) {
        return TransactionError::OutOfSpace { available_bytes: 0 };
    }
    TransactionError::TemporaryFile(error)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use platform::{Random, SeededRandom, SimulatedDisk};

    use super::*;

    fn files() -> Arc<TemporaryStore> {
        TemporaryStore::open(Arc::new(SimulatedDisk::new(0)), Path::new("temporary")).unwrap()
    }

    #[test]
    fn runs_are_merged_in_the_order_of_trees_and_keys() {
        let (files, random) = (files(), SeededRandom::new(3));
        let mut expected = Vec::new();
        let mut runs = SortedRuns::default();
        for run in 0..7_u64 {
            let mut entries: Vec<(usize, Vec<u8>, i64)> = (0..random.below(200))
                .map(|number| {
                    let key = format!("{:05}/{run}/{number}", random.below(300)).into_bytes();
                    (random.below(3) as usize, key, (run * 1000 + number) as i64)
                })
                .collect();
            entries.sort();
            expected.extend(entries.iter().cloned());
            let as_entries = entries.iter().map(|(tree, key, id)| BuiltEntry {
                tree: *tree,
                record_id: RecordId(*id),
                key,
                value: &key[..3],
            });
            runs.add(&files, as_entries).unwrap();
        }
        runs.add(&files, std::iter::empty()).unwrap();
        assert_eq!(runs.len(), 8);
        expected.sort();
        let mut found = Vec::new();
        while let Some(entry) = runs.next().unwrap() {
            assert_eq!(entry.value, &entry.key[..3]);
            found.push((entry.tree, entry.key.to_vec(), entry.record_id.0));
        }
        assert_eq!(found, expected);
        assert!(runs.next().unwrap().is_none());
    }
}
