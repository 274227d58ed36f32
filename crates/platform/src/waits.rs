//! What the calling thread has waited for, by kinds: so that whoever looks at a slow operation sees whether it worked or waited.
//!
//! [`waiting`] stands around each wait: for the disk here and in the page cache, for locks in `transaction`, for room in
//! the cache and in memory, for the log. `commands` looks at the difference between the begin of a command and its end. Costs two
//! looks at the clock for a wait, and nothing where nobody waits.

use std::cell::Cell;
use std::time::{Duration, Instant};

/// What is waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WaitKind {
    /// Reading and writing files, or a page that another thread reads.
    Disk,
    /// What others own: records, keys of unique indexes, definitions, sessions; earlier commits; a lock on all writes.
    Locks,
    /// Until the log is durable, or has room.
    Log,
    /// Room in the cache and in memory, and pacing so that there is some.
    Room,
    /// Rests so that short operations go first.
    Others,
}

/// All kinds, in the order in which they are told.
pub const WAIT_KINDS: [(WaitKind, &str); 5] = [
    (WaitKind::Disk, "disk"),
    (WaitKind::Locks, "locks"),
    (WaitKind::Log, "log"),
    (WaitKind::Room, "room"),
    (WaitKind::Others, "others"),
];

/// Time by kinds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Waits([Duration; WAIT_KINDS.len()]);

thread_local! {
    static WAITED: Cell<Waits> = const { Cell::new(Waits([Duration::ZERO; WAIT_KINDS.len()])) };
    /// A wait within another one is a part of that.
    static IS_WAITING: Cell<bool> = const { Cell::new(false) };
}

impl Waits {
    /// Of this thread since its begin.
    pub fn of_thread() -> Waits {
        WAITED.get()
    }

    /// What this thread has waited since `before`.
    pub fn since(before: Waits) -> Waits {
        let now = Waits::of_thread();
        Waits(std::array::from_fn(|kind| now.0[kind].saturating_sub(before.0[kind])))
    }

    /// For one kind.
    pub fn of(&self, kind: WaitKind) -> Duration {
        self.0[kind as usize]
    }

    /// For all kinds.
    pub fn total(&self) -> Duration {
        self.0.iter().sum()
    }
}

/// Calls `wait`, and notes how long it takes.
#[allow(clippy::disallowed_methods, reason = "real time, which no simulated run sees: it changes no outcome")]
pub fn waiting<T>(kind: WaitKind, wait: impl FnOnce() -> T) -> T {
    if IS_WAITING.replace(true) {
        return wait();
    }
    let _until_it_ends = Within { kind, began: Instant::now() };
    wait()
}

/// Ends also when the wait panics.
struct Within {
    kind: WaitKind,
    began: Instant,
}

impl Drop for Within {
    #[allow(clippy::disallowed_methods, reason = "as where it began")]
    fn drop(&mut self) {
        let mut waited = WAITED.get();
        waited.0[self.kind as usize] += self.began.elapsed();
        WAITED.set(waited);
        IS_WAITING.set(false);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Clock, SystemClock};

    #[test]
    fn waits_are_counted_by_kinds_and_once() {
        const PAUSE: Duration = Duration::from_millis(3);
        let (before, clock) = (Waits::of_thread(), SystemClock::new());
        waiting(WaitKind::Room, || {
            clock.sleep(PAUSE);
            waiting(WaitKind::Disk, || clock.sleep(PAUSE));
        });
        let waits = Waits::since(before);
        assert_eq!(waits.of(WaitKind::Disk), Duration::ZERO);
        assert!(waits.of(WaitKind::Room) >= PAUSE * 2);
        assert_eq!(waits.total(), waits.of(WaitKind::Room));
        let before = Waits::of_thread();
        assert!(std::panic::catch_unwind(|| waiting(WaitKind::Locks, || panic!("as a bug would"))).is_err());
        waiting(WaitKind::Disk, || clock.sleep(PAUSE));
        assert!(Waits::since(before).of(WaitKind::Disk) >= PAUSE, "nothing is within what has panicked");
        for (place, (kind, _)) in WAIT_KINDS.iter().enumerate() {
            assert_eq!(*kind as usize, place);
        }
    }
}
