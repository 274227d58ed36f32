//! How often each collection is used, for what, and how long that takes: for `top` and `latencyStats`.
//!
//! Recorded by `dispatcher` when a command has run. A namespace that is known costs a shared lock of one of the map's parts
//! and two additions.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use parking_lot::{Mutex, RwLock};
use platform::{MemoryBudget, MemoryReservation, MemoryUse};

use super::latency::{Histogram, RangeCounts};
use crate::request::declaration::Class;
use crate::request::declaration::Declaration;

/// Parts of the map, so that namespaces do not meet at one lock.
const PARTS: usize = 32;
/// All figures together take no more than such a part of the memory budget: names of collections that do not exist must not fill it. What does not fit is not
/// recorded.
const BYTES_SHARE: u64 = 32;
/// What a namespace takes beside its name and its histograms.
const NAMESPACE_BYTES: u64 = size_of::<NamespaceCounters>() as u64 + 64;
/// And each histogram.
const HISTOGRAM_BYTES: u64 = size_of::<Histogram>() as u64 + 16;

/// What a command does with a collection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum UsageKind {
    Query,
    GetMore,
    Insert,
    Update,
    Remove,
    /// Other commands that read documents, or write them, or do neither.
    ReadCommand,
    WriteCommand,
    OtherCommand,
}

const KINDS: usize = 8;

impl UsageKind {
    pub(crate) fn of(command: &Declaration) -> UsageKind {
        match (command.name, command.class) {
            ("find", _) => UsageKind::Query,
            ("getMore", _) => UsageKind::GetMore,
            ("insert", _) => UsageKind::Insert,
            ("update", _) => UsageKind::Update,
            ("delete", _) => UsageKind::Remove,
            (_, Class::Read) => UsageKind::ReadCommand,
            (_, Class::Write) => UsageKind::WriteCommand,
            (_, Class::Exempt) => UsageKind::OtherCommand,
        }
    }
}

/// Operations of one kind on a namespace.
#[derive(Debug, Default)]
struct Usage {
    operations: AtomicU64,
    microseconds: AtomicU64,
    /// Made by the first operation: most namespaces are used in a few ways only.
    histogram: OnceLock<Box<Histogram>>,
}

/// All operations on a namespace, by kind.
type NamespaceCounters = [Usage; KINDS];

/// How many operations, and how long they took.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct UsageFigures {
    pub(crate) operations: u64,
    pub(crate) microseconds: u64,
}

/// Kinds that read documents.
pub(crate) const READS: &[UsageKind] = &[UsageKind::Query, UsageKind::GetMore, UsageKind::ReadCommand];
/// Kinds that write documents.
pub(crate) const WRITES: &[UsageKind] =
    &[UsageKind::Insert, UsageKind::Update, UsageKind::Remove, UsageKind::WriteCommand];
/// Kinds that neither read documents nor write any.
pub(crate) const OTHERS: &[UsageKind] = &[UsageKind::OtherCommand];

/// Figures of one namespace.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct NamespaceFigures {
    pub(crate) namespace: String,
    kinds: [UsageFigures; KINDS],
}

impl NamespaceFigures {
    /// The sum over some kinds.
    pub(crate) fn of(&self, kinds: &[UsageKind]) -> UsageFigures {
        let mut sum = UsageFigures::default();
        for figures in kinds.iter().filter_map(|kind| self.kinds.get(*kind as usize)) {
            sum.operations += figures.operations;
            sum.microseconds += figures.microseconds;
        }
        sum
    }

    pub(crate) fn reads(&self) -> UsageFigures {
        self.of(READS)
    }

    pub(crate) fn writes(&self) -> UsageFigures {
        self.of(WRITES)
    }

    pub(crate) fn commands(&self) -> UsageFigures {
        self.of(&[UsageKind::ReadCommand, UsageKind::WriteCommand, UsageKind::OtherCommand])
    }
}

type Part = RwLock<HashMap<Box<str>, NamespaceCounters>>;

/// All namespaces in use since the start.
pub(crate) struct NamespaceUsage {
    parts: [Part; PARTS],
    hasher: RandomState,
    memory: Mutex<MemoryReservation>,
    bytes_max: u64,
}

impl Usage {
    /// `takes` says whether there is memory for a histogram.
    fn add(&self, operations: u64, elapsed: Duration, takes: impl FnOnce() -> bool) {
        self.operations.fetch_add(operations, Ordering::Relaxed);
        let microseconds = elapsed.as_micros() as u64;
        self.microseconds.fetch_add(microseconds, Ordering::Relaxed);
        if let Some(each) = microseconds.checked_div(operations) {
            // Two threads at once may count it twice, and keep one.
            let histogram = self.histogram.get();
            let histogram = histogram.or_else(|| takes().then(|| self.histogram.get_or_init(Box::default)));
            histogram.into_iter().for_each(|histogram| histogram.record(operations, each));
        }
    }

    fn figures(&self) -> UsageFigures {
        UsageFigures {
            operations: self.operations.load(Ordering::Relaxed),
            microseconds: self.microseconds.load(Ordering::Relaxed),
        }
    }
}

impl NamespaceUsage {
    /// No figures, which are counted in a budget.
    pub(crate) fn new(budget: &Arc<MemoryBudget>) -> Self {
        Self {
            parts: std::array::from_fn(|_| RwLock::default()),
            hasher: RandomState::new(),
            memory: Mutex::new(budget.reservation(MemoryUse::Remembered)),
            bytes_max: budget.limit() / BYTES_SHARE,
        }
    }

    /// Whether there is memory for so many bytes, which are counted then.
    fn takes(&self, bytes: u64) -> bool {
        let mut memory = self.memory.lock();
        let fits = memory.bytes() + bytes <= self.bytes_max;
        if fits {
            memory.grow_unchecked(bytes);
        }
        fits
    }

    fn give_back(&self, namespace: &str, counters: &NamespaceCounters) {
        let histograms = counters.iter().filter(|usage| usage.histogram.get().is_some()).count() as u64;
        let bytes = namespace.len() as u64 + NAMESPACE_BYTES + histograms * HISTOGRAM_BYTES;
        let mut memory = self.memory.lock();
        let left = memory.bytes().saturating_sub(bytes);
        memory.shrink(left);
    }

    /// Adds operations of a kind that took `elapsed` together.
    pub(crate) fn record(&self, namespace: &str, kind: UsageKind, operations: u64, elapsed: Duration) {
        let add = |counters: &NamespaceCounters| {
            let takes = || self.takes(HISTOGRAM_BYTES);
            counters.get(kind as usize).into_iter().for_each(|usage| usage.add(operations, elapsed, takes));
        };
        let part = self.part(namespace);
        if let Some(counters) = part.read().get(namespace) {
            return add(counters);
        }
        let mut part = part.write();
        if part.contains_key(namespace) || self.takes(namespace.len() as u64 + NAMESPACE_BYTES) {
            add(part.entry(namespace.into()).or_default());
        }
    }

    /// The figures of a collection that was dropped or renamed go with it.
    pub(crate) fn forget(&self, namespace: &str) {
        if let Some(counters) = self.part(namespace).write().remove(namespace) {
            self.give_back(namespace, &counters);
        }
    }

    /// The same for all collections of a database.
    pub(crate) fn forget_database(&self, database: &str) {
        let is_of = |namespace: &str| namespace.split_once('.').is_some_and(|(of, _)| of == database);
        for part in &self.parts {
            let gone = part.write().extract_if(|namespace, _| is_of(namespace)).collect::<Vec<_>>();
            gone.iter().for_each(|(namespace, counters)| self.give_back(namespace, counters));
        }
    }

    /// The figures of all namespaces, sorted by name.
    pub(crate) fn figures(&self) -> Vec<NamespaceFigures> {
        let mut all = Vec::new();
        for part in &self.parts {
            all.extend(part.read().iter().map(|(namespace, counters)| figures_of(namespace, counters)));
        }
        all.sort_by(|left, right| left.namespace.cmp(&right.namespace));
        all
    }

    /// The figures of one namespace.
    pub(crate) fn figures_of(&self, namespace: &str) -> NamespaceFigures {
        let part = self.part(namespace).read();
        part.get(namespace).map(|counters| figures_of(namespace, counters)).unwrap_or_default()
    }

    /// How long single operations of some kinds on a namespace took.
    pub(crate) fn ranges_of(&self, namespace: &str, kinds: &[UsageKind]) -> RangeCounts {
        let mut sum = RangeCounts::default();
        if let Some(counters) = self.part(namespace).read().get(namespace) {
            let usages = kinds.iter().filter_map(|kind| counters.get(*kind as usize));
            usages.filter_map(|usage| usage.histogram.get()).for_each(|histogram| sum.add(&histogram.counts()));
        }
        sum
    }

    fn part(&self, namespace: &str) -> &Part {
        let position = self.hasher.hash_one(namespace) as usize % PARTS;
        &self.parts[position]
    }
}

fn figures_of(namespace: &str, counters: &NamespaceCounters) -> NamespaceFigures {
    NamespaceFigures {
        namespace: namespace.to_owned(),
        kinds: std::array::from_fn(|kind| counters.get(kind).map(Usage::figures).unwrap_or_default()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_are_counted_by_namespace_and_kind() {
        let budget = MemoryBudget::new(1 << 20);
        let usage = NamespaceUsage::new(&budget);
        let micros = Duration::from_micros;
        usage.record("b.c", UsageKind::Update, 3, micros(10));
        usage.record("b.c", UsageKind::WriteCommand, 1, micros(5));
        usage.record("b.c", UsageKind::GetMore, 1, micros(7));
        usage.record("a.c", UsageKind::OtherCommand, 1, micros(1));
        let figures = usage.figures();
        let names: Vec<&str> = figures.iter().map(|figures| figures.namespace.as_str()).collect();
        assert_eq!(names, ["a.c", "b.c"]);
        let of = |operations, microseconds| UsageFigures { operations, microseconds };
        assert_eq!(figures[1].writes(), of(4, 15));
        assert_eq!(figures[1].reads(), of(1, 7));
        assert_eq!(figures[1].commands(), of(1, 5));
        assert_eq!(figures[1].of(&[UsageKind::Update]), of(3, 10));
        assert_eq!(usage.figures_of("a.c").commands(), of(1, 1));
        usage.forget_database("b");
        usage.forget("a.c");
        assert!(usage.figures().is_empty());
        assert_eq!(budget.used(), 0);
    }

    #[test]
    fn names_without_end_take_a_part_of_the_budget() {
        let budget = MemoryBudget::new(1 << 20);
        let usage = NamespaceUsage::new(&budget);
        for number in 0..1000 {
            usage.record(&format!("a.{number}"), UsageKind::Query, 1, Duration::from_micros(1));
        }
        let known = usage.figures().len();
        assert!((10..200).contains(&known), "{known}");
        assert!(budget.used() <= 32 << 10);
        usage.forget_database("a");
        assert_eq!(budget.used(), 0);
    }
}
