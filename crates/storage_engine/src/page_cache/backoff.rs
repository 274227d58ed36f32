//! Waiting for a latch that is held for an instant.
//!
//! Called by every optimistic loop. Spins a little, then gives the processor away: the holder may be a thread that
//! waits for this very core.

/// Counts the failures of one attempt.
pub(crate) struct Backoff {
    failures: u32,
}

impl Backoff {
    /// Spins before the processor is given away.
    const SPINS: u32 = 6;

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
            std::thread::yield_now();
        }
        self.failures = self.failures.saturating_add(1);
    }
}
