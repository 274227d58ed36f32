//! What transactions create: nobody else's until they commit, gone when they do not, and whole after a crash.

use std::sync::Arc;

use bson::rawdoc;
use collection::{Collection, CollectionError, CollectionOptions, Validation};

use super::fixture::*;
use super::transactions::{begin, commit, in_transaction, seen, session_id};
use crate::*;

fn create(fixture: &Fixture, transaction: &Transaction, name: &str) -> Result<Arc<Collection>> {
    fixture.store.create_in_transaction(transaction, &namespace(name), CollectionOptions::default())
}

fn insert(fixture: &Fixture, transaction: &Arc<Transaction>, collection: &Arc<Collection>, id: i32) -> Result<()> {
    let (mut context, document) = (in_transaction(transaction), rawdoc! { "_id": id, "a": id * 10 });
    fixture.store.insert_document(&mut context, collection, &document, Validation::Enforce).map(drop)
}

fn index_on_a(
    fixture: &Fixture,
    transaction: &Transaction,
    collection: &Arc<Collection>,
    unique: bool,
) -> Result<IndexesCreated> {
    let index = specification(rawdoc! { "key": { "a": 1 }, "name": "a_1", "unique": unique });
    fixture.store.create_indexes_in_transaction(transaction, collection, &[index])
}

fn abort(fixture: &Fixture, session: u8) {
    let session = fixture.store.sessions().refresh(session_id(session)).unwrap();
    fixture.store.abort_open_transaction(&session);
}

fn assert_sound(fixture: &Fixture) {
    while fixture.store.catalog().reap().unwrap() > 0 {}
    while fixture.store.engine().reclaim_step().unwrap() {}
    let report = fixture.store.engine().verify(&fixture.store.catalog().trees()).unwrap();
    assert!(report.is_ok(), "{:#?}", report.errors);
    for collection in fixture.store.catalog().all_collections() {
        assert!(fixture.store.validate(&collection, &|| false).unwrap().is_valid());
    }
}

#[test]
fn a_created_collection_is_its_transactions_until_the_commit() {
    let mut fixture = Fixture::new();
    let transaction = begin(&fixture.store, 1, 1);
    let collection = create(&fixture, &transaction, "db.new").unwrap();
    assert_eq!(index_on_a(&fixture, &transaction, &collection, true).unwrap().after, 2);
    assert_eq!(index_on_a(&fixture, &transaction, &collection, true).unwrap().before, 2);
    (1..4).for_each(|id| insert(&fixture, &transaction, &collection, id).unwrap());
    assert!(fixture.store.catalog().lookup("db.new").is_none());
    assert_eq!(seen(&transaction.read_view(), &collection).len(), 3);
    let again = create(&fixture, &transaction, "db.new").unwrap_err();
    assert!(again.is_namespace_exists(), "{again}");
    let late = fixture.store.create_indexes_in_transaction(
        &transaction,
        &collection,
        &[specification(rawdoc! { "key": { "b": 1 }, "name": "b" })],
    );
    assert!(matches!(late, Err(TransactionError::NotInTransaction(_))), "{late:?}");
    drop(collection);
    assert!(commit(&fixture.store, 1, 1).unwrap().is_some());
    drop(transaction);
    for round in 0..3 {
        let collection = fixture.store.catalog().lookup("db.new").unwrap();
        assert_eq!(collection.indexes().ready().count(), 2, "round {round}");
        assert_eq!(seen(&fixture.store.read_view(), &collection).len(), 3);
        let twice = fixture.insert(&collection, rawdoc! { "_id": 9, "a": 20 });
        assert!(matches!(twice, Err(TransactionError::Collection(CollectionError::DuplicateKey(_)))), "{twice:?}");
        drop(collection);
        assert_sound(&fixture);
        if round == 0 {
            fixture.flush_oplog();
            fixture.lose_power();
        } else {
            fixture.store.checkpoint_step(Urgency::Now).unwrap();
            fixture.crash();
        }
    }
}

#[test]
fn an_aborted_transaction_leaves_no_collection() {
    let mut fixture = Fixture::new();
    let transaction = begin(&fixture.store, 1, 1);
    let collection = create(&fixture, &transaction, "db.new").unwrap();
    index_on_a(&fixture, &transaction, &collection, false).unwrap();
    insert(&fixture, &transaction, &collection, 1).unwrap();
    abort(&fixture, 1);
    assert!(matches!(create(&fixture, &transaction, "db.other"), Err(TransactionError::NoSuchTransaction(_))));
    drop((transaction, collection));
    assert!(fixture.store.catalog().databases().is_empty());
    assert_sound(&fixture);
    // One that is open when the process dies.
    let transaction = begin(&fixture.store, 2, 1);
    create(&fixture, &transaction, "db.new").unwrap();
    drop(transaction);
    fixture.store.checkpoint_step(Urgency::Now).unwrap();
    fixture.crash();
    assert!(fixture.store.catalog().databases().is_empty());
    assert_sound(&fixture);
}

#[test]
fn a_name_that_somebody_else_has_taken_is_a_conflict() {
    let mut fixture = Fixture::new();
    let transaction = begin(&fixture.store, 1, 1);
    let mine = create(&fixture, &transaction, "db.mine").unwrap();
    let collection = create(&fixture, &transaction, "db.new").unwrap();
    insert(&fixture, &transaction, &mine, 1).unwrap();
    insert(&fixture, &transaction, &collection, 1).unwrap();
    drop((mine, collection));
    let theirs = fixture.collection("db.new");
    fixture.insert(&theirs, rawdoc! { "_id": 7, "a": 70 }).unwrap();
    assert!(matches!(commit(&fixture.store, 1, 1), Err(TransactionError::WriteConflict)));
    drop(transaction);
    assert_eq!(theirs.counts().documents(), 1);
    assert!(fixture.store.catalog().lookup("db.mine").is_none());
    drop(theirs);
    assert_sound(&fixture);
}

#[test]
fn a_collection_without_documents_is_created_too_and_existing_ones_get_no_indexes() {
    let mut fixture = Fixture::new();
    let existing = fixture.collection("db.c");
    let transaction = begin(&fixture.store, 1, 1);
    let refused = index_on_a(&fixture, &transaction, &existing, false);
    assert!(matches!(refused, Err(TransactionError::NotInTransaction(_))), "{refused:?}");
    let capped = collection::CappedOptions { size: 4096, max: None };
    let options = CollectionOptions { capped: Some(capped), ..CollectionOptions::default() };
    let refused = fixture.store.create_in_transaction(&transaction, &namespace("db.ring"), options);
    assert!(matches!(refused, Err(TransactionError::NotInTransaction(_))));
    create(&fixture, &transaction, "db.empty").unwrap();
    assert!(commit(&fixture.store, 1, 1).unwrap().is_some());
    drop((transaction, existing));
    fixture.flush_oplog();
    fixture.lose_power();
    assert!(fixture.store.catalog().lookup("db.empty").is_some());
    assert_sound(&fixture);
}

/// Large: its changes are logged in parts, and its writes are spilled.
#[test]
fn large_transactions_create_too() {
    let mut fixture = Fixture::with(StoreOptions { large_transaction_bytes: 1000, ..options() });
    let transaction = begin(&fixture.store, 1, 1);
    let collection = create(&fixture, &transaction, "db.new").unwrap();
    index_on_a(&fixture, &transaction, &collection, true).unwrap();
    (0..500).for_each(|id| insert(&fixture, &transaction, &collection, id).unwrap());
    drop(collection);
    commit(&fixture.store, 1, 1).unwrap().unwrap();
    drop(transaction);
    fixture.flush_oplog();
    fixture.lose_power();
    let collection = fixture.store.catalog().lookup("db.new").unwrap();
    assert_eq!(seen(&fixture.store.read_view(), &collection).len(), 500);
    drop(collection);
    assert_sound(&fixture);
}
