//! Statistics of queries by their shapes, and by what else tells who asks: what `$queryStats` gives.
//!
//! Held by `ServerContext`. Filled when a query is through: with its first reply, or with the last one of its cursor
//! (`handlers/crud/query_statistics.rs`). In memory alone and bounded; what was asked longest ago makes room. So that
//! shapes cost little on a busy server only so many queries a second are recorded, unless told otherwise.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use bson::{RawBsonRef, RawDocumentBuf};
use parking_lot::Mutex;
use platform::{MemoryBudget, MemoryReservation, MemoryUse};
use sha2::{Digest, Sha256};

use crate::request::query_shape::QueryShape;

/// All statistics take no more than this, and than such a part of the memory budget: a hundredth, as in MongoDB.
const BYTES_MAX: u64 = 16 << 20;
const BYTES_SHARE: u64 = 100;
/// What is not even recorded: it would drive out all others.
const ENTRY_SHARE: u64 = 16;
/// What an entry takes beside its documents.
const ENTRY_BYTES: u64 = 512;
/// Queries whose cursors are still read from. Beyond it the oldest are taken as they are.
const OPEN_MAX: usize = 1_000;
/// Queries a second that are recorded, unless told otherwise; -1 for all of them.
const RATE_DEFAULT: i64 = 100;

/// What tells entries apart.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Key {
    pub(crate) shape: QueryShape,
    /// The hint, if there was one: a document's values and names, or `"?string"`.
    pub(crate) hint: Option<RawDocumentBuf>,
    /// The rest of it, as it is told.
    pub(crate) rest: RawDocumentBuf,
}

/// What was seen of one query, or of a part of its replies.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Seen {
    pub(crate) micros: u64,
    pub(crate) returned: u64,
    pub(crate) keys_examined: u64,
    pub(crate) docs_examined: u64,
    pub(crate) sorts: bool,
}

/// A figure over all queries of a key.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Figure {
    pub(crate) sum: u64,
    pub(crate) max: u64,
    pub(crate) min: u64,
    pub(crate) sum_of_squares: u128,
}

/// What is known of a key.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    pub(crate) key: Arc<Key>,
    pub(crate) executions: u64,
    pub(crate) last_micros: u64,
    pub(crate) total_micros: Figure,
    pub(crate) first_micros: Figure,
    pub(crate) returned: Figure,
    pub(crate) keys_examined: Figure,
    pub(crate) docs_examined: Figure,
    pub(crate) sorts: bool,
    /// In milliseconds since 1970.
    pub(crate) first_seen: i64,
    pub(crate) last_seen: i64,
}

/// A query whose cursor is still read from.
#[derive(Debug)]
struct Open {
    key: Arc<Key>,
    first_micros: u64,
    seen: Seen,
}

/// See the module's head.
pub(crate) struct QueryStatistics {
    recorded: Mutex<Recorded>,
    bytes_max: u64,
    rate: AtomicI64,
    /// The second that is counted, and how many queries were recorded in it.
    second: AtomicU64,
    in_second: AtomicI64,
}

struct Recorded {
    entries: HashMap<[u8; 32], Entry>,
    /// By the ids of their cursors.
    open: BTreeMap<i64, Open>,
    /// Counts the entries.
    memory: MemoryReservation,
}

impl Key {
    /// Tells keys apart.
    pub(crate) fn hash(&self) -> [u8; 32] {
        let hint = self.hint.as_ref().map_or(&[][..], |hint| hint.as_bytes());
        let mut digest = Sha256::new();
        for part in [self.shape.document().as_bytes(), hint, self.rest.as_bytes()] {
            digest.update((part.len() as u64).to_le_bytes());
            digest.update(part);
        }
        digest.finalize().into()
    }

    fn bytes(&self) -> u64 {
        let hint = self.hint.as_ref().map_or(0, |hint| hint.as_bytes().len());
        (self.shape.document().as_bytes().len() + hint + self.rest.as_bytes().len()) as u64 + ENTRY_BYTES
    }
}

impl Seen {
    fn add(&mut self, more: Seen) {
        self.micros += more.micros;
        self.returned += more.returned;
        self.keys_examined += more.keys_examined;
        self.docs_examined += more.docs_examined;
        self.sorts |= more.sorts;
    }
}

impl Figure {
    fn add(&mut self, value: u64, is_first: bool) {
        self.sum = self.sum.saturating_add(value);
        self.max = self.max.max(value);
        self.min = if is_first { value } else { self.min.min(value) };
        self.sum_of_squares = self.sum_of_squares.saturating_add(u128::from(value) * u128::from(value));
    }
}

impl Entry {
    fn new(key: Arc<Key>, now: i64) -> Entry {
        Entry {
            key,
            executions: 0,
            last_micros: 0,
            total_micros: Figure::default(),
            first_micros: Figure::default(),
            returned: Figure::default(),
            keys_examined: Figure::default(),
            docs_examined: Figure::default(),
            sorts: false,
            first_seen: now,
            last_seen: now,
        }
    }

    fn add(&mut self, first_micros: u64, seen: Seen, now: i64) {
        let is_first = self.executions == 0;
        self.executions += 1;
        self.last_micros = seen.micros;
        self.total_micros.add(seen.micros, is_first);
        self.first_micros.add(first_micros, is_first);
        self.returned.add(seen.returned, is_first);
        self.keys_examined.add(seen.keys_examined, is_first);
        self.docs_examined.add(seen.docs_examined, is_first);
        self.sorts |= seen.sorts;
        self.last_seen = now;
    }
}

impl QueryStatistics {
    /// None, which are counted in a budget.
    pub(crate) fn new(budget: &Arc<MemoryBudget>) -> Self {
        let memory = budget.reservation(MemoryUse::Remembered);
        let recorded = Recorded { entries: HashMap::new(), open: BTreeMap::new(), memory };
        Self {
            recorded: Mutex::new(recorded),
            bytes_max: BYTES_MAX.min(budget.limit() / BYTES_SHARE),
            rate: AtomicI64::new(RATE_DEFAULT),
            second: AtomicU64::new(0),
            in_second: AtomicI64::new(0),
        }
    }

    /// How many queries a second are recorded; -1 for all.
    pub(crate) fn rate(&self) -> i64 {
        self.rate.load(Ordering::Relaxed)
    }

    /// Records so many queries a second from now on. None: what is known is forgotten, too.
    pub(crate) fn set_rate(&self, rate: i64) {
        self.rate.store(rate, Ordering::Relaxed);
        if rate == 0 {
            let mut recorded = self.recorded.lock();
            recorded.entries = HashMap::new();
            recorded.open.clear();
            recorded.memory.shrink(0);
        }
    }

    /// Whether a query that ends now is to be recorded.
    pub(crate) fn samples(&self, millis: i64) -> bool {
        let rate = self.rate();
        if rate <= 0 {
            return rate < 0;
        }
        let now = (millis / 1000) as u64;
        if self.second.load(Ordering::Relaxed) != now {
            self.second.store(now, Ordering::Relaxed);
            self.in_second.store(0, Ordering::Relaxed);
        }
        // Whoever is beyond it writes nothing that others read.
        self.in_second.load(Ordering::Relaxed) < rate && self.in_second.fetch_add(1, Ordering::Relaxed) < rate
    }

    /// A query has sent its first reply; `cursor` has the rest of its results, if there is one.
    pub(crate) fn begin(&self, key: Key, seen: Seen, cursor: Option<i64>, now: i64) {
        if key.bytes() > self.bytes_max / ENTRY_SHARE {
            return;
        }
        let (key, first_micros) = (Arc::new(key), seen.micros);
        let mut recorded = self.recorded.lock();
        match cursor {
            None => recorded.add(key, first_micros, seen, now, self.bytes_max),
            Some(cursor) => {
                recorded.open.insert(cursor, Open { key, first_micros, seen });
                if recorded.open.len() > OPEN_MAX
                    && let Some((_, oldest)) = recorded.open.pop_first()
                {
                    recorded.add(oldest.key, oldest.first_micros, oldest.seen, now, self.bytes_max);
                }
            }
        }
    }

    /// A cursor has sent more, or has been closed: then its query is through.
    pub(crate) fn go_on(&self, cursor: i64, more: Seen, is_through: bool, now: i64) {
        let mut recorded = self.recorded.lock();
        let Some(open) = recorded.open.get_mut(&cursor) else { return };
        open.seen.add(more);
        if is_through && let Some(open) = recorded.open.remove(&cursor) {
            recorded.add(open.key, open.first_micros, open.seen, now, self.bytes_max);
        }
    }

    /// What is known of each key.
    pub(crate) fn entries(&self) -> Vec<Entry> {
        self.recorded.lock().entries.values().cloned().collect()
    }
}

impl Recorded {
    fn add(&mut self, key: Arc<Key>, first_micros: u64, seen: Seen, now: i64, bytes_max: u64) {
        let hash = key.hash();
        if !self.entries.contains_key(&hash) {
            let bytes = key.bytes();
            if self.memory.bytes() + bytes > bytes_max {
                self.make_room();
            }
            self.memory.grow_unchecked(bytes);
        }
        self.entries.entry(hash).or_insert_with(|| Entry::new(key, now)).add(first_micros, seen, now);
    }

    /// Forgets the quarter that was asked longest ago.
    fn make_room(&mut self) {
        let mut times: Vec<i64> = self.entries.values().map(|entry| entry.last_seen).collect();
        times.sort_unstable();
        let Some(end) = times.get(times.len() / 4).copied() else { return };
        self.entries.retain(|_, entry| entry.last_seen > end);
        let kept: u64 = self.entries.values().map(|entry| entry.key.bytes()).sum();
        self.memory.shrink(kept);
    }
}

/// A hint as a key has it.
pub(crate) fn hint_of(hint: RawBsonRef<'_>) -> Option<RawDocumentBuf> {
    match hint {
        RawBsonRef::Document(pattern) => Some(pattern.to_owned()),
        RawBsonRef::String(_) => Some(bson::rawdoc! { "": "?string" }),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(number: i32) -> Key {
        let body = bson::rawdoc! { "find": format!("c{number}"), "filter": { "a": number } };
        let shape = QueryShape::of("test", &body).unwrap().unwrap();
        Key { shape, hint: None, rest: RawDocumentBuf::new() }
    }

    fn seen(micros: u64, returned: u64) -> Seen {
        Seen { micros, returned, ..Seen::default() }
    }

    #[test]
    fn a_query_is_counted_with_all_of_its_replies() {
        let statistics = QueryStatistics::new(&MemoryBudget::unlimited());
        statistics.begin(key(1), seen(10, 101), Some(7), 1);
        assert!(statistics.entries().is_empty());
        statistics.go_on(7, seen(5, 100), false, 2);
        statistics.go_on(7, seen(1, 3), true, 3);
        statistics.begin(key(1), seen(4, 1), None, 4);
        let [entry] = &statistics.entries()[..] else { panic!("one key") };
        let total = entry.total_micros;
        assert_eq!((entry.executions, entry.last_micros, entry.first_seen, entry.last_seen), (2, 4, 3, 4));
        assert_eq!((total.sum, total.max, total.min, total.sum_of_squares), (20, 16, 4, 272));
        assert_eq!((entry.first_micros.sum, entry.returned.sum, entry.returned.max), (14, 205, 204));
    }

    #[test]
    fn what_was_asked_longest_ago_makes_room() {
        let statistics = QueryStatistics::new(&MemoryBudget::new(4 << 20));
        for number in 0..1_000 {
            statistics.begin(key(number), seen(1, 1), None, i64::from(number));
        }
        let entries = statistics.entries();
        let bytes: u64 = entries.iter().map(|entry| entry.key.bytes()).sum();
        assert!(bytes <= (4 << 20) / BYTES_SHARE && !entries.is_empty(), "{bytes}");
        assert!(entries.iter().any(|entry| entry.last_seen == 999));
        assert!(entries.iter().all(|entry| entry.last_seen > 500));
        statistics.set_rate(0);
        assert!(statistics.entries().is_empty() && !statistics.samples(5));
    }

    #[test]
    fn so_many_a_second_are_recorded() {
        let statistics = QueryStatistics::new(&MemoryBudget::unlimited());
        statistics.set_rate(3);
        let recorded = |millis| (0..10).filter(|_| statistics.samples(millis)).count();
        assert_eq!((recorded(1_000), recorded(1_500), recorded(2_000)), (3, 0, 3));
        statistics.set_rate(-1);
        assert_eq!(recorded(2_000), 10);
    }
}
