//! What listeners cost, beside what was foreseen: measured, as it depends on the machine.
//!
//! The feed foresees what each delivery will cost its listener: a fixed sum by the kind of work. A listener notes what
//! processor time its thread really took from one wait to the next. What both add up to is the scale of the machine, by which
//! `pacing` corrects what it foresees.

use std::thread::ThreadId;
use std::time::Duration;

use parking_lot::Mutex;
use platform::{part_of, thread_processor_time};

/// What was measured counts half as much after so much more.
const REMEMBERED: Duration = Duration::from_millis(200);
/// Known before anything is measured: the sums are right.
const ASSUMED: Duration = part_of(REMEMBERED, 20);
/// A thread that serves other requests meanwhile says little of the machine.
const SCALE_MAX: f64 = 16.0;
const SCALE_MIN: f64 = 1.0 / SCALE_MAX;

/// See the module's head.
#[derive(Debug)]
pub(super) struct ListenerCosts(Mutex<Sums>);

#[derive(Debug)]
struct Sums {
    foreseen: Duration,
    spent: Duration,
}

/// A listener's thread, woken with work that was foreseen to cost so much.
#[derive(Debug)]
pub(super) struct Woken {
    thread: ThreadId,
    at: Duration,
    foreseen: Duration,
}

impl Woken {
    /// The calling thread is.
    pub(super) fn now(foreseen: Duration) -> Woken {
        Woken { thread: std::thread::current().id(), at: thread_processor_time(), foreseen }
    }

    /// What it foresaw and what it spent, if it is the same thread that waits again.
    pub(super) fn ends(self) -> Option<(Duration, Duration)> {
        let is_same = self.thread == std::thread::current().id();
        is_same.then(|| (self.foreseen, thread_processor_time().saturating_sub(self.at)))
    }
}

impl ListenerCosts {
    /// Work that was foreseen to cost something has been done.
    pub(super) fn note(&self, foreseen: Duration, spent: Duration) {
        let mut sums = self.0.lock();
        sums.foreseen += foreseen;
        sums.spent += spent;
        if sums.foreseen > REMEMBERED {
            *sums = Sums { foreseen: sums.foreseen / 2, spent: sums.spent / 2 };
        }
    }

    /// What work costs here, in parts of what is foreseen.
    pub(super) fn scale(&self) -> f64 {
        let sums = self.0.lock();
        sums.spent.div_duration_f64(sums.foreseen).clamp(SCALE_MIN, SCALE_MAX)
    }
}

impl Default for ListenerCosts {
    fn default() -> ListenerCosts {
        ListenerCosts(Mutex::new(Sums { foreseen: ASSUMED, spent: ASSUMED }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_measured_replaces_what_was_assumed() {
        let costs = ListenerCosts::default();
        assert_eq!(costs.scale(), 1.0);
        for _ in 0..1000 {
            costs.note(Duration::from_millis(1), Duration::from_millis(3));
        }
        assert!((2.9..=3.0).contains(&costs.scale()), "{}", costs.scale());
        for _ in 0..1000 {
            costs.note(Duration::from_millis(1), Duration::from_micros(500));
        }
        assert!((0.5..=0.6).contains(&costs.scale()), "{}", costs.scale());
        costs.note(Duration::from_millis(1), Duration::from_secs(3600));
        assert_eq!(costs.scale(), SCALE_MAX);
    }

    #[test]
    fn a_thread_that_does_something_spends_time_and_another_says_nothing() {
        let woken = Woken::now(Duration::from_millis(1));
        let mut sum = 0_u64;
        while thread_processor_time().saturating_sub(woken.at) < Duration::from_millis(1) {
            sum = std::hint::black_box(sum.wrapping_add(1));
        }
        let (foreseen, spent) = woken.ends().unwrap();
        assert!(spent >= foreseen);
        let elsewhere = Woken::now(Duration::from_millis(1));
        assert_eq!(std::thread::scope(|scope| scope.spawn(|| elsewhere.ends()).join().unwrap()), None);
    }
}
