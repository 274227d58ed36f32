//! What the process has allocated against what the memory budget accounts for (`--check-memory`).
//!
//! The server's allocator tells of every allocation; this file keeps the sum over all threads, of live bytes: what an
//! allocator keeps free in its heaps is not in it. Once the sum exceeds what is accounted for by more than a bound,
//! somebody holds memory that the budget does not know.
//!
//! ```text
//!   accounted = reserved - page frames (mapped, not allocated) - what reservations of the start have not filled yet
//!   unaccounted = allocated - accounted        beyond the bound: a line in the log, and in serverStatus
//! ```
//!
//! Called by `command_memory` at each allocation, by the server (begin, look) and by `serverStatus`. Without the flag it costs an allocation one look
//! at a figure that never changes. Nothing here allocates while an allocation is noted.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use crate::{MemoryBudget, MemoryUse};

/// A thread tells the others in such steps.
const STEP_BYTES: i64 = 16 << 10;
/// The bound, in percent of the budget: what commands hold before they are counted, spare room of buffers that grow, tasks.
const BOUND_PERCENT: u64 = 15;

static IS_COUNTING: AtomicBool = AtomicBool::new(false);
static LIVE: AtomicI64 = AtomicI64::new(0);
static WATCHED: OnceLock<Watched> = OnceLock::new();

thread_local! {
    /// Bytes that this thread has not told yet.
    static PENDING: Cell<i64> = const { Cell::new(0) };
}

struct Watched {
    budget: Arc<MemoryBudget>,
    /// Of what is reserved, what is not allocated, beside page frames: as of the last look.
    not_allocated: AtomicI64,
    /// The most that was unaccounted for.
    most: AtomicI64,
    /// What was at the last look.
    last: AtomicI64,
    times_beyond: AtomicU64,
}

/// Figures of the check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemoryCheckFigures {
    /// Live bytes of all threads.
    pub allocated: i64,
    /// What the budget knows of them.
    pub accounted: i64,
    /// The most that was allocated and not accounted for, since the start.
    pub unaccounted_max: i64,
    /// What that may be.
    pub bound: i64,
    /// How many looks found more, as the one before had.
    pub times_beyond: u64,
}

/// Counts from now on. To be called before other threads are there.
pub fn begin_counting() {
    IS_COUNTING.store(true, Ordering::Relaxed);
}

/// Compares with a budget from now on. Once a process; another budget is left out.
pub fn watch(budget: Arc<MemoryBudget>) {
    let (not_allocated, times_beyond) = (AtomicI64::new(0), AtomicU64::new(0));
    let (most, last) = (AtomicI64::new(i64::MIN), AtomicI64::new(i64::MIN));
    let _ = WATCHED.set(Watched { budget, not_allocated, most, last, times_beyond });
}

/// Looks; `not_allocated` is what of the reservations is not, beside page frames. `Some`: so much is unaccounted for, more than the bound now and at the
/// last look. What is counted a moment later is no fault.
pub fn look(not_allocated: i64) -> Option<i64> {
    let watched = WATCHED.get()?;
    watched.not_allocated.store(not_allocated, Ordering::Relaxed);
    let unaccounted = watched.note(LIVE.load(Ordering::Relaxed));
    let lasting = unaccounted.min(watched.last.swap(unaccounted, Ordering::Relaxed));
    let is_beyond = lasting > watched.bound();
    if is_beyond {
        watched.times_beyond.fetch_add(1, Ordering::Relaxed);
    }
    is_beyond.then_some(lasting)
}

/// The figures now; `None` without the flag.
pub fn figures() -> Option<MemoryCheckFigures> {
    let watched = WATCHED.get()?;
    Some(MemoryCheckFigures {
        allocated: LIVE.load(Ordering::Relaxed),
        accounted: watched.accounted(),
        unaccounted_max: watched.most.load(Ordering::Relaxed),
        bound: watched.bound(),
        times_beyond: watched.times_beyond.load(Ordering::Relaxed),
    })
}

/// This thread is about to end: what it has not told is told.
pub fn thread_ends() {
    tell(PENDING.replace(0));
}

/// This thread has allocated so many bytes, or freed them.
#[inline]
pub(crate) fn note(bytes: i64) {
    if IS_COUNTING.load(Ordering::Relaxed) {
        add(bytes);
    }
}

#[inline(never)]
fn add(bytes: i64) {
    let pending = PENDING.get().wrapping_add(bytes);
    if pending.abs() < STEP_BYTES {
        PENDING.set(pending);
    } else {
        PENDING.set(0);
        tell(pending);
    }
}

fn tell(pending: i64) {
    let live = LIVE.fetch_add(pending, Ordering::Relaxed).wrapping_add(pending);
    if let Some(watched) = WATCHED.get().filter(|_| pending > 0) {
        watched.note(live);
    }
}

impl Watched {
    fn accounted(&self) -> i64 {
        let frames = self.budget.used_for(MemoryUse::Frames);
        self.budget.used() as i64 - frames as i64 - self.not_allocated.load(Ordering::Relaxed)
    }

    fn bound(&self) -> i64 {
        (self.budget.limit() / 100 * BOUND_PERCENT) as i64
    }

    fn note(&self, live: i64) -> i64 {
        let unaccounted = live - self.accounted();
        // Read first: mostly it is not the most, and nothing is written that others read.
        if unaccounted > self.most.load(Ordering::Relaxed) {
            self.most.fetch_max(unaccounted, Ordering::Relaxed);
        }
        unaccounted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One test: there is one sum for the process.
    #[test]
    fn what_is_allocated_and_not_reserved_is_told() {
        let budget = MemoryBudget::new(10 << 20);
        note(5 << 20);
        begin_counting();
        watch(budget.clone());
        let frames = budget.reserve_fixed(MemoryUse::Frames, 4 << 20);
        let log = budget.reserve_fixed(MemoryUse::Log, 3 << 20);
        note(100);
        note(3 << 20);
        assert_eq!(look(0), None, "counted before it began, or not counted though it is reserved");
        note(3 << 20);
        assert_eq!(look(0), None, "it may be counted in a moment");
        assert_eq!(look(0), Some((3 << 20) + 100));
        note(-(3 << 20));
        assert_eq!(look(0), None);
        assert_eq!(look(3 << 20), None);
        assert_eq!(look(3 << 20), Some((3 << 20) + 100), "what is reserved and not filled accounts for nothing");
        thread_ends();
        let found = figures().unwrap();
        assert_eq!((found.allocated, found.accounted), ((3 << 20) + 100, 0));
        assert_eq!((found.unaccounted_max, found.times_beyond), ((3 << 20) + 100, 2));
        drop((frames, log));
    }
}
