//! What the command that runs on this thread holds beside what was reserved for it by name: one budget for everything that it allocates.
//!
//! The server's allocator tells how much each thread allocates and frees, and reservations tell how much of it they count. The
//! difference since the command began is what it holds uncounted: values of expressions, documents, filters and plans, a reply that grows. It is
//! brought into the budget where commands look for interruption ([`check`]), and ahead of time where something large is about to
//! be allocated ([`before_allocating`]). What does not fit is refused; its owner fails, and nobody else.
//!
//! ```text
//!   allocated - freed ─┐
//!                      ├─ since the command began: held ── above the allowance ──▶ reserved for operations, or refused
//!   reserved - given back
//! ```
//!
//! Called by `commands` (begin, check), the storage engine and the allocator of the server. A program without that allocator counts only what is announced. Costs a
//! command two reads of thread-local figures at a check, and nothing shared unless it is large.

use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::time::Duration;

use crate::memory_check;
use crate::waits::{self, WaitKind};
use crate::{Clock, MemoryBudget, MemoryReservation, MemoryUse, OverBudget, SystemClock};

/// What every command may hold without being counted one by one: it is a part of what its thread is counted with.
const ALLOWANCE_BYTES: u64 = 128 << 10;
/// What is held is counted in such steps.
const STEP_BYTES: u64 = 256 << 10;
/// What one command may hold in any case, if the budget has it: a document of 16 MiB, its next version and a reply that has it.
const COMMAND_BYTES_MIN: u64 = 64 << 20;
/// Commands that fit into what is free when the server starts, each with all that one may hold.
const COMMANDS_AT_ONCE: u64 = 4;
/// How long a command waits for memory that others give back.
const PATIENCE: Duration = Duration::from_secs(2);
/// After what time it asks again.
const ASKED_AGAIN: Duration = Duration::from_millis(5);

thread_local! {
    /// Bytes that this thread has allocated, less those it has freed.
    static ALLOCATED: Cell<i64> = const { Cell::new(0) };
    /// Bytes that this thread has reserved, less those it has given back.
    static RESERVED: Cell<i64> = const { Cell::new(0) };
    static ACCOUNT: RefCell<Option<Account>> = const { RefCell::new(None) };
}

/// Whether a command that waits for memory should stop waiting.
pub trait MemoryWait {
    /// Whether it is to end.
    fn gives_up(&self) -> bool;
}

/// Whether memory that is not there now may be waited for: not while something is locked that others need.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Patience {
    /// It may.
    Waits,
    /// It may not.
    FailsAtOnce,
    /// It may if the command never locks anything.
    AsTheCommand,
}

/// One thread's; kept for the next command, so that beginning one touches nothing shared.
struct Account {
    reservation: MemoryReservation,
    limit: u64,
    baseline: i64,
    /// What `AsTheCommand` means.
    patience: Patience,
    wait: Option<Arc<dyn MemoryWait>>,
}

/// The time during which a command's memory is counted.
#[must_use]
pub struct CommandMemory {
    is_outermost: bool,
}

/// What one command may hold of a budget of which everything fixed is reserved already.
pub fn command_memory_limit(budget: &MemoryBudget) -> u64 {
    (budget.free() / COMMANDS_AT_ONCE).max(COMMAND_BYTES_MIN)
}

/// The allocator has given this thread so many bytes.
#[inline]
pub fn note_allocated(bytes: usize) {
    ALLOCATED.set(ALLOCATED.get().wrapping_add(bytes as i64));
    memory_check::note(bytes as i64);
}

/// This thread has given so many bytes back to the allocator.
#[inline]
pub fn note_freed(bytes: usize) {
    ALLOCATED.set(ALLOCATED.get().wrapping_sub(bytes as i64));
    memory_check::note(-(bytes as i64));
}

/// Calls `work`, and gives what it returns with how much more this thread has allocated than freed meanwhile.
pub fn measure<T>(work: impl FnOnce() -> T) -> (T, i64) {
    let before = ALLOCATED.get();
    let result = work();
    (result, ALLOCATED.get().wrapping_sub(before))
}

/// The same without what was reserved by name meanwhile.
pub fn measure_unreserved<T>(work: impl FnOnce() -> T) -> (T, i64) {
    let before = uncounted();
    let result = work();
    (result, uncounted().wrapping_sub(before))
}

/// A reservation has grown, or shrunk, on this thread.
pub(crate) fn note_reserved(bytes: i64) {
    RESERVED.set(RESERVED.get().wrapping_add(bytes));
}

/// What this thread holds uncounted, from an origin that only means something to [`Account::baseline`].
fn uncounted() -> i64 {
    ALLOCATED.get().wrapping_sub(RESERVED.get())
}

/// A command begins on this thread; it may hold `limit` bytes of the budget. One that never locks anything `Waits` everywhere. One that runs inside of another is a part of that one.
pub fn begin_command(
    budget: &Arc<MemoryBudget>,
    limit: u64,
    patience: Patience,
    wait: Arc<dyn MemoryWait>,
) -> CommandMemory {
    ACCOUNT.with_borrow_mut(|account| {
        if account.as_ref().is_some_and(|account| account.wait.is_some()) {
            return CommandMemory { is_outermost: false };
        }
        let account = match account {
            Some(account) if Arc::ptr_eq(account.reservation.budget(), budget) => account,
            other => other.insert(Account {
                reservation: budget.reservation(MemoryUse::Operations),
                limit,
                baseline: 0,
                patience,
                wait: None,
            }),
        };
        (account.limit, account.baseline, account.patience, account.wait) = (limit, uncounted(), patience, Some(wait));
        CommandMemory { is_outermost: true }
    })
}

impl Drop for CommandMemory {
    fn drop(&mut self) {
        if !self.is_outermost {
            return;
        }
        ACCOUNT.with_borrow_mut(|account| {
            if let Some(account) = account {
                account.wait = None;
                account.resize(0);
            }
        });
    }
}

/// Brings what the command holds into the budget.
///
/// # Errors
/// It does not fit, or is more than one command may hold.
pub fn check(patience: Patience) -> Result<(), OverBudget> {
    before_allocating(0, patience)
}

/// The same, with so many bytes that are about to be allocated.
///
/// # Errors
/// As [`check`]; then they should not be.
pub fn before_allocating(bytes: usize, patience: Patience) -> Result<(), OverBudget> {
    ACCOUNT.with_borrow_mut(|account| match account {
        Some(account) if account.wait.is_some() => account.cover(bytes as u64, patience),
        _ => Ok(()),
    })
}

/// Of what the command holds, so much is about to be reserved by name: it makes room for that.
pub fn hand_over(bytes: u64) {
    ACCOUNT.with_borrow_mut(|account| {
        if let Some(account) = account.as_mut().filter(|account| account.reservation.bytes() > 0) {
            account.resize(account.reservation.bytes().saturating_sub(bytes));
        }
    });
}

/// Does something whose allocations stay, in memory that is reserved for them, now or when the server started: neither is the command's.
pub fn not_of_the_command<T>(work: impl FnOnce() -> T) -> T {
    let before = (ALLOCATED.get(), RESERVED.get());
    let result = work();
    ALLOCATED.set(before.0);
    RESERVED.set(before.1);
    result
}

impl Account {
    fn held(&self) -> u64 {
        u64::try_from(uncounted().wrapping_sub(self.baseline)).unwrap_or(0)
    }

    fn cover(&mut self, more: u64, patience: Patience) -> Result<(), OverBudget> {
        let held = self.held().saturating_add(more);
        let reserved = self.reservation.bytes();
        if held <= reserved.max(ALLOWANCE_BYTES) {
            // What was held for a moment is for others again.
            if held.saturating_mul(2).saturating_add(STEP_BYTES) < reserved {
                self.resize(held);
            }
            return Ok(());
        }
        if held > self.limit {
            return Err(OverBudget { wanted: held, free: self.limit });
        }
        let wanted = held.div_ceil(STEP_BYTES).saturating_mul(STEP_BYTES);
        let patience = if patience == Patience::AsTheCommand { self.patience } else { patience };
        let waits = patience == Patience::Waits;
        self.try_resize(wanted).or_else(|refused| if waits { self.wait_for(wanted) } else { Err(refused) })
    }

    /// Waits until others have given back what is needed.
    fn wait_for(&mut self, wanted: u64) -> Result<(), OverBudget> {
        let budget = self.reservation.budget().clone();
        let mut waiting = budget.begin_waiting(wanted - self.reservation.bytes())?;
        let clock = SystemClock::new();
        let mut begun = clock.monotonic();
        loop {
            waits::waiting(WaitKind::Room, || clock.sleep(ASKED_AGAIN));
            let refused = match self.try_resize(wanted) {
                Ok(()) => return Ok(()),
                Err(refused) => refused,
            };
            if self.wait.as_ref().is_none_or(|wait| wait.gives_up()) {
                return Err(refused);
            }
            let now = clock.monotonic();
            if now.saturating_sub(begun) >= PATIENCE {
                if waiting.gives_up() {
                    return Err(refused);
                }
                begun = now;
            }
        }
    }

    fn try_resize(&mut self, bytes: u64) -> Result<(), OverBudget> {
        let before = RESERVED.get();
        let resized = self.reservation.resize_leaving_some(bytes);
        RESERVED.set(before);
        resized
    }

    /// To less than there is.
    fn resize(&mut self, bytes: u64) {
        if self.reservation.bytes() > bytes {
            let before = RESERVED.get();
            self.reservation.shrink(bytes);
            RESERVED.set(before);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Waits(bool);

    impl MemoryWait for Waits {
        fn gives_up(&self) -> bool {
            !self.0
        }
    }

    fn begin(budget: &Arc<MemoryBudget>) -> CommandMemory {
        begin_command(budget, 8 << 20, Patience::FailsAtOnce, Arc::new(Waits(false)))
    }

    #[test]
    fn what_a_command_holds_is_counted_until_it_ends_and_refused_when_it_does_not_fit() {
        let budget = MemoryBudget::new(4 << 20);
        let command = begin(&budget);
        note_allocated(100 << 10);
        check(Patience::Waits).unwrap();
        assert_eq!(budget.used(), 0, "a small command touches nothing shared");
        note_allocated(1 << 20);
        check(Patience::Waits).unwrap();
        assert_eq!(budget.used_for(MemoryUse::Operations), 5 * STEP_BYTES);
        assert!(before_allocating(3 << 20, Patience::FailsAtOnce).is_err());
        assert!(before_allocating(3 << 20, Patience::Waits).is_err());
        before_allocating(2 << 20, Patience::FailsAtOnce).unwrap();
        note_freed(1 << 20);
        check(Patience::Waits).unwrap();
        assert!(budget.used() <= 128 << 10);
        note_freed(100 << 10);
        drop(command);
        assert_eq!(budget.used(), 0);
    }

    #[test]
    fn what_is_reserved_by_name_is_not_counted_twice() {
        let budget = MemoryBudget::new(4 << 20);
        let command = begin(&budget);
        let inner = begin(&budget);
        drop(inner);
        let mut stage = budget.reservation(MemoryUse::Operations);
        stage.resize(3 << 20).unwrap();
        note_allocated(3 << 20);
        check(Patience::FailsAtOnce).unwrap();
        assert_eq!(budget.used(), 3 << 20);
        let by_name = || (stage.resize(2 << 20), note_freed(1 << 20), note_allocated(100)).0.unwrap();
        assert_eq!(measure_unreserved(by_name), ((), 100));
        stage.resize(3 << 20).unwrap();
        note_allocated((1 << 20) - 100);
        not_of_the_command(|| note_allocated(3 << 20));
        check(Patience::FailsAtOnce).unwrap();
        assert_eq!(budget.used(), 3 << 20);
        let lasting = not_of_the_command(|| budget.reserve_fixed(MemoryUse::Threads, 1 << 20));
        note_allocated(1 << 20);
        assert!(check(Patience::FailsAtOnce).is_err(), "what is reserved for another does not hide what it holds");
        note_freed(4 << 20);
        drop((stage, command, lasting));
        assert_eq!(budget.used(), 0);
    }

    #[test]
    fn one_command_may_not_hold_everything() {
        let budget = MemoryBudget::new(1 << 30);
        let _command = begin(&budget);
        assert!(before_allocating(9 << 20, Patience::Waits).is_err());
        before_allocating(7 << 20, Patience::Waits).unwrap();
    }

    #[test]
    fn what_others_give_back_is_waited_for() {
        let budget = MemoryBudget::new(4 << 20);
        let other = budget.reserve_fixed(MemoryUse::Frames, 3 << 20);
        std::thread::scope(|scope| {
            scope.spawn(move || {
                SystemClock::new().sleep(Duration::from_millis(30));
                drop(other);
            });
            let _command = begin_command(&budget, 8 << 20, Patience::Waits, Arc::new(Waits(true)));
            assert!(before_allocating(2 << 20, Patience::FailsAtOnce).is_err());
            before_allocating(2 << 20, Patience::AsTheCommand).unwrap();
        });
    }
}
