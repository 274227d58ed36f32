//! The wait of those who merge for something to merge.
//!
//! Called by `change_buffers`, which makes a request under a shard's lock whenever a leaf has become due, memory is short, or as many leaves have
//! come as are worth a frame. Nobody looks at the shards in between.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

/// Whether those who merge are to look.
#[derive(Default)]
pub(super) struct MergeRequest {
    is_made: AtomicBool,
    waiting: Mutex<()>,
    made: Condvar,
}

impl MergeRequest {
    pub(super) fn make(&self) {
        if !self.is_made.swap(true, Ordering::AcqRel) {
            // Who has found none before is waiting once the lock is to be had.
            drop(self.waiting.lock());
            self.made.notify_all();
        }
    }

    /// Waits for a request, at most for a while; whether one was made. All who wait hear of it.
    pub(super) fn wait(&self, at_most: Duration) -> bool {
        let mut waiting = self.waiting.lock();
        let is_made = self.is_made.load(Ordering::Acquire) || !self.made.wait_for(&mut waiting, at_most).timed_out();
        self.is_made.store(false, Ordering::Release);
        is_made
    }
}
