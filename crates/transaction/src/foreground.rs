//! Giving way: long work rests after each short slice while clients' operations go on beside it.
//!
//! Called in the loops of index builds, of expiry, and of large transactions: while they write, spill, and commit. Whether there are others is what the
//! server says (`set_foreground`): a number that grows with the operations it has finished. Without others nothing rests. Beside others it rests the
//! longer the less the engine has in reserve, so that it is held back before they are (`storage_engine::pacing`).

use std::time::Duration;

use crate::store::Store;

/// Work between two looks.
const WORK: Duration = Duration::from_micros(500);
/// Shortest rest after each when others were there.
const REST: Duration = Duration::from_millis(1);

/// Says how many operations of clients have been finished.
pub type Foreground = dyn Fn() -> u64 + Send + Sync;

/// Work since the last look.
#[derive(Default)]
pub(crate) struct Slice {
    until: Duration,
    finished: u64,
    /// Of the operations that are finished, the worker's.
    own: u64,
}

impl Slice {
    /// An operation of a client belongs to the work: it is none of the others.
    pub(crate) fn note_own(&mut self) {
        self.own += 1;
    }
}

impl Store {
    /// Says where it can be seen whether clients have operations running. Only the first call counts.
    pub fn set_foreground(&self, foreground: Box<Foreground>) {
        // Set once, when the server is put together.
        let _ = self.foreground.set(foreground);
    }

    /// Rests if the slice is over and others are there. Nothing that others wait for may be locked, but what a large transaction owns.
    pub(crate) fn give_way(&self, slice: &mut Slice) {
        let Some(foreground) = self.foreground.get() else { return };
        let now = self.clock.monotonic();
        if now < slice.until {
            return;
        }
        let finished = foreground().saturating_sub(slice.own);
        let is_alone = finished == slice.finished;
        slice.finished = finished;
        slice.until = now + WORK;
        if !is_alone {
            self.clock.sleep(REST.max(self.engine.pace_long()));
            slice.until = self.clock.monotonic() + WORK;
        }
    }
}
