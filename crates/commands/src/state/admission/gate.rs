//! One gate: those that run, and the queue of those that wait for a ticket.
//!
//! Used by `admission`, which has one for reads and one for writes. A waiter is a thread that sleeps, or a request whose connection is
//! set aside and which is called back ([`Waiter::Parked`]): the latter costs no thread while it waits.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use platform::{Clock, Foreground};

use super::bounds::{PATIENCE, PATIENCE_OVERLOADED, QUEUE_MAX, STANDING};
use super::crowd::Crowd;
use super::probing::Probing;
use crate::DocumentWriter;
use crate::request::error::{CommandError, Result};

/// One kind of commands.
pub(super) struct Gate {
    what: &'static str,
    pub(super) running: AtomicUsize,
    pub(super) limit: AtomicUsize,
    pub(super) waiting: AtomicUsize,
    pub(super) queue: Mutex<Queue>,
    pub(super) foreground: Arc<Foreground>,
    /// Commands that gave their ticket back.
    pub(super) finished: AtomicU64,
    queued: AtomicU64,
    pub(super) rejected: AtomicU64,
    wait_micros: AtomicU64,
    probing: Mutex<Probing>,
    /// The connections that come here.
    pub(super) crowd: Crowd,
}

#[derive(Default)]
pub(super) struct Queue {
    pub(super) waiters: VecDeque<Waiter>,
    /// When the queue was empty last.
    standing_since: Option<Duration>,
}

/// Who waits.
pub(super) enum Waiter {
    /// A thread, which sleeps.
    Thread(Arc<Sleeper>),
    /// A request without a thread.
    Parked(Parked),
}

/// A request whose connection is set aside until it is told what came of it.
pub(super) struct Parked {
    came: Duration,
    deadline: Duration,
    told: Told,
}

/// Told once, with nothing locked, whether there is a place: if so, it is taken.
pub(super) type Told = Box<dyn FnOnce(Result<()>) + Send>;

#[derive(Default)]
pub(super) struct Sleeper {
    is_admitted: Mutex<bool>,
    admitted: Condvar,
}

impl Gate {
    pub(super) fn new(what: &'static str, limit: usize, foreground: Arc<Foreground>) -> Gate {
        Gate {
            what,
            running: AtomicUsize::new(0),
            limit: AtomicUsize::new(limit),
            waiting: AtomicUsize::new(0),
            queue: Mutex::default(),
            foreground,
            finished: AtomicU64::new(0),
            queued: AtomicU64::new(0),
            rejected: AtomicU64::new(0),
            wait_micros: AtomicU64::new(0),
            probing: Mutex::default(),
            crowd: Crowd::default(),
        }
    }

    /// The way in when there is room and nobody waits.
    pub(super) fn try_enter(&self) -> bool {
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
    pub(super) fn enter_again(&self) {
        let sleeper = Arc::new(Sleeper::default());
        self.enqueue(&mut self.queue.lock(), Waiter::Thread(Arc::clone(&sleeper)));
        self.let_in();
        sleeper.wait_for_turn();
    }

    /// The calling thread waits.
    pub(super) fn enter_by_queue(&self, clock: &dyn Clock) -> Result<()> {
        let came = clock.monotonic();
        let sleeper = Arc::new(Sleeper::default());
        let patience = {
            let mut queue = self.queue.lock();
            let patience = queue.patience(came);
            if queue.waiters.len() >= QUEUE_MAX {
                drop(queue);
                return Err(self.reject(Duration::ZERO));
            }
            self.enqueue(&mut queue, Waiter::Thread(Arc::clone(&sleeper)));
            patience
        };
        self.let_in();
        self.queued.fetch_add(1, Ordering::Relaxed);
        let admitted = sleeper.wait(patience) || !self.leave_queue(&sleeper);
        let waited = clock.monotonic().saturating_sub(came);
        self.count_wait(waited);
        if admitted { Ok(()) } else { Err(self.reject(waited)) }
    }

    /// `told` is called as soon as there is a place, or patience is over; perhaps at once.
    pub(super) fn call_back(&self, now: Duration, told: Told) {
        if self.try_enter() {
            return told(Ok(()));
        }
        let mut queue = self.queue.lock();
        let deadline = now + queue.patience(now);
        if queue.waiters.len() >= QUEUE_MAX {
            drop(queue);
            return told(Err(self.reject(Duration::ZERO)));
        }
        self.enqueue(&mut queue, Waiter::Parked(Parked { came: now, deadline, told }));
        drop(queue);
        self.queued.fetch_add(1, Ordering::Relaxed);
        self.let_in();
    }

    /// Tells those who are called back and whose patience is over that there was no place for them.
    pub(super) fn refuse_overdue(&self, now: Duration) {
        if self.waiting.load(Ordering::Relaxed) == 0 {
            return;
        }
        let mut overdue = Vec::new();
        {
            let mut queue = self.queue.lock();
            let is_overdue = |waiter: &Waiter| matches!(waiter, Waiter::Parked(parked) if parked.deadline <= now);
            if !queue.waiters.iter().any(is_overdue) {
                return;
            }
            for waiter in std::mem::take(&mut queue.waiters) {
                match waiter {
                    Waiter::Parked(parked) if parked.deadline <= now => overdue.push(parked),
                    waiting => queue.waiters.push_back(waiting),
                }
            }
            self.waiting.fetch_sub(overdue.len(), Ordering::SeqCst);
        }
        for parked in overdue {
            let waited = now.saturating_sub(parked.came);
            (parked.told)(Err(self.reject(waited)));
        }
    }

    pub(super) fn count_wait(&self, waited: Duration) {
        self.wait_micros.fetch_add(waited.as_micros() as u64, Ordering::Relaxed);
    }

    /// Puts a waiter at the end. The caller lets in afterwards: a place that became free before `waiting` says that somebody waits is
    /// found then, a later one is handed over.
    fn enqueue(&self, queue: &mut Queue, waiter: Waiter) {
        queue.waiters.push_back(waiter);
        self.waiting.fetch_add(1, Ordering::SeqCst);
    }

    /// Takes a thread out of the queue; false if it had been admitted meanwhile.
    fn leave_queue(&self, sleeper: &Arc<Sleeper>) -> bool {
        let mut queue = self.queue.lock();
        let is_it = |waiter: &Waiter| matches!(waiter, Waiter::Thread(other) if Arc::ptr_eq(other, sleeper));
        let Some(position) = queue.waiters.iter().position(is_it) else {
            return false;
        };
        queue.waiters.remove(position);
        self.waiting.fetch_sub(1, Ordering::SeqCst);
        true
    }

    /// Admits the first of the queue while there is room.
    pub(super) fn let_in(&self) {
        while let Some(first) = self.next_admitted() {
            match first {
                Waiter::Thread(sleeper) => sleeper.admit(),
                Waiter::Parked(parked) => (parked.told)(Ok(())),
            }
        }
    }

    fn next_admitted(&self) -> Option<Waiter> {
        let mut queue = self.queue.lock();
        if queue.waiters.is_empty() {
            queue.standing_since = None;
            return None;
        }
        if !self.take_place() {
            return None;
        }
        self.waiting.fetch_sub(1, Ordering::SeqCst);
        queue.waiters.pop_front()
    }

    pub(super) fn release(&self) {
        self.finished.fetch_add(1, Ordering::Relaxed);
        self.give_place();
    }

    pub(super) fn give_place(&self) {
        self.running.fetch_sub(1, Ordering::SeqCst);
        if self.waiting.load(Ordering::SeqCst) > 0 {
            self.let_in();
        }
    }

    /// The limit is searched for from here.
    pub(super) fn begin_search(&self, limit: usize) {
        *self.probing.lock() = Probing::default();
        self.limit.store(limit, Ordering::Relaxed);
        self.let_in();
    }

    pub(super) fn adapt(&self, now: Duration) {
        let finished = self.finished.load(Ordering::Relaxed);
        let (queued, limit) = (self.queued.load(Ordering::Relaxed), self.limit.load(Ordering::Relaxed));
        let limit = self.probing.lock().next_limit(now, finished, queued, limit);
        self.limit.store(limit, Ordering::Relaxed);
        if self.waiting.load(Ordering::SeqCst) > 0 {
            self.let_in();
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

    pub(super) fn what(&self) -> &'static str {
        self.what
    }

    pub(super) fn write_figures(&self, section: &mut DocumentWriter<'_>) {
        section.size("limit", self.limit.load(Ordering::Relaxed) as u64);
        section.size("running", self.running.load(Ordering::Relaxed) as u64);
        section.size("waiting", self.waiting.load(Ordering::Relaxed) as u64);
        section.size("finished", self.finished.load(Ordering::Relaxed));
        section.size("queued", self.queued.load(Ordering::Relaxed));
        section.size("queuedMicros", self.wait_micros.load(Ordering::Relaxed));
        section.size("rejected", self.rejected.load(Ordering::Relaxed));
        section.size("connections", self.crowd.size() as u64);
        section.boolean("isCrowded", self.crowd.is_crowded());
    }

    pub(super) fn explain(&self, now: Duration) -> Option<String> {
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

impl Queue {
    /// How long who comes now waits at most.
    fn patience(&mut self, now: Duration) -> Duration {
        if self.waiters.is_empty() {
            self.standing_since = Some(now);
        }
        let stands = self.standing_since.is_some_and(|since| now.saturating_sub(since) > STANDING);
        if stands { PATIENCE_OVERLOADED } else { PATIENCE }
    }
}

impl Sleeper {
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
