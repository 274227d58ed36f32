//! Several threads at once: on the same record, on the same key, and while an index is built.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use bson::{RawDocument, rawdoc};
use collection::{CollectionError, Validation};

use super::fixture::*;
use crate::*;

fn threaded() -> Fixture {
    Fixture::with(StoreOptions { engine_threads: true, ..options() })
}

fn increment(document: &RawDocument, new: &mut Vec<u8>) -> Result<Decision> {
    let (id, count) = (document.get_i32("_id").unwrap(), document.get_i32("count").unwrap());
    new.extend_from_slice(rawdoc! { "_id": id, "count": count + 1, "tag": (count + 1) % 7 }.as_bytes());
    Ok(Decision::Replace)
}

#[test]
fn no_increment_is_lost() {
    let mut fixture = threaded();
    let collection = fixture.collection("db.c");
    fixture.create_index(&collection, rawdoc! { "key": { "count": 1 }, "name": "count_1" }).unwrap();
    fixture.insert(&collection, rawdoc! { "_id": 1, "count": 0, "tag": 0 }).unwrap();
    let record_id = find(&fixture.store, &collection, 1).unwrap();
    let (store, threads, rounds) = (&fixture.store, 4, 500);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                let mut context = WriteContext::new();
                for _ in 0..rounds {
                    let outcome =
                        store.change_document(&mut context, &collection, record_id, Validation::Enforce, increment);
                    let commit = outcome.unwrap().commit().unwrap();
                    store.acknowledge(&commit, Acknowledgement::Visible).unwrap();
                }
            });
        }
    });
    let found = contents(&fixture.store, &collection);
    assert_eq!(found[&1].get_i32("count").unwrap(), threads * rounds);
    assert_sound(&fixture.store);
    fixture.store.shutdown().unwrap();
}

#[test]
fn one_of_many_inserts_of_a_key_wins() {
    let fixture = threaded();
    let collection = fixture.collection("db.c");
    let unique = rawdoc! { "key": { "a": 1 }, "name": "a_1", "unique": true };
    fixture.create_index(&collection, unique).unwrap();
    let (store, won) = (&fixture.store, AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let (collection, won) = (&collection, &won);
            scope.spawn(move || {
                let mut context = WriteContext::new();
                for key in 0..300 {
                    let document = rawdoc! { "_id": key * 10 + thread, "a": key };
                    match store.insert_document(&mut context, collection, &document, Validation::Enforce) {
                        Ok(_) => drop(won.fetch_add(1, Ordering::Relaxed)),
                        Err(TransactionError::Collection(CollectionError::DuplicateKey(_))) => {}
                        Err(error) => panic!("{error}"),
                    }
                }
            });
        }
    });
    assert_eq!(won.into_inner(), 300);
    assert_eq!(contents(&fixture.store, &collection).len(), 300);
    assert_sound(&fixture.store);
    fixture.store.shutdown().unwrap();
}

/// Most documents that there are: a slow machine must not have more to build than a fast one.
const CHURNED_MAX: u64 = 10_000;

/// Documents come, change and go until `stop` is set.
fn churn(store: &Store, collection: &std::sync::Arc<collection::Collection>, thread: i32, stop: &AtomicBool) {
    let mut context = WriteContext::new();
    let mut own = std::collections::VecDeque::new();
    for round in 0.. {
        if stop.load(Ordering::Relaxed) {
            return;
        }
        let id = thread * 1_000_000 + round;
        let document = rawdoc! { "_id": id, "count": round, "tag": id % 100 };
        store.insert_document(&mut context, collection, &document, Validation::Enforce).unwrap();
        let mut cursor = store.read_view().record_cursor(collection);
        cursor.seek_last().unwrap();
        if let Some(record_id) = cursor.previous().unwrap() {
            own.push_back(record_id);
            store.change_document(&mut context, collection, record_id, Validation::Enforce, increment).unwrap();
        }
        let delete = |_: &RawDocument, _: &mut Vec<u8>| -> Result<Decision> { Ok(Decision::Delete) };
        if own.len() > 50 {
            let record_id = own.pop_front().unwrap();
            store.change_document(&mut context, collection, record_id, Validation::Enforce, delete).unwrap();
        }
        if collection.counts().documents() > CHURNED_MAX {
            cursor.seek_first().unwrap();
            if let Some(oldest) = cursor.next().unwrap() {
                store.change_document(&mut context, collection, oldest, Validation::Enforce, delete).unwrap();
            }
        }
    }
}

#[test]
fn indexes_built_under_load_are_complete() {
    let mut fixture = threaded();
    let collection = fixture.collection("db.c");
    for id in 0..2_000 {
        fixture.insert(&collection, rawdoc! { "_id": -id - 1, "count": id, "tag": [id, id + 1] }).unwrap();
    }
    let (store, stop) = (&fixture.store, AtomicBool::new(false));
    std::thread::scope(|scope| {
        for thread in 1..4 {
            let (collection, stop) = (&collection, &stop);
            scope.spawn(move || churn(store, collection, thread, stop));
        }
        for round in 0..3 {
            let tag = specification(rawdoc! { "key": { "tag": 1, "count": -1 }, "name": "tag" });
            let id = specification(rawdoc! { "key": { "_id": 1, "count": 1 }, "name": "id", "unique": true });
            store.create_indexes(&collection, vec![tag, id]).unwrap();
            let report = store.validate(&collection, &|| false).unwrap();
            assert!(report.is_valid(), "round {round}: {report:#?}");
            assert_eq!(report.indexes.len(), 3);
            store.checkpoint_step(Urgency::Now).unwrap();
            store.drop_indexes(&collection, WhichIndexes::All).unwrap();
        }
        let tag = specification(rawdoc! { "key": { "tag": 1, "count": -1 }, "name": "tag" });
        store.create_indexes(&collection, vec![tag]).unwrap();
        stop.store(true, Ordering::Relaxed);
    });
    assert_sound(&fixture.store);
    let expected = contents(&fixture.store, &collection);
    drop(collection);
    fixture.flush_oplog();
    fixture.store.engine().stop_background();
    fixture.crash();
    assert_sound(&fixture.store);
    assert_eq!(contents(&fixture.store, &fixture.collection("db.c")), expected);
    fixture.store.shutdown().unwrap();
}

#[test]
fn dropping_a_collection_ends_its_index_build() {
    let mut fixture = threaded();
    let collection = fixture.collection("db.c");
    for id in 0..3_000 {
        fixture.insert(&collection, rawdoc! { "_id": id, "a": id }).unwrap();
    }
    let store = &fixture.store;
    std::thread::scope(|scope| {
        let build = scope.spawn(|| fixture.create_index(&collection, rawdoc! { "key": { "a": 1 }, "name": "a_1" }));
        while collection.indexes().all().len() < 2 {
            std::thread::yield_now();
        }
        store.drop_collection(&namespace("db.c")).unwrap();
        // Either it was done already, or it noticed.
        if let Err(error) = build.join().unwrap() {
            assert!(matches!(error, TransactionError::Collection(CollectionError::IndexBuildAborted(_))), "{error}");
        }
    });
    drop(collection);
    store.checkpoint_step(Urgency::Now).unwrap();
    assert_eq!(store.catalog().trees().len(), 1);
    store.shutdown().unwrap();
}
