//! The records of a collection as a reader sees them: as they are stored, or with what the reader's own transaction has written laid over them.
//!
//! Used by `read_view`'s record cursor. Capped collections are not written in transactions, so theirs are as stored.

use collection::{RecordId, StoredRecords};

use crate::merge_cursor::TreeCursor;

type Result<T> = collection::Result<T>;

/// See the module's head.
pub(crate) enum RecordSource {
    Stored(StoredRecords),
    Written(TreeCursor),
}

impl RecordSource {
    /// Ends, going forward, where another of the same collection does.
    pub(crate) fn end_like(&mut self, other: &RecordSource) {
        if let (RecordSource::Stored(StoredRecords::Tree(cursor)), RecordSource::Stored(StoredRecords::Tree(other))) =
            (self, other)
            && let Some(end) = other.end()
        {
            cursor.set_end(end);
        }
    }

    pub(crate) fn seek(&mut self, record_id: RecordId) -> Result<()> {
        match self {
            RecordSource::Stored(records) => records.seek(record_id),
            RecordSource::Written(cursor) => Ok(cursor.seek(&record_id.record_key())?),
        }
    }

    pub(crate) fn seek_after(&mut self, record_id: RecordId) -> Result<()> {
        match self {
            RecordSource::Stored(records) => records.seek_after(record_id),
            RecordSource::Written(cursor) => Ok(cursor.seek_after(&record_id.record_key())?),
        }
    }

    pub(crate) fn seek_before(&mut self, record_id: RecordId) -> Result<()> {
        match self {
            RecordSource::Stored(records) => records.seek_before(record_id),
            RecordSource::Written(cursor) => Ok(cursor.seek_before(&record_id.record_key())?),
        }
    }

    pub(crate) fn seek_at_or_before(&mut self, record_id: RecordId) -> Result<()> {
        match self {
            RecordSource::Stored(records) => records.seek_at_or_before(record_id),
            RecordSource::Written(cursor) => Ok(cursor.seek_at_or_before(&record_id.record_key())?),
        }
    }

    pub(crate) fn seek_first(&mut self) -> Result<()> {
        match self {
            RecordSource::Stored(records) => records.seek_first(),
            RecordSource::Written(cursor) => Ok(cursor.seek_first()?),
        }
    }

    pub(crate) fn seek_last(&mut self) -> Result<()> {
        match self {
            RecordSource::Stored(records) => records.seek_last(),
            RecordSource::Written(cursor) => Ok(cursor.seek_last()?),
        }
    }

    #[inline]
    pub(crate) fn next(&mut self) -> Result<Option<RecordId>> {
        match self {
            RecordSource::Stored(records) => records.next(),
            RecordSource::Written(cursor) => match cursor.next()? {
                true => RecordId::from_record_key(cursor.key()).map(Some),
                false => Ok(None),
            },
        }
    }

    #[inline]
    pub(crate) fn previous(&mut self) -> Result<Option<RecordId>> {
        match self {
            RecordSource::Stored(records) => records.previous(),
            RecordSource::Written(cursor) => match cursor.previous()? {
                true => RecordId::from_record_key(cursor.key()).map(Some),
                false => Ok(None),
            },
        }
    }

    #[inline]
    pub(crate) fn bytes(&mut self) -> Result<&[u8]> {
        match self {
            RecordSource::Stored(records) => records.bytes(),
            RecordSource::Written(cursor) => Ok(cursor.value()?),
        }
    }
}
