//! Background work on damaged data is set aside, and the rest is served.

use std::path::Path;
use std::sync::Arc;

use bson::{DateTime, rawdoc};
use platform::{Disk, SeededRandom};

use super::fixture::*;
use crate::*;

const DOCUMENTS: i32 = 300;
/// Blocks begin at multiples of this.
const PIECE: usize = 4096;

/// Two collections whose documents have all expired; an index of the first is only in the oplog.
fn filled() -> Fixture {
    let mut fixture = Fixture::new();
    for name in ["db.a", "db.b"] {
        let collection = fixture.collection(name);
        let index = rawdoc! { "key": { "at": 1 }, "name": "at", "expireAfterSeconds": 1 };
        fixture.create_index(&collection, index).unwrap();
        for id in 0..DOCUMENTS {
            let text: String = (0..150).map(|at| char::from(b'a' + ((id * 31 + at * at) % 26) as u8)).collect();
            fixture
                .insert(&collection, rawdoc! { "_id": id, "at": DateTime::from_millis(1_000), "x": id, "text": text })
                .unwrap();
        }
    }
    fixture.flush_oplog();
    fixture.store.checkpoint_step(Urgency::Now).unwrap();
    let collection = fixture.collection("db.a");
    fixture.create_index(&collection, rawdoc! { "key": { "x": 1 }, "name": "x" }).unwrap();
    fixture.flush_oplog();
    fixture.disk.process_crash();
    fixture
}

/// The file of the pages, and where in it there is something.
fn written_pieces(fixture: &Fixture) -> (String, Vec<u64>) {
    let names = fixture.disk.list(Path::new("")).unwrap();
    let open = |name: &str| fixture.disk.open(Path::new(name), platform::OpenMode::Read);
    let length = |name: &String| open(name).map_or(0, |file| file.length().unwrap());
    let name = names.into_iter().max_by_key(length).unwrap();
    let file = open(&name).unwrap();
    let mut bytes = vec![0; file.length().unwrap() as usize];
    file.read_exact_at(&mut bytes, 0).unwrap();
    let pieces = bytes.chunks(PIECE).enumerate().filter(|(_, piece)| piece.iter().any(|byte| *byte != 0));
    let offsets = pieces.map(|(number, _)| (number * PIECE) as u64).collect();
    (name, offsets)
}

#[test]
fn one_damaged_page_keeps_no_background_from_the_rest() {
    let (mut lost_indexes, mut aside, mut refused) = (0, 0, 0);
    let (name, pieces) = written_pieces(&filled());
    for offset in pieces {
        let mut fixture = filled();
        fixture.disk.flip_bit(Path::new(&name), offset + 600, 3).unwrap();
        let random = Arc::new(SeededRandom::new(offset));
        let opened = Store::open(fixture.disk.clone(), fixture.clock.clone(), random, fixture.options.clone());
        // A catalog of one page is all or nothing.
        let Ok(store) = opened.inspect_err(|error| assert!(error.is_damage(), "{error}")) else {
            refused += 1;
            continue;
        };
        fixture.store = store;
        lost_indexes += fixture.store.set_aside_work().iter().filter(|work| work.index == "x").count();
        let pass = fixture.store.ttl_pass(&mut fixture.context).unwrap();
        fixture.store.watch_writes();
        let told = fixture.store.set_aside_work();
        aside += told.len();
        // What is whole expires: the other collection at least.
        let expected = if told.is_empty() { 2 * DOCUMENTS as u64 } else { DOCUMENTS as u64 };
        assert!(pass.deleted >= expected, "{} at {offset}: {told:?}", pass.deleted);
        let again = fixture.store.ttl_pass(&mut fixture.context).unwrap();
        assert_eq!((again.deleted, fixture.store.set_aside_work().len()), (0, told.len()), "not tried again");
        let other = fixture.collection("db.new");
        fixture.insert(&other, rawdoc! { "_id": -1 }).unwrap();
        fixture.store.checkpoint_step(Urgency::Now).unwrap();
        assert_eq!(fixture.store.writes_stopped(), None);
    }
    assert!(lost_indexes > 0 && aside > 0, "{lost_indexes} {aside}: no page of a collection was damaged");
    assert!(refused <= 2, "{refused} starts were refused");
}

#[test]
fn no_more_reports_than_the_bound_are_kept() {
    let fixture = Fixture::new();
    let work = |number: usize| SetAsideWork {
        what: "expiry",
        namespace: format!("db.c{number}"),
        index: "at".to_owned(),
        reason: "damaged".to_owned(),
        advice: "drop the index",
    };
    for number in 0..300 {
        fixture.store.set_aside(None, work(number));
    }
    let kept = fixture.store.set_aside_work();
    assert_eq!(kept.len(), 256);
    assert_eq!((kept.first(), kept.last()), (Some(&work(44)), Some(&work(299))));
}
