//! How far a backup or a restore is, and how fast it may go.
//!
//! Made by `commands` or the command line, told by `making` and `restore`, shown by `currentOp` and progress lines.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use platform::Clock;

/// What is being done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// A checkpoint is made.
    Checkpoint,
    /// Pages are copied or written.
    Pages,
    /// Rings are.
    Rings,
    /// The oplog is.
    Oplog,
    /// The last bytes are written.
    Finishing,
}

impl Phase {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Phase::Checkpoint => "making a checkpoint",
            Phase::Pages => "pages",
            Phase::Rings => "rings",
            Phase::Oplog => "oplog",
            Phase::Finishing => "finishing",
        }
    }
}

/// See the module's head.
pub struct Progress {
    phase: Mutex<Phase>,
    done: AtomicU64,
    total: AtomicU64,
}

impl Default for Progress {
    fn default() -> Self {
        Self { phase: Mutex::new(Phase::Checkpoint), done: AtomicU64::new(0), total: AtomicU64::new(0) }
    }
}

impl Progress {
    pub(crate) fn begin(&self, phase: Phase) {
        *self.phase.lock() = phase;
    }

    pub(crate) fn expect(&self, bytes: u64) {
        self.total.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(crate) fn done(&self, bytes: u64) {
        self.done.fetch_add(bytes, Ordering::Relaxed);
    }

    /// What is being done, how many bytes are, and of about how many.
    pub fn look(&self) -> (Phase, u64, u64) {
        let done = self.done.load(Ordering::Relaxed);
        (*self.phase.lock(), done, self.total.load(Ordering::Relaxed).max(done))
    }
}

/// Holds a copy to so many bytes a second.
pub(crate) struct Pace {
    bytes_per_second: Option<u64>,
    began: Duration,
    bytes: u64,
}

/// Longest sleep between two looks at whether to end.
const LOOK: Duration = Duration::from_millis(100);

impl Pace {
    pub(crate) fn new(bytes_per_second: Option<u64>, clock: &dyn Clock) -> Pace {
        Pace { bytes_per_second: bytes_per_second.map(|rate| rate.max(1)), began: clock.monotonic(), bytes: 0 }
    }

    /// So many bytes were copied: sleeps while that was too fast.
    pub(crate) fn copied(&mut self, bytes: u64, clock: &dyn Clock, is_stopped: &dyn Fn() -> bool) {
        let Some(rate) = self.bytes_per_second else { return };
        self.bytes += bytes;
        let until = self.began + Duration::from_secs_f64(self.bytes as f64 / rate as f64);
        while !is_stopped() && clock.monotonic() < until {
            clock.sleep(LOOK.min(until.saturating_sub(clock.monotonic())));
        }
    }
}
