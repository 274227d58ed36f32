//! Inserting, changing and deleting single documents, and reading them.

use bson::rawdoc;
use collection::{CollectionError, CollectionOptions, RecordId, Validation};

use super::fixture::*;
use crate::*;

#[test]
fn documents_come_back_as_they_were_written() {
    let mut fixture = Fixture::new();
    let collection = fixture.collection("db.c");
    let commit = fixture.insert(&collection, rawdoc! { "_id": 1, "a": "x" }).unwrap();
    fixture.store.acknowledge(&commit, Acknowledgement::Durable).unwrap();
    fixture.insert(&collection, rawdoc! { "_id": 2 }).unwrap();
    let replaced = fixture.replace(&collection, 1, rawdoc! { "_id": 1, "a": "y", "b": [1, 2] }).unwrap();
    assert!(matches!(replaced, ChangeOutcome::Replaced(_)));
    assert_eq!(fixture.context.old_document().unwrap(), &*rawdoc! { "_id": 1, "a": "x" });
    assert_eq!(fixture.context.new_document().unwrap(), &*rawdoc! { "_id": 1, "a": "y", "b": [1, 2] });
    assert!(matches!(fixture.delete(&collection, 2).unwrap(), ChangeOutcome::Deleted(_)));
    assert_eq!(fixture.delete(&collection, 2).unwrap(), ChangeOutcome::Gone);
    let found = contents(&fixture.store, &collection);
    assert_eq!(found.into_values().collect::<Vec<_>>(), [rawdoc! { "_id": 1, "a": "y", "b": [1, 2] }]);
    assert_sound(&fixture.store);
}

#[test]
fn keeping_and_changing_nothing_log_nothing() {
    let mut fixture = Fixture::new();
    let collection = fixture.collection("db.c");
    fixture.insert(&collection, rawdoc! { "_id": 1, "a": 1 }).unwrap();
    let end = oplog::Oplog::end_position(fixture.store.oplog());
    assert_eq!(fixture.change(&collection, 1, |_, _| Decision::Keep).unwrap(), ChangeOutcome::Kept);
    assert_eq!(fixture.replace(&collection, 1, rawdoc! { "_id": 1, "a": 1 }).unwrap(), ChangeOutcome::Unchanged);
    assert_eq!(oplog::Oplog::end_position(fixture.store.oplog()), end);
}

#[test]
fn id_is_unique_and_immutable() {
    let mut fixture = Fixture::new();
    let collection = fixture.collection("db.c");
    fixture.insert(&collection, rawdoc! { "_id": 1 }).unwrap();
    let error = fixture.insert(&collection, rawdoc! { "_id": 1.0, "a": 1 }).unwrap_err();
    assert_eq!(error.to_string(), "E11000 duplicate key error collection: db.c index: _id_ dup key: { _id: 1.0 }");
    let TransactionError::Collection(CollectionError::DuplicateKey(duplicate)) = error else { panic!("{error:?}") };
    assert_eq!(duplicate.key_pattern, rawdoc! { "_id": 1 });
    assert_eq!(duplicate.key_value, rawdoc! { "_id": 1.0 });
    let error = fixture.replace(&collection, 1, rawdoc! { "_id": 2 }).unwrap_err();
    assert!(matches!(error, TransactionError::Collection(CollectionError::ImmutableField(_))));
    assert_sound(&fixture.store);
}

#[test]
fn ordered_inserts_stop_at_an_error_and_unordered_go_on() {
    let mut fixture = Fixture::new();
    let collection = fixture.collection("db.c");
    let documents = [1, 2, 2, 3].map(|id| rawdoc! { "_id": id });
    let documents: Vec<_> = documents.iter().map(|document| &**document).collect();
    let store = fixture.store.clone();
    let mut insert =
        |order| store.insert_documents(&mut fixture.context, &collection, &documents, order, Validation::Enforce);
    let ordered = insert(InsertOrder::Ordered);
    assert_eq!((ordered.inserted, ordered.errors.len(), ordered.errors[0].0), (2, 1, 2));
    let unordered = insert(InsertOrder::Unordered);
    assert_eq!((unordered.inserted, unordered.errors.len()), (1, 3));
    assert!(unordered.commit > ordered.commit);
    assert_eq!(contents(&fixture.store, &collection).len(), 3);
}

#[test]
fn validators_are_enforced_unless_bypassed() {
    let mut fixture = Fixture::new();
    let options = CollectionOptions::parse(&rawdoc! { "validator": { "a": { "$gt": 0 } } }).unwrap();
    let (collection, _) = fixture.store.create_collection(&namespace("db.c"), options).unwrap();
    let error = fixture.insert(&collection, rawdoc! { "_id": 1, "a": 0 }).unwrap_err();
    assert!(matches!(error, TransactionError::Collection(CollectionError::ValidationFailed { .. })));
    fixture.insert(&collection, rawdoc! { "_id": 2, "a": 1 }).unwrap();
    assert!(fixture.replace(&collection, 2, rawdoc! { "_id": 2 }).is_err());
    let document = rawdoc! { "_id": 3 };
    let bypassed = fixture.store.insert_document(&mut fixture.context, &collection, &document, Validation::Bypass);
    assert!(bypassed.is_ok());
    assert_eq!(contents(&fixture.store, &collection).len(), 2);
}

#[test]
fn views_stay_at_their_point_in_time() {
    let mut fixture = Fixture::new();
    let collection = fixture.collection("db.c");
    for id in 0..10 {
        fixture.insert(&collection, rawdoc! { "_id": id }).unwrap();
    }
    let mut view = fixture.store.read_view();
    let mut cursor = view.record_cursor(&collection);
    let first = cursor.next().unwrap().unwrap();
    fixture.delete(&collection, 1).unwrap();
    fixture.insert(&collection, rawdoc! { "_id": 10 }).unwrap();
    let mut seen = 1;
    while cursor.next().unwrap().is_some() {
        seen += 1;
    }
    assert_eq!(seen, 10);
    assert!(view.get_record(&collection, RecordId(first.0 + 1), &mut Vec::new()).unwrap());
    view.refresh();
    assert!(!view.get_record(&collection, RecordId(first.0 + 1), &mut Vec::new()).unwrap());
    let mut cursor = fixture.store.read_view().record_cursor(&collection);
    cursor.seek(first).unwrap();
    cursor.next().unwrap();
    cursor.reseat(&view).unwrap();
    assert_eq!(cursor.next().unwrap(), Some(RecordId(first.0 + 2)));
    cursor.seek_last().unwrap();
    assert_eq!(cursor.previous().unwrap(), Some(RecordId(first.0 + 10)));
}

#[test]
fn large_documents_and_limits() {
    let mut fixture = Fixture::new();
    let collection = fixture.collection("db.c");
    let large = "x".repeat(1 << 20);
    fixture.insert(&collection, rawdoc! { "_id": 1, "a": large.as_str() }).unwrap();
    fixture.replace(&collection, 1, rawdoc! { "_id": 1, "a": large.as_str(), "b": 1 }).unwrap();
    assert_eq!(contents(&fixture.store, &collection)[&1].get_str("a").unwrap().len(), 1 << 20);
    let too_large = rawdoc! { "_id": 2, "a": "x".repeat(16 << 20) };
    let error = fixture.insert(&collection, too_large).unwrap_err();
    assert!(matches!(error, TransactionError::Collection(CollectionError::DocumentTooLarge { .. })));
    let error = fixture.insert(&collection, rawdoc! { "_id": "\0".repeat((16 << 20) - 100) }).unwrap_err();
    assert!(matches!(error, TransactionError::Collection(CollectionError::KeyTooLong { .. })));
    fixture.flush_oplog();
    fixture.crash();
    assert_sound(&fixture.store);
}
