//! Whether a processor is spare: whether work that could use a second thread may have one, at nobody's cost.
//!
//! Called by `executor` for long scans. It relies on [`Foreground`], which counts who is there. No clock of the kernel is
//! asked: what is judged by is what this process does for its clients. Where more than a half of many processors are
//! idle, short operations that come and go are no reason to stop.
//!
//! ```text
//!   nobody has come for QUIET, and a processor is left ──▶ a second thread is begun (SecondThread)
//!   somebody comes, or processors become short ──────────▶ it stops at once, and is begun again when it is quiet
//! ```

use std::sync::Arc;
use std::time::Duration;

use crate::foreground::{Foreground, LongWork};

/// So long nobody has come before a second thread is begun: the next is then not expected soon. Who comes every 20 ms meets none.
const QUIET: Duration = Duration::from_millis(50);

/// A look at the processors, for one piece of work.
#[derive(Debug)]
pub struct SpareProcessor {
    foreground: Arc<Foreground>,
    /// Operations that had ended at the last look.
    others_before: u64,
    /// When it was last seen that some had, or when the work began.
    others_seen: Duration,
}

impl SpareProcessor {
    /// The work begins at `now`.
    pub fn new(foreground: &Arc<Foreground>, now: Duration) -> SpareProcessor {
        let others_before = foreground.finished();
        SpareProcessor { foreground: Arc::clone(foreground), others_before, others_seen: now }
    }

    /// Whether a thread more may be begun now.
    pub fn is_there(&mut self, now: Duration) -> bool {
        let others = self.foreground.finished();
        if others != self.others_before {
            (self.others_before, self.others_seen) = (others, now);
        }
        let is_quiet = now.saturating_sub(self.others_seen) >= QUIET;
        // Whose work it is is one of them, known or not.
        let (demand, processors) = (self.foreground.demand().max(1), self.foreground.processors());
        demand < processors && (is_quiet || demand * 2 < processors)
    }
}

/// While it is held, the calling thread is one that another's work has begun.
#[must_use]
#[derive(Debug)]
pub struct SecondThread {
    foreground: Arc<Foreground>,
    others_before: u64,
    _work: LongWork,
}

impl SecondThread {
    /// It begins.
    pub fn begin(foreground: &Arc<Foreground>) -> SecondThread {
        foreground.note_second_thread(1);
        let (others_before, work) = (foreground.finished(), LongWork::begin(foreground));
        SecondThread { foreground: Arc::clone(foreground), others_before, _work: work }
    }

    /// Whether somebody else wants a processor, so that it is to stop. Costs a look at three shared words.
    #[inline]
    pub fn is_in_the_way(&self) -> bool {
        let (demand, processors) = (self.foreground.demand(), self.foreground.processors());
        demand > processors || (demand * 2 > processors && self.foreground.finished() != self.others_before)
    }
}

impl Drop for SecondThread {
    fn drop(&mut self) {
        self.foreground.note_second_thread(-1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEGINNING: Duration = Duration::from_secs(1);

    #[test]
    fn it_is_there_once_nobody_has_come_for_a_while() {
        let foreground = Arc::new(Foreground::new(2));
        foreground.note_begun();
        let mut spare = SpareProcessor::new(&foreground, BEGINNING);
        assert!(!spare.is_there(BEGINNING), "who was there a moment ago may come again");
        assert!(spare.is_there(BEGINNING + QUIET));
        foreground.note_begun();
        assert!(!spare.is_there(BEGINNING + QUIET), "another runs");
        foreground.note_ended();
        foreground.note_finished();
        assert!(!spare.is_there(BEGINNING + QUIET * 2), "it may come again");
        assert!(spare.is_there(BEGINNING + QUIET * 3));
    }

    #[test]
    fn it_is_not_there_on_one_processor_or_beside_another_scan() {
        let alone = Arc::new(Foreground::new(1));
        alone.note_begun();
        assert!(!SpareProcessor::new(&alone, BEGINNING).is_there(BEGINNING + QUIET));
        let foreground = Arc::new(Foreground::new(2));
        foreground.note_begun();
        let _second = SecondThread::begin(&foreground);
        assert!(!SpareProcessor::new(&foreground, BEGINNING).is_there(BEGINNING + QUIET));
    }

    #[test]
    fn on_a_large_machine_short_operations_are_no_reason_to_stop() {
        let foreground = Arc::new(Foreground::new(8));
        foreground.note_begun();
        let mut spare = SpareProcessor::new(&foreground, BEGINNING);
        assert!(spare.is_there(BEGINNING));
        let second = SecondThread::begin(&foreground);
        foreground.note_finished();
        assert!(!second.is_in_the_way());
        (0..3).for_each(|_| foreground.note_begun());
        assert!(second.is_in_the_way(), "more than a half of them are busy");
    }

    #[test]
    fn it_is_in_the_way_of_whoever_comes() {
        let foreground = Arc::new(Foreground::new(2));
        foreground.note_begun();
        {
            let second = SecondThread::begin(&foreground);
            assert!(!second.is_in_the_way());
            foreground.note_begun();
            assert!(second.is_in_the_way());
            foreground.note_ended();
            assert!(!second.is_in_the_way());
            foreground.note_finished();
            assert!(second.is_in_the_way(), "it has come and gone");
        }
        assert_eq!((foreground.demand(), foreground.long_running()), (1, 0));
    }
}
