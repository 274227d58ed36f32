//! How much of the oplog is kept: by size, by hours, as stored, and when there is no space.

use std::sync::atomic::{AtomicI32, Ordering};
use std::time::Duration;

use bson::rawdoc;
use oplog::{Oplog, OplogPosition};

use super::fixture::*;
use crate::checkpoint::Urgency;
use crate::*;

const SEGMENT: u64 = 16 << 10;
const HOUR: Duration = Duration::from_secs(3600);

fn next_id() -> i32 {
    static NEXT: AtomicI32 = AtomicI32::new(0);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

fn with(bytes: u64, time: Option<Duration>) -> Fixture {
    let mut options = options();
    options.oplog.segment_bytes = SEGMENT;
    options.oplog_retention_bytes = bytes;
    options.oplog_retention_time = time;
    Fixture::with(options)
}

impl Fixture {
    /// Logs about so many bytes, and makes the checkpoint after which some of the oplog may be given up.
    fn log(&mut self, bytes: usize) {
        let collection = self.collection("db.c");
        for _ in 0..bytes / 1000 {
            self.insert(&collection, rawdoc! { "_id": next_id(), "b": "x".repeat(900) }).unwrap();
        }
        self.flush_oplog();
        self.store.checkpoint_step(Urgency::Now).unwrap();
    }

    fn first(&self) -> OplogPosition {
        self.store.oplog().first_position()
    }

    fn kept(&self) -> u64 {
        self.store.oplog().end_position().0 - self.first().0
    }
}

#[test]
fn the_newest_bytes_are_kept_and_hardly_more() {
    let mut fixture = with(100_000, None);
    for _ in 0..10 {
        fixture.log(50_000);
    }
    assert!(fixture.kept() >= 100_000 && fixture.kept() < 100_000 + 3 * SEGMENT, "{}", fixture.kept());
}

#[test]
fn what_is_younger_than_the_hours_is_kept_whatever_it_takes() {
    let mut fixture = with(20_000, Some(2 * HOUR + HOUR / 2));
    let mut ends = Vec::new();
    for _ in 0..6 {
        fixture.log(60_000);
        ends.push(fixture.store.oplog().end_position());
        fixture.clock.advance(HOUR);
        fixture.log(1_000);
    }
    // What was logged behind the fourth is two hours old, what was logged before it three.
    assert!(fixture.first() <= ends[3], "{} is gone", ends[3]);
    assert!(fixture.first() > ends[1], "{} is still there", ends[1]);
    fixture.clock.advance(5 * HOUR);
    fixture.log(60_000);
    fixture.clock.advance(5 * HOUR);
    fixture.log(2_000);
    assert!(fixture.first() > ends[5]);
}

#[test]
fn what_was_set_holds_in_later_lives() {
    let mut fixture = with(20_000, None);
    fixture.store.set_oplog_retention(Some(150_000), Some(3 * HOUR)).unwrap();
    fixture.lose_power();
    assert_eq!(fixture.store.oplog_retention(), (150_000, 3 * HOUR));
    fixture.store.set_oplog_retention(Some(100_000), Some(Duration::ZERO)).unwrap();
    for _ in 0..10 {
        fixture.log(50_000);
    }
    fixture.lose_power();
    assert!(fixture.kept() >= 100_000 && fixture.kept() < 100_000 + 3 * SEGMENT, "{}", fixture.kept());
    // Hours that the server is started with go before stored ones.
    fixture.store.set_oplog_retention(None, Some(HOUR)).unwrap();
    fixture.options.oplog_retention_time = Some(7 * HOUR);
    fixture.crash();
    assert_eq!(fixture.store.oplog_retention(), (100_000, 7 * HOUR));
}

#[test]
fn a_full_disk_stops_writes_and_gives_up_no_history() {
    let mut fixture = with(1 << 40, Some(HOUR));
    fixture.options.space_reserve_bytes = 64 << 10;
    fixture.reopen();
    fixture.log(200_000);
    let first = fixture.first();
    fixture.disk.set_capacity_bytes(Some(fixture.disk.used_bytes() + (128 << 10)));
    let collection = fixture.collection("db.c");
    let refused = (0..10_000).find_map(|_| {
        fixture.store.watch_space();
        let document = rawdoc! { "_id": next_id(), "b": "x".repeat(900) };
        let refused = fixture.insert(&collection, document).err();
        if refused.is_none() {
            // A flush that finds no space is what makes it short.
            let _ = Oplog::flush_step(fixture.store.oplog());
        }
        refused
    });
    assert!(matches!(
        refused,
        Some(TransactionError::OutOfSpace { .. } | TransactionError::Oplog(oplog::OplogError::DiskFull))
    ));
    assert_eq!(fixture.first(), first, "history was given up");
    fixture.disk.set_capacity_bytes(None);
    fixture.flush_oplog();
    fixture.store.watch_space();
    fixture.log(1_000);
    assert_eq!(fixture.first(), first);
}

#[test]
fn a_large_write_looks_for_its_space_itself() {
    let mut fixture = with(1 << 40, Some(HOUR));
    fixture.options.space_reserve_bytes = 64 << 10;
    fixture.reopen();
    let collection = fixture.collection("db.c");
    let document = |bytes: usize| rawdoc! { "_id": next_id(), "b": "x".repeat(bytes) };
    fixture.insert(&collection, document(200 << 10)).unwrap();
    let dirty = fixture.store.engine().dirty_bytes();
    fixture.disk.set_capacity_bytes(Some(fixture.disk.used_bytes() + dirty + (200 << 10)));
    // Nobody has looked at the disk since: there is room for a small one beside the reserve, but not for a large one.
    let refused = fixture.insert(&collection, document(200 << 10)).err();
    assert!(matches!(refused, Some(TransactionError::OutOfSpace { .. })), "{refused:?}");
    fixture.insert(&collection, document(1 << 10)).unwrap();
    fixture.disk.set_capacity_bytes(None);
    fixture.insert(&collection, document(200 << 10)).unwrap();
}
