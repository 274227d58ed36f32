//! The table of what a set can do wrongly, one thing at a time: each must be noticed by seeds.
//!
//! Used by the tests and by `--mistake`. None of it is in the product: a mistake is made around it, by who drives it or between it and the log.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use shared_log::{MemoryLog, Offset, Record, RecordKind, SharedLog, StoredRecord};

/// Something that is done wrongly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mistake {
    /// Clients are told of their writes before the log has confirmed them.
    TellsTooEarly,
    /// Readers see what is not confirmed.
    ReadersSeeTheNewest,
    /// What is shipped is taken for confirmed.
    BelievesWhatIsShipped,
    /// A member that was overtaken keeps what it has logged and the set has not.
    KeepsTheTail,
    /// Ranges of past terms count.
    PastTermsCount,
    /// Now and then a member does not get a record of the log, and something foreign in its place.
    MissesRecords,
    /// A retry does not look whether its statement was executed.
    RetriesDoItAgain,
}

impl Mistake {
    /// All of them.
    pub const ALL: [Mistake; 7] = [
        Mistake::TellsTooEarly,
        Mistake::ReadersSeeTheNewest,
        Mistake::BelievesWhatIsShipped,
        Mistake::KeepsTheTail,
        Mistake::PastTermsCount,
        Mistake::MissesRecords,
        Mistake::RetriesDoItAgain,
    ];

    /// By its name in the table.
    pub fn parse(name: &str) -> Option<Mistake> {
        Mistake::ALL.into_iter().find(|mistake| format!("{mistake:?}") == name)
    }
}

/// The terms of a log, place by place: for whoever lets ranges of past terms count.
pub(super) struct Terms {
    log: MemoryLog,
    found: Mutex<Found>,
}

#[derive(Default)]
struct Found {
    next: Offset,
    term: u64,
    /// Where a term begins.
    claims: BTreeMap<u64, u64>,
}

impl Terms {
    pub(super) fn new(log: &MemoryLog) -> Terms {
        Terms { log: log.clone(), found: Mutex::default() }
    }

    /// Reads to the end.
    pub(super) fn keep_up(&self) {
        let mut found = self.found.lock();
        let connection = self.log.connect();
        // A read may fail.
        let records = std::iter::repeat_with(|| connection.read(found.next, usize::MAX, Duration::ZERO));
        let Some(Ok(records)) = records.take(1_000).find(Result::is_ok) else { return };
        for record in records {
            if let Ok(Some(Record { term, kind: RecordKind::Claim(_), .. })) =
                Record::parse(&record.bytes, record.offset)
                && term == found.term + 1
            {
                found.term = term;
                found.claims.insert(record.offset.0, term);
            }
            found.next = record.offset.following();
        }
    }

    /// The record as if its writer's term were that of its place.
    pub(super) fn renewed(&self, record: StoredRecord) -> StoredRecord {
        let Ok(Some(mut parsed)) = Record::parse(&record.bytes, record.offset) else { return record };
        if !matches!(parsed.kind, RecordKind::Range { .. }) {
            return record;
        }
        self.keep_up();
        let found = self.found.lock();
        let Some((_, term)) = found.claims.range(..record.offset.0).next_back() else { return record };
        parsed.term = (*term).max(parsed.term);
        match parsed.encode() {
            Ok(bytes) => StoredRecord { offset: record.offset, bytes },
            Err(_) => record,
        }
    }
}

/// A record of somebody else.
pub(super) fn foreign(record: StoredRecord) -> StoredRecord {
    StoredRecord { offset: record.offset, bytes: Arc::from(&b"somebody else's"[..]) }
}
