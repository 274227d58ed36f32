//! The bell that wakes the flusher.
//!
//! Rung by whoever waits for durability or room, and by the append that ends a rest; listened to by the flusher's loop. A ring is
//! never lost: one that comes during a flush makes the next wait return at once.

use std::time::Duration;

use parking_lot::{Condvar, Mutex};

#[derive(Default)]
pub(super) struct FlushSignal {
    rings: Mutex<Rings>,
    rung: Condvar,
}

/// What has been rung for.
#[derive(Default)]
struct Rings {
    /// A flush, now.
    flush: bool,
    /// Something was appended, which may wait for its interval.
    append: bool,
}

impl FlushSignal {
    /// Asks for a flush.
    pub(super) fn request(&self) {
        let mut rings = self.rings.lock();
        if !rings.flush {
            rings.flush = true;
            self.rung.notify_one();
        }
    }

    /// Ends a rest.
    pub(super) fn note_append(&self) {
        self.rings.lock().append = true;
        self.rung.notify_one();
    }

    /// Waits for a request or an append, at most so long.
    pub(super) fn rest(&self, longest: Duration) {
        let mut rings = self.rings.lock();
        self.rung.wait_while_for(&mut rings, |rings| !rings.flush && !rings.append, longest);
        rings.append = false;
    }

    /// Waits for a request, at most `interval`.
    pub(super) fn wait(&self, interval: Duration) {
        let mut rings = self.rings.lock();
        self.rung.wait_while_for(&mut rings, |rings| !rings.flush, interval);
        rings.flush = false;
    }
}

#[cfg(test)]
mod tests {
    use platform::{Clock, SystemClock};

    use super::*;

    const LONG: Duration = Duration::from_secs(3600);

    #[test]
    fn an_append_ends_a_rest_and_asks_for_no_flush() {
        let signal = FlushSignal::default();
        signal.note_append();
        signal.rest(LONG);
        let clock = SystemClock::new();
        signal.wait(Duration::from_millis(20));
        assert!(clock.monotonic() >= Duration::from_millis(20), "nobody has asked for a flush");
    }

    #[test]
    fn a_request_ends_a_rest_and_the_wait_behind_it() {
        let signal = FlushSignal::default();
        signal.request();
        signal.rest(LONG);
        signal.wait(LONG);
    }
}
