//! Who is there beside work that lasts: short operations of clients that end, and long ones that go on.
//!
//! One for each store, handed over when it is opened. `commands` counts what ends, each [`LongWork`] counts itself, and
//! every [`WorkBudget`](crate::WorkBudget) looks here for how much it may take.

use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use crate::work_class::{WorkClass, WorkScope};

/// Long work together may take one processor in so many while short operations come.
const PROCESSORS_FOR_ONE: f64 = 4.0;

/// See the module's head.
#[derive(Debug)]
pub struct Foreground {
    processors: usize,
    /// Operations of clients that ended and were not long.
    finished: AtomicU64,
    long_running: AtomicUsize,
    /// Operations of clients that use processors now.
    running: AtomicUsize,
    /// Threads that others' work has begun.
    second_threads: AtomicUsize,
    /// How often one has begun.
    second_threads_begun: AtomicU64,
}

impl Foreground {
    /// Nobody is there yet. Work shares so many processors.
    pub fn new(processors: usize) -> Foreground {
        Foreground {
            processors: processors.max(1),
            finished: AtomicU64::new(0),
            long_running: AtomicUsize::new(0),
            running: AtomicUsize::new(0),
            second_threads: AtomicUsize::new(0),
            second_threads_begun: AtomicU64::new(0),
        }
    }

    /// How many processors the process may use.
    pub fn processors(&self) -> usize {
        self.processors
    }

    /// A short operation of a client has ended.
    pub fn note_finished(&self) {
        self.finished.fetch_add(1, Ordering::Relaxed);
    }

    /// How many have.
    pub(crate) fn finished(&self) -> u64 {
        self.finished.load(Ordering::Relaxed)
    }

    /// An operation of a client begins to use a processor.
    pub fn note_begun(&self) {
        self.running.fetch_add(1, Ordering::Relaxed);
    }

    /// It does so no longer.
    pub fn note_ended(&self) {
        self.running.fetch_sub(1, Ordering::Relaxed);
    }

    /// A thread that another's work has begun is there, or there no longer.
    pub(crate) fn note_second_thread(&self, more: isize) {
        self.second_threads.fetch_add(more as usize, Ordering::Relaxed);
        self.second_threads_begun.fetch_add(u64::from(more > 0), Ordering::Relaxed);
    }

    /// How often a second thread has begun.
    pub fn second_threads_begun(&self) -> u64 {
        self.second_threads_begun.load(Ordering::Relaxed)
    }

    /// How many processors operations and long work could use. A long operation is counted once, whichever way is more.
    pub(crate) fn demand(&self) -> usize {
        let running = self.running.load(Ordering::Relaxed) + self.second_threads.load(Ordering::Relaxed);
        running.max(self.long_running())
    }

    /// Threads whose work is long.
    pub fn long_running(&self) -> usize {
        self.long_running.load(Ordering::Relaxed)
    }

    /// The part of a processor that each of them may take while short operations come.
    pub(crate) fn long_share(&self) -> f64 {
        let running = self.long_running().max(1) as f64;
        (self.processors as f64 / PROCESSORS_FOR_ONE / running).min(1.0)
    }
}

impl Default for Foreground {
    fn default() -> Foreground {
        Foreground::new(crate::processors())
    }
}

/// While it is held, the calling thread's work is long, and counted as that once.
#[must_use]
#[derive(Debug)]
pub struct LongWork {
    /// `None`: what it is part of is long already.
    counted: Option<Arc<Foreground>>,
    _scope: WorkScope,
    _thread_bound: PhantomData<*const ()>,
}

impl LongWork {
    /// It changes nothing, or commits only at its end.
    pub fn begin(foreground: &Arc<Foreground>) -> LongWork {
        LongWork::begin_as(foreground, WorkClass::Long)
    }

    /// It commits now and then.
    pub fn begin_writing(foreground: &Arc<Foreground>) -> LongWork {
        LongWork::begin_as(foreground, WorkClass::LongWriting)
    }

    fn begin_as(foreground: &Arc<Foreground>, class: WorkClass) -> LongWork {
        let counted = (!WorkClass::of_thread().is_long()).then(|| Arc::clone(foreground));
        if let Some(foreground) = &counted {
            foreground.long_running.fetch_add(1, Ordering::Relaxed);
        }
        LongWork { counted, _scope: WorkScope::begin(class), _thread_bound: PhantomData }
    }
}

impl Drop for LongWork {
    fn drop(&mut self) {
        if let Some(foreground) = &self.counted {
            foreground.long_running.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_counts_once_however_many_works_are_in_each_other() {
        let foreground = Arc::new(Foreground::new(2));
        {
            let _outer = LongWork::begin_writing(&foreground);
            let _inner = LongWork::begin(&foreground);
            assert_eq!((foreground.long_running(), WorkClass::of_thread()), (1, WorkClass::LongWriting));
        }
        assert_eq!((foreground.long_running(), WorkClass::of_thread()), (0, WorkClass::Background));
    }

    #[test]
    fn all_together_have_a_quarter_however_many_they_are() {
        for processors in [1, 2, 8, 64] {
            for running in [1, 3, 64, 1000] {
                let foreground = Foreground::new(processors);
                foreground.long_running.store(running, Ordering::Relaxed);
                let together = foreground.long_share() * running as f64;
                let quarter = processors as f64 / 4.0;
                assert!((together - quarter.min(running as f64)).abs() < 1e-9, "{processors} {running} {together}");
            }
        }
    }
}
