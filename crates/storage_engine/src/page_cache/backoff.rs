//! Waiting for a latch that is held for an instant.
//!
//! Called by every optimistic loop. Spins a little, then sleeps: the holder may be a thread that waits for this very core. Does not yield, because
//! who yields gives up the rest of its slice and comes again after everything that computes (Linux 6.18).

/// Counts the failures of one attempt.
pub(crate) struct Backoff {
    failures: u32,
}

impl Backoff {
    /// Attempts between which it spins, twice as long each time, some 20 us in all; after those it sleeps.
    const SPINS: u32 = 9;

    /// No failures yet.
    pub(crate) fn new() -> Self {
        Self { failures: 0 }
    }

    /// Waits, longer the more often it was called.
    pub(crate) fn wait(&mut self) {
        if self.failures < Self::SPINS {
            for _ in 0..1 << self.failures {
                std::hint::spin_loop();
            }
        } else {
            platform::sleep_an_instant();
        }
        self.failures = self.failures.saturating_add(1);
    }
}
