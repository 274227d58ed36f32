//! How long operations of one kind take: how many there were, the sum of their times, and how many fell into which range.
//!
//! Used by [`super::command_figures`] for `serverStatus.opLatencies`.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::DocumentWriter;

/// Ranges: the first is below two microseconds, each other one goes from a power of two to the next.
const RANGES: usize = 40;

/// See the module's head.
#[derive(Debug)]
pub(super) struct Latency {
    micros: AtomicU64,
    ranges: [AtomicU64; RANGES],
}

impl Default for Latency {
    fn default() -> Self {
        Self { micros: AtomicU64::new(0), ranges: std::array::from_fn(|_| AtomicU64::new(0)) }
    }
}

impl Latency {
    pub(super) fn record(&self, elapsed: Duration) {
        let micros = elapsed.as_micros() as u64;
        self.micros.fetch_add(micros, Ordering::Relaxed);
        if let Some(range) = self.ranges.get((micros.max(1).ilog2() as usize).min(RANGES - 1)) {
            range.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Writes the figures; with the ranges that are not empty, by their lower bounds, if they are wanted.
    pub(super) fn write(&self, with_histogram: bool, section: &mut DocumentWriter<'_>) {
        let counts: Vec<u64> = self.ranges.iter().map(|range| range.load(Ordering::Relaxed)).collect();
        if with_histogram {
            section.array("histogram", |list| {
                for (power, count) in counts.iter().enumerate().filter(|(_, count)| **count > 0) {
                    list.push_document(|item| {
                        item.size("micros", if power == 0 { 0 } else { 1 << power });
                        item.size("count", *count);
                    });
                }
            });
        }
        section.size("latency", self.micros.load(Ordering::Relaxed));
        section.size("ops", counts.iter().sum());
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
