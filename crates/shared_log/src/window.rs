//! Where the part of a log begins that is kept for members that are away: what was logged since a moment, or the last so many bytes.
//!
//! Called by whoever trims a log (`server`, and the simulator). It does not read the log through: records say up to where their writer had found the oplog in the log, and
//! that grows, so the place is found by halving. Records that do not count, or came late, can make it a few records too early or too late: nothing that counts depends
//! on a window, as what members are known to need is kept beside it.

use std::ops::Range;

use crate::record::{Record, RecordKind};
use crate::{ARRIVES_WITHIN, Offset, Result, SharedLog, SharedLogError, StoredRecord};

/// What is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Window {
    /// What was logged at this commit timestamp, or later.
    Since(u64),
    /// The last so many bytes of the oplog.
    Bytes(u64),
}

/// Says of bytes and the position at which they begin when the entry was logged that begins with them, and how long it is.
pub type Peek<'p> = dyn Fn(&[u8], u64) -> Option<(u64, usize)> + 'p;

/// Where a window begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WindowBegin {
    /// Behind the newest record with something that is older.
    pub behind: Offset,
    /// The oldest record that has something of the window; the log's end if there is none. What lies between says only that a primary was there.
    pub first: Offset,
}

/// Where the window begins among the records that the log has in `range`.
///
/// # Errors
/// As `SharedLog::read`; `Unreachable` when what should be there does not come; `Damaged`, `UnsupportedVersion` for a record on the way.
pub fn window_begins(
    log: &dyn SharedLog,
    range: Range<Offset>,
    window: Window,
    peek: &Peek<'_>,
) -> Result<WindowBegin> {
    let read = |from| log.read(Offset(from), 1, ARRIVES_WITHIN);
    Search { read: &read, end: range.end.0, peek }.window_begins(range.start.0, window)
}

/// What is there from a place on; nothing: it does not come.
type Read<'r> = dyn Fn(u64) -> Result<Vec<StoredRecord>> + 'r;

struct Search<'s> {
    read: &'s Read<'s>,
    end: u64,
    peek: &'s Peek<'s>,
}

/// What was read at a place.
struct Found {
    at: u64,
    /// Up to where the oplog is in the log by then.
    reach: u64,
    /// When the first entry was logged that begins there, or in what follows directly.
    logged: Option<u64>,
}

/// Up to where the oplog is in the log, by what a record says.
fn reach_of(record: &Record<'_>) -> u64 {
    match &record.kind {
        RecordKind::Range { start, bytes, .. } => start + bytes.len() as u64,
        _ => record.confirmed,
    }
}

/// Half-way between two places.
fn middle(low: u64, high: u64) -> u64 {
    low + (high - low) / 2
}

impl Search<'_> {
    fn window_begins(&self, begin: u64, window: Window) -> Result<WindowBegin> {
        match window {
            Window::Since(since) => {
                let behind = self.first_logged(begin, since)?;
                let first = self.next_entry(behind)?.map_or(self.end, |(at, _)| at);
                Ok(WindowBegin { behind: Offset(behind), first: Offset(first) })
            }
            Window::Bytes(bytes) => {
                let end = self.last_reach(begin)?;
                let found = end.map(|end| self.first_beyond(begin, end.saturating_sub(bytes))).transpose()?;
                let found = Offset(found.unwrap_or(self.end));
                Ok(WindowBegin { behind: found, first: found })
            }
        }
    }

    /// The first record of ours from `from` on.
    fn look(&self, mut from: u64) -> Result<Option<Found>> {
        while from < self.end {
            let records = (self.read)(from)?;
            let late = || SharedLogError::Unreachable { cause: format!("record {from} does not come") };
            let last = records.last().ok_or_else(late)?;
            from = last.offset.0 + 1;
            for record in records.iter().filter(|record| record.offset.0 < self.end) {
                if let Some(parsed) = Record::parse(&record.bytes, record.offset)? {
                    let logged = match &parsed.kind {
                        RecordKind::Range { start, bytes, .. } => (self.peek)(bytes, *start).map(|(at, _)| at),
                        _ => None,
                    };
                    return Ok(Some(Found { at: record.offset.0, reach: reach_of(&parsed), logged }));
                }
            }
        }
        Ok(None)
    }

    /// Where the oplog ends that the log has.
    fn last_reach(&self, begin: u64) -> Result<Option<u64>> {
        for at in (begin..self.end).rev() {
            if let Some(found) = self.look(at)? {
                return Ok(Some(found.reach));
            }
        }
        Ok(None)
    }

    /// The first record from `low` on by which the log has more of the oplog than up to a position.
    fn first_beyond(&self, mut low: u64, position: u64) -> Result<u64> {
        let mut high = self.end;
        while low < high {
            let place = middle(low, high);
            match self.look(place)?.filter(|found| found.at < high) {
                Some(found) if found.reach <= position => low = found.at + 1,
                _ => high = place,
            }
        }
        Ok(low)
    }

    /// The first record from `low` on with something that was logged at `since` or later.
    fn first_logged(&self, mut low: u64, since: u64) -> Result<u64> {
        let mut high = self.end;
        while low < high {
            let place = middle(low, high);
            match self.next_entry(place)?.filter(|(at, _)| *at < high) {
                Some((at, logged)) if logged < since => low = at + 1,
                _ => high = place,
            }
        }
        Ok(low)
    }

    /// From `from` on, the next record that begins with an entry, and when that was logged. What lies between says only that a primary is there, and may be long: it is not
    /// read. What is in the midst of an entry is.
    fn next_entry(&self, mut from: u64) -> Result<Option<(u64, u64)>> {
        while let Some(found) = self.look(from)? {
            if let Some(logged) = found.logged {
                return Ok(Some((found.at, logged)));
            }
            let next = found.at + 1;
            from = match self.look(next)? {
                Some(after) if after.reach <= found.reach => self.first_beyond(next, found.reach)?,
                _ => next,
            };
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::sync::Arc;
    use std::time::Duration;

    use super::*;
    use crate::{MemoryLog, Sending, Ticket};

    struct Filler<'l> {
        log: &'l dyn SharedLog,
        position: Cell<u64>,
    }

    impl Filler<'_> {
        fn put(&self, bytes: Arc<[u8]>) {
            self.log.begin_append(&[Sending { ticket: Ticket(0), bytes }]);
            self.log.outcomes(Duration::ZERO).pop().unwrap().result.unwrap();
        }

        fn say(&self, kind: RecordKind<'_>) {
            self.put(Record { term: 1, confirmed: self.position.get(), chain: 0, kind }.encode().unwrap());
        }

        /// An entry of three bytes, logged at ten times its position; or what follows in the midst of one.
        fn entry(&self, bytes: &[u8]) {
            self.say(RecordKind::Range { start: self.position.get(), whole: bytes.len(), bytes });
            self.position.set(self.position.get() + bytes.len() as u64);
        }
    }

    fn peek(bytes: &[u8], position: u64) -> Option<(u64, usize)> {
        bytes.starts_with(b"e").then_some((position * 10, 3))
    }

    #[test]
    fn a_window_of_time_begins_with_what_was_logged_then() {
        let log = MemoryLog::new(1);
        let connection = log.connect();
        let filler = Filler { log: &connection, position: Cell::new(0) };
        let mut firsts = Vec::new();
        for number in 0..40_u64 {
            (0..number % 7).for_each(|_| filler.say(RecordKind::Heartbeat));
            firsts.push((filler.position.get() * 10, connection.bounds().unwrap().end));
            filler.entry(b"e12");
            if number % 5 == 0 {
                filler.put(b"somebody else's".as_slice().into());
                (0..3).for_each(|_| filler.entry(b"more"));
            }
        }
        let all = Offset(0)..connection.bounds().unwrap().end;
        for (number, (logged, at)) in firsts.iter().enumerate() {
            for since in [logged - logged.min(&1), *logged] {
                let begins = window_begins(&connection, all.clone(), Window::Since(since), &peek).unwrap();
                let before = number.checked_sub(1).map_or(Offset(0), |before| firsts[before].1.following());
                assert_eq!((begins.behind, begins.first), (before, *at), "{since}");
            }
        }
        let begins = window_begins(&connection, all.clone(), Window::Since(u64::MAX), &peek).unwrap();
        assert_eq!((begins.behind, begins.first), (firsts.last().unwrap().1.following(), all.end));
    }

    #[test]
    fn a_window_of_bytes_begins_with_what_has_them() {
        let log = MemoryLog::new(1);
        let connection = log.connect();
        let filler = Filler { log: &connection, position: Cell::new(0) };
        (0..100).for_each(|_| filler.entry(b"e12"));
        filler.say(RecordKind::Heartbeat);
        filler.put(b"somebody else's".as_slice().into());
        let all = Offset(0)..connection.bounds().unwrap().end;
        for (bytes, begins) in [(0, 101), (1, 99), (3, 99), (4, 98), (300, 0), (u64::MAX, 0)] {
            let found = window_begins(&connection, all.clone(), Window::Bytes(bytes), &peek).unwrap();
            assert_eq!((found.behind, found.first), (Offset(begins), Offset(begins)), "{bytes}");
        }
        let empty = all.end..all.end;
        assert_eq!(window_begins(&connection, empty, Window::Bytes(1), &peek).unwrap().first, all.end);
    }

    #[test]
    fn what_is_idle_for_long_is_not_read_through() {
        let log = MemoryLog::new(1);
        let connection = log.connect();
        let filler = Filler { log: &connection, position: Cell::new(0) };
        filler.entry(b"e12");
        (0..20_000).for_each(|_| filler.say(RecordKind::Heartbeat));
        filler.entry(b"e12");
        (0..20_000).for_each(|_| filler.say(RecordKind::Heartbeat));
        filler.entry(b"e12");
        let reads = Cell::new(0);
        let read = |from| {
            reads.set(reads.get() + 1);
            connection.read(Offset(from), 1, ARRIVES_WITHIN)
        };
        let search = Search { read: &read, end: connection.bounds().unwrap().end.0, peek: &peek };
        let begins = search.window_begins(0, Window::Since(30)).unwrap();
        assert_eq!((begins.behind, begins.first), (Offset(1), Offset(20_001)));
        let reads = reads.get();
        assert!(reads < 600, "{reads}");
    }
}
