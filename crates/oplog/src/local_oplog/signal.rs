//! The bell that wakes the flusher.
//!
//! Rung by whoever waits for durability or room; listened to by the flusher's loop. A ring is never lost: one that comes
//! during a flush makes the next wait return at once.

use std::time::Duration;

use parking_lot::{Condvar, Mutex};

#[derive(Default)]
pub(super) struct FlushSignal {
    requested: Mutex<bool>,
    rung: Condvar,
}

impl FlushSignal {
    /// Asks for a flush.
    pub(super) fn request(&self) {
        let mut requested = self.requested.lock();
        if !*requested {
            *requested = true;
            self.rung.notify_one();
        }
    }

    /// Waits for a request, at most `interval`.
    pub(super) fn wait(&self, interval: Duration) {
        let mut requested = self.requested.lock();
        if !*requested {
            self.rung.wait_for(&mut requested, interval);
        }
        *requested = false;
    }
}
