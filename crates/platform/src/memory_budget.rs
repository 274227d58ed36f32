//! The one memory budget of the process (invariant I4): whoever allocates by the size of data reserves first.
//!
//! The server makes it from `--memory` and reserves what is fixed from the start (page frames, version history, log
//! buffers); sorts, groups, cursors, write sets and connections come and go. A reservation that does not fit is refused, and
//! its owner spills, waits or fails; nobody else's is ever taken. The budget counts bytes and knows nothing of what they hold.
//!
//! Relies on `command_memory`, which is told what each thread reserves. Reserving is one atomic addition to the sum and one to the figure of its use, so owners reserve in
//! steps (`MemoryReservation::cover`) and not for each document.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use crate::command_memory::note_reserved;

/// What memory is used for; each has a figure of its own in `serverStatus`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemoryUse {
    /// Page frames.
    Frames,
    /// The files of a disk in memory.
    Files,
    /// Older versions that are in memory.
    History,
    /// The oplog's buffers.
    Log,
    /// Documents of capped collections that are not in their files yet.
    Rings,
    /// Code, threads of the server's own, what is too small to count one by one.
    Fixed,
    /// Threads that serve connections, while they live.
    Threads,
    /// Received requests and replies.
    Connections,
    /// Results that wait for their next batch.
    Cursors,
    /// Blocking stages: `$sort`, `$group`, SORT.
    Operations,
    /// Changes of transactions that are not committed.
    WriteSets,
    /// Where pages are and what refers to them: grows with the data on disk.
    PageTables,
    /// Collections and indexes as the catalog has them in memory: grows with how many there are.
    Definitions,
    /// Logical sessions, and what each has to know of its writes.
    Sessions,
    /// What is remembered of queries: decisions of the planner, index filters, figures by namespace.
    Remembered,
}

impl MemoryUse {
    /// All uses, in the order in which they are shown.
    pub const ALL: [MemoryUse; 15] = [
        MemoryUse::Frames,
        MemoryUse::Files,
        MemoryUse::History,
        MemoryUse::Log,
        MemoryUse::Rings,
        MemoryUse::Fixed,
        MemoryUse::Threads,
        MemoryUse::Connections,
        MemoryUse::Cursors,
        MemoryUse::Operations,
        MemoryUse::WriteSets,
        MemoryUse::PageTables,
        MemoryUse::Definitions,
        MemoryUse::Sessions,
        MemoryUse::Remembered,
    ];

    /// Its name in statistics.
    pub fn name(self) -> &'static str {
        match self {
            MemoryUse::Frames => "frames",
            MemoryUse::Files => "files",
            MemoryUse::History => "history",
            MemoryUse::Log => "log",
            MemoryUse::Rings => "rings",
            MemoryUse::Fixed => "fixed",
            MemoryUse::Threads => "threads",
            MemoryUse::Connections => "connections",
            MemoryUse::Cursors => "cursors",
            MemoryUse::Operations => "operations",
            MemoryUse::WriteSets => "writeSets",
            MemoryUse::PageTables => "pageTables",
            MemoryUse::Definitions => "definitions",
            MemoryUse::Sessions => "sessions",
            MemoryUse::Remembered => "remembered",
        }
    }
}

/// The budget. Shared as an `Arc`.
#[derive(Debug)]
pub struct MemoryBudget {
    limit: u64,
    used: AtomicU64,
    refused: AtomicU64,
    waiting: AtomicU32,
    /// Who have waited and given up, since the start.
    given_up: AtomicU64,
    by_use: [AtomicU64; MemoryUse::ALL.len()],
}

/// Most of those who wait until others give something back. They hold what they have meanwhile, and places that others could use. Who wants little may
/// wait beside twice as many.
const WAITING_MAX: u32 = 8;
/// What is not large: the last part of the budget is for such wishes.
const LITTLE_BYTES: u64 = 4 << 20;
/// Which part that is.
const LITTLE_SHARE: u64 = 32;
/// The part that is left by what lasts.
const LASTING_SHARE: u64 = 8;

/// Somebody who waits for memory.
pub struct WaitingForMemory<'b> {
    budget: &'b MemoryBudget,
    is_counted: bool,
    given_up_before: u64,
}

impl WaitingForMemory<'_> {
    /// Ends the waiting unless the others have all given up meanwhile: then what they held is about to be free, and this one is to wait for it. All who wait hold
    /// something that the others want, and if they gave up together, nobody would have got anywhere.
    pub fn gives_up(&mut self) -> bool {
        let waiting = &self.budget.waiting;
        let leaves_others =
            waiting.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |count| (count > 1).then(|| count - 1)).is_ok();
        if leaves_others {
            self.is_counted = false;
            self.budget.given_up.fetch_add(1, Ordering::Relaxed);
            return true;
        }
        let given_up = self.budget.given_up.load(Ordering::Relaxed);
        std::mem::replace(&mut self.given_up_before, given_up) == given_up
    }
}

impl Drop for WaitingForMemory<'_> {
    fn drop(&mut self) {
        if self.is_counted {
            self.budget.waiting.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

/// A reservation was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OverBudget {
    /// Bytes that were asked for in addition.
    pub wanted: u64,
    /// Bytes that were free.
    pub free: u64,
}

impl fmt::Display for OverBudget {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} bytes do not fit into the memory budget, of which {} are free", self.wanted, self.free)
    }
}

impl std::error::Error for OverBudget {}

impl MemoryBudget {
    /// A budget of `limit` bytes.
    pub fn new(limit: u64) -> Arc<MemoryBudget> {
        Arc::new(MemoryBudget {
            limit,
            used: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            waiting: AtomicU32::new(0),
            given_up: AtomicU64::new(0),
            by_use: Default::default(),
        })
    }

    /// A budget that refuses nothing, for tests and tools.
    pub fn unlimited() -> Arc<MemoryBudget> {
        MemoryBudget::new(u64::MAX)
    }

    /// Bytes in all.
    pub fn limit(&self) -> u64 {
        self.limit
    }

    /// Bytes reserved now.
    pub fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }

    /// Bytes that can still be reserved.
    pub fn free(&self) -> u64 {
        self.limit.saturating_sub(self.used())
    }

    /// Bytes reserved now for one use.
    pub fn used_for(&self, purpose: MemoryUse) -> u64 {
        self.counter(purpose).load(Ordering::Relaxed)
    }

    /// Reservations that were refused since the start.
    pub fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }

    /// Says that somebody waits for `wanted` bytes. For whom that is no way out is told so.
    ///
    /// # Errors
    /// There are enough of them.
    pub fn begin_waiting(&self, wanted: u64) -> Result<WaitingForMemory<'_>, OverBudget> {
        let given_up_before = self.given_up.load(Ordering::Relaxed);
        let waiting = WaitingForMemory { budget: self, is_counted: true, given_up_before };
        let most = if wanted <= LITTLE_BYTES { 2 * WAITING_MAX } else { WAITING_MAX };
        if self.waiting.fetch_add(1, Ordering::Relaxed) >= most {
            return Err(OverBudget { wanted, free: self.free() });
        }
        Ok(waiting)
    }

    /// Whether somebody waits for memory.
    pub fn is_waited_for(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) > 0
    }

    /// Whether so many bytes could be reserved that leave much (`resize_leaving_much`).
    pub fn fits_leaving_much(&self, bytes: u64) -> bool {
        bytes <= self.free().saturating_sub(self.limit / LASTING_SHARE)
    }

    /// Whether so many bytes more that last may be taken for a use: it has a little in any case, and beyond that leaves much to what comes and goes.
    ///
    /// # Errors
    /// `OverBudget`: they may not.
    pub fn check_lasting(&self, purpose: MemoryUse, bytes: u64) -> Result<(), OverBudget> {
        let always = self.used_for(purpose).saturating_add(bytes) <= self.limit / LITTLE_SHARE;
        let free = self.free().saturating_sub(self.limit / LASTING_SHARE);
        if always || bytes <= free { Ok(()) } else { Err(OverBudget { wanted: bytes, free }) }
    }

    /// An empty reservation, to grow.
    pub fn reservation(self: &Arc<Self>, purpose: MemoryUse) -> MemoryReservation {
        MemoryReservation { budget: self.clone(), purpose, bytes: 0 }
    }

    /// Reserves what is needed whatever the limit: what is fixed from the start.
    pub fn reserve_fixed(self: &Arc<Self>, purpose: MemoryUse, bytes: u64) -> MemoryReservation {
        let mut reservation = self.reservation(purpose);
        reservation.grow_unchecked(bytes);
        reservation
    }

    fn counter(&self, purpose: MemoryUse) -> &AtomicU64 {
        // The enum's values are the positions in ALL.
        &self.by_use[purpose as usize]
    }
}

/// A part of the budget; given back when dropped.
#[derive(Debug)]
pub struct MemoryReservation {
    budget: Arc<MemoryBudget>,
    purpose: MemoryUse,
    bytes: u64,
}

/// Reservations grow by at least so many bytes, and by at least half, up to so many: growing by documents costs an atomic operation now and then, and
/// thousands of small ones take little.
const STEP_BYTES_MIN: u64 = 1 << 10;
const STEP_BYTES_MAX: u64 = 64 << 10;

impl MemoryReservation {
    /// Bytes reserved.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// What it is used for.
    pub fn purpose(&self) -> MemoryUse {
        self.purpose
    }

    /// The budget it is a part of.
    pub fn budget(&self) -> &Arc<MemoryBudget> {
        &self.budget
    }

    /// Makes sure that at least `bytes` are reserved; a little more may be.
    ///
    /// # Errors
    /// `OverBudget`: nothing has changed.
    pub fn cover(&mut self, bytes: u64) -> Result<(), OverBudget> {
        if bytes <= self.bytes {
            return Ok(());
        }
        let step = (bytes.checked_next_power_of_two().unwrap_or(u64::MAX) / 2).clamp(STEP_BYTES_MIN, STEP_BYTES_MAX);
        let rounded = bytes.div_ceil(step).saturating_mul(step);
        self.grow(rounded - self.bytes, 0).or_else(|_| self.grow(bytes - self.bytes, 0))
    }

    /// As `resize` for what a client makes as large as it likes: if that is large, it leaves the last of the budget to what is not.
    ///
    /// # Errors
    /// `OverBudget`: nothing has changed.
    pub fn resize_leaving_some(&mut self, bytes: u64) -> Result<(), OverBudget> {
        let Some(additional) = bytes.checked_sub(self.bytes) else { return self.resize(bytes) };
        let left = if bytes > LITTLE_BYTES { self.budget.limit / LITTLE_SHARE } else { 0 };
        self.grow(additional, left)
    }

    /// As `resize` for what clients can hold for long and make as many of as they like: it leaves a part of the budget to what comes and goes.
    ///
    /// # Errors
    /// `OverBudget`: nothing has changed.
    pub fn resize_leaving_much(&mut self, bytes: u64) -> Result<(), OverBudget> {
        let Some(additional) = bytes.checked_sub(self.bytes) else { return self.resize(bytes) };
        self.grow(additional, self.budget.limit / LASTING_SHARE)
    }

    /// Reserves so many bytes more, if so many are left then.
    fn grow(&mut self, additional: u64, left: u64) -> Result<(), OverBudget> {
        let budget = &self.budget;
        let before = budget.used.fetch_add(additional, Ordering::Relaxed);
        if before.saturating_add(additional).saturating_add(left) > budget.limit {
            budget.used.fetch_sub(additional, Ordering::Relaxed);
            budget.refused.fetch_add(1, Ordering::Relaxed);
            return Err(OverBudget {
                wanted: additional,
                free: budget.limit.saturating_sub(before.saturating_add(left)),
            });
        }
        budget.counter(self.purpose).fetch_add(additional, Ordering::Relaxed);
        note_reserved(additional as i64);
        self.bytes += additional;
        Ok(())
    }

    /// Reserves so many bytes more even when the limit is exceeded: the little that work cannot go on without.
    pub fn grow_unchecked(&mut self, additional: u64) {
        self.budget.used.fetch_add(additional, Ordering::Relaxed);
        self.budget.counter(self.purpose).fetch_add(additional, Ordering::Relaxed);
        note_reserved(additional as i64);
        self.bytes += additional;
    }

    /// Reserves `bytes`, no less and no more.
    ///
    /// # Errors
    /// `OverBudget`: nothing has changed.
    pub fn resize(&mut self, bytes: u64) -> Result<(), OverBudget> {
        if let Some(additional) = bytes.checked_sub(self.bytes) {
            return self.grow(additional, 0);
        }
        self.shrink(bytes);
        Ok(())
    }

    /// Counts `bytes`, no less and no more, which are there already, even when the limit is exceeded.
    pub fn resize_unchecked(&mut self, bytes: u64) {
        match bytes.checked_sub(self.bytes) {
            Some(0) => {}
            Some(additional) => self.grow_unchecked(additional),
            None => self.shrink(bytes),
        }
    }

    /// Gives back what is beyond `bytes`.
    pub fn shrink(&mut self, bytes: u64) {
        let surplus = self.bytes.saturating_sub(bytes);
        if surplus == 0 {
            return;
        }
        note_reserved(-(surplus as i64));
        self.budget.used.fetch_sub(surplus, Ordering::Relaxed);
        self.budget.counter(self.purpose).fetch_sub(surplus, Ordering::Relaxed);
        self.bytes -= surplus;
    }
}

impl Drop for MemoryReservation {
    fn drop(&mut self) {
        self.shrink(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_who_waits_waits_on_for_what_the_others_held() {
        let budget = MemoryBudget::new(1 << 20);
        let begin = || budget.begin_waiting(1).unwrap();
        let (mut first, mut second, mut third) = (begin(), begin(), begin());
        assert!(first.gives_up() && second.gives_up());
        assert!(!third.gives_up(), "what they held is about to be free");
        assert!(third.gives_up(), "nobody else has given up since then");
        drop((first, second, third));
        assert!(!budget.is_waited_for());
        assert!(begin().gives_up(), "one that waits alone has nothing more to wait for");
    }

    #[test]
    fn what_does_not_fit_is_refused_and_what_is_dropped_returns() {
        let budget = MemoryBudget::new((1 << 20) - 5);
        let fixed = budget.reserve_fixed(MemoryUse::Frames, 512 << 10);
        let mut sort = budget.reservation(MemoryUse::Operations);
        sort.cover(100_000).unwrap();
        assert_eq!(sort.bytes(), 128 << 10);
        let refused = sort.cover(600 << 10).unwrap_err();
        assert!(refused.wanted > refused.free);
        assert_eq!((sort.bytes(), budget.refused()), (128 << 10, 2));
        // Less than a whole step is left, and it can be had.
        sort.cover((512 << 10) - 5).unwrap();
        assert_eq!(budget.free(), 0);
        sort.resize(2000).unwrap();
        assert_eq!((sort.bytes(), sort.resize(1 << 20).is_err()), (2000, true));
        sort.shrink(1000);
        assert_eq!((budget.used_for(MemoryUse::Operations), budget.used_for(MemoryUse::Frames)), (1000, 512 << 10));
        drop((sort, fixed));
        assert_eq!(budget.used(), 0);
    }

    #[test]
    fn what_is_large_leaves_some_to_what_is_not() {
        let budget = MemoryBudget::new(64 << 20);
        let mut large = budget.reservation(MemoryUse::Operations);
        assert!(large.resize_leaving_some(63 << 20).is_err());
        large.resize_leaving_some(62 << 20).unwrap();
        let mut small = budget.reservation(MemoryUse::Operations);
        small.resize_leaving_some(2 << 20).unwrap();
        assert!(small.resize_leaving_some(3 << 20).is_err());
        small.resize_leaving_some(1 << 20).unwrap();
        assert_eq!(budget.free(), 1 << 20);
    }

    #[test]
    fn what_lasts_has_a_little_in_any_case_and_leaves_much_to_what_does_not() {
        let budget = MemoryBudget::new(64 << 20);
        budget.check_lasting(MemoryUse::Sessions, 56 << 20).unwrap();
        assert!(budget.check_lasting(MemoryUse::Sessions, 57 << 20).is_err());
        let _operations = budget.reserve_fixed(MemoryUse::Operations, 64 << 20);
        let _sessions = budget.reserve_fixed(MemoryUse::Sessions, 1 << 20);
        budget.check_lasting(MemoryUse::Sessions, 1 << 20).unwrap();
        assert!(budget.check_lasting(MemoryUse::Sessions, 2 << 20).is_err());
    }

    #[test]
    fn every_use_has_its_own_figure() {
        let budget = MemoryBudget::unlimited();
        let held: Vec<_> =
            MemoryUse::ALL.iter().zip(1..).map(|(purpose, bytes)| budget.reserve_fixed(*purpose, bytes)).collect();
        let figures: Vec<u64> = MemoryUse::ALL.iter().map(|purpose| budget.used_for(*purpose)).collect();
        assert_eq!(figures, (1..=held.len() as u64).collect::<Vec<_>>());
    }
}
