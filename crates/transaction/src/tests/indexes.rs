//! Secondary indexes: maintenance, uniqueness, partial and sparse ones, builds, drops.

use bson::{RawDocumentBuf, rawdoc};
use collection::CollectionError;

use super::fixture::*;
use crate::*;

#[test]
fn entries_follow_the_documents() {
    let mut fixture = Fixture::new();
    let collection = fixture.collection("db.c");
    fixture.create_index(&collection, rawdoc! { "key": { "a": 1 }, "name": "a_1" }).unwrap();
    fixture.create_index(&collection, rawdoc! { "key": { "b": 1 }, "name": "s", "sparse": true }).unwrap();
    let partial = rawdoc! { "key": { "a": -1 }, "name": "p", "partialFilterExpression": { "b": { "$gt": 5 } } };
    fixture.create_index(&collection, partial).unwrap();
    fixture.insert(&collection, rawdoc! { "_id": 1, "a": 1 }).unwrap();
    fixture.insert(&collection, rawdoc! { "_id": 2, "a": [3, 1, 3], "b": 9 }).unwrap();
    let counts = |fixture: &Fixture| ["a_1", "s", "p"].map(|name| entries(&fixture.store, &collection, name).len());
    assert_eq!(counts(&fixture), [3, 1, 2]);
    let indexes = collection.indexes();
    assert!(indexes.find("a_1").unwrap().is_multikey() && !indexes.find("s").unwrap().is_multikey());
    fixture.replace(&collection, 2, rawdoc! { "_id": 2, "a": [3, 1, 3], "b": 1 }).unwrap();
    assert_eq!(counts(&fixture), [3, 1, 0]);
    fixture.replace(&collection, 1, rawdoc! { "_id": 1, "a": 1.0, "b": 6 }).unwrap();
    assert_eq!(counts(&fixture), [3, 2, 1]);
    assert_sound(&fixture.store);
    fixture.delete(&collection, 2).unwrap();
    assert_eq!(counts(&fixture), [1, 1, 1]);
    assert_sound(&fixture.store);
    fixture.flush_oplog();
    fixture.crash();
    assert_sound(&fixture.store);
    let collection = fixture.collection("db.c");
    assert!(collection.indexes().find("a_1").unwrap().is_multikey());
}

#[test]
fn cursors_go_both_ways_and_survive_reseating() {
    let mut fixture = Fixture::new();
    let collection = fixture.collection("db.c");
    fixture.create_index(&collection, rawdoc! { "key": { "a": 1 }, "name": "a_1" }).unwrap();
    for id in 0..20 {
        fixture.insert(&collection, rawdoc! { "_id": id, "a": id % 4 }).unwrap();
    }
    let all = entries(&fixture.store, &collection, "a_1");
    assert!(all.is_sorted() && all.len() == 20);
    let index = collection.indexes().find("a_1").unwrap().clone();
    let view = fixture.store.read_view();
    let mut cursor = view.index_cursor(&collection, &index);
    cursor.seek_last().unwrap();
    for expected in all.iter().rev().take(7) {
        assert!(cursor.previous().unwrap());
        assert_eq!((cursor.key(), cursor.record_id()), (expected.0.as_slice(), expected.1));
        cursor.reseat_backward(&view).unwrap();
    }
    cursor.seek(&all[5].0).unwrap();
    assert!(cursor.next().unwrap());
    cursor.reseat(&view).unwrap();
    assert_eq!(cursor.key(), all[5].0);
    assert!(cursor.next().unwrap());
    assert_eq!(cursor.record_id(), all[6].1);
    let found = view.find_in_index(&collection, &index, &all[5].0, &mut Vec::new(), &mut Vec::new()).unwrap();
    assert_eq!(found, Some(all[5].1));
}

fn unique() -> RawDocumentBuf {
    rawdoc! { "key": { "a": 1, "b": 1 }, "name": "a_b", "unique": true }
}

#[test]
fn unique_indexes_refuse_a_second_document() {
    let mut fixture = Fixture::new();
    let collection = fixture.collection("db.c");
    fixture.create_index(&collection, unique()).unwrap();
    fixture.insert(&collection, rawdoc! { "_id": 1, "a": 1, "b": "x" }).unwrap();
    fixture.insert(&collection, rawdoc! { "_id": 2, "a": 1 }).unwrap();
    let error = fixture.insert(&collection, rawdoc! { "_id": 3, "a": 1, "b": "x" }).unwrap_err();
    let expected = "E11000 duplicate key error collection: db.c index: a_b dup key: { a: 1, b: \"x\" }";
    assert_eq!(error.to_string(), expected);
    assert!(fixture.insert(&collection, rawdoc! { "_id": 3, "a": 1, "b": null }).is_err());
    assert!(fixture.replace(&collection, 2, rawdoc! { "_id": 2, "a": 1, "b": "x" }).is_err());
    // Its own key is no obstacle, and a key that was given up can be taken.
    fixture.replace(&collection, 1, rawdoc! { "_id": 1, "a": 1.0, "b": "x", "c": 1 }).unwrap();
    fixture.replace(&collection, 1, rawdoc! { "_id": 1, "a": 5, "b": "x" }).unwrap();
    fixture.replace(&collection, 2, rawdoc! { "_id": 2, "a": 1, "b": "x" }).unwrap();
    fixture.delete(&collection, 2).unwrap();
    fixture.insert(&collection, rawdoc! { "_id": 3, "a": 1, "b": "x" }).unwrap();
    assert_sound(&fixture.store);
}

#[test]
fn a_build_over_duplicates_fails_and_leaves_nothing() {
    let mut fixture = Fixture::new();
    let collection = fixture.collection("db.c");
    for id in 0..3 {
        fixture.insert(&collection, rawdoc! { "_id": id, "a": id / 2, "b": 0 }).unwrap();
    }
    let other = specification(rawdoc! { "key": { "b": 1 }, "name": "b_1" });
    let error = fixture.store.create_indexes(&collection, vec![other, specification(unique())]).unwrap_err();
    assert!(matches!(error, TransactionError::Collection(CollectionError::DuplicateKey(_))), "{error}");
    assert_eq!(collection.indexes().all().len(), 1);
    fixture.delete(&collection, 1).unwrap();
    let created = fixture.create_index(&collection, unique()).unwrap();
    assert_eq!((created.before, created.after), (1, 2));
    assert_sound(&fixture.store);
    fixture.flush_oplog();
    fixture.crash();
    assert_sound(&fixture.store);
    assert_eq!(fixture.collection("db.c").indexes().all().len(), 2);
}

#[test]
fn what_is_there_is_not_built_again() {
    let fixture = Fixture::new();
    let collection = fixture.collection("db.c");
    fixture.create_index(&collection, unique()).unwrap();
    let again = fixture.create_index(&collection, unique()).unwrap();
    assert_eq!(again, IndexesCreated { before: 2, after: 2, commit: None });
    let conflict = rawdoc! { "key": { "c": 1 }, "name": "a_b" };
    let error = fixture.create_index(&collection, conflict).unwrap_err();
    assert!(matches!(error, TransactionError::Collection(CollectionError::IndexKeySpecsConflict(_))));
}

#[test]
fn parallel_arrays_are_refused_by_writes_and_builds() {
    let mut fixture = Fixture::new();
    let collection = fixture.collection("db.c");
    fixture.insert(&collection, rawdoc! { "_id": 1, "a": [1], "b": [1] }).unwrap();
    assert!(fixture.create_index(&collection, unique()).is_err());
    fixture.delete(&collection, 1).unwrap();
    fixture.create_index(&collection, unique()).unwrap();
    let error = fixture.insert(&collection, rawdoc! { "_id": 1, "a": [1], "b": [1] }).unwrap_err();
    assert!(matches!(error, TransactionError::Collection(CollectionError::IndexKey(_))));
    assert_sound(&fixture.store);
}

#[test]
fn dropped_indexes_are_gone_for_cursors_too() {
    let mut fixture = Fixture::new();
    let collection = fixture.collection("db.c");
    fixture.create_index(&collection, unique()).unwrap();
    fixture.insert(&collection, rawdoc! { "_id": 1 }).unwrap();
    let index = collection.indexes().find("a_b").unwrap().clone();
    let mut cursor = fixture.store.read_view().index_cursor(&collection, &index);
    let drop = |which| fixture.store.drop_indexes(&collection, which);
    assert!(drop(WhichIndexes::Names(vec!["_id_".to_owned()])).is_err());
    assert!(drop(WhichIndexes::Names(vec!["missing".to_owned()])).is_err());
    let (before, commit) = drop(WhichIndexes::KeyPattern(rawdoc! { "a": 1, "b": 1 })).unwrap();
    assert!(before == 2 && commit.is_some());
    assert!(matches!(cursor.next(), Err(TransactionError::Collection(CollectionError::IndexDropped { .. }))));
    fixture.store.checkpoint_step(Urgency::Now).unwrap();
    let trees = fixture.store.catalog().trees();
    assert!(trees.contains(&index.tree()), "still held");
    std::mem::drop((cursor, index));
    fixture.store.checkpoint_step(Urgency::Now).unwrap();
    assert_eq!(fixture.store.catalog().trees().len(), trees.len() - 1);
    assert_sound(&fixture.store);
    fixture.flush_oplog();
    fixture.crash();
    assert_sound(&fixture.store);
}

#[test]
fn builds_over_many_records_are_complete() {
    let mut fixture = Fixture::new();
    let collection = fixture.collection("db.c");
    for id in 0..3_000 {
        fixture.insert(&collection, rawdoc! { "_id": (id * 7_919) % 3_001 - 1_500, "a": id / 3 }).unwrap();
    }
    let first = specification(rawdoc! { "key": { "_id": 1, "a": 1 }, "name": "first", "unique": true });
    let second = specification(rawdoc! { "key": { "a": -1 }, "name": "second" });
    fixture.store.create_indexes(&collection, vec![first, second]).unwrap();
    assert_sound(&fixture.store);
    assert_eq!(entries(&fixture.store, &collection, "first").len(), 3_000);
}
