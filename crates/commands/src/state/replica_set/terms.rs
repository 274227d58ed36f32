//! Which term an entry of the oplog is of.
//!
//! Entries do not carry their term: it changes only when the server becomes the primary, so when each term began is enough. Kept in `local.replset.terms`, as
//! `{_id: term, began: timestamp}`; what ended before the oplog begins is forgotten at the next start, and so is what is beyond the newest `TERMS_MAX`: older entries
//! are told as of the term before the oldest that is known.

use bson::{RawBsonRef, RawDocument, RawDocumentBuf};
use platform::Timestamp;

use crate::request::cluster_time::bson_timestamp;
use crate::request::document_writer::document_of;
use crate::request::error::Result;

/// The term of what was logged before there was a set.
pub(crate) const BEFORE_ANY: i64 = -1;
/// The term of what a server logs that belongs to no set.
pub(crate) const WITHOUT_SET: i64 = 1;

/// Terms that are kept. Each start begins one, and an oplog may be kept for years.
const TERMS_MAX: usize = 1000;

/// When the terms began, the oldest first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Terms {
    began: Vec<(Timestamp, i64)>,
    before: i64,
}

impl Default for Terms {
    fn default() -> Self {
        Self { began: Vec::new(), before: WITHOUT_SET }
    }
}

impl Terms {
    /// Of a member of a set.
    pub(crate) fn of_member(stored: &[RawDocumentBuf]) -> Self {
        let mut began: Vec<(Timestamp, i64)> = stored.iter().filter_map(|document| read(document)).collect();
        began.sort_unstable();
        Self { began, before: BEFORE_ANY }.bounded()
    }

    /// Forgets what is beyond the bound. Terms begin with 1: where the first that is known is greater, there were others before.
    fn bounded(mut self) -> Self {
        self.began.drain(..self.began.len().saturating_sub(TERMS_MAX));
        self.before = match self.began.first() {
            Some((_, first)) if *first > 1 => first - 1,
            _ => BEFORE_ANY,
        };
        self
    }

    /// The term of an entry.
    pub(crate) fn at(&self, timestamp: Timestamp) -> i64 {
        let later = self.began.partition_point(|(began, _)| *began <= timestamp);
        let last = later.checked_sub(1).and_then(|last| self.began.get(last));
        last.map_or(self.before, |(_, term)| *term)
    }

    /// With one more term.
    pub(crate) fn and(&self, began: Timestamp, term: i64) -> Self {
        let mut more = self.clone();
        more.began.push((began, term));
        more.bounded()
    }

    /// Whether a term has ended before a point in time, or is beyond those that are kept.
    pub(crate) fn ended_before(&self, term: i64, timestamp: Timestamp) -> bool {
        if self.began.first().is_some_and(|(_, first)| term < *first) {
            return true;
        }
        let next = self.began.iter().find(|(_, other)| *other > term);
        next.is_some_and(|(began, _)| *began <= timestamp)
    }
}

/// A term as it is stored.
pub(crate) fn document(began: Timestamp, term: i64) -> Result<RawDocumentBuf> {
    document_of(|document| {
        document.int64("_id", term);
        document.timestamp("began", bson_timestamp(began));
    })
}

/// The number of a stored term.
pub(crate) fn term_of(document: &RawDocument) -> Option<i64> {
    document::get_field(document, "_id")?.as_i64()
}

fn read(document: &RawDocument) -> Option<(Timestamp, i64)> {
    let RawBsonRef::Timestamp(began) = document::get_field(document, "began")? else { return None };
    Some((Timestamp::new(began.time, began.increment), term_of(document)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_is_of_the_last_term_that_began_before_it() {
        let at = |seconds| Timestamp::new(seconds, 1);
        let stored: Vec<RawDocumentBuf> =
            [(20, 2), (10, 1), (30, 5)].map(|(seconds, term)| document(at(seconds), term).unwrap()).into();
        let terms = Terms::of_member(&stored);
        let found: Vec<i64> = [5, 10, 19, 20, 29, 30, 99].map(|seconds| terms.at(at(seconds))).into();
        assert_eq!(found, [-1, 1, 1, 2, 2, 5, 5]);
        assert_eq!(terms.and(at(40), 6).at(at(41)), 6);
        assert!(terms.ended_before(1, at(20)) && !terms.ended_before(1, at(19)) && !terms.ended_before(5, at(99)));
        assert_eq!(Terms::default().at(at(5)), 1);
    }

    #[test]
    fn no_more_terms_than_the_bound_are_kept() {
        let at = |seconds| Timestamp::new(seconds, 1);
        let count = TERMS_MAX as u32 + 10;
        let terms = (1..=count).fold(Terms::of_member(&[]), |terms, term| terms.and(at(term * 10), i64::from(term)));
        assert_eq!(terms.began.len(), TERMS_MAX);
        let kept = (1..=i64::from(count)).filter(|term| !terms.ended_before(*term, at(1))).count();
        assert_eq!(kept, TERMS_MAX);
        let found = [15, 110, 115, count * 10].map(|seconds| terms.at(at(seconds)));
        assert_eq!(found, [10, 11, 11, i64::from(count)]);
    }
}
