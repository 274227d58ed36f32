//! Filling indexes in sorted pieces, so that entries go into the tree in its order and not in that of the records.
//!
//! Called by `index_build` for indexes that are not unique, of collections that are not capped. A piece is as many records as make 8 MiB of entries (an option),
//! or 32 times as many where there are temporary files for them (`sorted_runs`):
//!
//! 1. They are read from a fresh snapshot, a new one for each 8 MiB, with nothing locked, and their entries are sorted.
//! 2. Each entry is put under its record's lock, blindly: the leaf need not be in memory. If a writer has changed entries of the record since the build
//!    began (`Index::note_changed`, under that lock), the entry may be out of date and is left out; the record's newest version is dealt with instead.
//! 3. How far the build has come is kept in the catalog. After a crash it goes on from there: what was applied before that is in any checkpoint that says so.
//!
//! A build ends with the last record that was there when it began, however fast others come: their writers put the entries.
//! Short snapshots, so a long build holds no version history; a few megabytes of memory, however large the collection is.

use std::sync::Arc;

use bson::RawDocument;
use collection::{Collection, CollectionError, Index, RecordId};
use storage_engine::{Batch, TreeId};

use super::sorted_runs::{BuiltEntry, SortedRuns};
use super::{BuildBuffers, aborted};
use crate::error::Result;
use crate::foreground::Slice;
use crate::interleaving::Moment;
use crate::read_view::RecordCursor;
use crate::store::Store;

/// Runs of a piece. Each has a buffer of 64 KiB while they are merged.
const RUNS_MAX: usize = 32;

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

/// Entries of consecutive records.
#[derive(Default)]
struct Piece {
    bytes: Vec<u8>,
    entries: Vec<Entry>,
    /// The last record; `None`: there are no more.
    last: Option<RecordId>,
}

impl Piece {
    fn entries(&self) -> impl Iterator<Item = BuiltEntry<'_>> {
        self.entries.iter().map(|entry| {
            let bytes = &self.bytes[entry.start..];
            let (key, rest) = bytes.split_at(entry.key_length as usize);
            let value = &rest[..entry.value_length as usize];
            BuiltEntry { tree: entry.tree, record_id: entry.record_id, key, value }
        })
    }

    fn push(&mut self, tree: usize, record_id: RecordId, key: &[u8], value: &[u8]) {
        let (start, key_length, value_length) = (self.bytes.len(), key.len() as u32, value.len() as u32);
        self.bytes.extend_from_slice(key);
        self.bytes.extend_from_slice(value);
        self.entries.push(Entry { tree, record_id, start, key_length, value_length });
    }

    fn memory_bytes(&self) -> usize {
        self.bytes.len() + self.entries.len() * ENTRY_BYTES
    }

    fn sort(&mut self) {
        let bytes = std::mem::take(&mut self.bytes);
        let key = |entry: &Entry| &bytes[entry.start..entry.start + entry.key_length as usize];
        self.entries.sort_unstable_by(|one, other| (one.tree, key(one)).cmp(&(other.tree, key(other))));
        self.bytes = bytes;
    }
}

impl Store {
    /// Fills the indexes of these trees from where they are.
    pub(super) fn fill_sorted(
        &self,
        collection: &Arc<Collection>,
        trees: &[TreeId],
        is_stopped: &dyn Fn() -> bool,
    ) -> Result<()> {
        let mut buffers = BuildBuffers::default();
        let mut slice = Slice::default();
        collection.settle_record_ids(&self.engine)?;
        // Whoever inserts from here on puts the entries, too.
        let end = collection.last_record_id();
        let indexes = building_indexes(collection, trees)?;
        let mut from = indexes.iter().map(|index| index.filled()).min().unwrap_or(RecordId(0));
        loop {
            let mut fill = Fill { collection, trees, left_out: Vec::new(), batch: Batch::new(), is_stopped };
            let reading = Reading { collection, trees, end, is_stopped };
            let mut piece = self.read_piece(&reading, from, &mut buffers, &mut slice)?;
            let Some(mut last) = piece.last else { return Ok(()) };
            let is_full = piece.memory_bytes() >= self.options.index_piece_bytes;
            match self.temporary.get().filter(|_| is_full) {
                None => {
                    piece.sort();
                    piece.entries().try_for_each(|entry| self.put_entry(&mut fill, entry, &mut slice))?;
                }
                Some(files) => {
                    let mut runs = SortedRuns::default();
                    loop {
                        piece.sort();
                        runs.add(files, piece.entries())?;
                        if runs.len() == RUNS_MAX {
                            break;
                        }
                        piece = self.read_piece(&reading, last, &mut buffers, &mut slice)?;
                        let Some(newer) = piece.last else { break };
                        last = newer;
                    }
                    drop(piece);
                    while let Some(entry) = runs.next()? {
                        self.put_entry(&mut fill, entry, &mut slice)?;
                    }
                }
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

    fn read_piece(
        &self,
        reading: &Reading<'_>,
        from: RecordId,
        buffers: &mut BuildBuffers,
        slice: &mut Slice,
    ) -> Result<Piece> {
        let mut piece = Piece::default();
        let mut cursor = self.read_view().record_cursor(reading.collection);
        cursor.seek_after(from)?;
        while piece.memory_bytes() < self.options.index_piece_bytes {
            if (reading.is_stopped)() {
                return Err(CollectionError::Stopped.into());
            }
            self.pace();
            self.give_way(slice);
            self.options.interleaving.at(Moment::IndexBuild);
            let Some(record_id) = cursor.next()? else { break };
            if reading.end.is_some_and(|end| end < record_id) {
                break;
            }
            self.read_entries(reading, record_id, &mut cursor, buffers, &mut piece)?;
            piece.last = Some(record_id);
        }
        Ok(piece)
    }

    fn read_entries(
        &self,
        reading: &Reading<'_>,
        record_id: RecordId,
        cursor: &mut RecordCursor,
        buffers: &mut BuildBuffers,
        piece: &mut Piece,
    ) -> Result<()> {
        let Reading { collection, trees, .. } = *reading;
        let indexes = collection.indexes();
        let document: &RawDocument = cursor.document()?;
        for (number, tree) in trees.iter().enumerate() {
            let position = indexes.position(*tree).ok_or_else(|| aborted(collection))?;
            let Some(index) = indexes.all().get(position) else { return Err(aborted(collection)) };
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
    fn put_entry(&self, fill: &mut Fill<'_>, entry: BuiltEntry<'_>, slice: &mut Slice) -> Result<()> {
        let collection = fill.collection;
        if (fill.is_stopped)() {
            return Err(CollectionError::Stopped.into());
        }
        self.check_space()?;
        self.pace();
        self.give_way(slice);
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

/// What pieces are read from.
struct Reading<'a> {
    collection: &'a Arc<Collection>,
    trees: &'a [TreeId],
    /// The last record that was there when the build began.
    end: Option<RecordId>,
    is_stopped: &'a dyn Fn() -> bool,
}

/// The entries of a piece on their way into the trees.
struct Fill<'a> {
    collection: &'a Arc<Collection>,
    trees: &'a [TreeId],
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
