//! Entries of the oplog that are whole and make no sense, and damaged files of rings: no start is refused for them, and what is lost is told.

use std::path::Path;

use bson::raw::cstr;
use bson::{Binary, RawDocumentBuf, Uuid, rawdoc};
use collection::CollectionOptions;
use oplog::Oplog;
use platform::{Disk, OpenMode};
use storage_engine::Batch;

use super::fixture::*;
use crate::*;

/// What is told where nobody knows whom an entry is about.
const UNKNOWN: &str = "an entry of the oplog";

/// Two collections, in the checkpoint.
fn filled() -> Fixture {
    let mut fixture = Fixture::new();
    for name in ["db.a", "db.b"] {
        let collection = fixture.collection(name);
        fixture.create_index(&collection, rawdoc! { "key": { "x": 1 }, "name": "x" }).unwrap();
        for id in 0..3 {
            fixture.insert(&collection, rawdoc! { "_id": id, "x": id }).unwrap();
        }
    }
    fixture.flush_oplog();
    fixture.store.checkpoint_step(Urgency::Now).unwrap();
    fixture
}

fn binary(uuid: Uuid) -> Binary {
    Binary { subtype: bson::spec::BinarySubtype::Uuid, bytes: uuid.bytes().to_vec() }
}

/// The insertion of a document into a collection.
fn insertion(uuid: Uuid, document: RawDocumentBuf) -> RawDocumentBuf {
    let bytes = document.as_bytes().len() as i32;
    rawdoc! { "op": "i", "ns": "db.x", "ui": binary(uuid), "rid": 50_i64, "sz": bytes, "o": document, "v": 2 }
}

fn log(fixture: &Fixture, payload: &[u8]) -> u64 {
    let oplog = fixture.store.oplog();
    oplog.append(&mut |_, bytes| bytes.extend_from_slice(payload), &mut |_, _| {}).unwrap().position.0
}

fn told(fixture: &Fixture) -> Vec<(&'static str, String)> {
    fixture.store.set_aside_work().into_iter().map(|work| (work.what, work.namespace)).collect()
}

/// As a document, with one byte of the inner document changed: a type that there is not.
fn cut(mut payload: RawDocumentBuf) -> Vec<u8> {
    let element = document::elements(&payload).find(|element| element.name_bytes() == b"o").unwrap();
    let at = element.value_bytes().as_ptr() as usize - payload.as_bytes().as_ptr() as usize + 4;
    let mut bytes = std::mem::take(&mut payload).into_bytes();
    bytes[at] = 0x66;
    bytes
}

/// What is logged, and what follows: a collection is set aside, or it is not known which lacks something.
fn entries_of((a, record): (Uuid, i64), b: Uuid) -> Vec<(Vec<u8>, Option<&'static str>)> {
    let deep = (0..1000).fold(rawdoc! { "x": 1 }, |inner, _| rawdoc! { "d": inner });
    let command = |uuid: Option<Uuid>, object: RawDocumentBuf| {
        let mut entry = rawdoc! { "op": "c", "ns": "db.$cmd", "o": object, "v": 2 };
        uuid.into_iter().for_each(|uuid| entry.append(cstr!("ui"), binary(uuid)));
        entry
    };
    let later = |uuid: Option<Uuid>| {
        let mut entry = rawdoc! { "op": "later", "ns": "db.a" };
        uuid.into_iter().for_each(|uuid| entry.append(cstr!("ui"), binary(uuid)));
        entry
    };
    let operations = |operations: &[RawDocumentBuf]| {
        let mut list = bson::RawArrayBuf::new();
        operations.iter().for_each(|operation| list.push(operation.clone()));
        rawdoc! { "applyOps": list }
    };
    let (of_a, nobody) = (Some("db.a"), None);
    let update = rawdoc! { "$v": 2, "diff": { "u": 5 } };
    let mixed = operations(&[insertion(b, rawdoc! { "_id": 50, "x": 50 }), later(Some(a))]);
    vec![
        (vec![0xFF; 40], nobody),
        (Vec::new(), nobody),
        (later(None).into_bytes(), nobody),
        (later(Some(a)).into_bytes(), of_a),
        (rawdoc! { "op": "i", "ns": "db.a", "ui": binary(a), "rid": 50_i64, "later": 1 }.into_bytes(), of_a),
        (insertion(a, deep).into_bytes(), of_a),
        (cut(insertion(a, rawdoc! { "_id": 50, "x": 1 })), of_a),
        (rawdoc! { "op": "u", "ns": "db.a", "ui": binary(a), "rid": record, "o": update }.into_bytes(), of_a),
        (command(None, rawdoc! { "later": "a" }).into_bytes(), nobody),
        (command(Some(Uuid::from_bytes([9; 16])), rawdoc! { "create": 5 }).into_bytes(), nobody),
        (command(Some(a), rawdoc! { "collMod": "a", "options": 7 }).into_bytes(), of_a),
        (command(None, mixed).into_bytes(), of_a),
        (command(None, operations(&[later(None)])).into_bytes(), nobody),
        (command(None, rawdoc! { "applyOps": 7 }).into_bytes(), nobody),
    ]
}

#[test]
fn an_entry_that_makes_no_sense_costs_what_it_is_about_and_no_start() {
    let count = entries_of((Uuid::from_bytes([0; 16]), 0), Uuid::from_bytes([0; 16])).len();
    for case in 0..count {
        let mut fixture = filled();
        let (a, b) = (fixture.collection("db.a"), fixture.collection("db.b").uuid());
        let record = find(&fixture.store, &a, 0).unwrap().0;
        let (payload, expected) = entries_of((a.uuid(), record), b).swap_remove(case);
        drop(a);
        let position = log(&fixture, &payload);
        // What comes behind it is there.
        log(&fixture, insertion(b, rawdoc! { "_id": 60, "x": 60 }).as_bytes());
        fixture.flush_oplog();
        fixture.disk.process_crash();
        let expected = expected.map_or((UNKNOWN, String::new()), |name| ("a collection", name.to_owned()));
        for life in 0..3 {
            fixture.reopen();
            assert_eq!(told(&fixture), std::slice::from_ref(&expected), "case {case}, life {life}");
            let other = fixture.collection("db.b");
            assert!(find(&fixture.store, &other, 60).is_some(), "case {case}");
            fixture.insert(&other, rawdoc! { "_id": 100 + life, "x": 1 }).unwrap();
            assert!(fixture.store.validate(&other, &|| false).unwrap().is_valid());
            fixture.flush_oplog();
            // The second life has it from the oplog, the third from a checkpoint behind it.
            if life == 1 {
                fixture.store.checkpoint_step(Urgency::Now).unwrap();
            }
            fixture.disk.process_crash();
        }
        if expected.0 != UNKNOWN {
            continue;
        }
        let path = Path::new("oplog").join(format!("damaged-{position:020}.entry"));
        let file = fixture.disk.open(&path, OpenMode::Read).unwrap();
        let mut kept = vec![0; file.length().unwrap() as usize];
        file.read_exact_at(&mut kept, 0).unwrap();
        assert_eq!(kept, payload);
        fixture.disk.remove(&path).unwrap();
        fixture.reopen();
        assert_eq!(told(&fixture), []);
        assert_sound(&fixture.store);
    }
}

#[test]
fn of_very_many_entries_the_first_are_kept_and_the_rest_is_counted() {
    let mut fixture = filled();
    (0..70).for_each(|_| _ = log(&fixture, &[0xFF; 40]));
    fixture.flush_oplog();
    fixture.disk.process_crash();
    fixture.reopen();
    let found = fixture.store.set_aside_work();
    assert_eq!(found.len(), 65);
    assert!(found[64].reason.starts_with("6 more"), "{}", found[64].reason);
    let names = fixture.disk.list(Path::new("oplog")).unwrap();
    assert_eq!(names.iter().filter(|name| name.ends_with(".entry")).count(), 64);
}

/// A capped collection that has come around, in the checkpoint, with inserts behind that.
fn ring() -> Fixture {
    let mut fixture = filled();
    let capped = CollectionOptions::parse(&rawdoc! { "capped": true, "size": 20_000 }).unwrap();
    fixture.store.create_collection(&namespace("db.ring"), capped).unwrap();
    insert_into_ring(&mut fixture, 0..300).unwrap();
    fixture.flush_oplog();
    fixture.store.checkpoint_step(Urgency::Now).unwrap();
    insert_into_ring(&mut fixture, 300..310).unwrap();
    fixture.flush_oplog();
    fixture.disk.process_crash();
    fixture
}

fn insert_into_ring(fixture: &mut Fixture, ids: std::ops::Range<i32>) -> Result<()> {
    let collection = fixture.collection("db.ring");
    for id in ids {
        fixture.insert(&collection, rawdoc! { "_id": id, "text": "x".repeat(100) })?;
    }
    Ok(())
}

fn ring_file(fixture: &Fixture) -> std::path::PathBuf {
    let names = fixture.disk.list(Path::new("rings")).unwrap();
    assert_eq!(names.len(), 1, "{names:?}");
    Path::new("rings").join(&names[0])
}

/// The rest works, and the same is told after another start.
fn assert_rest_is_served(fixture: &mut Fixture, expected: &[(&'static str, String)]) {
    for life in 0..2 {
        assert_eq!(told(fixture), expected);
        let other = fixture.collection("db.b");
        fixture.insert(&other, rawdoc! { "_id": 100 + life, "x": 1 }).unwrap();
        fixture.store.checkpoint_step(Urgency::Now).unwrap();
        assert!(fixture.store.validate(&other, &|| false).unwrap().is_valid());
        fixture.disk.process_crash();
        fixture.reopen();
    }
}

#[test]
fn a_ring_without_its_file_is_set_aside() {
    // Its header is damaged, it is cut off in the midst of that, it is empty, it is gone.
    for length in [None, Some(100), Some(0), Some(u64::MAX)] {
        let mut fixture = ring();
        let path = ring_file(&fixture);
        match length {
            None => fixture.disk.flip_bit(&path, 9, 3).unwrap(),
            Some(u64::MAX) => fixture.disk.remove(&path).unwrap(),
            Some(length) => fixture.disk.open(&path, OpenMode::ReadWrite).unwrap().set_length(length).unwrap(),
        }
        fixture.reopen();
        assert_rest_is_served(&mut fixture, &[("a collection", "db.ring".to_owned())]);
        let refused = insert_into_ring(&mut fixture, 310..311).unwrap_err();
        assert!(refused.is_damage(), "{refused}");
        fixture.store.drop_collection(&namespace("db.ring")).unwrap().unwrap();
        assert_eq!(told(&fixture), []);
    }
}

#[test]
fn whatever_of_a_ring_is_damaged_the_rest_is_served() {
    let length = {
        let fixture = ring();
        fixture.disk.open(&ring_file(&fixture), OpenMode::Read).unwrap().length().unwrap()
    };
    let mut stuck = 0;
    for offset in (4096..length).step_by(397) {
        let mut fixture = ring();
        let path = ring_file(&fixture);
        fixture.disk.flip_bit(&path, offset, 3).unwrap();
        fixture.reopen();
        assert_rest_is_served(&mut fixture, &[]);
        // Who comes to the damaged document says so, once.
        for id in 400..700 {
            if insert_into_ring(&mut fixture, id..id + 1).is_err() {
                assert_eq!(told(&fixture), [("inserting into a capped collection", "db.ring".to_owned())]);
                stuck += 1;
                break;
            }
        }
    }
    assert!(stuck > 10, "{stuck}");
}

#[test]
fn a_state_of_a_ring_that_makes_no_sense_sets_it_aside() {
    let states: [&[u64]; 5] =
        [&[], &[1; 3], &[0; 10], &[9, 8, 8, 0, 0, 1, 1, 1, 0, 4096], &[0, u64::MAX, 0, 0, 0, 1, 1, 1, 0, 4096]];
    for state in states {
        let mut fixture = ring();
        fixture.reopen();
        fixture.store.shutdown().unwrap();
        fixture.disk.process_crash();
        fixture.reopen();
        let bytes: Vec<u8> = state.iter().flat_map(|field| field.to_le_bytes()).collect();
        let mut batch = Batch::new();
        batch.put(fixture.collection("db.ring").record_tree(), &[0], &bytes);
        fixture.store.engine().apply_settled(&batch).unwrap();
        fixture.store.shutdown().unwrap();
        fixture.disk.process_crash();
        fixture.reopen();
        assert_rest_is_served(&mut fixture, &[("a collection", "db.ring".to_owned())]);
    }
}
