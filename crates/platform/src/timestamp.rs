//! The timestamp of a commit: what orders oplog entries, snapshots and versions.
//!
//! Assigned by the oplog under its lock; carried by the storage engine as a plain number. The layout is that of the
//! BSON timestamp type (specification: bsonspec.org), so it goes to clients as it is.

use std::fmt;

/// A point in commit order: seconds since the Unix epoch in the upper 32 bits, a counter within the second in the lower.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Timestamp(pub u64);

impl Timestamp {
    /// Before every commit.
    pub const MIN: Timestamp = Timestamp(0);
    /// After every commit.
    pub const MAX: Timestamp = Timestamp(u64::MAX);

    /// Builds a timestamp from its two halves.
    pub const fn new(seconds: u32, increment: u32) -> Timestamp {
        Timestamp(((seconds as u64) << 32) | increment as u64)
    }

    /// Seconds since the Unix epoch.
    pub const fn seconds(self) -> u32 {
        (self.0 >> 32) as u32
    }

    /// The beginning of its second, in milliseconds since the Unix epoch.
    pub const fn seconds_millis(self) -> i64 {
        self.seconds() as i64 * 1000
    }

    /// The counter within the second; the first commit of a second has 1.
    pub const fn increment(self) -> u32 {
        self.0 as u32
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}:{}", self.seconds(), self.increment())
    }
}

impl fmt::Debug for Timestamp {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Timestamp({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_round_trip_and_order_by_seconds_first() {
        let timestamp = Timestamp::new(1_700_000_000, 7);
        assert_eq!((timestamp.seconds(), timestamp.increment()), (1_700_000_000, 7));
        assert!(timestamp < Timestamp::new(1_700_000_001, 0));
        assert_eq!(timestamp.to_string(), "1700000000:7");
    }
}
