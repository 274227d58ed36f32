//! Indexes that are built anew (`reIndex`): beside writers, with damage, and with crashes at every step.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};

use bson::rawdoc;
use collection::{Collection, CollectionError, IndexState, RecordId, Validation};
use parking_lot::Mutex;
use storage_engine::{Batch, TreeId};

use super::fixture::*;
use crate::*;

const DOCUMENTS: i32 = 300;

type AtRecord = Arc<Mutex<Box<dyn FnMut(i32) + Send>>>;

/// A store whose rebuilds call back at each record, with its number.
fn fixture(pieces_bytes: usize) -> (Fixture, AtRecord) {
    let at_record: AtRecord = Arc::new(Mutex::new(Box::new(|_| {})));
    let mut fixture = Fixture::with(StoreOptions { index_piece_bytes: pieces_bytes, ..options() });
    let collection = fixture.collection("db.c");
    for id in 0..DOCUMENTS {
        fixture.insert(&collection, rawdoc! { "_id": id, "a": id % 7, "b": [id, id + 1], "u": id }).unwrap();
    }
    for index in [
        rawdoc! { "key": { "a": 1 }, "name": "a" },
        rawdoc! { "key": { "b": -1 }, "name": "b" },
        rawdoc! { "key": { "u": 1 }, "name": "u", "unique": true },
    ] {
        fixture.create_index(&collection, index).unwrap();
    }
    let (called, records) = (at_record.clone(), AtomicI32::new(0));
    fixture.options.interleaving = Interleaving::new(move |moment| {
        if matches!(moment, Moment::IndexBuild) {
            let number = records.fetch_add(1, Ordering::Relaxed) + 1;
            // Unless it is what was called that builds an index.
            if let Some(mut at_record) = called.try_lock() {
                at_record(number);
            }
        }
    });
    fixture.flush_oplog();
    fixture.crash();
    // Replay has built them once more.
    fixture.store.catalog().reap().unwrap();
    (fixture, at_record)
}

fn found(fixture: &Fixture) -> Arc<Collection> {
    fixture.store.catalog().lookup("db.c").unwrap()
}

fn trees(collection: &Collection) -> Vec<TreeId> {
    collection.indexes().listed().map(|index| index.tree()).collect()
}

fn names(collection: &Collection) -> Vec<String> {
    collection.indexes().listed().map(|index| index.name().to_owned()).collect()
}

/// Changes the document behind a record, one before it, and the ends of the collection.
fn write_beside(store: &Store, collection: &Arc<Collection>, number: i32) {
    let mut context = WriteContext::new();
    let document = rawdoc! { "_id": 10_000 + number, "a": 3, "u": 10_000 + number };
    store.insert_document(&mut context, collection, &document, Validation::Enforce).unwrap();
    let taken = rawdoc! { "_id": 10_000 + number, "u": -number };
    assert!(store.insert_document(&mut context, collection, &taken, Validation::Enforce).is_err());
    for (id, deletes) in [(number / 2, false), (number + 5, false), (number + 9, number % 4 == 0)] {
        let Some(record_id) = find(store, collection, id) else { continue };
        let decide = |_: &bson::RawDocument, new: &mut Vec<u8>| -> Result<Decision> {
            new.extend_from_slice(rawdoc! { "_id": id, "a": -number, "b": [7, id], "u": id }.as_bytes());
            Ok(if deletes { Decision::Delete } else { Decision::Replace })
        };
        store.change_document(&mut context, collection, record_id, Validation::Enforce, decide).unwrap();
    }
}

/// Removes an entry, and puts one that belongs to no document.
fn damage(fixture: &Fixture, collection: &Arc<Collection>) {
    for name in ["a", "_id_"] {
        let index = collection.indexes().find(name).unwrap().clone();
        let (key, record_id) = entries(&fixture.store, collection, name).swap_remove(20);
        let (mut entry, mut alien) = (Vec::new(), Vec::new());
        record_id.write_entry_key(&key, &mut entry);
        RecordId(900_000).write_entry_key(&key, &mut alien);
        let mut batch = Batch::new();
        batch.delete(index.tree(), &entry);
        batch.put(index.tree(), &alien, &[]);
        fixture.store.engine().apply_settled(&batch).unwrap();
    }
    assert!(!fixture.store.validate(collection, &|| false).unwrap().is_valid());
}

fn rebuild(fixture: &Fixture, collection: &Arc<Collection>) -> Result<IndexesRebuilt> {
    fixture.store.rebuild_indexes(collection, &|| false)
}

#[test]
fn all_indexes_are_built_anew_and_damage_is_gone() {
    let (mut fixture, _) = fixture(2_000);
    let collection = found(&fixture);
    let (before, ordered) = (trees(&collection), names(&collection));
    damage(&fixture, &collection);
    let rebuilt = rebuild(&fixture, &collection).unwrap();
    assert_eq!(rebuilt.indexes.iter().map(|index| index.name.clone()).collect::<Vec<_>>(), ordered);
    assert_eq!(ordered, ["_id_", "a", "b", "u"]);
    assert_eq!(names(&collection), ordered);
    assert!(trees(&collection).iter().all(|tree| !before.contains(tree)));
    assert!(collection.indexes().find("b").unwrap().is_multikey());
    assert!(!collection.indexes().find("a").unwrap().is_multikey());
    assert_sound(&fixture.store);
    // Nobody holds the old ones.
    assert_eq!(fixture.store.catalog().reap().unwrap(), 4);
    assert_sound(&fixture.store);
    assert!(fixture.insert(&collection, rawdoc! { "_id": 1 }).is_err());
    assert!(fixture.insert(&collection, rawdoc! { "_id": -1, "u": 5 }).is_err());
    // Once more, of what was rebuilt; and after a checkpoint it is what is found again.
    rebuild(&fixture, &collection).unwrap();
    let after = trees(&collection);
    fixture.store.checkpoint_step(Urgency::Now).unwrap();
    fixture.crash();
    assert_eq!(trees(&found(&fixture)), after);
    assert_sound(&fixture.store);
}

#[test]
fn writers_go_on_meanwhile() {
    for pieces_bytes in [500, 2_000, 8 << 20] {
        let (mut fixture, at_record) = fixture(pieces_bytes);
        let collection = found(&fixture);
        let (store, written) = (fixture.store.clone(), collection.clone());
        *at_record.lock() = Box::new(move |number| {
            if number % 9 == 0 {
                write_beside(&store, &written, number);
            }
        });
        rebuild(&fixture, &collection).unwrap();
        *at_record.lock() = Box::new(|_| {});
        assert_sound(&fixture.store);
        let documents = contents(&fixture.store, &collection);
        fixture.flush_oplog();
        fixture.lose_power();
        let collection = found(&fixture);
        assert_eq!(contents(&fixture.store, &collection), documents);
        assert_sound(&fixture.store);
    }
}

/// A crash in the midst leaves the indexes that there were, whether a checkpoint had seen half of the new ones or not.
#[test]
fn a_crash_in_the_midst_leaves_everything_as_before() {
    type End = fn(&mut Fixture);
    for end in [Fixture::crash as End, Fixture::lose_power as End] {
        for (dies_at, checkpoint_at) in [(1, 0), (150, 0), (150, 149), (270, 20), (280, 279)] {
            let (mut fixture, at_record) = fixture(1_000);
            let collection = found(&fixture);
            fixture.store.checkpoint_step(Urgency::Now).unwrap();
            let before = trees(&collection);
            let (store, written) = (fixture.store.clone(), collection.clone());
            *at_record.lock() = Box::new(move |number| {
                if number % 9 == 0 {
                    write_beside(&store, &written, number);
                }
                if number == checkpoint_at {
                    store.checkpoint_step(Urgency::Now).unwrap();
                }
                if number == dies_at {
                    oplog::Oplog::flush_step(store.oplog()).unwrap();
                    std::panic::panic_any("the process dies");
                }
            });
            let died = catch_unwind(AssertUnwindSafe(|| rebuild(&fixture, &collection)));
            assert!(died.is_err(), "the rebuild was over before");
            *at_record.lock() = Box::new(|_| {});
            let documents = contents(&fixture.store, &collection);
            end(&mut fixture);
            let collection = found(&fixture);
            assert_eq!(trees(&collection), before);
            assert!(fixture.store.interrupted_builds().is_empty());
            assert!(collection.indexes().all().iter().all(|index| index.state() == IndexState::Ready));
            assert_eq!(contents(&fixture.store, &collection), documents);
            assert_sound(&fixture.store);
            // Nothing of the half-built ones is in the way of the next.
            rebuild(&fixture, &collection).unwrap();
            assert_sound(&fixture.store);
        }
    }
}

/// Behind the replacement: before a checkpoint the old trees are there again, with all that was written since; after it the new ones.
#[test]
fn a_crash_afterwards_loses_nothing() {
    for checkpoints in [false, true] {
        let (mut fixture, _) = fixture(2_000);
        let collection = found(&fixture);
        fixture.store.checkpoint_step(Urgency::Now).unwrap();
        let before = trees(&collection);
        damage(&fixture, &collection);
        rebuild(&fixture, &collection).unwrap();
        let after = trees(&collection);
        fixture.store.catalog().reap().unwrap();
        if checkpoints {
            fixture.store.checkpoint_step(Urgency::Now).unwrap();
        }
        write_beside(&fixture.store, &collection, 40);
        let documents = contents(&fixture.store, &collection);
        fixture.flush_oplog();
        fixture.lose_power();
        let collection = found(&fixture);
        assert_eq!(trees(&collection), if checkpoints { after } else { before });
        assert_eq!(contents(&fixture.store, &collection), documents);
        assert_sound(&fixture.store);
    }
}

#[test]
fn duplicates_of_damage_fail_it_and_leave_the_indexes() {
    for id in [rawdoc! { "_id": 7, "u": -7 }, rawdoc! { "_id": -7, "u": 7 }] {
        let (fixture, _) = fixture(2_000);
        let collection = found(&fixture);
        let mut batch = Batch::new();
        batch.put(collection.record_tree(), &RecordId(5_000).record_key(), id.as_bytes());
        fixture.store.engine().apply_settled(&batch).unwrap();
        let (before, list) = (trees(&collection), names(&collection));
        // The store has looked up its last record before.
        let failed = rebuild(&fixture, &collection);
        assert!(matches!(failed, Err(TransactionError::Collection(CollectionError::DuplicateKey(_)))), "{failed:?}");
        assert_eq!((trees(&collection), names(&collection)), (before, list));
        assert_eq!(collection.indexes().replacing().count(), 0);
        assert_eq!(fixture.store.catalog().reap().unwrap(), 4);
        batch.clear();
        batch.delete(collection.record_tree(), &RecordId(5_000).record_key());
        fixture.store.engine().apply_settled(&batch).unwrap();
        assert_sound(&fixture.store);
        rebuild(&fixture, &collection).unwrap();
        assert_sound(&fixture.store);
    }
}

#[test]
fn it_can_be_stopped_and_leaves_everything_as_before() {
    let (fixture, _) = fixture(2_000);
    let collection = found(&fixture);
    let before = trees(&collection);
    for stops_at in [1, 100, 500] {
        let asked = std::cell::Cell::new(0);
        let is_stopped = || {
            asked.set(asked.get() + 1);
            asked.get() >= stops_at
        };
        let stopped = fixture.store.rebuild_indexes(&collection, &is_stopped);
        assert!(matches!(stopped, Err(TransactionError::Collection(CollectionError::Stopped))), "{stopped:?}");
        assert_eq!(trees(&collection), before);
        fixture.store.catalog().reap().unwrap();
        assert_sound(&fixture.store);
    }
}

#[test]
fn definitions_change_meanwhile() {
    // Dropping an index, or the collection, ends it; options that change and other names do not.
    let during = |change: fn(&Store, &Arc<Collection>)| {
        let (fixture, at_record) = fixture(2_000);
        let collection = found(&fixture);
        let (store, changed) = (fixture.store.clone(), collection.clone());
        *at_record.lock() = Box::new(move |number| {
            if number == 100 {
                change(&store, &changed);
            }
        });
        let rebuilt = rebuild(&fixture, &collection);
        *at_record.lock() = Box::new(|_| {});
        fixture.store.catalog().reap().unwrap();
        assert_sound(&fixture.store);
        assert!(collection.is_dropped() || collection.indexes().replacing().count() == 0);
        (collection, rebuilt)
    };
    let is_aborted = |rebuilt: &Result<IndexesRebuilt>| {
        matches!(rebuilt, Err(TransactionError::Collection(CollectionError::IndexBuildAborted(_))))
    };
    let (collection, rebuilt) = during(|store, collection| {
        let (before, _) = store.drop_indexes(collection, WhichIndexes::Names(vec!["a".to_owned()])).unwrap();
        assert_eq!(before, 4);
    });
    assert!(is_aborted(&rebuilt), "{rebuilt:?}");
    assert_eq!(names(&collection), ["_id_", "b", "u"]);
    let (collection, rebuilt) =
        during(|store, collection| assert!(store.drop_indexes(collection, WhichIndexes::All).is_ok()));
    assert!(is_aborted(&rebuilt), "{rebuilt:?}");
    assert_eq!(names(&collection), ["_id_"]);
    let (_, rebuilt) = during(|store, collection| assert!(store.drop_collection(&collection.namespace()).is_ok()));
    assert!(is_aborted(&rebuilt), "{rebuilt:?}");
    let (collection, rebuilt) = during(|store, collection| {
        store.rename_collection(&collection.namespace(), &namespace("db.other"), RenameTarget::Drop).unwrap();
        let index =
            collection::catalog::IndexModification { name: "a".to_owned(), hidden: Some(true), ..Default::default() };
        let modification = collection::catalog::Modification { index: Some(index), ..Default::default() };
        store.modify_collection(collection, modification).unwrap();
    });
    assert_eq!(rebuilt.unwrap().indexes.len(), 4);
    assert!(collection.indexes().find("a").unwrap().is_hidden());
    // Another build is not disturbed; a second rebuild is refused.
    let (collection, rebuilt) = during(|store, collection| {
        let refused = store.rebuild_indexes(collection, &|| false);
        assert!(matches!(refused, Err(TransactionError::Collection(CollectionError::IndexBuildInProgress(_)))));
        let added = specification(rawdoc! { "key": { "a": -1 }, "name": "added" });
        let created = store.create_indexes(collection, vec![added]).unwrap();
        assert_eq!((created.before, created.after), (4, 5));
    });
    assert_eq!(rebuilt.unwrap().indexes.len(), 5);
    assert_eq!(names(&collection), ["_id_", "a", "b", "u", "added"]);
}

/// Cursors on the old trees go on in their view; the trees stay as long.
#[test]
fn who_reads_an_old_index_reads_on() {
    let (fixture, at_record) = fixture(2_000);
    let collection = found(&fixture);
    let view = fixture.store.read_view();
    let before = trees(&collection);
    let index = collection.indexes().find("a").unwrap().clone();
    let mut cursor = view.index_cursor(&collection, &index);
    cursor.seek_first().unwrap();
    assert!(cursor.next().unwrap());
    let (store, written) = (fixture.store.clone(), collection.clone());
    *at_record.lock() = Box::new(move |number| {
        if number % 9 == 0 {
            write_beside(&store, &written, number);
        }
    });
    rebuild(&fixture, &collection).unwrap();
    *at_record.lock() = Box::new(|_| {});
    write_beside(&fixture.store, &collection, 41);
    fixture.store.catalog().reap().unwrap();
    assert!(index.is_replaced() && index.is_ready());
    let mut seen = 1;
    while cursor.next().unwrap() {
        seen += 1;
    }
    assert_eq!(seen, DOCUMENTS);
    // An older view plans with the old trees, since the new ones need not have what it sees.
    let planned = |view: &ReadView| collection.indexes().ready_at(view.timestamp()).map(|index| index.tree()).collect();
    let (old, new): (Vec<_>, Vec<_>) = (planned(&view), planned(&fixture.store.read_view()));
    assert_eq!((old, new), (before, trees(&collection)));
    assert_eq!(entries_seen(&view, &collection, "a"), DOCUMENTS);
    assert_eq!(fixture.store.catalog().reap().unwrap(), 0);
    drop((cursor, index, view));
    assert_eq!(fixture.store.catalog().reap().unwrap(), 4);
    assert_sound(&fixture.store);
}

/// How many entries of an index a view sees.
fn entries_seen(view: &ReadView, collection: &Arc<Collection>, name: &str) -> i32 {
    let index = collection.indexes().ready_at(view.timestamp()).find(|index| index.name() == name).unwrap();
    let mut cursor = view.index_cursor(collection, &index);
    cursor.seek_first().unwrap();
    let mut seen = 0;
    while cursor.next().unwrap() {
        seen += 1;
    }
    seen
}

#[test]
fn so_are_those_of_a_capped_collection() {
    let (mut fixture, at_record) = fixture(2_000);
    let capped = collection::CappedOptions { size: 64 << 10, max: None };
    let options = collection::CollectionOptions { capped: Some(capped), ..Default::default() };
    let (ring, _) = fixture.store.create_collection(&namespace("db.ring"), options).unwrap();
    for id in 0..2_000 {
        fixture.insert(&ring, rawdoc! { "_id": id, "a": id % 7, "padding": "p".repeat(60) }).unwrap();
    }
    fixture.create_index(&ring, rawdoc! { "key": { "a": 1 }, "name": "a" }).unwrap();
    let before = trees(&ring);
    let (store, written) = (fixture.store.clone(), ring.clone());
    *at_record.lock() = Box::new(move |number| {
        let mut context = WriteContext::new();
        let document = rawdoc! { "_id": 10_000 + number, "a": 3, "padding": "p".repeat(90) };
        store.insert_document(&mut context, &written, &document, Validation::Enforce).unwrap();
    });
    fixture.store.rebuild_indexes(&ring, &|| false).unwrap();
    *at_record.lock() = Box::new(|_| {});
    assert!(trees(&ring).iter().all(|tree| !before.contains(tree)));
    assert_sound(&fixture.store);
    fixture.flush_oplog();
    fixture.lose_power();
    assert_sound(&fixture.store);
}
