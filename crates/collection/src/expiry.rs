//! Which documents a TTL index says have expired.
//!
//! Called by the TTL pass of `transaction`, which reads the index between `start` and `end` and asks again under the record's
//! lock. Only dates count; of several dates in an array the earliest does.

use bson::oid::ObjectId;
use bson::{DateTime, RawBsonRef, RawDocument};
use index_key::{Direction, append_after_prefix, encode_prefix};

use crate::collection::Collection;
use crate::document_keys::DocumentKeys;
use crate::index::{Index, IndexList};

/// The part of a TTL index that has expired: entries from `start` on and below `end`.
#[derive(Debug)]
pub struct ExpiredRange {
    /// Seek here.
    pub start: Vec<u8>,
    /// Stop at the first entry that is not below this.
    pub end: Vec<u8>,
    keys: DocumentKeys,
}

impl ExpiredRange {
    /// What has expired at `now_millis` (milliseconds since 1970); `None` when nothing of the index expires.
    pub fn of(collection: &Collection, index: &Index, now_millis: i64) -> Option<ExpiredRange> {
        let cutoff = |seconds: i64| now_millis.saturating_sub(seconds.saturating_mul(1_000));
        let definition = collection.definition();
        let options = &definition.options;
        match (index.specification().expire_after_seconds, options.expire_after_seconds) {
            (Some(seconds), _) => Some(Self::of_dates(index, cutoff(seconds))),
            (None, Some(seconds)) if index.specification().is_id_index() => Some(match &options.time_series {
                None => Self::of_dates(index, cutoff(seconds)),
                // Of a bucket when the latest time that it may hold has.
                Some(series) => Self::of_buckets(index, cutoff(seconds.saturating_add(series.span_seconds()))),
            }),
            (None, _) => None,
        }
    }

    /// Buckets whose `_id` says that they begin by `cutoff`.
    fn of_buckets(index: &Index, cutoff: i64) -> ExpiredRange {
        let position = |bytes: [u8; 12]| {
            let mut key = Vec::new();
            encode_prefix(&mut key, index.pattern(), [RawBsonRef::ObjectId(ObjectId::from_bytes(bytes))]);
            key
        };
        // The last second stands for all later times.
        let seconds = u32::try_from(cutoff.div_euclid(1_000).max(0)).unwrap_or(u32::MAX).min(u32::MAX - 1);
        let mut last = [if cutoff < 0 { 0 } else { u8::MAX }; 12];
        last[..4].copy_from_slice(&seconds.to_be_bytes());
        let mut end = position(last);
        append_after_prefix(&mut end);
        ExpiredRange { start: position([0; 12]), end, keys: DocumentKeys::default() }
    }

    fn of_dates(index: &Index, cutoff: i64) -> ExpiredRange {
        let position = |millis: i64| {
            let mut bytes = Vec::new();
            let date = RawBsonRef::DateTime(DateTime::from_millis(millis));
            encode_prefix(&mut bytes, index.pattern(), [date]);
            bytes
        };
        let is_descending = index.pattern().fields().first().is_some_and(|f| f.direction == Direction::Descending);
        let (earliest, latest) = (position(i64::MIN), position(cutoff));
        let (start, mut end) = if is_descending { (latest, earliest) } else { (earliest, latest) };
        append_after_prefix(&mut end);
        ExpiredRange { start, end, keys: DocumentKeys::default() }
    }

    /// Whether `document` has expired by the index at `position` of the list.
    pub fn contains(&mut self, indexes: &IndexList, position: usize, document: &RawDocument) -> bool {
        let is_read = self.keys.read(indexes, document).is_ok();
        let in_range = |key: &[u8]| key >= self.start.as_slice() && key < self.end.as_slice();
        is_read
            && self.keys.generate(indexes, position, document).is_ok()
            && self.keys.keys().iter().any(|e| in_range(e.key))
    }
}
