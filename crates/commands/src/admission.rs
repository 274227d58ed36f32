//! Admission: how many commands run at once, who waits for a place, and who is told to come back later.
//!
//! `dispatcher` asks for a ticket before it runs a command that reads or writes documents; health and administrative
//! commands need none. Reads and writes have a gate each, so that reads do not queue behind writes that are being paced. A
//! ticket is given back when the command ends, or before it waits for the disk or for data (`Context::release_ticket`): what
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
//! Error 462 carries the labels that drivers back off on and retry (client-backpressure specification): nothing was done.

mod probing;
mod turn;

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use platform::Clock;

use self::probing::Probing;
pub(crate) use self::turn::Turn;
use crate::DocumentWriter;
use crate::error::{CommandError, Result};

/// How long a command waits for its turn.
const PATIENCE: Duration = Duration::from_secs(1);
/// How long it waits when the queue has not been empty for [`STANDING`].
const PATIENCE_OVERLOADED: Duration = Duration::from_millis(50);
/// A queue as old as this is no passing one.
const STANDING: Duration = Duration::from_secs(1);
/// Where the search for the right numbers begins: reads may wait for the disk, writes give their ticket back before they do.
const READS_FOR_EACH_PROCESSOR: usize = 16;
const WRITES_FOR_EACH_PROCESSOR: usize = 6;
/// Most commands that wait at one gate.
const QUEUE_MAX: usize = 4096;

/// What a command needs in order to run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Class {
    /// Nothing: it answers however loaded the server is.
    Exempt,
    /// A place among the reads.
    Read,
    /// A place among the writes.
    Write,
}

/// How the number of tickets is found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Algorithm {
    /// It follows throughput.
    ThroughputProbing,
    /// It is what was set.
    Fixed,
}

/// Both gates.
pub(crate) struct Admission {
    clock: Arc<dyn Clock>,
    reads: Gate,
    writes: Gate,
    processors: usize,
    /// Whether the limits stay as they are (`storageEngineConcurrencyAdjustmentAlgorithm`).
    is_fixed: AtomicBool,
    /// Commands that have worked for long and go on; how many such have ended; and how often one slept for the others.
    long_running: AtomicUsize,
    long_finished: AtomicU64,
    gave_way: AtomicU64,
}

/// The right to run; given back when dropped.
#[must_use]
pub(crate) struct Ticket<'a>(&'a Gate);

impl Drop for Ticket<'_> {
    fn drop(&mut self) {
        self.0.release();
    }
}

impl Ticket<'_> {
    /// Gives the place to the first who waits, and waits for another at the end of the queue, however long that takes.
    fn let_others_pass(&self) {
        if self.0.waiting.load(Ordering::SeqCst) > 0 {
            self.0.give_place();
            self.0.enter_again();
        }
    }
}

impl Admission {
    pub(crate) fn new(clock: Arc<dyn Clock>) -> Self {
        let processors = std::thread::available_parallelism().map_or(4, std::num::NonZero::get);
        let gate = |what, for_each: usize| Gate::new(what, for_each * processors);
        Self {
            clock,
            reads: gate("reads", READS_FOR_EACH_PROCESSOR),
            writes: gate("writes", WRITES_FOR_EACH_PROCESSOR),
            processors,
            is_fixed: AtomicBool::new(false),
            long_running: AtomicUsize::new(0),
            long_finished: AtomicU64::new(0),
            gave_way: AtomicU64::new(0),
        }
    }

    /// Waits for a place; `None` for what needs none. `must_run` is asked when there is none at once: whether the
    /// command is a step of something that holds locks others wait for, and so must not be held up.
    ///
    /// # Errors
    /// IngressRequestRateLimitExceeded (462): nothing was done, and the client is to come back later.
    pub(crate) fn admit(&self, class: Class, must_run: impl FnOnce() -> bool) -> Result<Option<Ticket<'_>>> {
        let Some(gate) = self.gate(class) else { return Ok(None) };
        if gate.try_enter() {
            return Ok(Some(Ticket(gate)));
        }
        if must_run() {
            gate.running.fetch_add(1, Ordering::SeqCst);
            return Ok(Some(Ticket(gate)));
        }
        gate.enter_by_queue(&*self.clock).map(|()| Some(Ticket(gate)))
    }

    /// How many commands have run to their end.
    pub(crate) fn finished(&self) -> u64 {
        self.reads.finished.load(Ordering::Relaxed) + self.writes.finished.load(Ordering::Relaxed)
    }

    /// Adapts the limits to what was seen since the last call; for a thread that calls it a few times a second.
    pub(crate) fn adapt(&self) {
        if self.is_fixed.load(Ordering::Relaxed) {
            return;
        }
        let now = self.clock.monotonic();
        self.reads.adapt(now);
        self.writes.adapt(now);
    }

    /// How the limits are found.
    pub(crate) fn algorithm(&self) -> Algorithm {
        if self.is_fixed.load(Ordering::Relaxed) { Algorithm::Fixed } else { Algorithm::ThroughputProbing }
    }

    /// Sets it; gives what it was. The limits go on from where they are.
    pub(crate) fn set_algorithm(&self, algorithm: Algorithm) -> Algorithm {
        let before = self.algorithm();
        self.is_fixed.store(algorithm == Algorithm::Fixed, Ordering::Relaxed);
        before
    }

    /// How many commands of a kind may run at once; `None` for those that need no ticket.
    pub(crate) fn limit(&self, class: Class) -> Option<u64> {
        self.gate(class).map(|gate| gate.limit.load(Ordering::Relaxed) as u64)
    }

    /// Sets it; gives what it was.
    pub(crate) fn set_limit(&self, class: Class, limit: usize) -> Option<u64> {
        let gate = self.gate(class)?;
        let before = gate.limit.swap(limit, Ordering::Relaxed);
        gate.let_in(&mut gate.queue.lock());
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
            section.document(gate.what, |figures| gate.write_figures(figures));
        }
        section.size("longRunning", self.long_running.load(Ordering::Relaxed) as u64);
        section.size("longGaveWay", self.gave_way.load(Ordering::Relaxed));
        section.size("patienceMicros", PATIENCE.as_micros() as u64);
        section.size("patienceOverloadedMicros", PATIENCE_OVERLOADED.as_micros() as u64);
    }

    /// What is held back, in plain words; nothing when nobody waits.
    pub(crate) fn explain(&self) -> Vec<String> {
        let now = self.clock.monotonic();
        [&self.reads, &self.writes].iter().filter_map(|gate| gate.explain(now)).collect()
    }
}

/// One kind of commands.
struct Gate {
    what: &'static str,
    running: AtomicUsize,
    limit: AtomicUsize,
    waiting: AtomicUsize,
    queue: Mutex<Queue>,
    /// Commands that gave their ticket back.
    finished: AtomicU64,
    queued: AtomicU64,
    rejected: AtomicU64,
    wait_micros: AtomicU64,
    probing: Mutex<Probing>,
}

#[derive(Default)]
struct Queue {
    waiters: VecDeque<Arc<Waiter>>,
    /// When the queue was empty last.
    standing_since: Option<Duration>,
}

#[derive(Default)]
struct Waiter {
    is_admitted: Mutex<bool>,
    admitted: Condvar,
}

impl Gate {
    fn new(what: &'static str, limit: usize) -> Gate {
        Gate {
            what,
            running: AtomicUsize::new(0),
            limit: AtomicUsize::new(limit),
            waiting: AtomicUsize::new(0),
            queue: Mutex::default(),
            finished: AtomicU64::new(0),
            queued: AtomicU64::new(0),
            rejected: AtomicU64::new(0),
            wait_micros: AtomicU64::new(0),
            probing: Mutex::default(),
        }
    }

    /// The way in when there is room and nobody waits.
    fn try_enter(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) == 0 && self.take_place()
    }

    fn take_place(&self) -> bool {
        let mut running = self.running.load(Ordering::SeqCst);
        while running < self.limit.load(Ordering::Relaxed) {
            match self.running.compare_exchange_weak(running, running + 1, Ordering::SeqCst, Ordering::SeqCst) {
                Ok(_) => return true,
                Err(now) => running = now,
            }
        }
        false
    }

    /// Waits in the queue for as long as it takes: for a command that has done part of its work.
    fn enter_again(&self) {
        let waiter = Arc::new(Waiter::default());
        let mut queue = self.queue.lock();
        queue.waiters.push_back(Arc::clone(&waiter));
        self.waiting.fetch_add(1, Ordering::SeqCst);
        self.let_in(&mut queue);
        drop(queue);
        waiter.wait_for_turn();
    }

    fn enter_by_queue(&self, clock: &dyn Clock) -> Result<()> {
        let (waiter, came, patience) = {
            let mut queue = self.queue.lock();
            let came = clock.monotonic();
            if queue.waiters.is_empty() {
                queue.standing_since = Some(came);
            }
            let stands = queue.standing_since.is_some_and(|since| came.saturating_sub(since) > STANDING);
            let patience = if stands { PATIENCE_OVERLOADED } else { PATIENCE };
            if queue.waiters.len() >= QUEUE_MAX {
                drop(queue);
                return Err(self.reject(Duration::ZERO));
            }
            let waiter = Arc::new(Waiter::default());
            queue.waiters.push_back(Arc::clone(&waiter));
            self.waiting.fetch_add(1, Ordering::SeqCst);
            // After `waiting` says so: a place that became free before is found here, a later one is handed over.
            self.let_in(&mut queue);
            (waiter, came, patience)
        };
        self.queued.fetch_add(1, Ordering::Relaxed);
        let admitted = waiter.wait(patience) || !self.leave_queue(&waiter);
        let waited = clock.monotonic().saturating_sub(came);
        self.wait_micros.fetch_add(waited.as_micros() as u64, Ordering::Relaxed);
        if admitted { Ok(()) } else { Err(self.reject(waited)) }
    }

    /// Takes the waiter out of the queue; false if it had been admitted meanwhile.
    fn leave_queue(&self, waiter: &Arc<Waiter>) -> bool {
        let mut queue = self.queue.lock();
        let Some(position) = queue.waiters.iter().position(|other| Arc::ptr_eq(other, waiter)) else {
            return false;
        };
        queue.waiters.remove(position);
        self.waiting.fetch_sub(1, Ordering::SeqCst);
        true
    }

    /// Admits the first of the queue while there is room.
    fn let_in(&self, queue: &mut Queue) {
        while !queue.waiters.is_empty() {
            if !self.take_place() {
                return;
            }
            if let Some(first) = queue.waiters.pop_front() {
                self.waiting.fetch_sub(1, Ordering::SeqCst);
                first.admit();
            }
        }
        queue.standing_since = None;
    }

    fn release(&self) {
        self.finished.fetch_add(1, Ordering::Relaxed);
        self.give_place();
    }

    fn give_place(&self) {
        self.running.fetch_sub(1, Ordering::SeqCst);
        if self.waiting.load(Ordering::SeqCst) > 0 {
            self.let_in(&mut self.queue.lock());
        }
    }

    fn adapt(&self, now: Duration) {
        let finished = self.finished.load(Ordering::Relaxed);
        let (queued, limit) = (self.queued.load(Ordering::Relaxed), self.limit.load(Ordering::Relaxed));
        let limit = self.probing.lock().next_limit(now, finished, queued, limit);
        self.limit.store(limit, Ordering::Relaxed);
        if self.waiting.load(Ordering::SeqCst) > 0 {
            self.let_in(&mut self.queue.lock());
        }
    }

    fn reject(&self, waited: Duration) -> CommandError {
        self.rejected.fetch_add(1, Ordering::Relaxed);
        let message = format!(
            "the server is overloaded: {} {} run and {} wait; this one was not begun after {} ms. Try again later",
            self.running.load(Ordering::Relaxed),
            self.what,
            self.waiting.load(Ordering::Relaxed),
            waited.as_millis()
        );
        let mut error = CommandError::named("IngressRequestRateLimitExceeded", message);
        error.labels = vec!["SystemOverloadedError", "RetryableError", "NoWritesPerformed"];
        error
    }

    fn write_figures(&self, section: &mut DocumentWriter<'_>) {
        section.size("limit", self.limit.load(Ordering::Relaxed) as u64);
        section.size("running", self.running.load(Ordering::Relaxed) as u64);
        section.size("waiting", self.waiting.load(Ordering::Relaxed) as u64);
        section.size("finished", self.finished.load(Ordering::Relaxed));
        section.size("queued", self.queued.load(Ordering::Relaxed));
        section.size("queuedMicros", self.wait_micros.load(Ordering::Relaxed));
        section.size("rejected", self.rejected.load(Ordering::Relaxed));
    }

    fn explain(&self, now: Duration) -> Option<String> {
        let since = self.queue.lock().standing_since?;
        let (running, waiting) = (self.running.load(Ordering::Relaxed), self.waiting.load(Ordering::Relaxed));
        let standing = now.saturating_sub(since).as_millis();
        let rejected = self.rejected.load(Ordering::Relaxed);
        Some(format!(
            "{waiting} {} wait for one of {running} running ones to end; the queue has stood for {standing} ms; \
             {rejected} were refused with error 462 since the start",
            self.what
        ))
    }
}

impl Waiter {
    /// Whether it was admitted in time.
    fn wait(&self, patience: Duration) -> bool {
        let mut is_admitted = self.is_admitted.lock();
        self.admitted.wait_while_for(&mut is_admitted, |is_admitted| !*is_admitted, patience);
        *is_admitted
    }

    fn wait_for_turn(&self) {
        let mut is_admitted = self.is_admitted.lock();
        self.admitted.wait_while(&mut is_admitted, |is_admitted| !*is_admitted);
    }

    fn admit(&self) {
        *self.is_admitted.lock() = true;
        self.admitted.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use platform::SystemClock;

    use super::*;

    fn admission(limit: usize) -> Admission {
        let admission = Admission::new(Arc::new(SystemClock::new()));
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
                        let ticket = admission.admit(Class::Write, || false).unwrap();
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
            (0..100).for_each(|_| admission.adapt());
            assert_eq!(admission.limit(Class::Write), Some(1));
            assert_eq!(admission.set_limit(Class::Write, 2), Some(1));
            assert!(waiting.join().unwrap().unwrap());
        });
        drop(held);
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
