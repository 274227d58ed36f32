//! What a reader sees: one point in time, through records and indexes.
//!
//! Called by the executor. A view is a snapshot; its cursors own what they need and stay at the view's point in time, even when the
//! view is refreshed, until they are reseated. In a multi-document transaction what it has written is laid over the snapshot.

use std::sync::Arc;

use bson::RawDocument;
use collection::{Collection, CollectionError, Index, RecordId, StoredRecords};
use storage_engine::{Engine, Snapshot, Timestamp, TreeId};

use crate::error::Result;
use crate::index_cursor::IndexCursor;
use crate::merge_cursor::{MergeCursor, TreeCursor};
use crate::record_source::RecordSource;
use crate::write_set::WriteSet;

/// A point in time to read from.
#[derive(Clone)]
pub struct ReadView {
    engine: Arc<Engine>,
    snapshot: Snapshot,
    /// Of the transaction that reads.
    writes: Option<Arc<WriteSet>>,
    /// It sees what is visible, confirmed or not.
    is_newest: bool,
}

impl ReadView {
    pub(crate) fn new(engine: Arc<Engine>) -> ReadView {
        let snapshot = engine.begin_snapshot();
        ReadView::at(engine, snapshot)
    }

    /// For those who read in order to write.
    pub(crate) fn newest(engine: Arc<Engine>) -> ReadView {
        let snapshot = engine.begin_newest_snapshot();
        ReadView { is_newest: true, ..ReadView::at(engine, snapshot) }
    }

    pub(crate) fn at(engine: Arc<Engine>, snapshot: Snapshot) -> ReadView {
        ReadView { engine, snapshot, writes: None, is_newest: false }
    }

    /// What a transaction sees: a snapshot and its own changes.
    pub(crate) fn of_transaction(engine: Arc<Engine>, snapshot: Snapshot, writes: Arc<WriteSet>) -> ReadView {
        ReadView { engine, snapshot, writes: Some(writes), is_newest: false }
    }

    pub(crate) fn tree_cursor(&self, tree: TreeId) -> TreeCursor {
        let cursor = self.engine.cursor(&self.snapshot, tree);
        match &self.writes {
            None => TreeCursor::Snapshot(cursor),
            Some(writes) => TreeCursor::Merged(Box::new(MergeCursor::new(cursor, writes.clone(), tree))),
        }
    }

    fn record_source(&self, collection: &Collection) -> RecordSource {
        if self.writes.is_some() && collection.ring().is_none() {
            RecordSource::Written(self.tree_cursor(collection.record_tree()))
        } else {
            RecordSource::Stored(StoredRecords::new(&self.engine, &self.snapshot, collection))
        }
    }

    /// The newest commit it sees.
    pub fn timestamp(&self) -> Timestamp {
        self.snapshot.timestamp()
    }

    /// Whether several threads may read the records at once, from one record id to another: not what a transaction has
    /// written, and not a ring, whose record ids are places.
    pub fn is_shareable(&self, collection: &Collection) -> bool {
        self.writes.is_none() && collection.ring().is_none()
    }

    /// Moves to what is there to be seen now; in a transaction it stays where it is.
    pub fn refresh(&mut self) {
        if self.writes.is_none() {
            self.snapshot = match self.is_newest {
                true => self.engine.begin_newest_snapshot(),
                false => self.engine.begin_snapshot(),
            };
        }
    }

    /// Reads a record into `document`, which is replaced. `false`: there is none.
    ///
    /// # Errors
    /// `Engine` (also `SnapshotTooOld`); `Collection(CollectionDropped)`.
    #[inline]
    pub fn get_record(&self, collection: &Collection, record_id: RecordId, document: &mut Vec<u8>) -> Result<bool> {
        collection.check_alive()?;
        if let Some(writes) = &self.writes
            && let Some(is_there) = writes.read(collection.record_tree(), &record_id.record_key(), document)?
        {
            return Ok(is_there);
        }
        let found = collection.read_record(&self.engine, &self.snapshot, record_id, document);
        Ok(found.map_err(|error| locate(collection, error))?)
    }

    /// Finds the first entry of an index whose stored key begins with `prefix`, without a cursor: what a lookup by `_id` needs. `key`
    /// and `type_bits` are replaced (`key` includes the record id).
    ///
    /// # Errors
    /// As `get_record`.
    #[inline]
    pub fn find_in_index(
        &self,
        collection: &Collection,
        index: &Index,
        prefix: &[u8],
        key: &mut Vec<u8>,
        type_bits: &mut Vec<u8>,
    ) -> Result<Option<RecordId>> {
        collection.check_alive()?;
        index.check_alive()?;
        if self.writes.is_some() {
            return self.find_with_cursor(collection, index, prefix, key, type_bits);
        }
        let found = self.engine.first_with_prefix(&self.snapshot, index.tree(), prefix, key, type_bits);
        if !found.map_err(|error| collection.locate(error))? {
            return Ok(None);
        }
        Ok(Some(RecordId::split(key)?.1))
    }

    fn find_with_cursor(
        &self,
        collection: &Collection,
        index: &Index,
        prefix: &[u8],
        key: &mut Vec<u8>,
        type_bits: &mut Vec<u8>,
    ) -> Result<Option<RecordId>> {
        let mut cursor = self.tree_cursor(index.tree());
        let located = |error| collection.locate(error);
        cursor.seek(prefix).map_err(located)?;
        if !cursor.next().map_err(located)? || !cursor.key().starts_with(prefix) {
            return Ok(None);
        }
        key.clear();
        key.extend_from_slice(cursor.key());
        type_bits.clear();
        type_bits.extend_from_slice(cursor.value().map_err(located)?);
        Ok(Some(RecordId::split(key)?.1))
    }

    /// A cursor over the records, in order of record id.
    pub fn record_cursor(&self, collection: &Arc<Collection>) -> RecordCursor {
        let cursor = self.record_source(collection);
        RecordCursor { cursor, collection: collection.clone(), current: None }
    }

    /// A cursor over the entries of an index, in order of key and record id.
    pub fn index_cursor(&self, collection: &Arc<Collection>, index: &Arc<Index>) -> IndexCursor {
        IndexCursor::new(self.tree_cursor(index.tree()), collection, index)
    }
}

/// Says what an error of the engine is about.
fn locate(collection: &Collection, error: CollectionError) -> CollectionError {
    match error {
        CollectionError::Engine(error) => collection.locate(error),
        error => error,
    }
}

/// Reads records in order of record id, either way.
pub struct RecordCursor {
    cursor: RecordSource,
    collection: Arc<Collection>,
    current: Option<RecordId>,
}

impl RecordCursor {
    /// `next` then yields this record or the first after it.
    ///
    /// # Errors
    /// `Engine`.
    pub fn seek(&mut self, record_id: RecordId) -> Result<()> {
        Ok(self.cursor.seek(record_id).map_err(|error| locate(&self.collection, error))?)
    }

    /// `next` then yields the first record after this one.
    ///
    /// # Errors
    /// `Engine`.
    pub fn seek_after(&mut self, record_id: RecordId) -> Result<()> {
        Ok(self.cursor.seek_after(record_id).map_err(|error| locate(&self.collection, error))?)
    }

    /// `previous` then yields the last record before this one.
    ///
    /// # Errors
    /// `Engine`.
    pub fn seek_before(&mut self, record_id: RecordId) -> Result<()> {
        Ok(self.cursor.seek_before(record_id).map_err(|error| locate(&self.collection, error))?)
    }

    /// `previous` then yields this record or the last before it.
    ///
    /// # Errors
    /// `Engine`.
    pub fn seek_at_or_before(&mut self, record_id: RecordId) -> Result<()> {
        Ok(self.cursor.seek_at_or_before(record_id).map_err(|error| locate(&self.collection, error))?)
    }

    /// `next` then yields the first record.
    ///
    /// # Errors
    /// `Engine`.
    pub fn seek_first(&mut self) -> Result<()> {
        Ok(self.cursor.seek_first().map_err(|error| locate(&self.collection, error))?)
    }

    /// `previous` then yields the last record.
    ///
    /// # Errors
    /// `Engine`.
    pub fn seek_last(&mut self) -> Result<()> {
        Ok(self.cursor.seek_last().map_err(|error| locate(&self.collection, error))?)
    }

    /// The next record; `None` at the end.
    ///
    /// # Errors
    /// `Engine` (also `SnapshotTooOld`); `Collection(CollectionDropped)`.
    #[allow(clippy::should_implement_trait, reason = "a cursor lends its records, which an iterator cannot")]
    #[inline]
    pub fn next(&mut self) -> Result<Option<RecordId>> {
        self.collection.check_alive()?;
        let Some(next) = self.cursor.next().map_err(|error| locate(&self.collection, error))? else { return Ok(None) };
        self.current = Some(next);
        Ok(self.current)
    }

    /// The record before; `None` at the beginning.
    ///
    /// # Errors
    /// As `next`.
    #[inline]
    pub fn previous(&mut self) -> Result<Option<RecordId>> {
        self.collection.check_alive()?;
        let previous = self.cursor.previous().map_err(|error| locate(&self.collection, error))?;
        let Some(previous) = previous else { return Ok(None) };
        self.current = Some(previous);
        Ok(self.current)
    }

    /// The record that the last step yielded.
    ///
    /// # Errors
    /// `Engine`; `Collection(Damaged)`.
    #[inline]
    pub fn document(&mut self) -> Result<&RawDocument> {
        let bytes = self.cursor.bytes().map_err(|error| locate(&self.collection, error))?;
        RawDocument::from_bytes(bytes).map_err(|error| CollectionError::Damaged(format!("record: {error}")).into())
    }

    /// Goes on in another view, going forward after the record that the last step yielded. It ends where it would have ended before, however fast
    /// records come meanwhile.
    ///
    /// # Errors
    /// `Engine`.
    pub fn reseat(&mut self, view: &ReadView) -> Result<()> {
        if let RecordSource::Stored(StoredRecords::Ring(cursor)) = &mut self.cursor {
            // It stays where it is, also at the end: what has been inserted since comes next.
            cursor.set_snapshot(&view.snapshot);
            return Ok(());
        }
        let mut newer = view.record_source(&self.collection);
        newer.end_like(&self.cursor);
        self.cursor = newer;
        match self.current {
            Some(record_id) => self.seek_after(record_id),
            None => Ok(()),
        }
    }

    /// Goes on in another view, going backward from the record that the last step yielded.
    ///
    /// # Errors
    /// `Engine`.
    pub fn reseat_backward(&mut self, view: &ReadView) -> Result<()> {
        if let RecordSource::Stored(StoredRecords::Ring(cursor)) = &mut self.cursor {
            cursor.set_snapshot(&view.snapshot);
            return Ok(());
        }
        self.cursor = view.record_source(&self.collection);
        match self.current {
            Some(record_id) => self.seek_before(record_id),
            None => Ok(()),
        }
    }
}
