//! A damaged oplog: put aside when the last checkpoint has everything, refused otherwise.

use std::path::Path;
use std::sync::Arc;

use bson::rawdoc;
use oplog::{Oplog, OplogOptions};
use platform::{Disk, SeededRandom};

use super::fixture::*;
use crate::*;

const SEGMENT: &str = "oplog/00000000000000000000.segment";

/// A store with documents that were logged one flush each.
fn filled() -> Fixture {
    let mut fixture = Fixture::new();
    let collection = fixture.collection("db.c");
    for id in 0..20 {
        fixture.insert(&collection, rawdoc! { "_id": id, "text": "x".repeat(100) }).unwrap();
        fixture.flush_oplog();
    }
    fixture
}

fn flip(fixture: &Fixture, offset: u64) {
    fixture.disk.flip_bit(Path::new(SEGMENT), offset, 4).unwrap();
}

fn try_open(fixture: &Fixture) -> Result<Arc<Store>> {
    Store::open(fixture.disk.clone(), fixture.clock.clone(), Arc::new(SeededRandom::new(99)), fixture.options.clone())
}

#[test]
fn after_an_orderly_stop_nothing_is_lost_and_the_oplog_begins_anew() {
    // At its beginning, and in the last entry, which looks like a torn write.
    for of_end in [false, true] {
        let mut fixture = filled();
        let end = fixture.store.oplog().end_position();
        let before = fixture.store.visible_timestamp();
        fixture.store.shutdown().unwrap();
        fixture.disk.process_crash();
        flip(&fixture, if of_end { 4096 + end.0 - 20 } else { 4096 + 700 });
        fixture.reopen();
        let collection = fixture.collection("db.c");
        assert_eq!(contents(&fixture.store, &collection).len(), 20);
        let aside = fixture.store.oplog().set_aside().unwrap();
        assert_eq!((aside.begins_at, aside.begins_after), (end, before));
        assert_eq!(fixture.store.oplog().first_position(), end);
        assert!(fixture.disk.list(Path::new("oplog")).unwrap().contains(&aside.files[0]));
        let commit = fixture.insert(&collection, rawdoc! { "_id": 20 }).unwrap();
        assert!(commit.timestamp > before);
        fixture.flush_oplog();
        fixture.lose_power();
        let collection = fixture.collection("db.c");
        assert_eq!(contents(&fixture.store, &collection).len(), 21);
        assert_sound(&fixture.store);
    }
}

#[test]
fn what_would_be_lost_is_refused_and_left_as_it_is() {
    let mut fixture = filled();
    fixture.store.checkpoint_step(Urgency::Now).unwrap();
    let collection = fixture.collection("db.c");
    for id in 20..50 {
        fixture.insert(&collection, rawdoc! { "_id": id, "text": "x".repeat(100) }).unwrap();
        fixture.flush_oplog();
    }
    fixture.disk.process_crash();
    let behind = 4096 + fixture.store.oplog().end_position().0 / 2 + 700;
    flip(&fixture, behind);
    for _ in 0..2 {
        let refused = try_open(&fixture).err().unwrap();
        assert!(refused.is_damage(), "{refused}");
    }
    flip(&fixture, behind);
    fixture.reopen();
    let collection = fixture.collection("db.c");
    assert_eq!(contents(&fixture.store, &collection).len(), 50);
}

#[test]
fn after_a_crash_damage_before_the_checkpoint_is_passed_over() {
    // In the segment of the checkpoint, in the header of one before, and in an entry there, which a start does not look at.
    for (segment_bytes, offset, told) in [(256 << 10, 4096 + 700, 1), (1000, 20, 1), (1000, 4096 + 300, 0)] {
        let options = StoreOptions { oplog: OplogOptions { segment_bytes, ..OplogOptions::default() }, ..options() };
        // Kept for followers, as recovery does not need it.
        let mut fixture = Fixture::with(StoreOptions { oplog_retention_bytes: 1 << 20, ..options });
        let collection = fixture.collection("db.c");
        let insert = |fixture: &mut Fixture, ids: std::ops::Range<i32>| {
            for id in ids {
                fixture.insert(&collection, rawdoc! { "_id": id, "text": "x".repeat(100) }).unwrap();
                fixture.flush_oplog();
            }
        };
        insert(&mut fixture, 0..20);
        fixture.store.checkpoint_step(Urgency::Now).unwrap();
        insert(&mut fixture, 20..40);
        fixture.disk.process_crash();
        flip(&fixture, offset);
        for life in 0..3 {
            fixture.reopen();
            let collection = fixture.collection("db.c");
            assert_eq!(contents(&fixture.store, &collection).len(), 40 + life);
            if life == 0 {
                let what: Vec<_> = fixture.store.set_aside_work().into_iter().map(|work| work.what).collect();
                assert_eq!(what, vec!["the oplog from before"; told], "{segment_bytes} {offset}");
            }
            fixture.insert(&collection, rawdoc! { "_id": 100 + life as i32 }).unwrap();
            fixture.flush_oplog();
            assert_sound(&fixture.store);
            if life == 1 {
                fixture.store.checkpoint_step(Urgency::Now).unwrap();
            }
            fixture.disk.process_crash();
        }
    }
}
