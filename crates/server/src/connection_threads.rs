//! The threads that serve connections: kept for a moment when they have nothing to do, and counted while they live.
//!
//! Used by `connection` for one that has a thread to itself, and by the crowd's workers.
//!
//! ```text
//!   work ──▶ the thread that became idle last ── none is ──▶ a new one, counted if there is room
//!                    │ done
//!                    ├── other work waits for a thread: does that
//!                    ├── memory is short, and as many are idle as there are processors: ends
//!                    └── idle; ends when nothing came for a while
//! ```
//!
//! Whoever became idle last goes first, so those that a burst has made and nobody needs any more get no work, and end. Were
//! they woken in turn, a little work would keep all of them. A thread that has done work keeps what it has allocated and
//! touched of its stack (`THREAD_BYTES`), idle or not, so it is counted as long as it lives.
//!
//! Lock: `pool` is a leaf, but for the place where an idle thread is handed its work, which is taken under it.

use std::collections::VecDeque;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use platform::{MemoryBudget, command_memory};
use tokio::sync::oneshot;

use crate::connection_memory::ThreadMemory;

/// Stack of each thread. Below 2 MiB, so that a kernel set to huge pages everywhere cannot make one of each stack.
pub(crate) const THREAD_STACK_BYTES: usize = 1536 * 1024;
/// A thread that has had nothing to do for this long ends.
const THREAD_KEPT: Duration = Duration::from_secs(1);

type Work = Box<dyn FnOnce() + Send>;

/// See the module's head.
pub(crate) struct ConnectionThreads {
    memory: Arc<MemoryBudget>,
    processors: usize,
    kept: Duration,
    pool: Mutex<Pool>,
    /// The last one has ended.
    all_ended: Condvar,
}

#[derive(Default)]
struct Pool {
    /// In the order in which they became idle.
    idle: Vec<Arc<Idle>>,
    /// For a thread that begins, or that is done with what it does. While something waits none is idle.
    waiting: VecDeque<Work>,
    alive: usize,
    is_stopping: bool,
}

/// Where an idle thread is handed its work.
#[derive(Default)]
struct Idle {
    work: Mutex<Option<Work>>,
    came: Condvar,
}

impl Idle {
    /// The thread does this. Whoever calls has taken it off the list, and holds `pool`.
    fn hand(&self, work: Work) {
        *self.work.lock() = Some(work);
        self.came.notify_one();
    }
}

impl ConnectionThreads {
    pub(crate) fn new(memory: Arc<MemoryBudget>) -> Arc<Self> {
        Self::keeping(memory, THREAD_KEPT)
    }

    fn keeping(memory: Arc<MemoryBudget>, kept: Duration) -> Arc<Self> {
        let processors = platform::processors();
        Arc::new(Self { memory, processors, kept, pool: Mutex::default(), all_ended: Condvar::new() })
    }

    /// Has a thread do this, which may block.
    ///
    /// # Errors
    /// The machine refuses another thread, and there is none that could do it later. It is dropped.
    pub(crate) fn start(self: &Arc<Self>, work: impl FnOnce() + Send + 'static) -> io::Result<()> {
        let work: Work = Box::new(work);
        let mut pool = self.pool.lock();
        if let Some(idle) = pool.idle.pop() {
            idle.hand(work);
            return Ok(());
        }
        pool.waiting.push_back(work);
        pool.alive += 1;
        drop(pool);
        self.spawn().or_else(|error| self.is_refused_another(error))
    }

    /// Has a thread do this, and gives what it returned. Nothing: it has panicked, or there was no thread for it.
    pub(crate) async fn run<T: Send + 'static>(
        self: &Arc<Self>,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Option<T> {
        let (done, result) = oneshot::channel();
        // Who asked may be gone.
        let started = self.start(move || drop(done.send(work())));
        if let Err(error) = started {
            tracing::error!(target: "network", %error, "there is no thread for a connection, which ends");
        }
        result.await.ok()
    }

    /// Ends those that have nothing to do, now and later, and waits for the others, but no longer than this.
    pub(crate) fn stop(&self, longest: Duration) {
        let mut pool = self.pool.lock();
        pool.is_stopping = true;
        for idle in pool.idle.drain(..) {
            idle.hand(Box::new(|| {}));
        }
        self.all_ended.wait_while_for(&mut pool, |pool| pool.alive > 0, longest);
    }

    /// Starts a thread, which is one of those alive already.
    fn spawn(self: &Arc<Self>) -> io::Result<()> {
        let mut memory = ThreadMemory::new(&self.memory);
        // Here, so that many who begin at once see each other; it may be a command that has a worker replaced.
        command_memory::not_of_the_command(|| memory.try_count());
        let threads = Arc::clone(self);
        platform::spawn_sized("plimsoll", THREAD_STACK_BYTES, move || threads.live(memory)).map(drop)
    }

    /// The thread could not be started: the others do what waits, if there are any.
    fn is_refused_another(&self, error: io::Error) -> io::Result<()> {
        let mut pool = self.pool.lock();
        pool.alive -= 1;
        if pool.alive > 0 {
            return Ok(());
        }
        let lost = std::mem::take(&mut pool.waiting);
        // What it has is dropped, which may take long.
        drop(pool);
        if lost.is_empty() { Ok(()) } else { Err(error) }
    }

    /// A thread's life.
    fn live(&self, mut memory: ThreadMemory) {
        let place = Arc::new(Idle::default());
        while let Some(work) = self.next_work(&place, &mut memory) {
            // The panic hook has told of it, and what it had is dropped.
            let _ = catch_unwind(AssertUnwindSafe(work));
        }
    }

    /// Waits for something to do; nothing when the thread is to end.
    fn next_work(&self, place: &Arc<Idle>, memory: &mut ThreadMemory) -> Option<Work> {
        let mut pool = self.pool.lock();
        if let Some(work) = pool.waiting.pop_front() {
            return Some(work);
        }
        // Those that all processors have a use for would have to be made again at once.
        let is_kept = memory.try_count() || pool.idle.len() < self.processors;
        if pool.is_stopping || !is_kept {
            return self.end(&mut pool, memory);
        }
        pool.idle.push(Arc::clone(place));
        drop(pool);
        let mut work = place.work.lock();
        if place.came.wait_while_for(&mut work, |work| work.is_none(), self.kept).timed_out() {
            drop(work);
            let mut pool = self.pool.lock();
            let at = pool.idle.iter().position(|idle| Arc::ptr_eq(idle, place));
            if let Some(at) = at {
                pool.idle.remove(at);
                return self.end(&mut pool, memory);
            }
            // Handed over since.
            drop(pool);
            work = place.work.lock();
        }
        work.take()
    }

    /// There is no more work for it. Whoever has some knows that from now on.
    fn end(&self, pool: &mut Pool, memory: &mut ThreadMemory) -> Option<Work> {
        memory.uncount();
        pool.alive -= 1;
        if pool.alive == 0 {
            self.all_ended.notify_all();
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, channel};

    use platform::{Clock, MemoryUse, SystemClock};

    use super::*;
    use crate::connection_memory::THREAD_BYTES;

    fn eventually(what: &str, condition: impl Fn() -> bool) {
        let clock = SystemClock::new();
        let began = clock.monotonic();
        while !condition() {
            assert!(clock.monotonic() - began < Duration::from_secs(20), "never: {what}");
            clock.sleep(Duration::from_millis(1));
        }
    }

    /// So many at once, all of which wait until this is dropped.
    fn start_blocked(threads: &Arc<ConnectionThreads>, count: usize) -> impl Sized + use<> {
        let (release, released) = channel::<()>();
        let released: Arc<Mutex<Receiver<()>>> = Arc::new(Mutex::new(released));
        for _ in 0..count {
            let released = Arc::clone(&released);
            threads.start(move || assert!(released.lock().recv().is_err())).unwrap();
        }
        release
    }

    #[test]
    fn they_are_counted_while_they_live_and_a_little_work_keeps_few() {
        let budget = MemoryBudget::new(64 << 20);
        let threads = ConnectionThreads::keeping(Arc::clone(&budget), Duration::from_millis(50));
        let blocked = start_blocked(&threads, 20);
        assert_eq!(threads.pool.lock().alive, 20);
        assert_eq!(budget.used_for(MemoryUse::Threads), 20 * THREAD_BYTES);
        drop(blocked);
        // There is work all the time, but never for more than one.
        eventually("the others end", || {
            let (done, is_done) = channel();
            threads.start(move || done.send(()).unwrap()).unwrap();
            is_done.recv().unwrap();
            threads.pool.lock().alive <= 2
        });
        eventually("without work all do", || threads.pool.lock().alive == 0);
        assert_eq!(budget.used(), 0);
    }

    #[test]
    fn where_memory_is_short_few_are_kept() {
        let budget = MemoryBudget::new(16 << 20);
        let threads = ConnectionThreads::keeping(Arc::clone(&budget), Duration::from_secs(600));
        let blocked = start_blocked(&threads, 60);
        let other = budget.reserve_fixed(MemoryUse::Operations, budget.free());
        let beside = start_blocked(&threads, 10);
        assert_eq!(budget.used_for(MemoryUse::Threads), 60 * THREAD_BYTES, "who does not fit works all the same");
        drop((blocked, beside));
        eventually("memory is not short any more, and who is left is counted", || {
            let alive = threads.pool.lock().alive;
            let counted = budget.used_for(MemoryUse::Threads) / THREAD_BYTES;
            // But for those that became idle first.
            budget.free() >= 1 << 20
                && (31..=60).contains(&alive)
                && counted + threads.processors as u64 >= alive as u64
        });
        drop(other);
        threads.stop(Duration::from_secs(20));
        assert_eq!((threads.pool.lock().alive, budget.used()), (0, 0));
    }

    #[test]
    fn a_panic_ends_the_work_and_not_the_thread() {
        let threads = ConnectionThreads::new(MemoryBudget::unlimited());
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        for _ in 0..3 {
            assert_eq!(runtime.block_on(threads.run(|| 1 + 1)), Some(2));
            assert_eq!(runtime.block_on(threads.run(|| panic!("on purpose"))), None::<i32>);
        }
        eventually("all are idle", || {
            let pool = threads.pool.lock();
            pool.alive > 0 && pool.alive == pool.idle.len()
        });
        threads.stop(Duration::from_secs(20));
        assert_eq!(threads.pool.lock().alive, 0);
    }
}
