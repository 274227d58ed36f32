//! The timestamps that are written into documents: for `Timestamp(0, 0)` at the top level of what is stored, and for `$currentDate`.
//!
//! Used by `insert`, by everything that updates, and by what pipelines write. Each is later than any before, whichever command
//! it was for, so that applications can order documents by them.

use std::sync::atomic::{AtomicU64, Ordering};

use bson::Timestamp;

/// See the module's head.
#[derive(Debug, Default)]
pub(crate) struct IssuedTimestamps {
    /// The last one: seconds in the upper half, the increment in the lower.
    last: AtomicU64,
}

impl IssuedTimestamps {
    /// A timestamp of this second, or, when the clock went back, one just after the last.
    pub(crate) fn next(&self, wall_millis: i64) -> Timestamp {
        let seconds = u64::try_from(wall_millis / 1000).unwrap_or_default();
        let first = seconds << 32 | 1;
        let later = |last: u64| Some(first.max(last + 1));
        let last = self.last.fetch_update(Ordering::Relaxed, Ordering::Relaxed, later).unwrap_or_default();
        let issued = first.max(last + 1);
        Timestamp { time: (issued >> 32) as u32, increment: issued as u32 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn they_rise_within_a_second_and_when_the_clock_goes_back() {
        let issued = IssuedTimestamps::default();
        let stamp = |time, increment| Timestamp { time, increment };
        assert_eq!(issued.next(7_900), stamp(7, 1));
        assert_eq!(issued.next(7_999), stamp(7, 2));
        assert_eq!(issued.next(8_000), stamp(8, 1));
        assert_eq!(issued.next(5_000), stamp(8, 2));
    }
}
