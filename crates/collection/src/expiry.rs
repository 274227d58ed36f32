//! Which documents a TTL index says have expired.
//!
//! Called by the TTL pass of `transaction`, which reads the index between `start` and `end` and asks again under the record's
//! lock. Only dates count; of several dates in an array the earliest does.

use bson::{DateTime, RawBsonRef, RawDocument};
use index_key::{Direction, append_after_prefix, encode_prefix};

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
    /// What has expired at `now_millis` (milliseconds since 1970); `None` when the index has no expiry.
    pub fn of(index: &Index, now_millis: i64) -> Option<ExpiredRange> {
        let seconds = index.specification().expire_after_seconds?;
        let cutoff = now_millis.saturating_sub(seconds.saturating_mul(1_000));
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
        Some(ExpiredRange { start, end, keys: DocumentKeys::default() })
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
