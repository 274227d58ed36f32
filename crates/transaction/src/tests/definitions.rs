//! Collections: creating, dropping, renaming, modifying, and all of it again after a crash.

use std::cell::Cell;

use bson::rawdoc;
use collection::catalog::{IndexModification, Modification};
use collection::{CollectionError, CollectionOptions};
use platform::{MemoryBudget, MemoryUse};
use storage_engine::{EngineError, EngineOptions};

use super::fixture::*;
use crate::*;

fn names(store: &Store) -> Vec<String> {
    let catalog = store.catalog();
    let collections = catalog.databases().into_iter().flat_map(|database| catalog.collections_of(&database));
    collections.map(|collection| collection.namespace().to_string()).collect()
}

#[test]
fn names_are_unique_and_databases_differ_in_more_than_case() {
    let fixture = Fixture::new();
    fixture.collection("db.c");
    let create = |name| fixture.store.create_collection(&namespace(name), CollectionOptions::default());
    let refused = |error| match error {
        TransactionError::Collection(error) => error,
        other => panic!("{other}"),
    };
    assert!(matches!(refused(create("db.c").unwrap_err()), CollectionError::NamespaceExists(_)));
    assert!(matches!(refused(create("DB.c").unwrap_err()), CollectionError::DatabaseDifferCase { .. }));
    create("db.C").unwrap();
    assert_eq!(names(&fixture.store), ["db.C", "db.c"]);
}

#[test]
fn drops_end_cursors_and_free_trees_when_nobody_holds_them() {
    let mut fixture = Fixture::new();
    let collection = fixture.collection("db.c");
    fixture.insert(&collection, rawdoc! { "_id": 1 }).unwrap();
    let mut cursor = fixture.store.read_view().record_cursor(&collection);
    let (indexes, _) = fixture.store.drop_collection(&namespace("db.c")).unwrap().unwrap();
    assert_eq!(indexes, 1);
    assert!(fixture.store.drop_collection(&namespace("db.c")).unwrap().is_none());
    assert!(matches!(cursor.next(), Err(TransactionError::Collection(CollectionError::CollectionDropped { .. }))));
    assert!(fixture.insert(&collection, rawdoc! { "_id": 2 }).is_err());
    assert!(fixture.store.catalog().databases().is_empty());
    fixture.store.checkpoint_step(Urgency::Now).unwrap();
    assert_eq!(fixture.store.catalog().trees().len(), 3, "the catalog's, and the two that are held");
    drop((cursor, collection));
    fixture.store.checkpoint_step(Urgency::Now).unwrap();
    assert_eq!(fixture.store.catalog().trees().len(), 1);
    assert_sound(&fixture.store);
}

#[test]
fn trees_of_a_drop_are_freed_after_a_crash() {
    let mut fixture = Fixture::new();
    let collection = fixture.collection("db.c");
    fixture.insert(&collection, rawdoc! { "_id": 1 }).unwrap();
    fixture.store.drop_collection(&namespace("db.c")).unwrap();
    // `collection` holds the trees: the checkpoint only has the note that they are to be dropped.
    fixture.store.checkpoint_step(Urgency::Now).unwrap();
    fixture.crash();
    assert_sound(&fixture.store);
    assert_eq!(fixture.store.catalog().trees().len(), 1);
    drop(collection);
}

#[test]
fn renames_move_and_replace() {
    let mut fixture = Fixture::new();
    let (first, second) = (fixture.collection("db.first"), fixture.collection("db.second"));
    fixture.insert(&first, rawdoc! { "_id": 1 }).unwrap();
    fixture.insert(&second, rawdoc! { "_id": 2 }).unwrap();
    let rename = |from, to, target| fixture.store.rename_collection(&namespace(from), &namespace(to), target);
    assert!(rename("db.missing", "db.x", RenameTarget::Drop).is_err());
    assert!(rename("db.first", "db.first", RenameTarget::Drop).is_err());
    assert!(rename("db.first", "db.second", RenameTarget::MustNotExist).is_err());
    rename("db.first", "db.second", RenameTarget::Drop).unwrap();
    rename("db.second", "other.third", RenameTarget::MustNotExist).unwrap();
    assert_eq!(names(&fixture.store), ["other.third"]);
    assert!(second.is_dropped());
    fixture.insert(&first, rawdoc! { "_id": 3 }).unwrap();
    fixture.flush_oplog();
    fixture.crash();
    assert_eq!(names(&fixture.store), ["other.third"]);
    let third = fixture.collection("other.third");
    assert_eq!(contents(&fixture.store, &third).into_keys().collect::<Vec<_>>(), [1, 3]);
    assert_sound(&fixture.store);
}

#[test]
fn who_drops_a_database_is_asked_before_each_collection() {
    let fixture = Fixture::new();
    for name in ["db.a", "db.b", "db.c"] {
        fixture.collection(name);
    }
    let asked = Cell::new(0);
    let once = || match asked.replace(asked.get() + 1) {
        0 => Ok(()),
        _ => Err(TransactionError::Interrupted),
    };
    assert!(matches!(fixture.store.drop_database("db", once), Err(TransactionError::Interrupted)));
    assert_eq!(names(&fixture.store).len(), 2);
    assert_sound(&fixture.store);
}

#[test]
fn databases_are_dropped_whole() {
    let mut fixture = Fixture::new();
    for name in ["db.a", "db.b", "other.c"] {
        fixture.collection(name);
    }
    let go_on = || Ok::<_, TransactionError>(());
    assert!(fixture.store.drop_database("db", go_on).unwrap().is_some());
    assert!(fixture.store.drop_database("db", go_on).unwrap().is_none());
    assert_eq!(names(&fixture.store), ["other.c"]);
    fixture.flush_oplog();
    fixture.crash();
    assert_eq!(names(&fixture.store), ["other.c"]);
    assert_sound(&fixture.store);
}

#[test]
fn modifications_are_kept() {
    let mut fixture = Fixture::new();
    let collection = fixture.collection("db.c");
    fixture.create_index(&collection, rawdoc! { "key": { "a": 1 }, "name": "a_1" }).unwrap();
    let modify = |index: IndexModification| {
        fixture.store.modify_collection(&collection, Modification { index: Some(index), ..Modification::default() })
    };
    modify(IndexModification {
        name: "a_1".to_owned(),
        hidden: Some(true),
        expire_after_seconds: Some(5),
        ..Default::default()
    })
    .unwrap();
    assert!(modify(IndexModification { name: "b_1".to_owned(), ..IndexModification::default() }).is_err());
    assert!(modify(IndexModification { name: "_id_".to_owned(), hidden: Some(true), ..Default::default() }).is_err());
    let options = CollectionOptions::parse(&rawdoc! { "validator": { "a": 1 } }).unwrap();
    let modification = Modification { options: Some(options), ..Modification::default() };
    fixture.store.modify_collection(&collection, modification).unwrap();
    fixture.flush_oplog();
    for checkpoint in [false, true] {
        if checkpoint {
            fixture.store.checkpoint_step(Urgency::Now).unwrap();
        }
        fixture.crash();
        let collection = fixture.collection("db.c");
        let index = collection.indexes().find("a_1").unwrap().clone();
        assert!(index.is_hidden() && index.specification().expire_after_seconds == Some(5));
        assert_eq!(collection.definition().options.to_document(), rawdoc! { "validator": { "a": 1 } });
    }
}

#[test]
fn a_clean_shutdown_leaves_nothing_to_replay() {
    let mut fixture = Fixture::with(StoreOptions { engine_threads: true, replay_threads: 2, ..options() });
    fixture.store.start_background().unwrap();
    let collection = fixture.collection("db.c");
    fixture.insert(&collection, rawdoc! { "_id": 1 }).unwrap();
    fixture.store.shutdown().unwrap();
    fixture.disk.process_crash();
    fixture.reopen();
    assert_eq!(fixture.store.recovery().entries, 0);
    assert_sound(&fixture.store);
    assert_eq!(contents(&fixture.store, &fixture.collection("db.c")).len(), 1);
    fixture.store.shutdown().unwrap();
}

#[test]
fn definitions_are_counted_and_refused_when_they_would_fill_the_memory() {
    let budget = MemoryBudget::new(4 << 20);
    let engine = EngineOptions { memory: budget.clone(), ..options().engine };
    let mut fixture = Fixture::with(StoreOptions { engine, ..options() });
    let create = |store: &Store, number: i32| {
        store.create_collection(&namespace(&format!("db.c{number}")), CollectionOptions::default()).map(drop)
    };
    let refused = (0..5_000).find_map(|number| Some((number, create(&fixture.store, number).err()?)));
    let (count, error) = refused.unwrap();
    assert!(matches!(error, TransactionError::Engine(EngineError::NoMemory(_))), "{error:?}");
    assert!(count > 200 && budget.used() < budget.limit(), "{count}");
    let held = budget.used_for(MemoryUse::Definitions);
    // A start has them all again, whatever they take; what is dropped makes room.
    fixture.flush_oplog();
    fixture.crash();
    let again = budget.used_for(MemoryUse::Definitions);
    assert!(again.abs_diff(held) < held / 8, "{again} and {held}");
    assert!(create(&fixture.store, count).is_err());
    fixture.store.drop_collection(&namespace("db.c0")).unwrap();
    fixture.store.drop_collection(&namespace("db.c1")).unwrap();
    fixture.store.catalog().reap().unwrap();
    create(&fixture.store, count).unwrap();
}
