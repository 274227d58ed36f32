//! Filling indexes in sorted pieces, so that entries go into the tree in its order and not in that of the records.
//!
//! Called by `index_build` for indexes that are not unique, and for all that are rebuilt, of collections that are not capped. A piece is as many records as make 32 MiB of entries (an option),
//! or 256 times as many where there are temporary files for them (`sorted_runs`): with less, each leaf of a large index would be read and written for a few entries
//! of each of many pieces.
//!
//! 1. They are read from a fresh snapshot, a new one for each 32 MiB, with nothing locked, and their entries are sorted.
//! 2. Each entry is put under its record's lock, blindly: the leaf need not be in memory. If a writer has changed entries of the record since the build
//!    began (`Index::note_changed`, under that lock), the entry may be out of date and is left out; the record's newest version is dealt with instead.
//! 3. How far the build has come is kept in the catalog. After a crash it goes on from there: what was applied before that is in any checkpoint that says so.
//!
//! A build ends with the last record that was there when it began, however fast others come: their writers put the entries.
//! Short snapshots, so a long build holds no version history; some tens of megabytes of memory, however large the collection is, which are counted in the memory
//! budget: where they do not fit, pieces are smaller.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;
use std::sync::Arc;

use bson::RawDocument;
use collection::{Collection, CollectionError, Index, RecordId};
use platform::{OperationMemory, WorkBudget, WorkingMemory};
use storage_engine::{Batch, TreeId};

use super::sorted_runs::{BuiltEntry, SortedRuns};
use super::{BuildBuffers, aborted};
use crate::error::Result;
use crate::interleaving::Moment;
use crate::read_view::RecordCursor;
use crate::store::Store;

/// Runs of a piece.
const RUNS_MAX: usize = 256;
/// The buffer of a run, from when it is written until all are merged.
const RUN_BYTES: usize = 64 << 10;
/// Room is made for so much more at a time as is one in this many of what is there, so that it is never much more than what is counted.
const GROWTH_ONE_IN: usize = 8;

/// Entries that are sorted at once.
const STRETCH: usize = 1024;

/// What an entry costs beside its bytes.
const ENTRY_BYTES: usize = size_of::<Entry>();

/// An entry of a piece; its bytes are in the piece's buffer.
#[derive(Clone, Copy)]
struct Entry {
    tree: usize,
    record_id: RecordId,
    start: usize,
    key_length: u32,
    value_length: u32,
}

/// Where an entry comes in the order of a piece: its tree, and its key.
type Place<'a> = (usize, &'a [u8]);

/// Entries of consecutive records: sorted in stretches while they come, so that no sort goes on for much longer than a stretch of work (`give_way`).
#[derive(Default)]
struct Piece {
    bytes: Vec<u8>,
    entries: Vec<Entry>,
    /// The last record; `None`: there are no more.
    last: Option<RecordId>,
    /// Whether there may be more records.
    is_full: bool,
}

/// What a build holds in memory: a piece, and the buffers of its runs.
struct BuildMemory {
    /// `None`: nobody counts.
    reservation: Option<OperationMemory>,
    piece_bytes_max: usize,
    runs: SortedRuns,
}

impl BuildMemory {
    /// Whether the piece may have so many bytes.
    fn holds(&mut self, piece_bytes: usize) -> bool {
        let with_growth = piece_bytes + piece_bytes / GROWTH_ONE_IN;
        let bytes = (with_growth + self.runs.len() * RUN_BYTES) as u64;
        piece_bytes < self.piece_bytes_max
            && self.reservation.as_mut().is_none_or(|reservation| reservation.holds(bytes))
    }

    /// Whether there may be another run beside as large a piece.
    fn takes_run(&mut self, piece_bytes: usize) -> bool {
        self.runs.len() < RUNS_MAX && self.holds(piece_bytes.min(self.piece_bytes_max - 1))
    }
}

/// Makes room for so many more.
fn grow<T>(vector: &mut Vec<T>, additional: usize) {
    if vector.capacity() - vector.len() < additional {
        vector.reserve_exact(additional.max(vector.len() / GROWTH_ONE_IN));
    }
}

impl Piece {
    fn clear(&mut self) {
        self.bytes.clear();
        self.entries.clear();
        (self.last, self.is_full) = (None, false);
    }

    fn push(&mut self, tree: usize, record_id: RecordId, key: &[u8], value: &[u8]) {
        let (start, key_length, value_length) = (self.bytes.len(), key.len() as u32, value.len() as u32);
        grow(&mut self.bytes, key.len() + value.len());
        self.bytes.extend_from_slice(key);
        self.bytes.extend_from_slice(value);
        grow(&mut self.entries, 1);
        self.entries.push(Entry { tree, record_id, start, key_length, value_length });
        if self.entries.len().is_multiple_of(STRETCH) {
            self.sort_stretch(self.entries.len() - STRETCH);
        }
    }

    fn memory_bytes(&self) -> usize {
        self.bytes.len() + self.entries.len() * ENTRY_BYTES
    }

    /// Sorts the entries from the one at `begin` on.
    fn sort_stretch(&mut self, begin: usize) {
        let Self { bytes, entries, .. } = self;
        let stretch = entries.get_mut(begin..).unwrap_or_default();
        stretch.sort_unstable_by(|one, other| one.place(bytes).cmp(&other.place(bytes)));
    }

    /// All entries in the order of trees and keys.
    fn in_order(&mut self) -> InOrder<'_> {
        self.sort_stretch(self.entries.len() / STRETCH * STRETCH);
        let starts = (0..self.entries.len()).step_by(STRETCH);
        let heads = starts.filter_map(|start| Some((Reverse(self.entries.get(start)?.place(&self.bytes)), start)));
        InOrder { piece: self, heads: heads.collect() }
    }
}

impl Entry {
    fn key<'a>(&self, bytes: &'a [u8]) -> &'a [u8] {
        bytes.get(self.start..self.start + self.key_length as usize).unwrap_or_default()
    }

    fn value<'a>(&self, bytes: &'a [u8]) -> &'a [u8] {
        let start = self.start + self.key_length as usize;
        bytes.get(start..start + self.value_length as usize).unwrap_or_default()
    }

    fn place<'a>(&self, bytes: &'a [u8]) -> Place<'a> {
        (self.tree, self.key(bytes))
    }
}

/// The sorted stretches of a piece, merged.
struct InOrder<'a> {
    piece: &'a Piece,
    /// The first entry of what is left of each stretch: its place in the order, and its number. The smallest is the greatest of the heap.
    heads: BinaryHeap<(Reverse<Place<'a>>, usize)>,
}

impl<'a> Iterator for InOrder<'a> {
    type Item = BuiltEntry<'a>;

    fn next(&mut self) -> Option<BuiltEntry<'a>> {
        let Piece { bytes, entries, .. } = self.piece;
        let mut head = self.heads.peek_mut()?;
        let number = head.1;
        match entries.get(number + 1).filter(|_| !(number + 1).is_multiple_of(STRETCH)) {
            Some(following) => *head = (Reverse(following.place(bytes)), number + 1),
            None => drop(PeekMut::pop(head)),
        }
        let entry = entries.get(number)?;
        Some(BuiltEntry {
            tree: entry.tree,
            record_id: entry.record_id,
            key: entry.key(bytes),
            value: entry.value(bytes),
        })
    }
}

impl Store {
    /// Fills the indexes of these trees from where they are.
    pub(super) fn fill_sorted(
        &self,
        collection: &Arc<Collection>,
        trees: &[TreeId],
        mut buffers: BuildBuffers,
        is_stopped: &dyn Fn() -> bool,
    ) -> Result<()> {
        let mut budget = self.work_budget();
        collection.settle_record_ids(&self.engine)?;
        let end = collection.last_record_id();
        let indexes = building_indexes(collection, trees)?;
        let mut from = indexes.iter().map(|index| index.filled()).min().unwrap_or(RecordId(0));
        let mut memory = self.build_memory();
        let mut piece = Piece::default();
        loop {
            let mut fill = Fill { collection, trees, end, left_out: Vec::new(), batch: Batch::new(), is_stopped };
            let mut read = |piece: &mut Piece, from, memory: &mut BuildMemory, budget: &mut WorkBudget| {
                self.read_piece(&fill, from, &mut buffers, budget, piece, memory)
            };
            read(&mut piece, from, &mut memory, &mut budget)?;
            let Some(mut last) = piece.last else { return Ok(()) };
            if let Some(working) = self.working_memory.get().filter(|_| piece.is_full) {
                loop {
                    let piece_bytes = piece.memory_bytes();
                    let entries = piece.in_order().inspect(|_| self.give_way(&mut budget));
                    memory.runs.add(working.temporary(), entries)?;
                    piece.clear();
                    if !memory.takes_run(piece_bytes) {
                        break;
                    }
                    read(&mut piece, last, &mut memory, &mut budget)?;
                    let Some(newer) = piece.last else { break };
                    last = newer;
                }
            }
            piece.in_order().try_for_each(|entry| self.put_entry(&mut fill, entry, &mut budget))?;
            while let Some(entry) = memory.runs.next()? {
                self.put_entry(&mut fill, entry, &mut budget)?;
            }
            while memory.runs.remove_one() {
                self.give_way(&mut budget);
            }
            for record_id in fill.take_left_out() {
                self.fill_record_patiently(collection, trees, record_id, &mut buffers, is_stopped)?;
            }
            for index in building_indexes(collection, trees)? {
                self.catalog.save_build(collection, &index, last)?;
            }
            from = last;
        }
    }

    fn build_memory(&self) -> BuildMemory {
        let reservation = self.working_memory.get().map(WorkingMemory::begin);
        BuildMemory { reservation, piece_bytes_max: self.options.index_piece_bytes, runs: SortedRuns::default() }
    }

    /// Reads the next records into the piece, which is replaced.
    fn read_piece(
        &self,
        fill: &Fill<'_>,
        from: RecordId,
        buffers: &mut BuildBuffers,
        budget: &mut WorkBudget,
        piece: &mut Piece,
        memory: &mut BuildMemory,
    ) -> Result<()> {
        piece.clear();
        let mut cursor = self.newest_view().record_cursor(fill.collection);
        cursor.seek_after(from)?;
        loop {
            if (fill.is_stopped)() {
                return Err(CollectionError::Stopped.into());
            }
            self.pace();
            self.give_way(budget);
            self.options.interleaving.at(Moment::IndexBuild);
            let next = cursor.next()?.filter(|next| fill.end.is_none_or(|end| *next <= end));
            let Some(record_id) = next else { return Ok(()) };
            self.read_entries(fill.collection, fill.trees, record_id, &mut cursor, buffers, piece)?;
            piece.last = Some(record_id);
            if !memory.holds(piece.memory_bytes()) {
                piece.is_full = true;
                return Ok(());
            }
        }
    }

    fn read_entries(
        &self,
        collection: &Arc<Collection>,
        trees: &[TreeId],
        record_id: RecordId,
        cursor: &mut RecordCursor,
        buffers: &mut BuildBuffers,
        piece: &mut Piece,
    ) -> Result<()> {
        let indexes = collection.indexes();
        let document: &RawDocument = cursor.document()?;
        for (number, tree) in trees.iter().enumerate() {
            let position = indexes.position(*tree).ok_or_else(|| aborted(collection))?;
            let Some(index) = indexes.all().get(position) else { return Err(aborted(collection)) };
            index.note_read(record_id);
            buffers.entries.generate(&indexes, position, record_id, document)?;
            if let Some(newly) = buffers.entries.newly_multikey(position, index) {
                // Under the gate, so that positions are those of the list.
                let access = collection.begin_write()?;
                let position = access.indexes.position(*tree).ok_or_else(|| aborted(collection))?;
                let newly = collection::NewlyMultikey { index: position, ..newly };
                self.catalog.add_multikey(collection, &[newly])?;
            }
            for change in buffers.entries.batch().changes() {
                piece.push(number, record_id, change.key, change.value);
            }
        }
        Ok(())
    }

    /// Puts an entry of a piece, or leaves its record out when the entry may be out of date.
    fn put_entry(&self, fill: &mut Fill<'_>, entry: BuiltEntry<'_>, budget: &mut WorkBudget) -> Result<()> {
        let collection = fill.collection;
        if (fill.is_stopped)() {
            return Err(CollectionError::Stopped.into());
        }
        self.check_space()?;
        self.pace();
        self.give_way(budget);
        let tree = fill.trees[entry.tree];
        let access = collection.begin_write()?;
        let position = access.indexes.position(tree).ok_or_else(|| aborted(collection))?;
        let index = access.indexes.all().get(position).ok_or_else(|| aborted(collection))?;
        let lock = self.record_locks.lock((collection.ident(), entry.record_id.0 as u64));
        if lock.is_err() || index.has_changed(entry.record_id) {
            fill.left_out.push(entry.record_id);
            return Ok(());
        }
        fill.batch.clear();
        fill.batch.blind_insert(tree, entry.key, entry.value);
        self.apply_uncommitted(&fill.batch)
    }
}

/// The entries of a piece on their way into the trees.
struct Fill<'a> {
    collection: &'a Arc<Collection>,
    trees: &'a [TreeId],
    /// The last record that was there when the build began: whoever has inserted others puts their entries, too.
    end: Option<RecordId>,
    /// Records whose entries may be out of date.
    left_out: Vec<RecordId>,
    batch: Batch,
    is_stopped: &'a dyn Fn() -> bool,
}

impl Fill<'_> {
    fn take_left_out(&mut self) -> Vec<RecordId> {
        let mut left_out = std::mem::take(&mut self.left_out);
        left_out.sort_unstable();
        left_out.dedup();
        left_out
    }
}

/// The indexes of these trees.
fn building_indexes(collection: &Arc<Collection>, trees: &[TreeId]) -> Result<Vec<Arc<Index>>> {
    let indexes = super::find_indexes(collection, trees);
    if indexes.len() < trees.len() { Err(aborted(collection)) } else { Ok(indexes) }
}

#[cfg(test)]
mod tests {
    use platform::{Random, SeededRandom};

    use super::*;

    #[test]
    fn a_piece_gives_its_entries_in_the_order_of_trees_and_keys() {
        let random = SeededRandom::new(7);
        let mut piece = Piece::default();
        for count in [0, 1, STRETCH - 1, STRETCH, STRETCH + 1, 3 * STRETCH, 5 * STRETCH + 17] {
            piece.clear();
            let mut expected = Vec::new();
            for number in 0..count {
                let (tree, key) =
                    (random.below(3) as usize, format!("{:05}/{number}", random.below(2000)).into_bytes());
                piece.push(tree, RecordId(number as i64), &key, &key[..4]);
                expected.push((tree, key, number as i64));
            }
            expected.sort();
            let found: Vec<_> = piece
                .in_order()
                .inspect(|entry| assert_eq!(entry.value, &entry.key[..4]))
                .map(|entry| (entry.tree, entry.key.to_vec(), entry.record_id.0))
                .collect();
            assert_eq!(found, expected, "{count}");
        }
    }
}
