//! The log as a directory of segment files on one machine.
//!
//! Appends go to a buffer under one short lock; the flusher writes and syncs what has gathered, for all who wait at once
//! (group commit). Client threads do no file operations: they wait.
//!
//! ```text
//!   append ──▶ tail (buffer) ──▶ flush ──▶ segment files ──▶ reader
//!                 │                                            ▲
//!                 └────────────── not yet durable ─────────────┘
//! ```
//!
//! Life of the log: open → (disk full ⇄ open) → poisoned, see `tail::Standing`.
//!
//! Lock order: `truncation`, `flushing`, `writer`, then one of `tail`, `durability`, `segments`, `flush_counts`, `removed`; the flush
//! signal may be rung under any of them. None is held during a file operation but `writer`, `flushing` and `truncation`.

mod cached;
mod canonical;
mod copying;
mod cutting;
mod flush;
mod offline;
mod reader;
mod recovery;
mod removed_segments;
mod retention;
mod salvage;
mod scan;
mod segment;
mod segment_store;
mod set_aside;
mod signal;
mod stored_retention;
mod tail;
#[cfg(test)]
mod tests;
mod window;

pub use self::canonical::{CanonicalReader, ReceivedEntry, peek_canonical};
pub use self::copying::{OplogPiece, RestoredOplog, check_piece};
pub use self::cutting::cut_from;
pub use self::offline::read_offline;
pub use self::retention::SegmentFacts;
pub use self::stored_retention::StoredRetention;

use std::collections::BTreeSet;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use platform::{Clock, Disk, OpenMode, Timestamp};

use self::cached::LetGo;
use self::flush::{Flushing, Writer};
use self::reader::LocalReader;
use self::recovery::recover;
use self::removed_segments::RemovedSegments;
pub use self::salvage::{SalvagedOplog, salvage_entries, salvage_entry};
use self::segment_store::SegmentStore;
pub use self::set_aside::{Checkpointed, SetAside};
use self::signal::FlushSignal;
use self::tail::{Attempt, Standing, Tail};
use crate::{Appended, Flushed, Oplog, OplogError, OplogPosition, OplogReader, OplogStatistics, Result, SpaceReturn};

/// How a `LocalOplog` is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OplogOptions {
    /// Where the segment files are, relative to the disk's root.
    pub directory: PathBuf,
    /// Bytes of entries in a segment; a larger entry gets a segment of its own size.
    pub segment_bytes: u64,
    /// Bytes in memory that are not durable, above which appends wait.
    pub buffer_bytes_max: usize,
    /// How long an entry that nobody waits for may stay in memory.
    pub flush_interval: Duration,
}

impl Default for OplogOptions {
    fn default() -> OplogOptions {
        OplogOptions {
            directory: PathBuf::from("oplog"),
            segment_bytes: 64 << 20,
            buffer_bytes_max: 16 << 20,
            flush_interval: Duration::from_millis(50),
        }
    }
}

/// The log of one machine. Clones are handles on the same log.
#[derive(Clone)]
pub struct LocalOplog {
    shared: Arc<Shared>,
}

struct Shared {
    store: SegmentStore,
    clock: Arc<dyn Clock>,
    flush_interval: Duration,
    tail: Mutex<Tail>,
    /// With `tail`: room in the buffer, a segment ready or refused, a batch readable, the standing changed.
    tail_changed: Condvar,
    /// With `tail`: something was appended, for whoever has said that he follows.
    appended: Condvar,
    flushing: Mutex<Flushing>,
    writer: Mutex<Writer>,
    /// Everything before this is durable. Also in `durability`, for those who wait.
    durable: AtomicU64,
    durability: Mutex<Durability>,
    /// Whether the standing is `Poisoned`.
    closed: AtomicBool,
    durability_changed: Condvar,
    signal: FlushSignal,
    /// Flusher threads that run.
    flushers: AtomicUsize,
    /// Start positions of the segments that hold durable entries.
    segments: Mutex<BTreeSet<u64>>,
    /// Segments are removed by one thread at a time, oldest first.
    truncation: Mutex<()>,
    flush_counts: Mutex<FlushCounts>,
    removed: RemovedSegments,
    set_aside: Option<SetAside>,
    passed_over: Mutex<Vec<u64>>,
}

/// What those who wait for durability look at.
struct Durability {
    durable: u64,
    disk_full: bool,
    /// Flushes that found the disk full.
    full_attempts: u64,
    poisoned: Option<Arc<io::Error>>,
}

#[derive(Default)]
struct FlushCounts {
    flushes: u64,
    time: Duration,
    time_max: Duration,
}

impl LocalOplog {
    /// Opens the log in its directory, which is created if missing. What a torn write left at the end is cut off.
    ///
    /// What was durable at the end of an earlier life is at least up to the last entry that a later flush followed; if the
    /// caller knows of a later durable position (a checkpoint's), it must compare it with `end_position`.
    ///
    /// # Errors
    /// `Corrupt`, `UnsupportedVersion`, `DiskFull` (no room for the first segment), `Io`.
    pub fn open(disk: Arc<dyn Disk>, clock: Arc<dyn Clock>, options: OplogOptions) -> Result<LocalOplog> {
        LocalOplog::open_behind(disk, clock, options, None)
    }

    /// As `open`, with what a checkpoint says of the log: what it has to have, and what nobody needs should it be damaged (`set_aside`).
    ///
    /// # Errors
    /// As `open`; `Corrupt` leaves everything as it was.
    pub fn open_behind(
        disk: Arc<dyn Disk>,
        clock: Arc<dyn Clock>,
        options: OplogOptions,
        checkpointed: Option<Checkpointed>,
    ) -> Result<LocalOplog> {
        let store = SegmentStore::new(disk, Arc::clone(&clock), options.directory);
        let recovered = recover(&store, options.segment_bytes, checkpointed)?;
        let end = recovered.end;
        let tail = Tail::new(
            end,
            recovered.segment_end,
            recovered.last_timestamp,
            options.segment_bytes,
            options.buffer_bytes_max,
        );
        let shared = Shared {
            store,
            clock,
            flush_interval: options.flush_interval,
            tail: Mutex::new(tail),
            tail_changed: Condvar::new(),
            appended: Condvar::new(),
            flushing: Mutex::new(Flushing { spare: None, let_go: LetGo::opened_at(end) }),
            writer: Mutex::new(Writer { current: recovered.current, written: end, retained: None }),
            durable: AtomicU64::new(end),
            durability: Mutex::new(Durability { durable: end, disk_full: false, full_attempts: 0, poisoned: None }),
            closed: AtomicBool::new(false),
            durability_changed: Condvar::new(),
            signal: FlushSignal::default(),
            flushers: AtomicUsize::new(0),
            segments: Mutex::new(recovered.starts),
            truncation: Mutex::new(()),
            flush_counts: Mutex::new(FlushCounts::default()),
            removed: RemovedSegments::default(),
            set_aside: recovered.set_aside,
            passed_over: Mutex::new(recovered.passed_over),
        };
        shared.prepare_spare(&mut shared.flushing.lock());
        Ok(LocalOplog { shared: Arc::new(shared) })
    }

    /// What was damaged and put aside when the log was opened.
    pub fn set_aside(&self) -> Option<&SetAside> {
        self.shared.set_aside.as_ref()
    }

    /// Gives segments that were passed over when the log was opened another name, under which they are none: the caller has recovered without them.
    ///
    /// # Errors
    /// `Io`: the next start passes over them again.
    pub fn put_passed_over_aside(&self) -> Result<()> {
        let passed_over = std::mem::take(&mut *self.shared.passed_over.lock());
        if passed_over.is_empty() {
            return Ok(());
        }
        let rename = || {
            // The newest first: what is left in between is a log with a gap, which is passed over, too.
            passed_over.iter().rev().try_for_each(|start| self.shared.store.set_aside(*start).map(drop))?;
            self.shared.store.sync_directory()
        };
        rename().map_err(OplogError::io("put damaged segments aside"))
    }

    /// Closes the log for writing, as a failed write does: whoever keeps it has learnt that what is written would be lost.
    pub fn close_for_writing(&self, cause: io::Error) {
        // Everybody who writes or waits gets this error.
        let _ = self.shared.poison(cause);
    }
}

impl Shared {
    fn first_position(&self) -> u64 {
        self.segments.lock().first().copied().unwrap_or_default()
    }

    /// Start of the segment that holds a durable position, and of the one after it.
    fn segment_around(&self, position: u64) -> Result<(u64, Option<u64>)> {
        let segments = self.segments.lock();
        let next = segments.range(position + 1..).next().copied();
        match segments.range(..=position).next_back() {
            Some(start) => Ok((*start, next)),
            None => Err(OplogError::PositionTruncated {
                position: OplogPosition(position),
                first: OplogPosition(segments.first().copied().unwrap_or_default()),
            }),
        }
    }

    /// `false`: it took longer than that.
    fn wait_durable(&self, end: u64, longest: Option<Duration>) -> Result<bool> {
        if self.durable.load(Ordering::Acquire) >= end {
            return Ok(true);
        }
        let deadline = longest.map(|longest| self.clock.monotonic() + longest);
        let log_end = self.tail.lock().end();
        if end > log_end {
            return Err(OplogError::InvalidPosition { position: OplogPosition(end), end: OplogPosition(log_end) });
        }
        let attempts_before = self.durability.lock().full_attempts;
        self.signal.request();
        loop {
            if self.flushers.load(Ordering::Acquire) == 0 {
                self.flush_step()?;
            }
            let mut durability = self.durability.lock();
            if durability.durable >= end {
                return Ok(true);
            }
            if let Some(cause) = &durability.poisoned {
                return Err(OplogError::Poisoned { cause: Arc::clone(cause) });
            }
            if durability.disk_full && durability.full_attempts > attempts_before {
                return Err(OplogError::DiskFull);
            }
            // Looked at under the lock that an ending flusher takes before it wakes us.
            if self.flushers.load(Ordering::Acquire) > 0 {
                match deadline.map(|deadline| deadline.saturating_sub(self.clock.monotonic())) {
                    None => self.durability_changed.wait(&mut durability),
                    Some(left) => {
                        let waited = self.durability_changed.wait_for(&mut durability, left);
                        if waited.timed_out() && durability.durable < end {
                            return Ok(false);
                        }
                    }
                }
            }
        }
    }

    /// Removes the oldest segment if all of it lies before `position`.
    fn remove_oldest(&self, position: u64) -> Result<bool> {
        let oldest = {
            let mut segments = self.segments.lock();
            match segments.iter().nth(1) {
                Some(second) if *second <= position => segments.pop_first(),
                _ => None,
            }
        };
        let Some(start) = oldest else { return Ok(false) };
        // To be held open. Without that its space goes with its name.
        let file = if self.removed.are_taken() { self.store.open(start, OpenMode::ReadWrite).ok() } else { None };
        if let Err(error) = self.store.remove(start) {
            self.segments.lock().insert(start);
            return Err(OplogError::io("remove a segment")(error));
        }
        // One by one, so that a power loss cannot bring an older one back without its successor.
        self.store.sync_directory().map_err(|error| self.poison(error))?;
        if let Some(file) = file {
            self.removed.push(file);
        }
        Ok(true)
    }
}

impl Oplog for LocalOplog {
    fn append(
        &self,
        build: &mut dyn FnMut(Timestamp, &mut Vec<u8>),
        on_assigned: &mut dyn FnMut(Timestamp, OplogPosition),
    ) -> Result<Appended> {
        loop {
            let wall_seconds = (self.shared.clock.wall_millis() / 1000).clamp(0, i64::from(u32::MAX)) as u32;
            let mut tail = self.shared.tail.lock();
            match tail.try_append(wall_seconds, build, on_assigned)? {
                Attempt::Done { appended, flush, ends_rest } => {
                    let is_followed = tail.is_followed;
                    drop(tail);
                    if is_followed {
                        self.shared.appended.notify_all();
                    }
                    if flush {
                        self.shared.signal.request();
                    } else if ends_rest {
                        self.shared.signal.note_append();
                    }
                    return Ok(appended);
                }
                Attempt::Wait => self.shared.wait_for_flusher(tail)?,
            }
        }
    }

    fn wait_durable(&self, end: OplogPosition) -> Result<()> {
        self.shared.wait_durable(end.0, None).map(drop)
    }

    fn wait_durable_within(&self, end: OplogPosition, longest: Duration) -> Result<bool> {
        self.shared.wait_durable(end.0, Some(longest))
    }

    fn durable_position(&self) -> OplogPosition {
        OplogPosition(self.shared.durable.load(Ordering::Acquire))
    }

    fn first_position(&self) -> OplogPosition {
        OplogPosition(self.shared.first_position())
    }

    fn end_position(&self) -> OplogPosition {
        OplogPosition(self.shared.tail.lock().end())
    }

    fn last_timestamp(&self) -> Timestamp {
        self.shared.tail.lock().last_timestamp
    }

    fn read_from(&self, position: OplogPosition) -> Result<Box<dyn OplogReader>> {
        let (first, end) = (self.first_position(), self.end_position());
        if position < first {
            return Err(OplogError::PositionTruncated { position, first });
        }
        if position > end {
            return Err(OplogError::InvalidPosition { position, end });
        }
        Ok(Box::new(LocalReader::new(Arc::clone(&self.shared), position.0)))
    }

    fn truncate_before(&self, position: OplogPosition) -> Result<OplogPosition> {
        let _alone = self.shared.truncation.lock();
        while self.shared.remove_oldest(position.0)? {}
        Ok(self.first_position())
    }

    fn flush_step(&self) -> Result<Flushed> {
        self.shared.flush_step()
    }

    fn run_flusher(&self, stop: &AtomicBool) {
        self.shared.run_flusher(stop);
    }

    fn wake_flusher(&self) {
        self.shared.signal.request();
    }

    fn write_ahead_step(&self) -> Result<bool> {
        self.shared.write_ahead_step()
    }

    fn give_space_back(&self, how: SpaceReturn) -> bool {
        self.shared.removed.give_back(how)
    }

    #[inline]
    fn check_writable(&self) -> Result<()> {
        if self.shared.closed.load(Ordering::Acquire) { self.shared.check_not_poisoned() } else { Ok(()) }
    }

    fn statistics(&self) -> OplogStatistics {
        let (first_position, durable_position) = (self.first_position(), self.durable_position());
        let segments = self.shared.segments.lock().len() as u64;
        let mut statistics = OplogStatistics { segments, first_position, durable_position, ..Default::default() };
        {
            let counts = self.shared.flush_counts.lock();
            statistics.flushes = counts.flushes;
            statistics.flush_time = counts.time;
            statistics.flush_time_max = counts.time_max;
        }
        let tail = self.shared.tail.lock();
        statistics.appended_entries = tail.appended_entries;
        statistics.appended_bytes = tail.appended_bytes;
        statistics.append_waits = tail.append_waits;
        statistics.buffered_bytes = tail.unwritten_bytes() as u64;
        statistics.end_position = OplogPosition(tail.end());
        statistics.disk_full = matches!(tail.standing, Standing::DiskFull)
            || matches!(&tail.spare, tail::Spare::Failed { cause, .. } if platform::is_disk_full(cause));
        statistics
    }
}
