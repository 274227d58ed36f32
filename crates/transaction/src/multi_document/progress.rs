//! Says in the server's log how far the commit of a large transaction has come, when it lasts.
//!
//! Used by `large_commit`, for each document that it logs and applies.

use std::time::Duration;

use platform::Clock;

/// How often.
const INTERVAL: Duration = Duration::from_secs(10);
/// Documents between two looks at the clock.
const DOCUMENTS: u64 = 64;

/// See the module's head.
pub(super) struct Progress<'a> {
    clock: &'a dyn Clock,
    doing: &'static str,
    documents: u64,
    next: Duration,
}

impl<'a> Progress<'a> {
    /// Nothing is done yet. `doing`: what is done with the documents.
    pub(super) fn new(clock: &'a dyn Clock, doing: &'static str) -> Progress<'a> {
        Progress { clock, doing, documents: 0, next: clock.monotonic() + INTERVAL }
    }

    /// One more document is done.
    pub(super) fn count(&mut self) {
        self.documents += 1;
        if !self.documents.is_multiple_of(DOCUMENTS) {
            return;
        }
        let now = self.clock.monotonic();
        if now >= self.next {
            self.next = now + INTERVAL;
            tracing::info!(
                documents = self.documents,
                "a large transaction is being committed: documents {}",
                self.doing
            );
        }
    }
}
