//! Nothing that grows with use has a place of fixed size: what does not fit is refused by name before it is logged, or kept elsewhere.

use bson::rawdoc;
use collection::{CollectionError, CollectionOptions, Validation};
use oplog::Oplog;

use super::fixture::*;
use crate::*;

#[test]
fn collections_that_come_and_go_take_no_space_and_no_restart_finds_them() {
    let mut fixture = Fixture::new();
    let kept = fixture.collection("db.kept");
    fixture.insert(&kept, rawdoc! { "_id": 1 }).unwrap();
    fixture.store.checkpoint_step(Urgency::Now).unwrap();
    let pages = |fixture: &Fixture| {
        let (left, all) = fixture.store.engine().pages_left();
        all - left
    };
    let used = |fixture: &Fixture| {
        let engine = fixture.store.engine();
        engine.dirty_bytes() + engine.statistics().unwrap().store.live_bytes
    };
    let (before, used_before) = (pages(&fixture), used(&fixture));
    let mut most = 0;
    // More trees than a checkpoint's mark has room for.
    for round in 0..1_200 {
        let name = format!("db.c{}", round % 7);
        let collection = fixture.collection(&name);
        fixture.create_index(&collection, rawdoc! { "key": { "a": 1 }, "name": "a" }).unwrap();
        fixture.insert(&collection, rawdoc! { "_id": round, "a": round }).unwrap();
        drop(collection);
        fixture.store.drop_collection(&namespace(&name)).unwrap().unwrap();
        // What threads do all the time, and no checkpoint.
        if round % 20 == 0 {
            fixture.store.reap_dropped().unwrap();
            while fixture.store.engine().reclaim_step().unwrap() {}
            most = most.max(used(&fixture));
        }
    }
    assert!(most < used_before + (3 << 20), "{most} bytes, {used_before} before");
    for round in 0..1_500 {
        let collection = fixture.collection(&format!("db.d{round}"));
        fixture.insert(&collection, rawdoc! { "_id": round }).unwrap();
    }
    for round in 0..1_500 {
        fixture.store.drop_collection(&namespace(&format!("db.d{round}"))).unwrap().unwrap();
    }
    fixture.store.reap_dropped().unwrap();
    fixture.store.checkpoint_step(Urgency::Now).unwrap();
    drop(kept);
    for _ in 0..2 {
        fixture.crash();
        assert_eq!(fixture.store.catalog().all_collections().len(), 1);
        assert_sound(&fixture.store);
        fixture.store.checkpoint_step(Urgency::Now).unwrap();
        while fixture.store.engine().reclaim_step().unwrap() {}
    }
    fixture.store.checkpoint_step(Urgency::Now).unwrap();
    assert!(pages(&fixture) < before + 200, "{} pages, {before} before", pages(&fixture));
}

#[test]
fn definitions_that_do_not_fit_into_the_catalog_are_refused_before_they_are_logged() {
    let mut fixture = Fixture::new();
    let filter = |bytes: usize| rawdoc! { "a": { "$gt": "x".repeat(bytes) } };
    let validator = |bytes| CollectionOptions::parse(&rawdoc! { "validator": filter(bytes) }).unwrap();
    let refused = |result: Result<CommitInfo>| {
        let error = result.err().unwrap();
        assert!(matches!(error, TransactionError::Collection(CollectionError::DefinitionTooLarge { .. })), "{error}");
    };
    let end = fixture.store.oplog().end_position();
    refused(fixture.store.create_collection(&namespace("db.c"), validator(15 << 20)).map(|(_, commit)| commit));
    assert_eq!(fixture.store.oplog().end_position(), end);
    let (collection, _) = fixture.store.create_collection(&namespace("db.c"), validator(6 << 20)).unwrap();
    let index = |key, name| rawdoc! { "key": key, "name": name, "partialFilterExpression": filter(6 << 20) };
    fixture.create_index(&collection, index(rawdoc! { "a": 1 }, "a")).unwrap();
    let end = fixture.store.oplog().end_position();
    let more = fixture.create_index(&collection, index(rawdoc! { "b": 1 }, "b"));
    refused(more.map(|created| created.commit.unwrap()));
    let options = Some(validator(6 << 20));
    let modification = collection::catalog::Modification { options, ..Default::default() };
    refused(fixture.store.modify_collection(&collection, modification));
    assert_eq!(fixture.store.oplog().end_position(), end);
    assert_eq!(fixture.store.writes_stopped(), None);
    // What is there holds.
    fixture
        .store
        .insert_document(&mut fixture.context, &collection, &rawdoc! { "_id": 1, "a": "y" }, Validation::Enforce)
        .unwrap();
    fixture.store.checkpoint_step(Urgency::Now).unwrap();
    drop(collection);
    fixture.crash();
    let collection = fixture.collection("db.c");
    assert_eq!(collection.indexes().listed().count(), 2);
    assert_sound(&fixture.store);
}

#[test]
fn when_few_pages_are_left_only_deletes_are_taken() {
    let mut fixture = Fixture::with(StoreOptions {
        engine: storage_engine::EngineOptions { pages_max: 600, ..options().engine },
        ..options()
    });
    let collection = fixture.collection("db.c");
    let text = "x".repeat(8_000);
    let mut ids = 0..10_000;
    let refused = ids
        .find_map(|id| {
            fixture.store.watch_space();
            fixture.insert(&collection, rawdoc! { "_id": id, "text": text.as_str() }).err()
        })
        .unwrap();
    assert!(matches!(refused, TransactionError::OutOfPages { pages: 600 }), "{refused}");
    assert_eq!(fixture.store.writes_stopped(), None);
    fixture.store.checkpoint_step(Urgency::Now).unwrap();
    for id in 0..300 {
        fixture.delete(&collection, id).unwrap();
    }
    for _ in 0..3 {
        while fixture.store.engine().reclaim_step().unwrap() {}
        fixture.store.checkpoint_step(Urgency::Now).unwrap();
    }
    assert!(fixture.store.watch_space());
    fixture.insert(&collection, rawdoc! { "_id": 10_001 }).unwrap();
    fixture.flush_oplog();
    drop(collection);
    fixture.crash();
    assert_sound(&fixture.store);
}
