//! A command's turn: its ticket, and how it gives way once it has worked for long.
//!
//! Held by `Operation`, whose checks for interruption are the steps of all long work: scans, deletions and updates of many, inserts
//! of many. A short command pays for a counter.
//!
//! ```text
//!   short ── 10 ms ──▶ long: it has a platform::WorkBudget, which rests for short commands; and after each stretch:
//!                        somebody waits for a ticket ────────────▶ gives it, and waits at the end of the queue
//! ```
//!
//! Steps of a transaction keep their ticket and do not sleep: others may be waiting for their locks.

use std::cell::{Cell, RefCell};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use platform::{LongWork, Step, WorkBudget, WorkClass, WorkScope};

use super::bounds::{CHECKS_PER_LOOK, LONG_AFTER};
use super::{Admission, Ticket};
use crate::request::declaration::Class;

/// See the module's head.
pub(crate) struct Turn<'a> {
    admission: &'a Admission,
    class: Class,
    ticket: Option<Ticket<'a>>,
    gives_way: bool,
    checks: Cell<u32>,
    began: Duration,
    long: RefCell<Option<Long>>,
    /// How often it has given way, for `currentOp`.
    yields: &'a AtomicU32,
    /// Until the command ends.
    _scope: Option<WorkScope>,
}

/// Of a command that has become long.
struct Long {
    budget: WorkBudget,
    _work: LongWork,
}

impl<'a> Turn<'a> {
    /// When it began.
    pub(crate) fn began(&self) -> Duration {
        self.began
    }

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
            ticket,
            checks: Cell::new(0),
            began: now,
            long: RefCell::new(None),
            yields,
            _scope: (class == Class::Write).then(|| WorkScope::begin(WorkClass::Write)),
        }
    }

    /// Lets another command run in this one's place, for good.
    pub(crate) fn end_early(&self) {
        self.ticket.iter().for_each(Ticket::give_back);
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
        let Some(ticket) = self.ticket.as_ref().filter(|ticket| self.gives_way && !ticket.is_given_back.get()) else {
            return;
        };
        let clock = &*self.admission.clock;
        let mut long = self.long.borrow_mut();
        let long = match long.as_mut() {
            Some(long) => long,
            None if clock.monotonic().saturating_sub(self.began) < LONG_AFTER => return,
            None => long.insert(self.become_long(ticket)),
        };
        let has_rested = match long.budget.step(clock, || Duration::ZERO) {
            Step::Within => return,
            Step::Alone => false,
            Step::Rested => true,
        };
        self.admission.gave_way.fetch_add(u64::from(has_rested), Ordering::Relaxed);
        let has_passed_on = ticket.let_others_pass();
        if has_passed_on {
            long.budget.begin_stretch(clock);
        }
        self.yields.fetch_add(u32::from(has_rested || has_passed_on), Ordering::Relaxed);
    }

    fn become_long(&self, ticket: &Ticket<'_>) -> Long {
        ticket.is_long.set(true);
        let foreground = &self.admission.foreground;
        let work = match self.class {
            Class::Write => LongWork::begin_writing(foreground),
            Class::Read | Class::Exempt => LongWork::begin(foreground),
        };
        Long { budget: WorkBudget::new(foreground.clone()), _work: work }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use platform::{Clock, Foreground, SimulatedClock};

    use super::*;

    fn admission() -> (Arc<SimulatedClock>, Admission) {
        let clock = Arc::new(SimulatedClock::new(0));
        let admission = Admission::new(clock.clone(), Arc::new(Foreground::new(2)));
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
        assert_eq!(WorkClass::of_thread(), WorkClass::LongWriting);
        drop(turn);
        assert_eq!(WorkClass::of_thread(), WorkClass::Background);
    }

    #[test]
    fn a_long_command_beside_short_ones_takes_a_quarter_of_two_processors() {
        for class in [Class::Read, Class::Write] {
            let (clock, admission) = admission();
            let turn = turn(&admission, class, false);
            let short = || drop(admission.admit(Class::Read, || false).unwrap());
            let took = work(&clock, &turn, 400, short);
            assert!((760..=800).contains(&took.as_millis()), "{took:?}");
            // Two of them take half as much each. The other is another thread's.
            WorkClass::Background.set_for_thread();
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
        clock.advance(LONG_AFTER);
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
        assert_eq!(WorkClass::of_thread(), WorkClass::Write);
    }
}
