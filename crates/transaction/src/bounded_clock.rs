//! The wall clock as far as it is believed.
//!
//! A machine whose clock is wrong for a moment would do damage for good: timestamps of commits never go back, and what expires is deleted. So wall time is
//! bounded twice by `StoreOptions::clock_drift_max` (MongoDB's `maxAcceptableLogicalClockDriftSecs`, a year):
//!
//! - at the start it may be so far ahead of the newest commit that is stored (`check_start`); otherwise the start is refused;
//! - while the server runs it may be so far ahead of the time that has passed since then by the monotonic clock; what is beyond is not followed: time goes on
//!   from where it was, with the jumps before it that were followed.
//!
//! Every jump is told in the log. Going back is harmless: timestamps wait for the clock, and what expires waits, too. Coming forward again is followed up to the
//! newest commit that is stored. A clock from before `PLAUSIBLE_MILLIS` is known to be wrong, as of a machine that begins in 1970 and asks for the time
//! later: what it is set to is followed, and a store whose newest commit is from then may be opened at any later time.
//!
//! Made by `Store::open`, which hands it to everything below and above.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use platform::{Clock, Timestamp};

use crate::error::{Result, TransactionError};

/// Jumps of the wall clock, either way, that are told in the log.
const TOLD_MILLIS: i64 = 60_000;
/// The beginning of 2023: there was no such program before, so a clock from before is wrong.
const PLAUSIBLE_MILLIS: i64 = 1_672_531_200_000;

/// Jumps that are remembered: what is smaller is how the two clocks are rounded, and how a time service adjusts one of them.
const FOLLOWED_MILLIS: i64 = 1_000;

/// See the module's head.
pub(crate) struct BoundedClock {
    machine: Arc<dyn Clock>,
    drift_max_millis: i64,
    /// Wall time minus monotonic time when the store was opened, or when a clock that could not be right was set.
    offset_millis: AtomicI64,
    /// Up to here the clock is followed, since the store has been there already.
    reached_millis: AtomicI64,
    /// How far ahead of that the wall clock was when it was believed last.
    followed_millis: AtomicI64,
    /// How far ahead it was when somebody was told last.
    told_millis: AtomicI64,
}

impl BoundedClock {
    /// The machine's clock, which is believed now.
    pub(crate) fn new(machine: Arc<dyn Clock>, drift_max: Duration) -> BoundedClock {
        let offset_millis = machine.wall_millis() - monotonic_millis(&*machine);
        let drift_max_millis = i64::try_from(drift_max.as_millis()).unwrap_or(i64::MAX);
        BoundedClock {
            machine,
            drift_max_millis,
            offset_millis: AtomicI64::new(offset_millis),
            reached_millis: AtomicI64::new(i64::MIN),
            followed_millis: AtomicI64::new(0),
            told_millis: AtomicI64::new(0),
        }
    }

    /// Whether the clock may go on from the newest commit that is stored.
    ///
    /// # Errors
    /// `ClockAhead`.
    pub(crate) fn check_start(&self, last: Timestamp) -> Result<()> {
        if last == Timestamp::MIN {
            return Ok(());
        }
        self.reached_millis.store(last.seconds_millis(), Ordering::Relaxed);
        let ahead_millis = self.machine.wall_millis() - last.seconds_millis();
        if ahead_millis > self.drift_max_millis && last.seconds_millis() >= PLAUSIBLE_MILLIS {
            return Err(TransactionError::ClockAhead {
                ahead_seconds: ahead_millis / 1000,
                accepted_seconds: self.drift_max_millis / 1000,
                newest: last,
            });
        }
        if ahead_millis < -TOLD_MILLIS {
            tracing::warn!(
                newest = %last,
                ahead_seconds = -ahead_millis / 1000,
                "the newest write is from after what the machine's clock says: timestamps count on from there until the clock has come so far. Where the clock \
                 was wrong then, `plimsoll repair` into a new directory begins them anew"
            );
        }
        Ok(())
    }

    /// Whether the clock is followed to where it is now, so far ahead of what it should be.
    fn follows(&self, wall: i64, ahead_millis: i64) -> bool {
        ahead_millis <= self.drift_max_millis
            || wall <= self.reached_millis.load(Ordering::Relaxed).saturating_add(self.drift_max_millis)
    }

    /// A clock that could not be right has been set: from here on it is believed again.
    fn begin_anew(&self, wall: i64, offset: i64) {
        let now = wall - monotonic_millis(&*self.machine);
        let mine = self.offset_millis.compare_exchange(offset, now, Ordering::Relaxed, Ordering::Relaxed);
        if mine.is_ok() {
            self.told_millis.store(0, Ordering::Relaxed);
            self.followed_millis.store(0, Ordering::Relaxed);
            tracing::warn!(
                jumped_seconds = (now - offset) / 1000,
                "the machine's clock was from before 2023, which was wrong, and has been set: it is followed"
            );
        }
    }

    /// Says that the clock has jumped, once.
    fn tell(&self, ahead_millis: i64, is_followed: bool) {
        let told = self.told_millis.load(Ordering::Relaxed);
        if (ahead_millis - told).abs() <= TOLD_MILLIS {
            return;
        }
        let mine = self.told_millis.compare_exchange(told, ahead_millis, Ordering::Relaxed, Ordering::Relaxed);
        if mine.is_err() {
            return;
        }
        let jumped_seconds = (ahead_millis - told) / 1000;
        if !is_followed {
            let accepted_seconds = self.drift_max_millis / 1000;
            tracing::error!(
                jumped_seconds,
                accepted_seconds,
                "the machine's clock has jumped further ahead than is accepted (--max-clock-drift-seconds): it is not followed, and time goes on from where it \
                 was. Set the clock right; if it is right, start the server again"
            );
        } else {
            tracing::warn!(
                jumped_seconds,
                "the machine's clock has jumped; it is followed, though timestamps never go back"
            );
        }
    }
}

fn monotonic_millis(clock: &dyn Clock) -> i64 {
    i64::try_from(clock.monotonic().as_millis()).unwrap_or(i64::MAX)
}

impl Clock for BoundedClock {
    fn monotonic(&self) -> Duration {
        self.machine.monotonic()
    }

    fn wall_millis(&self) -> i64 {
        let wall = self.machine.wall_millis();
        let offset = self.offset_millis.load(Ordering::Relaxed);
        let expected = offset + monotonic_millis(&*self.machine);
        if expected < PLAUSIBLE_MILLIS && wall >= PLAUSIBLE_MILLIS {
            self.begin_anew(wall, offset);
            return wall;
        }
        let ahead = wall.saturating_sub(expected);
        let is_followed = self.follows(wall, ahead);
        self.tell(ahead, is_followed);
        if !is_followed {
            return expected + self.followed_millis.load(Ordering::Relaxed);
        }
        if (self.followed_millis.load(Ordering::Relaxed) - ahead).abs() > FOLLOWED_MILLIS {
            self.followed_millis.store(ahead, Ordering::Relaxed);
        }
        wall
    }

    fn sleep(&self, duration: Duration) {
        self.machine.sleep(duration);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use bson::rawdoc;
    use platform::SeededRandom;

    use super::*;
    use crate::tests::fixture::{Fixture, options};
    use crate::{Store, StoreOptions};

    const YEAR_MILLIS: i64 = 365 * 24 * 3600 * 1000;

    fn open(fixture: &Fixture, options: &StoreOptions) -> Result<Arc<Store>> {
        Store::open(fixture.disk.clone(), fixture.clock.clone(), Arc::new(SeededRandom::new(5)), options.clone())
    }

    #[test]
    fn a_start_a_century_ahead_is_refused_and_changes_nothing() {
        let mut fixture = Fixture::new();
        let collection = fixture.collection("db.c");
        let commit = fixture.insert(&collection, rawdoc! { "_id": 1 }).unwrap();
        fixture.store.shutdown().unwrap();
        fixture.disk.process_crash();
        let now = fixture.clock.wall_millis();
        fixture.clock.set_wall_millis(now + 100 * YEAR_MILLIS);
        let refused = open(&fixture, &options()).err().unwrap();
        assert!(matches!(refused, TransactionError::ClockAhead { accepted_seconds: 31_536_000, .. }), "{refused}");
        // Who says so may.
        let accepting = StoreOptions { clock_drift_max: Duration::from_secs(101 * 366 * 24 * 3600), ..options() };
        drop(open(&fixture, &accepting).unwrap());
        fixture.clock.set_wall_millis(now + YEAR_MILLIS / 2);
        drop(open(&fixture, &options()).unwrap());
        fixture.clock.set_wall_millis(now);
        fixture.store = open(&fixture, &options()).unwrap();
        let collection = fixture.collection("db.c");
        let next = fixture.insert(&collection, rawdoc! { "_id": 2 }).unwrap();
        assert!(next.timestamp > commit.timestamp && next.timestamp.seconds() - commit.timestamp.seconds() < 60);
    }

    #[test]
    fn behind_a_jump_that_is_not_followed_time_goes_on_from_where_it_was() {
        const NOW: i64 = 1_700_000_000_000;
        let machine = Arc::new(platform::SimulatedClock::new(NOW));
        let clock = BoundedClock::new(machine.clone(), Duration::from_millis(YEAR_MILLIS as u64));
        let three_hours = 3 * 3600 * 1000;
        machine.set_wall_millis(NOW + three_hours);
        assert_eq!(clock.wall_millis(), NOW + three_hours);
        machine.set_wall_millis(NOW + 100 * YEAR_MILLIS);
        machine.advance(Duration::from_millis(5));
        assert_eq!(clock.wall_millis(), NOW + 5 + three_hours, "neither the century nor three hours back");
        machine.set_wall_millis(NOW + 1_000);
        assert_eq!(clock.wall_millis(), NOW + 1_000, "a clock that is set right is followed");
    }

    #[test]
    fn a_clock_that_begins_in_1970_is_followed_when_it_is_set_and_may_be_left_by_a_restart() {
        let mut fixture = Fixture::new();
        let now = fixture.clock.wall_millis();
        fixture.store.shutdown().unwrap();
        fixture.disk = Arc::new(platform::SimulatedDisk::new(3));
        fixture.clock.set_wall_millis(5_000);
        fixture.store = open(&fixture, &options()).unwrap();
        let collection = fixture.collection("db.c");
        let early = fixture.insert(&collection, rawdoc! { "_id": 1 }).unwrap();
        assert!(early.timestamp.seconds() < 60);
        fixture.store.shutdown().unwrap();
        fixture.disk.process_crash();
        // Left by a restart, and by being set while the server runs.
        fixture.clock.set_wall_millis(now);
        drop(open(&fixture, &options()).unwrap());
        fixture.clock.set_wall_millis(10_000);
        fixture.store = open(&fixture, &options()).unwrap();
        let collection = fixture.collection("db.c");
        fixture.insert(&collection, rawdoc! { "_id": 2 }).unwrap();
        fixture.clock.set_wall_millis(now);
        let late = fixture.insert(&collection, rawdoc! { "_id": 3 }).unwrap();
        assert_eq!(late.timestamp.seconds_millis(), now / 1000 * 1000);
        // From here on it is bounded like any other.
        fixture.clock.set_wall_millis(now + 100 * YEAR_MILLIS);
        let bounded = fixture.insert(&collection, rawdoc! { "_id": 4 }).unwrap();
        assert!(bounded.timestamp.seconds() - late.timestamp.seconds() <= 1);
        fixture.store.shutdown().unwrap();
    }

    #[test]
    fn a_clock_that_was_two_years_behind_at_the_start_is_followed_to_where_the_data_is() {
        let mut fixture = Fixture::new();
        let collection = fixture.collection("db.c");
        let before = fixture.insert(&collection, rawdoc! { "_id": 1 }).unwrap();
        fixture.store.shutdown().unwrap();
        fixture.disk.process_crash();
        let now = fixture.clock.wall_millis();
        fixture.clock.set_wall_millis(now - 2 * YEAR_MILLIS);
        fixture.store = open(&fixture, &options()).unwrap();
        let collection = fixture.collection("db.c");
        let behind = fixture.insert(&collection, rawdoc! { "_id": 2 }).unwrap();
        assert!(behind.timestamp > before.timestamp && behind.timestamp.seconds() - before.timestamp.seconds() <= 1);
        fixture.clock.set_wall_millis(now + 3_600_000);
        let right = fixture.insert(&collection, rawdoc! { "_id": 3 }).unwrap();
        assert!(right.timestamp.seconds() - before.timestamp.seconds() >= 3_599);
        fixture.store.shutdown().unwrap();
    }

    #[test]
    fn a_jump_of_a_century_is_not_followed() {
        let mut fixture = Fixture::new();
        let collection = fixture.collection("db.c");
        fixture
            .store
            .create_indexes(
                &collection,
                vec![
                    collection::IndexSpecification::parse(
                        &rawdoc! { "key": { "at": 1 }, "name": "at", "expireAfterSeconds": 10 },
                    )
                    .unwrap(),
                ],
            )
            .unwrap();
        let now = fixture.clock.wall_millis();
        let in_ten_years = bson::DateTime::from_millis(now + 10 * YEAR_MILLIS);
        let before = fixture.insert(&collection, rawdoc! { "_id": 1, "at": in_ten_years }).unwrap();
        fixture.clock.set_wall_millis(now + 100 * YEAR_MILLIS);
        fixture.clock.advance(Duration::from_secs(5));
        let after = fixture.insert(&collection, rawdoc! { "_id": 2 }).unwrap();
        assert!(
            after.timestamp.seconds() - before.timestamp.seconds() <= 6,
            "{} {}",
            before.timestamp,
            after.timestamp
        );
        assert_eq!(fixture.store.ttl_pass(&mut crate::WriteContext::new()).unwrap().deleted, 0);
        // Half a year is.
        fixture.clock.set_wall_millis(now + YEAR_MILLIS / 2);
        let later = fixture.insert(&collection, rawdoc! { "_id": 3 }).unwrap();
        assert!(i64::from(later.timestamp.seconds() - before.timestamp.seconds()) >= YEAR_MILLIS / 2000 - 1);
        // And back: timestamps wait.
        fixture.clock.set_wall_millis(now);
        let last = fixture.insert(&collection, rawdoc! { "_id": 4 }).unwrap();
        assert!(last.timestamp > later.timestamp);
        fixture.store.shutdown().unwrap();
    }
}
