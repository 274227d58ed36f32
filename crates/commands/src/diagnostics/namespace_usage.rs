//! How much each collection is read and written, and how long that takes: for `top`.
//!
//! Used by every command that reads or writes documents. A namespace that is known costs a shared lock of one of the map's parts
//! and two additions.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::RwLock;

/// Parts of the map, so that namespaces do not meet at one lock.
const PARTS: usize = 32;
/// Most namespaces in a part: names of collections that do not exist must not fill the memory.
const NAMESPACES_MAX: usize = 16_384;

/// Operations of one kind on a namespace.
#[derive(Debug, Default)]
struct Usage {
    operations: AtomicU64,
    microseconds: AtomicU64,
}

/// Reads and writes of a namespace.
#[derive(Debug, Default)]
struct NamespaceCounters {
    reads: Usage,
    writes: Usage,
}

/// Figures of one namespace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NamespaceFigures {
    pub(crate) namespace: String,
    pub(crate) reads: UsageFigures,
    pub(crate) writes: UsageFigures,
}

/// How many operations, and how long they took.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct UsageFigures {
    pub(crate) operations: u64,
    pub(crate) microseconds: u64,
}

type Part = RwLock<HashMap<Box<str>, NamespaceCounters>>;

/// All namespaces in use since the start.
pub(crate) struct NamespaceUsage {
    parts: [Part; PARTS],
    hasher: RandomState,
}

impl Default for NamespaceUsage {
    fn default() -> Self {
        Self { parts: std::array::from_fn(|_| RwLock::default()), hasher: RandomState::new() }
    }
}

impl Usage {
    fn add(&self, operations: u64, elapsed: Duration) {
        self.operations.fetch_add(operations, Ordering::Relaxed);
        self.microseconds.fetch_add(elapsed.as_micros() as u64, Ordering::Relaxed);
    }

    fn figures(&self) -> UsageFigures {
        UsageFigures {
            operations: self.operations.load(Ordering::Relaxed),
            microseconds: self.microseconds.load(Ordering::Relaxed),
        }
    }
}

impl NamespaceUsage {
    /// Adds `count` writes that took `elapsed` together.
    pub(crate) fn record_write(&self, namespace: &str, count: u64, elapsed: Duration) {
        self.record(namespace, |counters| counters.writes.add(count, elapsed));
    }

    /// Adds `count` reads that took `elapsed` together.
    pub(crate) fn record_read(&self, namespace: &str, count: u64, elapsed: Duration) {
        self.record(namespace, |counters| counters.reads.add(count, elapsed));
    }

    fn record(&self, namespace: &str, add: impl FnOnce(&NamespaceCounters)) {
        let part = self.part(namespace);
        if let Some(counters) = part.read().get(namespace) {
            return add(counters);
        }
        let mut part = part.write();
        if part.len() < NAMESPACES_MAX || part.contains_key(namespace) {
            add(part.entry(namespace.into()).or_default());
        }
    }

    /// The figures of a collection that was dropped or renamed go with it.
    pub(crate) fn forget(&self, namespace: &str) {
        self.part(namespace).write().remove(namespace);
    }

    /// The same for all collections of a database.
    pub(crate) fn forget_database(&self, database: &str) {
        let is_of = |namespace: &str| namespace.split_once('.').is_some_and(|(of, _)| of == database);
        self.parts.iter().for_each(|part| part.write().retain(|namespace, _| !is_of(namespace)));
    }

    /// The figures of all namespaces, sorted by name.
    pub(crate) fn figures(&self) -> Vec<NamespaceFigures> {
        let mut all = Vec::new();
        for part in &self.parts {
            all.extend(part.read().iter().map(|(namespace, counters)| NamespaceFigures {
                namespace: namespace.to_string(),
                reads: counters.reads.figures(),
                writes: counters.writes.figures(),
            }));
        }
        all.sort_by(|left, right| left.namespace.cmp(&right.namespace));
        all
    }

    fn part(&self, namespace: &str) -> &Part {
        let position = self.hasher.hash_one(namespace) as usize % PARTS;
        &self.parts[position]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_and_writes_are_counted_by_namespace() {
        let usage = NamespaceUsage::default();
        usage.record_write("b.c", 3, Duration::from_micros(10));
        usage.record_write("b.c", 1, Duration::from_micros(5));
        usage.record_read("b.c", 1, Duration::from_micros(7));
        usage.record_read("a.c", 1, Duration::from_micros(1));
        let figures = usage.figures();
        let names: Vec<&str> = figures.iter().map(|figures| figures.namespace.as_str()).collect();
        assert_eq!(names, ["a.c", "b.c"]);
        assert_eq!(figures[1].writes, UsageFigures { operations: 4, microseconds: 15 });
        assert_eq!(figures[1].reads, UsageFigures { operations: 1, microseconds: 7 });
        usage.forget_database("b");
        usage.forget("a.c");
        assert!(usage.figures().is_empty());
    }
}
