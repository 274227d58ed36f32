//! The `Oplog` trait and the values that pass through it.
//!
//! Spoken to by `transaction`, `collection` and `server`; implemented by `LocalOplog`.
//!
//! Order: an entry's position, its timestamp and the order of `on_assigned` calls agree. What survives a crash is
//! always a prefix of what was appended, and never less than what `wait_durable` has returned for.

use std::fmt;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use platform::Timestamp;

use crate::Result;

/// A place in the log: a byte offset over all its segments, growing for ever.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct OplogPosition(pub u64);

impl fmt::Display for OplogPosition {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

/// Where an entry went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Appended {
    /// The commit timestamp that was assigned to it.
    pub timestamp: Timestamp,
    /// Its start: where to read it.
    pub position: OplogPosition,
    /// The position after it: what to wait for.
    pub end: OplogPosition,
}

/// An entry as a reader yields it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OplogEntry<'a> {
    /// Where it starts.
    pub position: OplogPosition,
    /// Where the next one starts.
    pub end: OplogPosition,
    /// Its commit timestamp; grows strictly from entry to entry.
    pub timestamp: Timestamp,
    /// What `build` appended.
    pub payload: &'a [u8],
}

/// What a flush did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flushed {
    /// Bytes of entries that became durable in this step.
    pub bytes: u64,
    /// Everything before this is durable.
    pub durable: OplogPosition,
}

/// Counters and gauges, since the log was opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct OplogStatistics {
    /// Entries appended.
    pub appended_entries: u64,
    /// Bytes appended, with their framing.
    pub appended_bytes: u64,
    /// Flushes that wrote something: `appended_entries / flushes` is the size of the average group commit.
    pub flushes: u64,
    /// Time spent in flushes.
    pub flush_time: Duration,
    /// The longest flush.
    pub flush_time_max: Duration,
    /// Appends that had to wait because the buffer was full or the next segment was not ready.
    pub append_waits: u64,
    /// Bytes of entries that are in memory and not durable yet.
    pub buffered_bytes: u64,
    /// Segment files in use.
    pub segments: u64,
    /// The oldest position.
    pub first_position: OplogPosition,
    /// The end of what is durable.
    pub durable_position: OplogPosition,
    /// The end of what was appended.
    pub end_position: OplogPosition,
    /// Whether appends are refused for lack of space right now.
    pub disk_full: bool,
}

/// The one ordered log.
pub trait Oplog: Send + Sync {
    /// Appends an entry, under the log's short lock: assigns the next timestamp, calls `build` to append the payload
    /// to the vector (behind what is there, which it must not touch), then `on_assigned`. Both must be quick and must
    /// not call the log. Timestamps follow the wall clock's seconds and never go backwards.
    ///
    /// `build` may be called again with a later timestamp when the entry did not fit and the log had to wait; only the last
    /// call counts, and `on_assigned` is called exactly once when the append succeeds, not at all otherwise.
    ///
    /// Returns before the entry is durable. Waits when more is buffered than the log's bound.
    ///
    /// # Errors
    /// `Poisoned`, `DiskFull`, `SegmentUnavailable`, `EntryTooLarge`; nothing was appended then.
    fn append(
        &self,
        build: &mut dyn FnMut(Timestamp, &mut Vec<u8>),
        on_assigned: &mut dyn FnMut(Timestamp, OplogPosition),
    ) -> Result<Appended>;

    /// Waits until everything before `end` is durable.
    ///
    /// # Errors
    /// `Poisoned`: whether it is durable is unknown. `DiskFull`: it is not yet, but is kept and will be once space
    /// returns. `InvalidPosition`: `end` is after the end of the log.
    fn wait_durable(&self, end: OplogPosition) -> Result<()>;

    /// The same, but not longer than that; `false`: it is not durable yet, and will be.
    ///
    /// # Errors
    /// As `wait_durable`.
    fn wait_durable_within(&self, end: OplogPosition, longest: Duration) -> Result<bool>;

    /// Everything before this is durable.
    fn durable_position(&self) -> OplogPosition;

    /// The oldest position that can be read.
    fn first_position(&self) -> OplogPosition;

    /// The position after the last entry.
    fn end_position(&self) -> OplogPosition;

    /// The timestamp of the last entry ever appended; 0 before the first.
    fn last_timestamp(&self) -> Timestamp;

    /// Reads entries from `position`, which must be the start of an entry, or the end of the log.
    ///
    /// # Errors
    /// `PositionTruncated`, `InvalidPosition` (when after the end; otherwise the reader's first step reports it).
    fn read_from(&self, position: OplogPosition) -> Result<Box<dyn OplogReader>>;

    /// Gives up entries before `position` as far as whole segments allow; returns the new first position. For the
    /// background thread that has seen a checkpoint published.
    ///
    /// # Errors
    /// `Io` when a file could not be removed.
    fn truncate_before(&self, position: OplogPosition) -> Result<OplogPosition>;

    /// Background work: makes everything appended so far durable, and the next segment ready.
    ///
    /// # Errors
    /// `Poisoned`, `DiskFull` (call again later).
    fn flush_step(&self) -> Result<Flushed>;

    /// The loop of the flusher thread: flushes when somebody waits, and otherwise at the flush interval, until `stop`
    /// is set; flushes once more then.
    fn run_flusher(&self, stop: &AtomicBool);

    /// Ends the flusher's wait, for whoever has told it to stop.
    fn wake_flusher(&self);

    /// Background work, for a thread that calls it at the flush interval: while a flush waits for a slow disk, hands what
    /// was appended since to the operating system, so that a kill of the process does not lose it. True if there was any.
    ///
    /// # Errors
    /// `Poisoned`, `DiskFull`.
    fn write_ahead_step(&self) -> Result<bool>;

    /// Background work: gives some of the space of entries that were given up back to the file system; `false` when none is left. Where nobody ever calls this,
    /// `truncate_before` does it.
    fn give_space_back(&self, how: SpaceReturn) -> bool;

    /// Fails once the log is closed for writing. Cheap.
    ///
    /// # Errors
    /// `Poisoned`.
    fn check_writable(&self) -> Result<()>;

    /// Counters and gauges.
    fn statistics(&self) -> OplogStatistics;
}

/// How fast space goes back to the file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpaceReturn {
    /// So little at a time that nobody else who uses the disk notices.
    Gradual,
    /// All of it: somebody needs it.
    AtOnce,
}

/// Reads entries in order, up to the end of what was appended.
pub trait OplogReader: Send {
    /// The next entry; `None` at the end of the log. May be called again after `None`: entries may have come since.
    ///
    /// # Errors
    /// `Corrupt`, `PositionTruncated`, `InvalidPosition`, `Io`.
    fn next_entry(&mut self) -> Result<Option<OplogEntry<'_>>>;

    /// Where the next entry starts.
    fn position(&self) -> OplogPosition;
}
