//! Index builds that crashes interrupt: the next life goes on with them, beside writers, and what comes out is complete.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use bson::rawdoc;
use collection::{Collection, Validation};
use parking_lot::Mutex;
use platform::WorkingMemory;

use super::fixture::*;
use crate::*;

const DOCUMENTS: i32 = 400;

type AtRecord = Arc<Mutex<Box<dyn FnMut(i32) + Send>>>;

/// A store whose index builds call back at each record, with its number since then.
fn fixture(pieces_bytes: usize) -> (Fixture, AtRecord) {
    let at_record: AtRecord = Arc::new(Mutex::new(Box::new(|_| {})));
    let (called, records) = (at_record.clone(), Mutex::new(0));
    let interleaving = Interleaving::new(move |moment| {
        if matches!(moment, Moment::IndexBuild) {
            let number = {
                let mut records = records.lock();
                *records += 1;
                *records
            };
            called.lock()(number);
        }
    });
    let mut fixture = Fixture::with(StoreOptions { index_piece_bytes: pieces_bytes, interleaving, ..options() });
    let collection = fixture.collection("db.c");
    for id in 0..DOCUMENTS {
        fixture.insert(&collection, rawdoc! { "_id": id, "a": id % 7, "b": [id, id + 1] }).unwrap();
    }
    (fixture, at_record)
}

/// Changes the document behind a record, one before it, and the ends of the collection.
fn write_beside(store: &Store, collection: &Arc<Collection>, new_id: i32, number: i32) {
    let mut context = WriteContext::new();
    let document = rawdoc! { "_id": new_id, "a": 3 };
    store.insert_document(&mut context, collection, &document, Validation::Enforce).unwrap();
    for (id, deletes) in [(number / 2, false), (number + 5, false), (number + 9, number % 4 == 0)] {
        let Some(record_id) = find(store, collection, id) else { continue };
        let decide = |_: &bson::RawDocument, new: &mut Vec<u8>| -> Result<Decision> {
            new.extend_from_slice(rawdoc! { "_id": id, "a": -number, "b": [7, id] }.as_bytes());
            Ok(if deletes { Decision::Delete } else { Decision::Replace })
        };
        store.change_document(&mut context, collection, record_id, Validation::Enforce, decide).unwrap();
    }
}

fn build_and_die(
    fixture: &mut Fixture,
    at_record: &AtRecord,
    index: &bson::RawDocument,
    (dies_at, checkpoint_at): (i32, i32),
) -> Arc<Collection> {
    let collection = fixture.store.catalog().lookup("db.c").unwrap();
    let (store, written) = (fixture.store.clone(), collection.clone());
    *at_record.lock() = Box::new(move |number| {
        if number % 9 == 0 {
            write_beside(&store, &written, 10_000 + number, number);
        }
        if number == checkpoint_at {
            store.checkpoint_step(Urgency::Now).unwrap();
        }
        if number == dies_at {
            oplog::Oplog::flush_step(store.oplog()).unwrap();
            std::panic::panic_any("the process dies");
        }
    });
    let died = catch_unwind(AssertUnwindSafe(|| fixture.create_index(&collection, index.to_owned())));
    assert!(died.is_err(), "the build was over before");
    *at_record.lock() = Box::new(|_| {});
    fixture.crash();
    fixture.store.catalog().lookup("db.c").unwrap()
}

#[test]
fn an_interrupted_build_goes_on_from_where_a_checkpoint_has_it() {
    for (dies_at, checkpoint_at) in [(300, 250), (300, 0), (120, 119), (2, 1)] {
        for key in [rawdoc! { "a": 1 }, rawdoc! { "b": -1 }] {
            let (mut fixture, at_record) = fixture(2_000);
            let index = rawdoc! { "key": key, "name": "built" };
            let collection = build_and_die(&mut fixture, &at_record, &index, (dies_at, checkpoint_at));
            let interrupted = fixture.store.interrupted_builds();
            assert_eq!(interrupted.len(), 1);
            let built = collection.indexes().find("built").unwrap().clone();
            assert!(!built.is_ready(), "queries may use half of an index");
            let had = built.filled().0;
            assert_eq!(had > 0, checkpoint_at > 100, "{had} of {checkpoint_at}");
            let (store, written) = (fixture.store.clone(), collection.clone());
            *at_record.lock() = Box::new(move |number| {
                if number % 7 == 0 {
                    write_beside(&store, &written, 20_000 + number, number % DOCUMENTS);
                }
            });
            fixture.store.resume_index_builds(&collection, &|| false).unwrap();
            *at_record.lock() = Box::new(|_| {});
            assert!(fixture.store.interrupted_builds().is_empty());
            assert!(collection.indexes().find("built").unwrap().is_ready());
            assert_sound(&fixture.store);
            fixture.flush_oplog();
            fixture.crash();
            let collection = fixture.store.catalog().lookup("db.c").unwrap();
            assert!(collection.indexes().find("built").unwrap().is_ready());
            assert_sound(&fixture.store);
        }
    }
}

#[test]
fn an_interrupted_unique_build_finds_duplicates_of_before_and_after() {
    for has_duplicate in [false, true] {
        let (mut fixture, at_record) = fixture(2_000);
        let index = rawdoc! { "key": { "u": 1 }, "name": "unique", "unique": true, "partialFilterExpression": { "u": { "$exists": true } } };
        let collection = fixture.store.catalog().lookup("db.c").unwrap();
        fixture.insert(&collection, rawdoc! { "_id": -1, "u": 1 }).unwrap();
        let collection = build_and_die(&mut fixture, &at_record, &index, (200, 150));
        if has_duplicate {
            fixture.insert(&collection, rawdoc! { "_id": -2, "u": 1 }).unwrap();
        }
        let resumed = fixture.store.resume_index_builds(&collection, &|| false);
        assert_eq!(resumed.is_err(), has_duplicate, "{resumed:?}");
        assert_eq!(collection.indexes().find("unique").is_none(), has_duplicate);
        assert_sound(&fixture.store);
    }
}

/// The server ends in order while a build goes on: it is not given up either.
#[test]
fn a_build_that_an_orderly_end_has_stopped_goes_on() {
    let (mut fixture, _) = fixture(2_000);
    let collection = fixture.store.catalog().lookup("db.c").unwrap();
    let records = std::cell::Cell::new(0);
    let is_stopped = || {
        records.set(records.get() + 1);
        if records.get() == 200 {
            fixture.store.keep_index_builds();
        }
        records.get() >= 200
    };
    let built = specification(rawdoc! { "key": { "a": 1 }, "name": "built" });
    let stopped = fixture.store.create_indexes_unless(&collection, vec![built], &is_stopped);
    assert!(stopped.is_err());
    fixture.store.shutdown().unwrap();
    fixture.crash();
    let collection = fixture.store.catalog().lookup("db.c").unwrap();
    assert_eq!(fixture.store.interrupted_builds().len(), 1);
    fixture.store.resume_index_builds(&collection, &|| false).unwrap();
    assert!(collection.indexes().find("built").unwrap().is_ready());
    assert_sound(&fixture.store);
}

/// More entries than there is memory for are sorted on temporary files; what writers change meanwhile, on records that were read and on others, is right.
#[test]
fn a_build_on_temporary_files_is_complete_beside_writers() {
    // By the size of a piece, and by the share of the memory that an operation has, of which a run's buffer takes 64 KiB.
    for (piece_bytes, share, key) in [
        (2_000, 8 << 20, rawdoc! { "a": 1 }),
        (2_000, 8 << 20, rawdoc! { "b": -1 }),
        (8 << 20, 2_000, rawdoc! { "a": 1 }),
    ] {
        let (fixture, at_record) = fixture(piece_bytes);
        let memory = WorkingMemory::simulated(share).unwrap();
        fixture.store.set_working_memory(memory.clone());
        let collection = fixture.store.catalog().lookup("db.c").unwrap();
        let (store, written) = (fixture.store.clone(), collection.clone());
        *at_record.lock() = Box::new(move |number| {
            if number % 9 == 0 {
                write_beside(&store, &written, 10_000 + number, number);
            }
        });
        fixture.create_index(&collection, rawdoc! { "key": key, "name": "built" }).unwrap();
        *at_record.lock() = Box::new(|_| {});
        let runs = memory.temporary().totals().0;
        assert!(runs > 5, "{runs} runs");
        assert_eq!(memory.budget().used(), 0);
        assert!(collection.indexes().find("built").unwrap().is_ready());
        assert_sound(&fixture.store);
    }
}

#[test]
fn inserts_that_go_on_and_on_do_not_keep_a_build_from_its_end() {
    for index in [
        rawdoc! { "key": { "a": 1 }, "name": "a_1" },
        rawdoc! { "key": { "_id": 1, "a": 1 }, "name": "id_a", "unique": true },
    ] {
        let (fixture, at_record) = fixture(1000);
        let collection = fixture.store.catalog().lookup("db.c").unwrap();
        let (store, written) = (fixture.store.clone(), collection.clone());
        *at_record.lock() = Box::new(move |number| {
            assert!(number < 2 * DOCUMENTS, "it is after those that came meanwhile");
            let mut context = WriteContext::new();
            for id in [-2 * number, -2 * number - 1] {
                let document = rawdoc! { "_id": id, "a": number };
                store.insert_document(&mut context, &written, &document, Validation::Enforce).unwrap();
            }
        });
        fixture.create_index(&collection, index).unwrap();
        assert_sound(&fixture.store);
    }
}

#[test]
fn a_build_that_ends_every_life_is_set_aside_and_the_rest_is_served() {
    let (mut fixture, at_record) = fixture(2_000);
    let index = rawdoc! { "key": { "a": 1 }, "name": "built", "unique": true };
    let collection = fixture.collection("db.d");
    for id in 0..50 {
        fixture.insert(&collection, rawdoc! { "_id": id, "a": id }).unwrap();
    }
    let (dies, died) = (Arc::new(std::sync::atomic::AtomicBool::new(true)), Arc::new(Mutex::new(0)));
    let (still, times) = (dies.clone(), died.clone());
    *at_record.lock() = Box::new(move |_| {
        if still.load(std::sync::atomic::Ordering::Relaxed) {
            *times.lock() += 1;
            std::panic::panic_any("the process dies");
        }
    });
    assert!(catch_unwind(AssertUnwindSafe(|| fixture.create_index(&collection, index.clone()))).is_err());
    for _ in 0..6 {
        fixture.flush_oplog();
        fixture.crash();
        let _ = catch_unwind(AssertUnwindSafe(|| fixture.store.resume_all_builds()));
    }
    assert_eq!(*died.lock(), 1 + 4, "it is not tried in a circle");
    let aside = fixture.store.set_aside_work();
    assert_eq!((aside.len(), aside[0].namespace.as_str(), aside[0].index.as_str()), (1, "db.d", "built"));
    assert!(fixture.store.interrupted_builds().is_empty());
    let collection = fixture.collection("db.d");
    fixture.insert(&collection, rawdoc! { "_id": 100, "a": 100 }).unwrap();
    // Another try is another index.
    dies.store(false, std::sync::atomic::Ordering::Relaxed);
    fixture.store.drop_indexes(&collection, WhichIndexes::Names(vec!["built".to_owned()])).unwrap();
    fixture.create_index(&collection, index).unwrap();
    assert!(collection.indexes().find("built").unwrap().is_ready());
}

#[test]
fn a_resumed_build_that_fails_is_told() {
    let (mut fixture, at_record) = fixture(2_000);
    let index = rawdoc! { "key": { "a": 1 }, "name": "built", "unique": true };
    let collection = fixture.collection("db.c");
    *at_record.lock() = Box::new(|_| std::panic::panic_any("the process dies"));
    assert!(catch_unwind(AssertUnwindSafe(|| fixture.create_index(&collection, index))).is_err());
    *at_record.lock() = Box::new(|_| {});
    fixture.flush_oplog();
    fixture.crash();
    fixture.store.resume_all_builds();
    let aside = fixture.store.set_aside_work();
    assert_eq!((aside.len(), aside[0].index.as_str()), (1, "built"));
    assert!(aside[0].reason.contains("E11000"), "{}", aside[0].reason);
    assert!(fixture.store.catalog().lookup("db.c").unwrap().indexes().find("built").is_none());
    fixture.store.resume_all_builds();
    assert_eq!(fixture.store.set_aside_work().len(), 1);
}
