//! The end of background threads: a flag, and a wait that it ends.
//!
//! Called by the threads of `storage_engine` and `transaction`. A pause of a minute then takes neither a minute to be left nor the processor in between. Who changes how
//! long a pause is wakes those who pause.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

/// Whether the threads are to end.
#[derive(Default)]
pub struct StopSignal {
    is_given: AtomicBool,
    waiting: Mutex<()>,
    given: Condvar,
}

impl StopSignal {
    /// Whether they are to end.
    pub fn is_given(&self) -> bool {
        self.is_given.load(Ordering::Acquire)
    }

    /// They are to end, and those who pause look at once.
    pub fn give(&self) {
        self.is_given.store(true, Ordering::Release);
        self.wake();
    }

    /// Once they have ended, others may start.
    pub fn take_back(&self) {
        self.is_given.store(false, Ordering::Release);
    }

    /// Those who pause look anew.
    pub fn wake(&self) {
        // Who has not seen what was changed before is waiting once the lock is to be had.
        drop(self.waiting.lock());
        self.given.notify_all();
    }

    /// Waits for it, at most for a while.
    pub fn wait(&self, at_most: Duration) {
        let mut waiting = self.waiting.lock();
        if !self.is_given() {
            self.given.wait_for(&mut waiting, at_most);
        }
    }

    /// Waits for it, at most for a while, or for somebody to wake those who pause, who has done before what `is_over` looks for.
    pub fn wait_unless(&self, at_most: Duration, is_over: impl Fn() -> bool) {
        let mut waiting = self.waiting.lock();
        if !self.is_given() && !is_over() {
            self.given.wait_for(&mut waiting, at_most);
        }
    }

    /// Waits for it until nothing is left of a pause that may be changed meanwhile.
    pub fn wait_while_left(&self, left: impl Fn() -> Duration) {
        let mut waiting = self.waiting.lock();
        while !self.is_given() {
            let left = left();
            if left.is_zero() {
                return;
            }
            self.given.wait_for(&mut waiting, left);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::AtomicU64;

    use super::*;
    use crate::spawn_named;

    #[test]
    fn it_ends_a_pause_that_would_not_end_by_itself() {
        let signal = Arc::new(StopSignal::default());
        let waited = signal.clone();
        let waiting = spawn_named("waits", move || waited.wait(Duration::from_secs(3600))).unwrap();
        signal.give();
        waiting.join().unwrap();
        signal.wait(Duration::from_secs(3600));
        assert!(signal.is_given());
    }

    #[test]
    fn a_pause_that_is_shortened_ends() {
        let (signal, hours) = (Arc::new(StopSignal::default()), Arc::new(AtomicU64::new(1)));
        let (waited, left) = (signal.clone(), hours.clone());
        let left = move || Duration::from_secs(3600 * left.load(Ordering::Relaxed));
        let waiting = spawn_named("waits", move || waited.wait_while_left(left)).unwrap();
        hours.store(0, Ordering::Relaxed);
        signal.wake();
        waiting.join().unwrap();
        assert!(!signal.is_given());
    }
}
