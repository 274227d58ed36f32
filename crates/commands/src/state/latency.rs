//! How long operations of one kind take: how many there were, the sum of their times, and how many fell into which range.
//!
//! Used by [`super::command_figures`] for `serverStatus.opLatencies`, and by [`super::namespace_usage`] for the `latencyStats` of a collection.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::DocumentWriter;

/// Ranges: the first is below two microseconds, each other one goes from a power of two to the next.
const RANGES: usize = 40;

/// How many operations fell into which range.
#[derive(Debug)]
pub(crate) struct Histogram([AtomicU64; RANGES]);

impl Default for Histogram {
    fn default() -> Self {
        Self(std::array::from_fn(|_| AtomicU64::new(0)))
    }
}

impl Histogram {
    /// Adds operations that took this long each.
    pub(crate) fn record(&self, operations: u64, micros: u64) {
        if let Some(range) = self.0.get((micros.max(1).ilog2() as usize).min(RANGES - 1)) {
            range.fetch_add(operations, Ordering::Relaxed);
        }
    }

    /// The operations so far.
    pub(crate) fn counts(&self) -> RangeCounts {
        RangeCounts(std::array::from_fn(|range| self.0.get(range).map_or(0, |count| count.load(Ordering::Relaxed))))
    }
}

/// What a histogram said at one time.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RangeCounts([u64; RANGES]);

impl Default for RangeCounts {
    fn default() -> Self {
        Self([0; RANGES])
    }
}

impl RangeCounts {
    /// The operations of all ranges.
    fn sum(&self) -> u64 {
        self.0.iter().sum()
    }

    /// Adds those of another kind.
    pub(crate) fn add(&mut self, other: &RangeCounts) {
        self.0.iter_mut().zip(&other.0).for_each(|(count, more)| *count += more);
    }

    /// Writes the ranges that are not empty, by their lower bounds.
    pub(crate) fn write(&self, section: &mut DocumentWriter<'_>) {
        section.array("histogram", |list| {
            for (power, count) in self.0.iter().enumerate().filter(|(_, count)| **count > 0) {
                list.push_document(|item| {
                    item.size("micros", if power == 0 { 0 } else { 1 << power });
                    item.size("count", *count);
                });
            }
        });
    }
}

/// See the module's head.
#[derive(Debug, Default)]
pub(crate) struct Latency {
    micros: AtomicU64,
    ranges: Histogram,
}

impl Latency {
    pub(crate) fn record(&self, elapsed: Duration) {
        let micros = elapsed.as_micros() as u64;
        self.micros.fetch_add(micros, Ordering::Relaxed);
        self.ranges.record(1, micros);
    }

    /// Writes the figures; with the ranges that are not empty, if they are wanted.
    pub(crate) fn write(&self, with_histogram: bool, section: &mut DocumentWriter<'_>) {
        let counts = self.ranges.counts();
        if with_histogram {
            counts.write(section);
        }
        section.size("latency", self.micros.load(Ordering::Relaxed));
        section.size("ops", counts.sum());
    }
}

#[cfg(test)]
mod tests {
    use bson::{Document, RawDocument, doc};

    use super::*;

    #[test]
    fn each_operation_is_in_the_range_of_its_time() {
        let latency = Latency::default();
        [0, 1, 2, 3, 1024, 2047].iter().for_each(|micros| latency.record(Duration::from_micros(*micros)));
        let mut bytes = Vec::new();
        let mut writer = DocumentWriter::begin(&mut bytes);
        latency.write(true, &mut writer);
        writer.finish();
        let written = Document::try_from(RawDocument::from_bytes(&bytes).unwrap()).unwrap();
        let range = |micros: i64, count: i64| doc! {"micros": micros, "count": count};
        let histogram = vec![range(0, 2), range(2, 2), range(1024, 2)];
        assert_eq!(written, doc! {"histogram": histogram, "latency": 3077i64, "ops": 6i64});
    }
}
