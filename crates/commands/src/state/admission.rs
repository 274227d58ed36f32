//! Admission: how many commands run at once, who waits for a place, and who is told to come back later.
//!
//! `dispatcher` asks for a ticket before it runs a command that reads or writes documents; health and administrative
//! commands need none. Reads and writes have a gate each, so that reads do not queue behind writes that are being paced. A
//! ticket is given back when the command ends, or before it waits for the disk or for data (`Place::give_up`): what
//! is counted are commands that use processors, pages and locks.
//!
//! ```text
//!   command ──▶ gate: running < limit? ──yes──▶ runs ──▶ gives its ticket to the first in the queue
//!                        │ no
//!                        ▼
//!                      queue, first come first served ── patience over, or queue full ──▶ error 462
//! ```
//!
//! Patience is a second while the queue is a passing one, and a twentieth of that once it has stood for a second: a queue that never
//! empties only adds its length to everybody's latency (as in "Controlling Queue Delay", Nichols and Jacobson, ACM Queue 2012).
//! The limit follows what throughput says: [`probing`].
//!
//! Who waits is a thread, or a request whose connection the server has set aside and which is called back ([`Admission::call_back`]): so it is
//! when many connections are busy ([`crowd`]).
//!
//! Error 462 carries the labels that drivers back off on and retry (client-backpressure specification): nothing was done.

mod bounds;
mod crowd;
mod gate;
mod permission;
mod probing;
mod turn;

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use platform::{Clock, Foreground};

use self::bounds::{CROWD_STRETCH, PATIENCE, PATIENCE_OVERLOADED, READS_FOR_EACH_PROCESSOR, WRITES_FOR_EACH_PROCESSOR};
use self::gate::Gate;
pub(crate) use self::permission::Granted;
pub use self::permission::{Need, Permission};
pub(crate) use self::turn::Turn;
use crate::DocumentWriter;
use crate::request::declaration::Class;
use crate::request::error::Result;

/// How the number of tickets is found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Algorithm {
    /// It follows throughput.
    ThroughputProbing,
    /// It is what was set.
    Fixed,
}

/// How many commands of a class run, may run, and wait.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Load {
    pub(crate) running: u64,
    pub(crate) limit: u64,
    pub(crate) waiting: u64,
}

/// Both gates.
pub(crate) struct Admission {
    clock: Arc<dyn Clock>,
    reads: Gate,
    writes: Gate,
    foreground: Arc<Foreground>,
    /// Whether the limits stay as they are (`storageEngineConcurrencyAdjustmentAlgorithm`).
    is_fixed: AtomicBool,
    /// How often a command that has worked for long has rested for others.
    gave_way: AtomicU64,
    crowd_stretch: Mutex<Stretch>,
    /// Commands that had ended when the limits were adapted last.
    finished_before: AtomicU64,
}

/// Of counting connections: when it began, and the processors' time of this process until then.
#[derive(Default)]
struct Stretch {
    began: Duration,
    processor_time: Duration,
}

/// In which stretch a connection was counted last, at each gate.
#[derive(Debug, Default)]
pub(crate) struct Counted {
    reads: u32,
    writes: u32,
}

/// The right to run; given back when dropped.
#[must_use]
pub(crate) struct Ticket<'a> {
    gate: &'a Gate,
    /// Whether who has it has worked for long.
    is_long: Cell<bool>,
    is_given_back: Cell<bool>,
}

impl Drop for Ticket<'_> {
    fn drop(&mut self) {
        self.give_back();
    }
}

impl<'a> Ticket<'a> {
    fn new(gate: &'a Gate) -> Ticket<'a> {
        gate.foreground.note_begun();
        Ticket { gate, is_long: Cell::new(false), is_given_back: Cell::new(false) }
    }
}

impl Ticket<'_> {
    /// Gives it back, once, before it is dropped.
    fn give_back(&self) {
        if self.is_given_back.replace(true) {
            return;
        }
        self.gate.release();
        self.gate.foreground.note_ended();
        if !self.is_long.get() {
            self.gate.foreground.note_finished();
        }
    }

    /// Gives the place to the first who waits, and waits for another at the end of the queue, however long that takes.
    /// Whether there were any.
    fn let_others_pass(&self) -> bool {
        let somebody_waits = self.gate.waiting.load(Ordering::SeqCst) > 0;
        if somebody_waits {
            self.gate.give_place();
            self.gate.enter_again();
        }
        somebody_waits
    }
}

impl Admission {
    /// What ends here is counted in `foreground`.
    pub(crate) fn new(clock: Arc<dyn Clock>, foreground: Arc<Foreground>) -> Self {
        let gate = |what, for_each: usize| Gate::new(what, for_each * foreground.processors(), Arc::clone(&foreground));
        Self {
            reads: gate("reads", READS_FOR_EACH_PROCESSOR),
            writes: gate("writes", WRITES_FOR_EACH_PROCESSOR),
            clock,
            foreground,
            is_fixed: AtomicBool::new(false),
            gave_way: AtomicU64::new(0),
            crowd_stretch: Mutex::default(),
            finished_before: AtomicU64::new(0),
        }
    }

    /// A connection has a command of this class.
    pub(crate) fn count(&self, class: Class, counted: &mut Counted) {
        match class {
            Class::Exempt => {}
            Class::Read => self.reads.crowd.count(&mut counted.reads),
            Class::Write => self.writes.crowd.count(&mut counted.writes),
        }
    }

    /// Whether those who come with such commands are so many that they should not have a thread each.
    pub(crate) fn is_crowded(&self, class: Class) -> bool {
        self.gate(class).is_some_and(|gate| gate.crowd.is_crowded())
    }

    /// `told` is called once: when a place is taken for it, or when patience is over. At once if nothing need be waited for.
    pub(crate) fn call_back(&self, class: Class, told: impl FnOnce(Result<()>) + Send + 'static) {
        match self.gate(class) {
            Some(gate) => gate.call_back(self.clock.monotonic(), Box::new(told)),
            None => told(Ok(())),
        }
    }

    /// What was called back has waited since then.
    pub(crate) fn count_wait(&self, class: Class, since: Duration) {
        if let Some(gate) = self.gate(class) {
            gate.count_wait(self.clock.monotonic().saturating_sub(since));
        }
    }

    /// Calls back those who have waited for too long. For a thread that does so every few milliseconds.
    pub(crate) fn refuse_overdue(&self) {
        let now = self.clock.monotonic();
        self.reads.refuse_overdue(now);
        self.writes.refuse_overdue(now);
    }

    /// Waits for a place; `None` for what needs none. `must_run` is asked when there is none at once: whether the
    /// command is a step of something that holds locks others wait for, and so must not be held up.
    ///
    /// # Errors
    /// IngressRequestRateLimitExceeded (462): nothing was done, and the client is to come back later.
    pub(crate) fn admit(&self, class: Class, must_run: impl FnOnce() -> bool) -> Result<Option<Ticket<'_>>> {
        let Some(gate) = self.gate(class) else { return Ok(None) };
        if gate.try_enter() {
            return Ok(Some(Ticket::new(gate)));
        }
        if must_run() {
            gate.running.fetch_add(1, Ordering::SeqCst);
            return Ok(Some(Ticket::new(gate)));
        }
        gate.enter_by_queue(&*self.clock).map(|()| Some(Ticket::new(gate)))
    }

    /// Adapts the limits to what was seen since the last call; for a thread that calls it a few times a second. Whether anything was: otherwise the next call
    /// may be later.
    pub(crate) fn adapt(&self) -> bool {
        let now = self.clock.monotonic();
        let mut before = self.finished_before.load(Ordering::Relaxed);
        let is_used = self.is_used_since(&mut before);
        self.finished_before.store(before, Ordering::Relaxed);
        self.count_crowds(now);
        if !self.is_fixed.load(Ordering::Relaxed) {
            self.reads.adapt(now);
            self.writes.adapt(now);
        }
        is_used
    }

    /// Whether commands that need a ticket run, or have ended since so many had. `before` becomes how many have.
    pub(crate) fn is_used_since(&self, before: &mut u64) -> bool {
        let gates = [&self.reads, &self.writes];
        let finished = gates.map(|gate| gate.finished.load(Ordering::Relaxed)).iter().sum();
        let is_running = gates.iter().any(|gate| gate.running.load(Ordering::Relaxed) > 0);
        std::mem::replace(before, finished) != finished || is_running
    }

    fn count_crowds(&self, now: Duration) {
        let mut stretch = self.crowd_stretch.lock();
        let elapsed = now.saturating_sub(stretch.began);
        if elapsed < CROWD_STRETCH {
            return;
        }
        let processor_time = platform::processor_time();
        let used = processor_time.saturating_sub(stretch.processor_time).as_secs_f64();
        *stretch = Stretch { began: now, processor_time };
        let processors = self.foreground.processors();
        let share = used / elapsed.as_secs_f64() / processors as f64;
        self.reads.crowd.next_stretch(processors, share);
        self.writes.crowd.next_stretch(processors, share);
    }

    /// How the limits are found.
    pub(crate) fn algorithm(&self) -> Algorithm {
        if self.is_fixed.load(Ordering::Relaxed) { Algorithm::Fixed } else { Algorithm::ThroughputProbing }
    }

    /// Sets it; gives what it was. What is fixed from now on stays as it is; a search begins where it begins when the server starts.
    pub(crate) fn set_algorithm(&self, algorithm: Algorithm) -> Algorithm {
        let before = self.algorithm();
        if (before, algorithm) == (Algorithm::Fixed, Algorithm::ThroughputProbing) {
            self.reads.begin_search(READS_FOR_EACH_PROCESSOR * self.foreground.processors());
            self.writes.begin_search(WRITES_FOR_EACH_PROCESSOR * self.foreground.processors());
        }
        self.is_fixed.store(algorithm == Algorithm::Fixed, Ordering::Relaxed);
        before
    }

    /// How many commands of a kind may run at once; `None` for those that need no ticket.
    pub(crate) fn limit(&self, class: Class) -> Option<u64> {
        self.gate(class).map(|gate| gate.limit.load(Ordering::Relaxed) as u64)
    }

    /// How full a gate is.
    pub(crate) fn load(&self, class: Class) -> Load {
        let Some(gate) = self.gate(class) else { return Load::default() };
        let number = |counter: &AtomicUsize| counter.load(Ordering::Relaxed) as u64;
        Load { running: number(&gate.running), limit: number(&gate.limit), waiting: number(&gate.waiting) }
    }

    /// Sets it; gives what it was.
    pub(crate) fn set_limit(&self, class: Class, limit: usize) -> Option<u64> {
        let gate = self.gate(class)?;
        let before = gate.limit.swap(limit, Ordering::Relaxed);
        gate.let_in();
        Some(before as u64)
    }

    fn gate(&self, class: Class) -> Option<&Gate> {
        match class {
            Class::Exempt => None,
            Class::Read => Some(&self.reads),
            Class::Write => Some(&self.writes),
        }
    }

    /// Writes the section of `serverStatus`.
    pub(crate) fn write_figures(&self, section: &mut DocumentWriter<'_>) {
        for gate in [&self.reads, &self.writes] {
            section.document(gate.what(), |figures| gate.write_figures(figures));
        }
        section.size("longRunning", self.foreground.long_running() as u64);
        section.size("longGaveWay", self.gave_way.load(Ordering::Relaxed));
        section.size("secondThreads", self.foreground.second_threads_begun());
        section.size("patienceMicros", PATIENCE.as_micros() as u64);
        section.size("patienceOverloadedMicros", PATIENCE_OVERLOADED.as_micros() as u64);
    }

    /// What is held back, in plain words; nothing when nobody waits.
    pub(crate) fn explain(&self) -> Vec<String> {
        let now = self.clock.monotonic();
        [&self.reads, &self.writes].iter().filter_map(|gate| gate.explain(now)).collect()
    }
}

#[cfg(test)]
mod tests {
    use platform::SystemClock;

    use super::*;
    use crate::request::error::CommandError;

    fn admission(limit: usize) -> Admission {
        let admission = Admission::new(Arc::new(SystemClock::new()), Arc::default());
        admission.writes.limit.store(limit, Ordering::Relaxed);
        admission
    }

    fn refused(result: Result<Option<Ticket<'_>>>) -> CommandError {
        match result {
            Err(error) => error,
            Ok(_) => panic!("it was admitted"),
        }
    }

    #[test]
    fn no_more_run_than_the_limit_and_all_get_their_turn() {
        let admission = admission(3);
        let (running, most) = (AtomicUsize::new(0), AtomicUsize::new(0));
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for _ in 0..2_000 {
                        // Where others keep the processors busy, patience may be over.
                        let ticket = loop {
                            match admission.admit(Class::Write, || false) {
                                Ok(ticket) => break ticket,
                                Err(error) => assert_eq!(error.code_name, "IngressRequestRateLimitExceeded"),
                            }
                        };
                        most.fetch_max(running.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                        std::thread::yield_now();
                        running.fetch_sub(1, Ordering::SeqCst);
                        drop(ticket);
                    }
                });
            }
        });
        assert!(most.load(Ordering::SeqCst) <= 3);
        let gate = &admission.writes;
        assert_eq!(gate.finished.load(Ordering::SeqCst), 16_000);
        assert_eq!((gate.running.load(Ordering::SeqCst), gate.waiting.load(Ordering::SeqCst)), (0, 0));
        assert!(gate.queue.lock().waiters.is_empty());
    }

    #[test]
    fn a_full_gate_refuses_when_patience_is_over_and_lets_reads_pass() {
        let admission = admission(1);
        let held = admission.admit(Class::Write, || false).unwrap();
        assert!(admission.admit(Class::Read, || false).unwrap().is_some());
        assert!(admission.admit(Class::Exempt, || false).unwrap().is_none());
        let error = refused(admission.admit(Class::Write, || false));
        assert_eq!((error.code, &*error.code_name), (462, "IngressRequestRateLimitExceeded"));
        assert_eq!(error.labels, ["SystemOverloadedError", "RetryableError", "NoWritesPerformed"]);
        drop(held);
        assert!(admission.admit(Class::Write, || false).unwrap().is_some());
        assert_eq!(admission.writes.rejected.load(Ordering::SeqCst), 1);
    }

    #[test]
    fn a_fixed_limit_stays_and_a_new_one_lets_waiters_in() {
        let admission = admission(1);
        assert_eq!(admission.set_algorithm(Algorithm::Fixed), Algorithm::ThroughputProbing);
        let held = admission.admit(Class::Write, || false).unwrap();
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| admission.admit(Class::Write, || false).map(|ticket| ticket.is_some()));
            while admission.writes.waiting.load(Ordering::SeqCst) == 0 {
                std::thread::yield_now();
            }
            (0..100).for_each(|_| _ = admission.adapt());
            assert_eq!(admission.limit(Class::Write), Some(1));
            assert_eq!(admission.set_limit(Class::Write, 2), Some(1));
            assert!(waiting.join().unwrap().unwrap());
        });
        drop(held);
        admission.set_limit(Class::Write, 256);
        assert_eq!(admission.set_algorithm(Algorithm::Fixed), Algorithm::Fixed);
        assert_eq!(admission.limit(Class::Write), Some(256));
        assert_eq!(admission.set_algorithm(Algorithm::ThroughputProbing), Algorithm::Fixed);
        let start = (WRITES_FOR_EACH_PROCESSOR * admission.foreground.processors()) as u64;
        assert_eq!(admission.limit(Class::Write), Some(start));
        assert_eq!(admission.limit(Class::Exempt), None);
    }

    #[test]
    fn who_has_worked_for_long_lets_others_pass() {
        let admission = admission(1);
        let long = admission.admit(Class::Write, || false).unwrap().unwrap();
        let done = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let ticket = admission.admit(Class::Write, || false).unwrap();
                done.fetch_add(1, Ordering::SeqCst);
                drop(ticket);
            });
            while admission.writes.waiting.load(Ordering::SeqCst) == 0 {
                std::thread::yield_now();
            }
            long.let_others_pass();
            assert_eq!(done.load(Ordering::SeqCst), 1);
        });
        drop(long);
        assert_eq!(admission.writes.running.load(Ordering::SeqCst), 0);
    }

    #[test]
    fn who_is_called_back_waits_without_a_thread_and_is_refused_when_patience_is_over() {
        let clock = Arc::new(platform::SimulatedClock::new(0));
        let admission = Admission::new(clock.clone(), Arc::default());
        admission.writes.limit.store(1, Ordering::Relaxed);
        let outcomes = Arc::new(Mutex::new(Vec::new()));
        let come = |name: &'static str| {
            let outcomes = Arc::clone(&outcomes);
            let told = move |outcome: Result<()>| outcomes.lock().push((name, outcome.map_err(|error| error.code)));
            admission.call_back(Class::Write, told);
        };
        come("first");
        come("second");
        clock.advance(PATIENCE / 2);
        come("third");
        assert_eq!(*outcomes.lock(), [("first", Ok(()))]);
        admission.writes.release();
        assert_eq!(outcomes.lock().last(), Some(&("second", Ok(()))));
        clock.advance(PATIENCE / 2 + Duration::from_millis(1));
        admission.refuse_overdue();
        assert_eq!(outcomes.lock().len(), 2, "its patience is not over");
        // The queue has stood for longer than a second: patience is short now.
        come("fourth");
        clock.advance(PATIENCE_OVERLOADED);
        admission.refuse_overdue();
        assert_eq!(outcomes.lock().last(), Some(&("fourth", Err(462))));
        clock.advance(PATIENCE);
        admission.refuse_overdue();
        assert_eq!(outcomes.lock().last(), Some(&("third", Err(462))));
        assert_eq!(admission.writes.rejected.load(Ordering::SeqCst), 2);
        admission.writes.release();
        come("fifth");
        assert_eq!(outcomes.lock().last(), Some(&("fifth", Ok(()))));
        let gate = &admission.writes;
        assert_eq!((gate.running.load(Ordering::SeqCst), gate.waiting.load(Ordering::SeqCst)), (1, 0));
    }

    #[test]
    fn steps_of_transactions_are_never_held_up() {
        let admission = admission(1);
        let held = admission.admit(Class::Write, || false).unwrap();
        let step = admission.admit(Class::Write, || true).unwrap();
        assert_eq!(admission.writes.running.load(Ordering::SeqCst), 2);
        drop((held, step));
        assert_eq!(admission.writes.running.load(Ordering::SeqCst), 0);
    }

    #[test]
    fn a_higher_limit_lets_those_in_who_wait() {
        let admission = admission(1);
        let held = admission.admit(Class::Write, || false).unwrap();
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| admission.admit(Class::Write, || false).map(|ticket| ticket.is_some()));
            while admission.writes.waiting.load(Ordering::SeqCst) == 0 {
                std::thread::yield_now();
            }
            assert!(admission.explain().iter().any(|text| text.contains("1 writes wait")));
            admission.writes.limit.store(2, Ordering::SeqCst);
            admission.adapt();
            assert!(waiting.join().unwrap().unwrap());
        });
        drop(held);
        assert!(admission.explain().is_empty());
    }
}
