//! A command's turn: its ticket, and how it gives way once it has worked for long.
//!
//! Held by `Operation`, whose checks for interruption are the steps of all long work: scans, deletions and updates of many, inserts
//! of many. A short command pays for a counter.
//!
//! ```text
//!   short ── 10 ms ──▶ long: a long slice (platform::Precedence), and after each stretch of 50 microseconds:
//!                        commands that are short came lately ────▶ sleeps, so that all long ones together take a
//!                                                                  quarter of the processors
//!                        somebody waits for a ticket ────────────▶ gives it, and waits at the end of the queue
//! ```
//!
//! Steps of a transaction keep their ticket and do not sleep: others may be waiting for their locks.

use crate::request::declaration::Class;
use std::cell::{Cell, RefCell};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use platform::{Precedence, PrecedenceScope};

use super::{Admission, Ticket};

/// Checks between two looks at the clock.
const CHECKS_PER_LOOK: u32 = 4;
/// A command that has worked so long is a long one.
const LONG_AFTER: Duration = Duration::from_millis(10);
/// How long a long command works before it looks around. Where processors are short, others wait for so long: who wakes up does not always interrupt it.
const STRETCH: Duration = Duration::from_micros(50);
/// A stretch that was longer, because it waited for something or for lack of a check, counts as this.
const LONGEST_COUNTED: Duration = Duration::from_millis(16);
/// For so long after a short command the next one is expected.
const LATELY: Duration = Duration::from_millis(10);
/// All long commands together may take one processor in so many while short ones come.
const PROCESSORS_FOR_ONE: f64 = 4.0;
/// The smallest part of a processor that a long command is left with.
const SHARE_MIN: f64 = 0.05;

/// See the module's head.
pub(crate) struct Turn<'a> {
    admission: &'a Admission,
    class: Class,
    ticket: RefCell<Option<Ticket<'a>>>,
    gives_way: bool,
    checks: Cell<u32>,
    began: Duration,
    stretch_began: Cell<Duration>,
    /// Short commands that had ended when the stretch began.
    others_before: Cell<u64>,
    /// When it was last seen that some had.
    others_seen: Cell<Option<Duration>>,
    long: RefCell<Option<PrecedenceScope>>,
    /// How often it has given way, for `currentOp`.
    yields: &'a AtomicU32,
    /// Until the command ends.
    _precedence: Option<PrecedenceScope>,
}

impl<'a> Turn<'a> {
    /// Begins at `now` with what the admission gave.
    pub(crate) fn begin(
        admission: &'a Admission,
        ticket: Option<Ticket<'a>>,
        class: Class,
        is_in_transaction: bool,
        now: Duration,
        yields: &'a AtomicU32,
    ) -> Turn<'a> {
        Turn {
            admission,
            class,
            gives_way: ticket.is_some() && !is_in_transaction,
            ticket: RefCell::new(ticket),
            checks: Cell::new(0),
            began: now,
            stretch_began: Cell::new(now),
            others_before: Cell::new(0),
            others_seen: Cell::new(None),
            long: RefCell::new(None),
            yields,
            _precedence: (class == Class::Write).then(|| PrecedenceScope::begin(Precedence::Write)),
        }
    }

    /// Lets another command run in this one's place, for good.
    pub(crate) fn end_early(&self) {
        *self.ticket.borrow_mut() = None;
    }

    /// Called often by whatever may last, with nothing locked.
    #[inline]
    pub(crate) fn check(&self) {
        let checks = self.checks.get() + 1;
        if checks < CHECKS_PER_LOOK {
            self.checks.set(checks);
        } else {
            self.look_around();
        }
    }

    /// As `check`, after so much work that the clock is worth a look.
    pub(crate) fn look_around(&self) {
        self.checks.set(0);
        let ticket = self.ticket.borrow();
        let Some(ticket) = ticket.as_ref().filter(|_| self.gives_way) else { return };
        let now = self.admission.clock.monotonic();
        let worked = now.saturating_sub(self.stretch_began.get());
        if worked < STRETCH {
            return;
        }
        if now.saturating_sub(self.began) >= LONG_AFTER {
            self.long.borrow_mut().get_or_insert_with(|| {
                self.admission.long_running.fetch_add(1, Ordering::Relaxed);
                self.others_before.set(self.admission.short_finished());
                match self.class {
                    Class::Write => PrecedenceScope::begin_committing(),
                    Class::Read | Class::Exempt => PrecedenceScope::begin(Precedence::Long),
                }
            });
            if self.admission.short_finished() != self.others_before.get() {
                self.others_seen.set(Some(now));
            }
            let is_beside_others = self.others_seen.get().is_some_and(|seen| now.saturating_sub(seen) < LATELY);
            platform::leave_room(is_beside_others);
            if is_beside_others {
                let counted = worked.min(LONGEST_COUNTED);
                self.admission.clock.sleep(counted.mul_f64(1.0 / self.admission.long_share() - 1.0));
                self.admission.gave_way.fetch_add(1, Ordering::Relaxed);
            }
            let has_passed_on = ticket.let_others_pass();
            self.yields.fetch_add(u32::from(is_beside_others || has_passed_on), Ordering::Relaxed);
            self.others_before.set(self.admission.short_finished());
        }
        self.stretch_began.set(self.admission.clock.monotonic());
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        if self.long.borrow().is_some() {
            self.admission.long_running.fetch_sub(1, Ordering::Relaxed);
            if self.ticket.borrow().is_some() {
                self.admission.long_finished.fetch_add(1, Ordering::Relaxed);
            }
        }
    }
}

impl Admission {
    /// Commands that ended and were not long.
    fn short_finished(&self) -> u64 {
        let finished = |gate: &super::Gate| gate.finished.load(Ordering::Relaxed);
        (finished(&self.reads) + finished(&self.writes)).saturating_sub(self.long_finished.load(Ordering::Relaxed))
    }

    /// The part of a processor that each long command may take while short ones come.
    fn long_share(&self) -> f64 {
        let running = self.long_running.load(Ordering::Relaxed).max(1) as f64;
        (self.processors as f64 / PROCESSORS_FOR_ONE / running).clamp(SHARE_MIN, 1.0)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use platform::{Clock, SimulatedClock};

    use super::*;

    fn admission() -> (Arc<SimulatedClock>, Admission) {
        let clock = Arc::new(SimulatedClock::new(0));
        let mut admission = Admission::new(clock.clone());
        admission.processors = 2;
        (clock, admission)
    }

    fn turn(admission: &Admission, class: Class, is_in_transaction: bool) -> Turn<'_> {
        static YIELDS: AtomicU32 = AtomicU32::new(0);
        counted_turn(admission, class, is_in_transaction, &YIELDS)
    }

    fn counted_turn<'a>(
        admission: &'a Admission,
        class: Class,
        is_in_transaction: bool,
        yields: &'a AtomicU32,
    ) -> Turn<'a> {
        let ticket = admission.admit(class, || false).unwrap();
        Turn::begin(admission, ticket, class, is_in_transaction, admission.clock.monotonic(), yields)
    }

    /// Works for so many milliseconds, with checks, and gives how long that took.
    fn work(clock: &SimulatedClock, turn: &Turn<'_>, milliseconds: u64, mut between: impl FnMut()) -> Duration {
        let began = clock.monotonic();
        for _ in 0..milliseconds {
            clock.advance(Duration::from_millis(1));
            between();
            (0..CHECKS_PER_LOOK).for_each(|_| turn.check());
        }
        clock.monotonic() - began
    }

    #[test]
    fn how_often_it_gave_way_is_counted() {
        let (clock, admission) = admission();
        let yields = AtomicU32::new(0);
        let long = counted_turn(&admission, Class::Read, false, &yields);
        work(&clock, &long, 100, || {});
        assert_eq!(yields.load(Ordering::Relaxed), 0, "to nobody");
        work(&clock, &long, 20, || drop(turn(&admission, Class::Read, false)));
        assert!((10..=20).contains(&yields.load(Ordering::Relaxed)), "{yields:?}");
    }

    #[test]
    fn a_command_alone_never_waits() {
        let (clock, admission) = admission();
        let turn = turn(&admission, Class::Write, false);
        assert_eq!(work(&clock, &turn, 100, || {}), Duration::from_millis(100));
        assert_eq!(platform::precedence(), Precedence::Long);
        drop(turn);
        assert_eq!(platform::precedence(), Precedence::First);
    }

    #[test]
    fn a_long_command_beside_short_ones_takes_a_quarter_of_two_processors() {
        for class in [Class::Read, Class::Write] {
            let (clock, admission) = admission();
            let turn = turn(&admission, class, false);
            let short = || drop(admission.admit(Class::Read, || false).unwrap());
            let took = work(&clock, &turn, 400, short);
            assert!((760..=800).contains(&took.as_millis()), "{took:?}");
            // Two of them take half as much each.
            let other = super::tests::turn(&admission, class, false);
            work(&clock, &other, 12, || {});
            let took = work(&clock, &turn, 400, short);
            assert!((1500..=1700).contains(&took.as_millis()), "{took:?}");
        }
    }

    #[test]
    fn a_short_command_now_and_then_is_enough() {
        let (clock, admission) = admission();
        let turn = turn(&admission, Class::Read, false);
        let mut stretches = 0;
        let seldom = || {
            stretches += 1;
            if stretches % 4 == 0 {
                drop(admission.admit(Class::Read, || false).unwrap());
            }
        };
        let took = work(&clock, &turn, 400, seldom);
        assert!((760..=800).contains(&took.as_millis()), "{took:?}");
        // The last one is forgotten after a while.
        clock.advance(LATELY);
        assert_eq!(work(&clock, &turn, 100, || {}), Duration::from_millis(100));
    }

    #[test]
    fn other_long_commands_are_no_reason_to_wait() {
        let (clock, admission) = admission();
        let first = turn(&admission, Class::Write, false);
        work(&clock, &first, 20, || {});
        let second = turn(&admission, Class::Write, false);
        work(&clock, &second, 20, || {});
        drop(second);
        assert_eq!(work(&clock, &first, 100, || {}), Duration::from_millis(100));
    }

    #[test]
    fn steps_of_transactions_keep_their_place() {
        let (clock, admission) = admission();
        let turn = turn(&admission, Class::Write, true);
        let took = work(&clock, &turn, 100, || drop(admission.admit(Class::Read, || false).unwrap()));
        assert_eq!(took, Duration::from_millis(100));
        assert_eq!(platform::precedence(), Precedence::Write);
    }
}
