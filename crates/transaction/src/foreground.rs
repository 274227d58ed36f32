//! Giving way: long work rests after each short slice while clients' operations go on beside it.
//!
//! Called in the loops of index builds, of expiry, and of large transactions: while they write, spill, and commit. Whether there are others is what the
//! server says (`set_foreground`): a number that grows with the operations it has finished. Without others nothing rests. Beside others it rests the
//! longer the less the engine has in reserve, so that it is held back before they are (`storage_engine::pacing`).

use std::time::Duration;

use crate::store::Store;

/// Work between two looks.
const WORK: Duration = Duration::from_micros(100);
/// Shortest rest after each when others were there.
const REST: Duration = Duration::from_micros(200);
/// For so long after an operation of theirs the next one is expected.
const LATELY: Duration = Duration::from_millis(10);

/// Says how many operations of clients have been finished.
pub type Foreground = dyn Fn() -> u64 + Send + Sync;

/// Work since the last look.
#[derive(Default)]
pub(crate) struct Slice {
    until: Duration,
    finished: u64,
    /// When it was last seen that others had finished some.
    others_seen: Option<Duration>,
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
        if finished != slice.finished {
            (slice.finished, slice.others_seen) = (finished, Some(now));
        }
        slice.until = now + WORK;
        let is_beside_others = slice.others_seen.is_some_and(|seen| now.saturating_sub(seen) < LATELY);
        platform::leave_room(is_beside_others);
        if is_beside_others {
            self.clock.sleep(REST.max(self.engine.pace_long()));
            slice.until = self.clock.monotonic() + WORK;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};

    use platform::Clock;

    use super::*;
    use crate::tests::fixture::Fixture;

    /// How long it rests after so much work.
    fn rested(fixture: &Fixture, worked: Duration, work: impl FnOnce(&Store)) -> Duration {
        fixture.clock.advance(worked);
        let began = fixture.clock.monotonic();
        work(&fixture.store);
        fixture.clock.monotonic() - began
    }

    #[test]
    fn work_that_lasts_rests_beside_others_and_neither_alone_nor_for_its_own_operations() {
        let fixture = Fixture::new();
        let finished = Arc::new(AtomicU64::new(5));
        let counted = finished.clone();
        let mut slice = Slice::default();
        assert_eq!(rested(&fixture, LATELY, |store| store.give_way(&mut slice)), Duration::ZERO);
        fixture.store.set_foreground(Box::new(move || counted.load(Ordering::Relaxed)));
        assert_eq!(rested(&fixture, LATELY, |store| store.give_way(&mut slice)), REST);
        // They were there a moment ago, and then they are not any more.
        assert_eq!(rested(&fixture, WORK, |store| store.give_way(&mut slice)), REST);
        assert_eq!(rested(&fixture, LATELY, |store| store.give_way(&mut slice)), Duration::ZERO);
        // Its own, as a statement of a transaction is.
        finished.fetch_add(1, Ordering::Relaxed);
        slice.note_own();
        assert_eq!(rested(&fixture, LATELY, |store| store.give_way(&mut slice)), Duration::ZERO);
        finished.fetch_add(1, Ordering::Relaxed);
        assert_eq!(rested(&fixture, LATELY, |store| store.give_way(&mut slice)), REST);
        // Within a slice it goes on.
        finished.fetch_add(1, Ordering::Relaxed);
        let began = fixture.clock.monotonic();
        fixture.store.give_way(&mut slice);
        assert_eq!(fixture.clock.monotonic(), began);
    }
}
