//! Latencies in an HDR histogram (three significant digits, 1 microsecond to 1 hour) and their percentiles.

use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Serializer, V2DeflateSerializer};
use serde::{Deserialize, Serialize};

/// One hour: what is longer is counted as this long.
const NANOSECONDS_MAX: u64 = 3_600_000_000_000;

/// Recorded latencies of one kind of command.
#[derive(Debug, Clone)]
pub(crate) struct Latencies {
    nanoseconds: Option<Histogram<u64>>,
}

/// Percentiles in microseconds; all 0 when nothing was recorded.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[allow(missing_docs)]
pub struct LatencySummary {
    pub count: u64,
    pub mean: f64,
    pub minimum: f64,
    pub p50: f64,
    pub p90: f64,
    pub p95: f64,
    pub p99: f64,
    pub p99_9: f64,
    pub maximum: f64,
}

impl LatencySummary {
    /// This one, of a part of the operations, if it is at least half of `all`; otherwise that of all.
    pub(crate) fn most_of<'s>(&'s self, all: &'s Self) -> &'s Self {
        if self.count > 0 && self.count * 2 >= all.count { self } else { all }
    }
}

impl Latencies {
    pub(crate) fn new() -> Self {
        // Fails only for impossible bounds; these are constants.
        Self { nanoseconds: Histogram::new_with_bounds(1_000, NANOSECONDS_MAX, 3).ok() }
    }

    /// With two digits, for the many of a series.
    pub(crate) fn coarse() -> Self {
        Self { nanoseconds: Histogram::new(2).ok() }
    }

    /// The histogram for other tools: V2, compressed, base 64. Empty when it cannot be made.
    pub(crate) fn encoded(&self) -> String {
        let mut bytes = Vec::new();
        let Some(histogram) = &self.nanoseconds else { return String::new() };
        match V2DeflateSerializer::new().serialize(histogram, &mut bytes) {
            Ok(_) => BASE64_STANDARD.encode(bytes),
            Err(_) => String::new(),
        }
    }

    pub(crate) fn record(&mut self, latency: Duration) {
        let nanoseconds = u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX);
        if let Some(histogram) = &mut self.nanoseconds {
            // Grows where it may; what lies outside of fixed bounds is counted at their edge.
            if histogram.record(nanoseconds.min(NANOSECONDS_MAX)).is_err() {
                histogram.saturating_record(nanoseconds);
            }
        }
    }

    /// Adds what another thread recorded.
    pub(crate) fn merge(&mut self, other: &Self) {
        if let (Some(mine), Some(theirs)) = (&mut self.nanoseconds, &other.nanoseconds) {
            // Both have the same bounds, so every value fits.
            let _ = mine.add(theirs);
        }
    }

    pub(crate) fn summary(&self) -> LatencySummary {
        let Some(histogram) = self.nanoseconds.as_ref().filter(|histogram| !histogram.is_empty()) else {
            return LatencySummary::default();
        };
        let microseconds = |nanoseconds: f64| (nanoseconds / 100.0).round() / 10.0;
        let quantile = |quantile: f64| microseconds(histogram.value_at_quantile(quantile) as f64);
        LatencySummary {
            count: histogram.len(),
            mean: microseconds(histogram.mean()),
            minimum: microseconds(histogram.min() as f64),
            p50: quantile(0.5),
            p90: quantile(0.9),
            p95: quantile(0.95),
            p99: quantile(0.99),
            p99_9: quantile(0.999),
            maximum: microseconds(histogram.max() as f64),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_within_three_digits() {
        let (mut odd, mut even) = (Latencies::new(), Latencies::new());
        for microseconds in 1..=10_000 {
            let recorder = if microseconds % 2 == 0 { &mut even } else { &mut odd };
            recorder.record(Duration::from_micros(microseconds));
        }
        odd.merge(&even);
        let summary = odd.summary();
        assert_eq!(summary.count, 10_000);
        for (measured, exact) in [
            (summary.mean, 5_000.5),
            (summary.p50, 5_000.0),
            (summary.p90, 9_000.0),
            (summary.p99, 9_900.0),
            (summary.p99_9, 9_990.0),
            (summary.maximum, 10_000.0),
        ] {
            assert!((measured - exact).abs() <= exact * 0.002, "{measured} against {exact}");
        }
    }

    #[test]
    fn a_part_stands_for_all_if_it_is_half() {
        let of = |count| LatencySummary { count, ..LatencySummary::default() };
        for (part, all, chosen) in [(5, 10, 5), (4, 10, 10), (0, 0, 0), (0, 3, 3), (3, 3, 3)] {
            assert_eq!(of(part).most_of(&of(all)).count, chosen);
        }
    }

    #[test]
    fn those_of_a_second_grow_with_what_they_are_given() {
        let (mut first, mut second) = (Latencies::coarse(), Latencies::coarse());
        first.record(Duration::from_micros(250));
        second.record(Duration::from_secs(2));
        first.merge(&second);
        let summary = first.summary();
        assert!((summary.minimum - 250.0).abs() < 2.5 && (summary.maximum - 2e6).abs() < 2e4, "{summary:?}");
    }

    #[test]
    fn nothing_recorded_is_all_zero_and_too_long_is_capped() {
        assert_eq!(Latencies::new().summary(), LatencySummary::default());
        let mut latencies = Latencies::new();
        latencies.record(Duration::from_secs(100_000));
        assert!((latencies.summary().maximum - 3.6e9).abs() < 3.6e9 * 0.002);
    }
}
