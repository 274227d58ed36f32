//! When the host of a virtual machine took processors away: how long an operation took then says nothing of the server.
//!
//! `runner` has a thread look at it while a phase runs, `recorder` asks of each operation whether the host took anything during it. Relies on the `steal` of
//! Linux' `/proc/stat`, which tells hundredths of a second; where that cannot be read, nothing was ever taken.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::lane::lock;
use crate::error::LabError;
use crate::server_process::MachineSample;

const INTERVAL: Duration = Duration::from_millis(10);
/// After so long, what was taken during an operation has been seen, even by a thread that waited for a processor itself.
pub(crate) const SEEN_AFTER: Duration = Duration::from_millis(100);

/// All times at which something was taken.
#[derive(Debug, Default)]
pub(crate) struct StolenTime {
    /// In their order; each from the last look that did not know of it to the first that did.
    thefts: Mutex<Vec<(Instant, Instant)>>,
}

/// Looks until it is dropped.
pub(super) struct StolenTimeWatch {
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl StolenTime {
    /// Whether anything was taken in the time from one moment to another.
    pub(crate) fn overlaps(&self, from: Instant, to: Instant) -> bool {
        lock(&self.thefts).iter().rev().take_while(|theft| theft.1 > from).any(|theft| theft.0 < to)
    }

    pub(super) fn note(&self, from: Instant, to: Instant) {
        let mut thefts = lock(&self.thefts);
        match thefts.last_mut().filter(|last| last.1 == from) {
            Some(last) => last.1 = to,
            None => thefts.push((from, to)),
        }
    }
}

impl StolenTimeWatch {
    /// # Errors
    /// No thread can be started.
    pub(super) fn start(stolen: Arc<StolenTime>) -> Result<Self, LabError> {
        let is_over = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&is_over);
        let thread = std::thread::Builder::new().name("stolen-time".to_owned()).spawn(move || watch(&stolen, &seen));
        let thread = thread.map_err(|error| LabError::Worker(format!("cannot start a thread: {error}")))?;
        Ok(Self { is_over, thread: Some(thread) })
    }
}

impl Drop for StolenTimeWatch {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // It has nothing to say.
            let _ = thread.join();
        }
    }
}

fn watch(stolen: &StolenTime, is_over: &AtomicBool) {
    let mut last: Option<(Instant, u64)> = None;
    while !is_over.load(Ordering::Relaxed) {
        let Some(sample) = MachineSample::now() else { return };
        let now = Instant::now();
        match last {
            Some((at, before)) if sample.stolen_microseconds > before => stolen.note(at, now),
            _ => {}
        }
        last = Some((now, sample.stolen_microseconds));
        std::thread::sleep(INTERVAL);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_touches_a_theft_overlaps_with_it() {
        let start = Instant::now();
        let at = |milliseconds| start + Duration::from_millis(milliseconds);
        let stolen = StolenTime::default();
        stolen.note(at(10), at(20));
        stolen.note(at(20), at(30));
        stolen.note(at(50), at(60));
        assert_eq!(lock(&stolen.thefts).len(), 2);
        for (from, to, overlaps) in [
            (0, 10, false),
            (0, 11, true),
            (29, 31, true),
            (30, 50, false),
            (12, 14, true),
            (0, 100, true),
            (60, 70, false),
        ] {
            assert_eq!(stolen.overlaps(at(from), at(to)), overlaps, "{from} to {to}");
        }
    }

    #[test]
    fn a_watch_ends_when_it_is_dropped() {
        let stolen = Arc::new(StolenTime::default());
        drop(StolenTimeWatch::start(Arc::clone(&stolen)).unwrap());
        assert_eq!(Arc::strong_count(&stolen), 1);
    }
}
