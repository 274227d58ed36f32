//! How much work that must give way takes, and where it rests: the one place that sleeps and yields for others.
//!
//! Long work (a long command, an index build, expiry, a large transaction) has a [`WorkBudget`] and calls `step` again and
//! again, with nothing locked that others wait for. Work in the background calls [`WorkBudget::background_step`].
//!
//! ```text
//!   working ── STRETCH is over ──▶ short operations ended lately?
//!                                    no ──▶ goes on
//!                                    yes ─▶ rests so long that all long work together has its share of the processors
//!                                           (`Foreground`), and longer if the engine asks for it
//! ```
//!
//! Long work that commits rests before the kernel's short slice is over (`WorkClass`). Interrupted in the midst of a commit,
//! for which all later ones wait, it would come again after everything that runs in the background.

use std::cell::Cell;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::foreground::Foreground;
use crate::schedule::{SHORT_SLICE, take_precise_timers};
use crate::waits::{WaitKind, waiting};
use crate::{Clock, part_of};

/// How long work that lasts goes on before it looks around. Where processors are short, others wait for so long: who wakes
/// up does not always interrupt it.
const STRETCH: Duration = Duration::from_micros(50);
const _: () = assert!(STRETCH.as_nanos() * 2 < SHORT_SLICE.as_nanos(), "it rests before it is interrupted");
/// A stretch that was longer, because it waited for something or for lack of a step, counts as this: one long work that has a
/// quarter of a processor rests for `REST_MAX` behind it.
const LONGEST_COUNTED: Duration = part_of(REST_MAX, 3);
/// Longest rest, so that who is told to stop does so soon.
const REST_MAX: Duration = LATELY.saturating_mul(5);
/// For so long after a short operation the next one is expected. What works for longer is no short one.
pub const LATELY: Duration = Duration::from_millis(10);
/// From one offer of the processor to the next.
const OFFERED_EVERY: Duration = STRETCH.saturating_mul(4);

thread_local! {
    static OFFERED_AT: Cell<Option<Instant>> = const { Cell::new(None) };
}

/// What a step came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// The stretch is not over.
    Within,
    /// It is, and nobody was there.
    Alone,
    /// It is, and the work has rested for others.
    Rested,
}

/// See the module's head.
#[derive(Debug)]
pub struct WorkBudget {
    foreground: Arc<Foreground>,
    stretch_began: Option<Duration>,
    /// Operations of others that had ended at the last look.
    others_before: u64,
    /// When it was last seen that some had.
    others_seen: Option<Duration>,
    /// Of the operations that ended, the worker's.
    own: u64,
}

impl WorkBudget {
    /// The work begins.
    pub fn new(foreground: Arc<Foreground>) -> WorkBudget {
        let others_before = foreground.finished();
        WorkBudget { foreground, stretch_began: None, others_before, others_seen: None, own: 0 }
    }

    /// An operation of a client belongs to the work: it is none of the others.
    pub fn note_own(&mut self) {
        self.own += 1;
    }

    /// Called after each small piece of work that lasts, with nothing locked that others wait for. `least` is asked only if it
    /// rests: how long it is to rest at least.
    pub fn step(&mut self, clock: &dyn Clock, least: impl FnOnce() -> Duration) -> Step {
        let now = clock.monotonic();
        let worked = now.saturating_sub(*self.stretch_began.get_or_insert(now));
        if worked < STRETCH {
            return Step::Within;
        }
        let others = self.foreground.finished().saturating_sub(self.own);
        if others != self.others_before {
            (self.others_before, self.others_seen) = (others, Some(now));
        }
        let step = match self.others_seen {
            Some(seen) if now.saturating_sub(seen) < LATELY => {
                take_precise_timers();
                let rest = rest(worked, self.foreground.long_share()).max(least());
                waiting(WaitKind::Others, || clock.sleep(rest));
                Step::Rested
            }
            _ => Step::Alone,
        };
        self.begin_stretch(clock);
        step
    }

    /// What was before, a wait for something, is no work.
    pub fn begin_stretch(&mut self, clock: &dyn Clock) {
        self.stretch_began = Some(clock.monotonic());
    }

    /// Lets whoever waits for this processor run first, if anybody does and the thread has not done so for `OFFERED_EVERY`. For
    /// work that goes on without a pause, in the background or for many clients in turn, after each small piece of it and with
    /// nothing locked that others need. Costs a look at the clock.
    ///
    /// Whoever wakes up interrupts at once. But a thread that has just used more than its share waits until it may run again,
    /// and only the kernel's tick, every 4 ms on usual kernels, or the end of what runs looks whether that is so.
    ///
    /// Where processors are short, who yields comes again when all others have had their slice: after 1.6 ms beside one
    /// thread that computes, after 3.0 beside two (Linux 6.18). So a thread that others wait for must not do it.
    #[allow(
        clippy::disallowed_methods,
        reason = "the processor's own time, which no simulated run sees: yielding changes no outcome"
    )]
    pub fn background_step() {
        if OFFERED_AT.get().is_none_or(|at| at.elapsed() >= OFFERED_EVERY) {
            std::thread::yield_now();
            OFFERED_AT.set(Some(Instant::now()));
        }
    }
}

/// So long that the work before it was `share` of all.
fn rest(worked: Duration, share: f64) -> Duration {
    worked.min(LONGEST_COUNTED).mul_f64(1.0 / share - 1.0).min(REST_MAX)
}

#[cfg(test)]
mod model;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{LongWork, SimulatedClock};

    /// How long it rests after so much work.
    fn rested(clock: &SimulatedClock, budget: &mut WorkBudget, worked: Duration) -> Duration {
        budget.step(clock, || Duration::ZERO);
        clock.advance(worked);
        let began = clock.monotonic();
        budget.step(clock, || Duration::ZERO);
        clock.monotonic() - began
    }

    #[test]
    fn it_rests_beside_others_and_neither_alone_nor_for_its_own_operations() {
        let (clock, foreground) = (SimulatedClock::new(0), Arc::new(Foreground::new(2)));
        let _long = LongWork::begin(&foreground);
        foreground.note_finished();
        let mut budget = WorkBudget::new(foreground.clone());
        assert_eq!(rested(&clock, &mut budget, STRETCH), Duration::ZERO, "they were there before");
        foreground.note_finished();
        assert_eq!(rested(&clock, &mut budget, STRETCH), STRETCH, "half of a processor is a quarter of two");
        assert_eq!(rested(&clock, &mut budget, STRETCH), STRETCH, "they were there a moment ago");
        assert_eq!(rested(&clock, &mut budget, STRETCH / 2), Duration::ZERO, "within a stretch");
        assert_eq!(rested(&clock, &mut budget, LATELY), Duration::ZERO, "and then they are not any more");
        foreground.note_finished();
        budget.note_own();
        assert_eq!(rested(&clock, &mut budget, STRETCH), Duration::ZERO, "as a statement of a transaction is");
        foreground.note_finished();
        assert_eq!(rested(&clock, &mut budget, Duration::from_secs(1)), LONGEST_COUNTED);
    }

    #[test]
    fn it_rests_as_long_as_it_is_told_to() {
        let (clock, foreground) = (SimulatedClock::new(0), Arc::new(Foreground::new(64)));
        let mut budget = WorkBudget::new(foreground.clone());
        budget.step(&clock, || Duration::ZERO);
        foreground.note_finished();
        clock.advance(STRETCH);
        let began = clock.monotonic();
        assert_eq!(budget.step(&clock, || LATELY), Step::Rested);
        assert_eq!(clock.monotonic() - began, LATELY);
    }
}
