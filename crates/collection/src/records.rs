//! The records of a collection, wherever they are: in a tree, or in the ring of a capped collection.
//!
//! Called by `transaction`'s read views, and by validation, index builds and counting in this crate.

use std::sync::Arc;

use storage_engine::{BTreeCursor, Engine, RingCursor, Snapshot};

use crate::collection::Collection;
use crate::error::Result;
use crate::record_id::RecordId;

/// A cursor over the records of a collection, in order of record id, either way.
pub enum StoredRecords {
    /// Of an ordinary collection.
    Tree(BTreeCursor),
    /// Of a capped collection.
    Ring(RingCursor),
}

impl StoredRecords {
    /// A cursor over the records as a snapshot sees them.
    pub fn new(engine: &Arc<Engine>, snapshot: &Snapshot, collection: &Collection) -> StoredRecords {
        match collection.ring() {
            Some(ring) => StoredRecords::Ring(engine.ring_cursor(snapshot, ring)),
            None => {
                let mut cursor = engine.cursor(snapshot, collection.record_tree());
                if let Some(last) = collection.last_record_id() {
                    cursor.set_end(&RecordId(last.0 + 1).record_key());
                }
                StoredRecords::Tree(cursor)
            }
        }
    }

    /// `next` then yields this record or the first after it.
    ///
    /// # Errors
    /// `Engine`.
    pub fn seek(&mut self, record_id: RecordId) -> Result<()> {
        match self {
            StoredRecords::Tree(cursor) => Ok(cursor.seek(&record_id.record_key())?),
            StoredRecords::Ring(cursor) => Ok(cursor.seek(record_id.0)?),
        }
    }

    /// `next` then yields the first record after this one.
    ///
    /// # Errors
    /// `Engine`.
    pub fn seek_after(&mut self, record_id: RecordId) -> Result<()> {
        match self {
            StoredRecords::Tree(cursor) => Ok(cursor.seek_after(&record_id.record_key())?),
            StoredRecords::Ring(cursor) => Ok(cursor.seek_after(record_id.0)?),
        }
    }

    /// `previous` then yields the last record before this one.
    ///
    /// # Errors
    /// `Engine`.
    pub fn seek_before(&mut self, record_id: RecordId) -> Result<()> {
        match self {
            StoredRecords::Tree(cursor) => Ok(cursor.seek_before(&record_id.record_key())?),
            StoredRecords::Ring(cursor) => Ok(cursor.seek(record_id.0)?),
        }
    }

    /// `previous` then yields this record or the last before it.
    ///
    /// # Errors
    /// `Engine`.
    pub fn seek_at_or_before(&mut self, record_id: RecordId) -> Result<()> {
        match self {
            StoredRecords::Tree(cursor) => Ok(cursor.seek_at_or_before(&record_id.record_key())?),
            StoredRecords::Ring(cursor) => Ok(cursor.seek_after(record_id.0)?),
        }
    }

    /// `next` then yields the first record.
    ///
    /// # Errors
    /// `Engine`.
    pub fn seek_first(&mut self) -> Result<()> {
        match self {
            StoredRecords::Tree(cursor) => Ok(cursor.seek_first()?),
            StoredRecords::Ring(cursor) => {
                cursor.seek_first();
                Ok(())
            }
        }
    }

    /// `previous` then yields the last record.
    ///
    /// # Errors
    /// `Engine`.
    pub fn seek_last(&mut self) -> Result<()> {
        match self {
            StoredRecords::Tree(cursor) => Ok(cursor.seek_last()?),
            StoredRecords::Ring(cursor) => {
                cursor.seek_last();
                Ok(())
            }
        }
    }

    /// The next record; `None` at the end.
    ///
    /// # Errors
    /// `Engine`; `Damaged`.
    #[allow(clippy::should_implement_trait, reason = "a cursor lends its records, which an iterator cannot")]
    #[inline]
    pub fn next(&mut self) -> Result<Option<RecordId>> {
        match self {
            StoredRecords::Tree(cursor) => match cursor.next()? {
                true => RecordId::from_record_key(cursor.key()).map(Some),
                false => Ok(None),
            },
            StoredRecords::Ring(cursor) => Ok(cursor.next()?.map(RecordId)),
        }
    }

    /// The record before; `None` at the beginning.
    ///
    /// # Errors
    /// As `next`.
    #[inline]
    pub fn previous(&mut self) -> Result<Option<RecordId>> {
        match self {
            StoredRecords::Tree(cursor) => match cursor.previous()? {
                true => RecordId::from_record_key(cursor.key()).map(Some),
                false => Ok(None),
            },
            StoredRecords::Ring(cursor) => Ok(cursor.previous()?.map(RecordId)),
        }
    }

    /// The bytes of the record that the last step yielded.
    ///
    /// # Errors
    /// `Engine`.
    #[inline]
    pub fn bytes(&mut self) -> Result<&[u8]> {
        match self {
            StoredRecords::Tree(cursor) => Ok(cursor.value()?),
            StoredRecords::Ring(cursor) => Ok(cursor.document()),
        }
    }
}

impl Collection {
    /// Reads a record as a snapshot sees it; `false`: it is not there.
    ///
    /// # Errors
    /// `Engine`.
    #[inline]
    pub fn read_record(
        &self,
        engine: &Engine,
        snapshot: &Snapshot,
        record_id: RecordId,
        document: &mut Vec<u8>,
    ) -> Result<bool> {
        match self.ring() {
            None => Ok(engine.get(snapshot, self.record_tree(), &record_id.record_key(), document)?),
            Some(ring) => Ok(engine.get_in_ring(snapshot, ring, record_id.0, document)?),
        }
    }
}
