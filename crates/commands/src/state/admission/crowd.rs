//! How many connections come to a gate, and whether they are too many to have a thread each.
//!
//! Counted by `admission` at each command, looked at by the server, which then reads the requests of busy connections with one thread
//! (`server::crowd`). A thread a connection is the cheapest while they are few: one wake-up a request, and nothing to hand over. When they
//! are many and the processors are short, all of them are woken to find that there is no ticket, and whoever has one waits for a
//! processor among them.
//!
//! A connection counts in a stretch of half a second if a command of it came to the gate. It is the processors' use that
//! tells a crowd from many connections with little to do.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};

use super::bounds::{BUSY, FEW_FOR_EACH_PROCESSOR, MANY_FOR_EACH_PROCESSOR, NOT_BUSY};

/// Of one gate.
#[derive(Default)]
pub(super) struct Crowd {
    stretch: AtomicU32,
    came: AtomicUsize,
    /// In the last whole stretch.
    size: AtomicUsize,
    is_crowded: AtomicBool,
}

impl Crowd {
    /// A command of a connection has come, which was counted last in the stretch `counted`.
    pub(super) fn count(&self, counted: &mut u32) {
        let stretch = self.stretch.load(Ordering::Relaxed);
        if *counted != stretch {
            *counted = stretch;
            self.came.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// The stretch is over, in which this process has taken such a part of the processors.
    pub(super) fn next_stretch(&self, processors: usize, use_of_processors: f64) {
        self.stretch.fetch_add(1, Ordering::Relaxed);
        let size = self.came.swap(0, Ordering::Relaxed);
        self.size.store(size, Ordering::Relaxed);
        let (many, busy) =
            if self.is_crowded() { (FEW_FOR_EACH_PROCESSOR, NOT_BUSY) } else { (MANY_FOR_EACH_PROCESSOR, BUSY) };
        self.is_crowded.store(size > many * processors && use_of_processors > busy, Ordering::Relaxed);
    }

    pub(super) fn size(&self) -> usize {
        self.size.load(Ordering::Relaxed)
    }

    pub(super) fn is_crowded(&self) -> bool {
        self.is_crowded.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stretch(crowd: &Crowd, clients: &mut [u32], share: f64) -> bool {
        // Each as often as it likes.
        (0..3).for_each(|_| clients.iter_mut().for_each(|counted| crowd.count(counted)));
        crowd.next_stretch(2, share);
        assert_eq!(crowd.size(), clients.len());
        crowd.is_crowded()
    }

    #[test]
    fn many_busy_connections_are_a_crowd_until_they_are_few() {
        let crowd = Crowd::default();
        crowd.next_stretch(2, 0.0);
        let mut clients = [0; 100];
        assert!(!stretch(&crowd, &mut clients[..80], 0.9), "too few");
        assert!(!stretch(&crowd, &mut clients, 0.2), "they do little");
        assert!(stretch(&crowd, &mut clients, 0.4));
        assert!(stretch(&crowd, &mut clients[..41], 0.2), "they are still many");
        assert!(!stretch(&crowd, &mut clients[..40], 0.9));
        assert!(stretch(&crowd, &mut clients, 0.9));
        assert!(!stretch(&crowd, &mut clients, 0.05));
    }
}
