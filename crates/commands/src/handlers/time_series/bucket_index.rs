//! The buckets of a series and a time by the index on `_id`, the newest first: where a measurement may go.

use bson::RawBsonRef;
use bson::oid::ObjectId;
use collection::RecordId;
use index_key::{append_after_prefix, decode_key, encode_prefix};
use time_series::BucketPlace;
use transaction::TransactionError;

use super::TimeSeries;
use crate::request::error::{CommandError, Result};
use crate::state::queries::Queries;

/// Buckets that are looked at: more than one are of one place when they are full, or by chance.
const RECORDS_MAX: usize = 4;

/// See the module's head.
pub(crate) struct FoundBuckets {
    pub(crate) records: Vec<RecordId>,
    /// The number of the next one.
    pub(crate) next: u32,
}

/// Looks for them in the newest state there is.
///
/// # Errors
/// Those of reading.
pub(crate) fn buckets_at(queries: Queries<'_>, series: &TimeSeries, place: &BucketPlace) -> Result<FoundBuckets> {
    let mut found = FoundBuckets { records: Vec::new(), next: 0 };
    let indexes = series.collection.indexes();
    let (Some((first, last)), Some(index)) = (place.ids(), indexes.id_index()) else { return Ok(found) };
    let position = |id: ObjectId| {
        let mut key = Vec::new();
        encode_prefix(&mut key, index.pattern(), [RawBsonRef::ObjectId(id)]);
        key
    };
    let (low, mut high) = (position(first), position(last));
    append_after_prefix(&mut high);
    let mut cursor = queries.store.newest_view().index_cursor(&series.collection, index);
    cursor.seek_before(&high).map_err(error)?;
    while found.records.len() < RECORDS_MAX && cursor.previous().map_err(error)? && cursor.key() >= low.as_slice() {
        if found.records.is_empty() {
            let type_bits = cursor.type_bits().map_err(error)?.to_vec();
            let id = decode_key(index.pattern(), cursor.key(), &type_bits).ok();
            let id = id.as_deref().and_then(document::document_id);
            found.next = id.map_or(0, BucketPlace::number) + 1;
        }
        found.records.push(cursor.record_id());
    }
    Ok(found)
}

fn error(error: TransactionError) -> CommandError {
    error.into()
}
