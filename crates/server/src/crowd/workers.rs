//! The threads that run what the crowd's connections ask for: as few as keep the processors busy.
//!
//! Used by `crowd`. A job that comes is taken by whoever is awake and done with its own; only when fewer are awake than there are processors is
//! another woken. So while jobs keep coming, none costs a wake-up. A worker may block, and then the others must not wait for it:
//!
//! ```text
//!   Idle ──── a job, and fewer awake than processors ────────────────────────▶ Awake: a job, the next, ...
//!          ── a job has waited for a millisecond: those awake may be blocked ─▶     │        │
//!          ◀── no job ─────────────────────────────────────────────────────────────┘        │
//!                Waiting, replaced by another ◀── says that it waits (`command_waits`) ──────┘
//! ```
//!
//! Lock: `jobs`, before those of `connection_threads`.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use platform::{Clock, SystemClock, WorkBudget, WorkClass};

use crate::connection_threads::ConnectionThreads;

/// A job that has waited so long needs another worker.
pub(super) const LATE: Duration = Duration::from_millis(1);

/// What workers do.
pub(super) trait Job: Send + 'static {
    /// Does it; may block.
    fn run(self);
}

/// Threads and what they have to do.
pub(super) struct Workers<J> {
    threads: Arc<ConnectionThreads>,
    processors: usize,
    clock: SystemClock,
    jobs: Mutex<Jobs<J>>,
}

struct Jobs<J> {
    /// With when each came.
    queue: VecDeque<(Duration, J)>,
    /// Threads that have a job or look for one, and do not wait.
    awake: usize,
}

thread_local! {
    /// The workers that this thread is one of.
    static OWN: RefCell<Option<Arc<dyn Replace>>> = const { RefCell::new(None) };
    /// Whether it is a worker that is not counted as awake.
    static WAITS: Cell<bool> = const { Cell::new(false) };
}

trait Replace {
    /// One of those awake waits from now on.
    fn one_waits(&self);
}

/// The command that the calling thread runs is about to wait, for the disk or for data: whoever else has something to do need not wait for
/// it. Nothing happens on a thread that is none of the crowd's workers.
pub fn command_waits() {
    if WAITS.get() {
        return;
    }
    // Cannot be borrowed: what is called does not come back here.
    if let Ok(Some(workers)) = OWN.try_with(|own| own.borrow().clone()) {
        WAITS.set(true);
        workers.one_waits();
    }
}

impl<J: Job> Workers<J> {
    pub(super) fn new(threads: Arc<ConnectionThreads>) -> Arc<Self> {
        let processors = platform::processors();
        let jobs = Jobs { queue: VecDeque::new(), awake: 0 };
        Arc::new(Self { threads, processors, clock: SystemClock::new(), jobs: Mutex::new(jobs) })
    }

    /// Has somebody do it soon.
    pub(super) fn push(self: &Arc<Self>, job: J) {
        let now = self.clock.monotonic();
        let mut jobs = self.jobs.lock();
        jobs.queue.push_back((now, job));
        self.wake_if_few(&mut jobs);
    }

    /// Has another worker help if the first job has waited for long. False: there is no job.
    pub(super) fn help_late(self: &Arc<Self>) -> bool {
        let mut jobs = self.jobs.lock();
        let Some((came, _)) = jobs.queue.front() else { return false };
        if self.clock.monotonic().saturating_sub(*came) >= LATE {
            self.wake(&mut jobs);
        }
        true
    }

    /// Whether somebody must be looked for by the clock.
    pub(super) fn has_jobs(&self) -> bool {
        !self.jobs.lock().queue.is_empty()
    }

    fn wake_if_few(self: &Arc<Self>, jobs: &mut Jobs<J>) {
        if jobs.awake < self.processors.min(jobs.queue.len()) {
            self.wake(jobs);
        }
    }

    fn wake(self: &Arc<Self>, jobs: &mut Jobs<J>) {
        jobs.awake += 1;
        let workers = Arc::clone(self);
        // Fails where the machine has no thread at all. The reader asks again.
        if self.threads.start(move || workers.work()).is_err() {
            jobs.awake -= 1;
        }
    }

    /// A worker, which is counted as awake. A panic of a command ends it; the next job has another started.
    fn work(self: Arc<Self>) {
        let _own = Own::begin(&self);
        // There is always something to do: what matters is the sum, and those with a connection of their own go first.
        WorkClass::Background.set_for_thread();
        let mut jobs = self.jobs.lock();
        while let Some((came, job)) = jobs.queue.pop_front() {
            if !jobs.queue.is_empty() && self.clock.monotonic().saturating_sub(came) >= LATE {
                self.wake(&mut jobs);
            }
            drop(jobs);
            job.run();
            // While jobs keep coming it never sleeps, and who has woken up meanwhile may have to wait for the next tick.
            WorkBudget::background_step();
            jobs = self.jobs.lock();
            jobs.awake += usize::from(WAITS.take());
        }
        // Under the same lock: who comes next finds it gone.
        jobs.awake -= 1;
        WAITS.set(true);
    }
}

impl<J: Job> Replace for Arc<Workers<J>> {
    fn one_waits(&self) {
        let mut jobs = self.jobs.lock();
        jobs.awake -= 1;
        self.wake_if_few(&mut jobs);
    }
}

/// While a thread is a worker; takes it off the count in the end, after a panic, too.
struct Own<'w, J: Job>(&'w Arc<Workers<J>>);

impl<'w, J: Job> Own<'w, J> {
    fn begin(workers: &'w Arc<Workers<J>>) -> Self {
        OWN.set(Some(Arc::new(Arc::clone(workers))));
        WAITS.set(false);
        Self(workers)
    }
}

impl<J: Job> Drop for Own<'_, J> {
    fn drop(&mut self) {
        OWN.set(None);
        if !WAITS.take() {
            self.0.jobs.lock().awake -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::mpsc;
    use std::time::Duration;

    use super::*;

    struct Task(Box<dyn FnOnce() + Send>);

    impl Job for Task {
        fn run(self) {
            (self.0)();
        }
    }

    fn workers() -> Arc<Workers<Task>> {
        Workers::new(ConnectionThreads::new(platform::MemoryBudget::unlimited()))
    }

    #[test]
    fn those_that_wait_are_replaced_and_those_that_block_are_helped() {
        let workers = workers();
        for says_so in [true, false] {
            let (release, released) = mpsc::channel::<()>();
            let released = Arc::new(Mutex::new(released));
            let done = Arc::new(AtomicUsize::new(0));
            // More than there are processors, all of which block.
            for _ in 0..20 {
                let released = Arc::clone(&released);
                workers.push(Task(Box::new(move || {
                    if says_so {
                        command_waits();
                    }
                    released.lock().recv().ok();
                })));
            }
            let counted = Arc::clone(&done);
            workers.push(Task(Box::new(move || counted.store(1, Ordering::SeqCst))));
            while done.load(Ordering::SeqCst) == 0 {
                if !says_so {
                    workers.help_late();
                }
                SystemClock::new().sleep(Duration::from_millis(1));
            }
            drop(release);
            while workers.jobs.lock().awake > 0 {
                SystemClock::new().sleep(Duration::from_millis(1));
            }
            assert!(!workers.has_jobs());
        }
        workers.threads.stop(Duration::from_secs(5));
        assert_eq!(workers.jobs.lock().awake, 0);
    }

    #[test]
    fn a_panic_ends_a_worker_and_not_the_others_work() {
        let workers = workers();
        let done = Arc::new(AtomicUsize::new(0));
        for number in 0..100 {
            let done = Arc::clone(&done);
            workers.push(Task(Box::new(move || {
                done.fetch_add(1, Ordering::SeqCst);
                assert!(number % 10 != 0, "on purpose");
            })));
        }
        while done.load(Ordering::SeqCst) < 100 || workers.jobs.lock().awake > 0 {
            workers.help_late();
            SystemClock::new().sleep(Duration::from_millis(1));
        }
        workers.threads.stop(Duration::from_secs(5));
    }
}
