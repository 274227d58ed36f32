//! Changes of one document with very many index entries: others go past them, and crashes in their midst leave all or nothing of them.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use bson::{RawArrayBuf, RawDocumentBuf, Uuid, rawdoc};
use collection::{Collection, StatementDetails, Validation};
use oplog::{Oplog, OplogPosition};
use parking_lot::Mutex;
use platform::spawn_named;

use super::fixture::*;
use crate::*;

/// Elements of the array, which is in two indexes.
const ELEMENTS: i32 = 3000;

type Beside = Arc<Mutex<Box<dyn FnMut(u32) + Send>>>;

/// A collection with a few documents; what is in `Beside` is called with the number of each piece that is about to be applied.
fn filled() -> (Fixture, Arc<Collection>, Beside) {
    let beside: Beside = Arc::new(Mutex::new(Box::new(|_| {})));
    let (called, pieces) = (beside.clone(), AtomicU32::new(0));
    let interleaving = Interleaving::new(move |moment| {
        // Not for what is done beside.
        if matches!(moment, Moment::LargeCommit)
            && let Some(mut called) = called.try_lock()
        {
            called(pieces.fetch_add(1, Ordering::Relaxed));
        }
    });
    let mut fixture = Fixture::with(StoreOptions { interleaving, ..options() });
    let collection = fixture.collection("db.c");
    for index in [
        rawdoc! { "key": { "a": 1 }, "name": "a" },
        rawdoc! { "key": { "b": 1, "a": -1 }, "name": "ba" },
        rawdoc! { "key": { "u": 1 }, "name": "u", "unique": true },
    ] {
        fixture.create_index(&collection, index).unwrap();
    }
    for id in 0..5 {
        fixture.insert(&collection, rawdoc! { "_id": id, "a": id, "u": id }).unwrap();
    }
    (fixture, collection, beside)
}

fn document(id: i32, first: i32) -> RawDocumentBuf {
    let elements: RawArrayBuf = (first..first + ELEMENTS).collect();
    rawdoc! { "_id": id, "a": elements, "u": 100 + first }
}

fn count(store: &Store, collection: &Arc<Collection>, name: &str) -> usize {
    entries(store, collection, name).len()
}

#[test]
fn others_write_and_read_while_a_large_change_is_applied() {
    let (mut fixture, collection, beside) = filled();
    let others = Arc::new(AtomicU32::new(0));
    let (store, of_others, seen) = (fixture.store.clone(), collection.clone(), others.clone());
    *beside.lock() = Box::new(move |piece| {
        let mut context = WriteContext::new();
        let number = seen.load(Ordering::Relaxed) as i32;
        let document = rawdoc! { "_id": 1000 + number, "u": -1 - number };
        let before = (count(&store, &of_others, "a"), contents(&store, &of_others).len());
        let commit = store.insert_document(&mut context, &of_others, &document, Validation::Enforce).unwrap();
        store.acknowledge(&commit, Acknowledgement::Visible).unwrap();
        // It is there, and nothing of what is being applied.
        let after = (count(&store, &of_others, "a"), contents(&store, &of_others).len());
        assert_eq!(after, (before.0 + 1, before.1 + 1), "{piece}");
        seen.fetch_add(1, Ordering::Relaxed);
    });
    let entries_before = count(&fixture.store, &collection, "a");
    fixture.insert(&collection, document(7, 10)).unwrap();
    let inserted = others.load(Ordering::Relaxed);
    assert!(inserted > 10, "{inserted}");
    let now = count(&fixture.store, &collection, "a");
    assert_eq!(now, entries_before + ELEMENTS as usize + inserted as usize);
    fixture.replace(&collection, 7, document(7, 2_000_000)).unwrap();
    assert_eq!(contents(&fixture.store, &collection)[&7], document(7, 2_000_000));
    fixture.delete(&collection, 7).unwrap();
    assert!(find(&fixture.store, &collection, 7).is_none());
    let others = others.load(Ordering::Relaxed);
    assert!(others > 3 * inserted, "{others}");
    assert_eq!(count(&fixture.store, &collection, "a"), entries_before + others as usize);
    assert_sound(&fixture.store);
    // Whoever follows the oplog is told once of each.
    let mut reader = fixture.store.oplog().read_from(OplogPosition(0)).unwrap();
    let mut told = 0;
    while let Some(entry) = reader.next_entry().unwrap() {
        if let collection::Entry::Transaction(entry) = collection::Entry::decode(entry.payload).unwrap() {
            told += u32::from(
                matches!(entry.step, collection::TransactionStep::Commit(commit) if commit.transaction.is_none()),
            );
        }
    }
    assert_eq!(told, 3);
    *beside.lock() = Box::new(|_| {});
}

/// A crash before each of some pieces, with and without a checkpoint in between.
#[test]
fn a_crash_in_the_midst_of_a_large_change_leaves_all_of_it() {
    for (crash_at, has_checkpoint) in [(0, false), (3, true), (9, false), (12, true)] {
        let (mut fixture, collection, beside) = filled();
        fixture.insert(&collection, document(8, 50_000)).unwrap();
        fixture.flush_oplog();
        let store = fixture.store.clone();
        let first = AtomicU32::new(u32::MAX);
        *beside.lock() = Box::new(move |piece| {
            let first = first.fetch_min(piece, Ordering::Relaxed).min(piece);
            if has_checkpoint && piece - first == crash_at - 1 {
                store.checkpoint_step(Urgency::Now).unwrap();
            }
            if piece - first == crash_at {
                Oplog::flush_step(store.oplog()).unwrap();
                panic!("the process dies");
            }
        });
        let session = fixture.store.sessions().refresh(Uuid::from_bytes([7; 16])).unwrap();
        let details = StatementDetails::Upserted;
        fixture.context.set_statement(Some(Statement { session, txn_number: 4, id: 2, details }));
        let died = catch_unwind(AssertUnwindSafe(|| fixture.insert(&collection, document(7, 10))));
        assert!(died.is_err(), "{crash_at}");
        *beside.lock() = Box::new(|_| {});
        fixture.context = WriteContext::new();
        drop(collection);
        for life in 0..2 {
            fixture.crash();
            let collection = fixture.collection("db.c");
            assert_eq!(contents(&fixture.store, &collection)[&7], document(7, 10), "{crash_at} {life}");
            assert_sound(&fixture.store);
            // A retry has its reply.
            let session = fixture.store.sessions().refresh(Uuid::from_bytes([7; 16])).unwrap();
            let executed = session.executed(2).unwrap();
            let retried = fixture.store.retried_statement(executed.details.unwrap()).unwrap();
            assert_eq!(retried.inserted.unwrap(), document(7, 10));
            drop(collection);
            fixture.flush_oplog();
        }
    }
}

#[test]
fn definitions_change_once_a_large_change_is_applied() {
    let (mut fixture, collection, beside) = filled();
    let store = fixture.store.clone();
    let dropping = Arc::new(Mutex::new(None));
    let thread = dropping.clone();
    *beside.lock() = Box::new(move |piece| {
        if piece == 2 {
            let store = store.clone();
            *thread.lock() = Some(spawn_named("drops", move || {
                let collection = store.catalog().lookup("db.c").unwrap();
                store.drop_indexes(&collection, WhichIndexes::Names(vec!["ba".to_owned()])).unwrap();
            }));
        }
    });
    fixture.insert(&collection, document(7, 10)).unwrap();
    dropping.lock().take().unwrap().unwrap().join().unwrap();
    assert_eq!(collection.indexes().listed().count(), 3);
    assert_sound(&fixture.store);
    *beside.lock() = Box::new(|_| {});
}
