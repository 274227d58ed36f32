//! How far back the log goes: finding a time in it, and how much of it has to be kept.
//!
//! Called by `transaction`: by whoever serves the log to clients, and before it is truncated.

use platform::{OpenMode, Timestamp};

use super::LocalOplog;
use super::segment::{SegmentHeader, not_opened};
use crate::{Oplog, OplogPosition, Result};

/// What a segment says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentFacts {
    /// Position of its first entry.
    pub start: OplogPosition,
    /// Timestamp of the last entry before it; 0 when there was none.
    pub previous_timestamp: Timestamp,
    /// When it was begun.
    pub created_wall_millis: i64,
}

impl LocalOplog {
    /// The segments, oldest first.
    ///
    /// # Errors
    /// `Io`, `Corrupt`.
    pub fn segments(&self) -> Result<Vec<SegmentFacts>> {
        let starts: Vec<u64> = self.shared.segments.lock().iter().copied().collect();
        let mut facts = Vec::with_capacity(starts.len());
        for start in starts {
            let file = match self.shared.store.open(start, OpenMode::Read) {
                // Truncated meanwhile.
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
                file => file.map_err(not_opened(start))?,
            };
            let header = SegmentHeader::read(&*file, start)?;
            facts.push(SegmentFacts {
                start: OplogPosition(start),
                previous_timestamp: header.previous_timestamp,
                created_wall_millis: header.created_wall_millis,
            });
        }
        Ok(facts)
    }

    /// The position of the first entry that is not before `timestamp`; the end when there is none.
    ///
    /// # Errors
    /// Those of reading.
    pub fn position_at(&self, timestamp: Timestamp) -> Result<OplogPosition> {
        let segments = self.segments()?;
        let after = segments.partition_point(|segment| segment.previous_timestamp < timestamp);
        let first = segments.get(after.saturating_sub(1)).map_or(self.first_position(), |segment| segment.start);
        let mut reader = self.read_from(first)?;
        loop {
            let position = reader.position();
            match reader.next_entry()? {
                Some(entry) if entry.timestamp < timestamp => {}
                _ => return Ok(position),
            }
        }
    }

    /// Before which position nothing is promised any more, when the newest `bytes` and everything since `since_wall_millis` are.
    ///
    /// # Errors
    /// Those of `segments`.
    pub fn kept_from(&self, bytes: u64, since_wall_millis: i64) -> Result<OplogPosition> {
        let by_size = self.end_position().0.saturating_sub(bytes);
        let segments = self.segments()?;
        // The entries of a segment are older than the beginning of the next.
        let is_old = |pair: &&[SegmentFacts]| pair[1].created_wall_millis <= since_wall_millis;
        let old = segments.windows(2).take_while(is_old).count();
        let by_time = segments.get(old).map_or(by_size, |segment| segment.start.0);
        Ok(OplogPosition(by_size.min(by_time)))
    }
}
