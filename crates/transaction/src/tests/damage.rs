//! What a damaged page costs: its index or its collection, which are told and refuse by name; everything else is served, now and after a restart.

use std::path::Path;

use bson::rawdoc;
use collection::CollectionError;
use storage_engine::page_store::PAGE_FILE_NAME;
use storage_engine::{Batch, EngineInspection, PageContent, TreeId};

use super::fixture::*;
use crate::*;

const DOCUMENTS: i32 = 600;

/// Two collections with indexes, all on disk.
fn filled() -> Fixture {
    let mut fixture = Fixture::new();
    for name in ["db.a", "db.b"] {
        let collection = fixture.collection(name);
        for index in
            [rawdoc! { "key": { "x": 1 }, "name": "x" }, rawdoc! { "key": { "u": 1 }, "name": "u", "unique": true }]
        {
            fixture.create_index(&collection, index).unwrap();
        }
        for id in 0..DOCUMENTS {
            fixture.insert(&collection, document(id)).unwrap();
        }
    }
    fixture.store.shutdown().unwrap();
    fixture
}

/// Nothing of it is compressed away.
fn document(id: i32) -> bson::RawDocumentBuf {
    let text: String = (0..150).map(|at| char::from(b'a' + ((id * 31 + at * at) % 26) as u8)).collect();
    rawdoc! { "_id": id, "x": format!("{text}{id}"), "u": format!("{id}{text}"), "text": text }
}

/// Flips a bit in a leaf of a tree, while the store is closed: the last that is whole, or another.
fn hurt(fixture: &Fixture, tree: TreeId, leaf_from_end: usize) {
    let inspection = EngineInspection::open(fixture.disk.clone()).unwrap();
    let pages = inspection.store().pages().filter_map(|(page, _)| inspection.page(page).ok());
    let mut leaves: Vec<_> = pages
        .filter(|page| page.tree == tree)
        .filter_map(|page| match page.content {
            PageContent::Node { level: 0, lower_fence, .. } => Some((lower_fence, page.address)),
            _ => None,
        })
        .collect();
    leaves.sort_by(|left, right| left.0.cmp(&right.0));
    let (_, address) = &leaves[leaves.len() - 1 - leaf_from_end];
    fixture.disk.flip_bit(Path::new(PAGE_FILE_NAME), address.offset_bytes() + 200, 5).unwrap();
}

fn index_tree(fixture: &Fixture, name: &str) -> TreeId {
    fixture.collection("db.a").indexes().find(name).unwrap().tree()
}

fn told(fixture: &Fixture) -> Vec<(&'static str, String, String)> {
    fixture.store.set_aside_work().into_iter().map(|work| (work.what, work.namespace, work.index)).collect()
}

fn restart(fixture: &mut Fixture) {
    fixture.store.shutdown().unwrap();
    fixture.disk.process_crash();
    fixture.reopen();
}

/// The other collection works, and so does a new one.
fn assert_rest_is_served(fixture: &mut Fixture, id: i32) {
    let other = fixture.collection("db.b");
    fixture.insert(&other, document(DOCUMENTS + id)).unwrap();
    assert!(fixture.store.validate(&other, &|| false).unwrap().is_valid());
    let new = fixture.collection("db.new");
    fixture.insert(&new, rawdoc! { "_id": id }).unwrap();
    fixture.store.checkpoint_step(Urgency::Now).unwrap();
    assert_eq!(fixture.store.writes_stopped(), None);
}

fn set_aside(result: Result<impl Sized>) -> String {
    match result.err().unwrap() {
        TransactionError::Collection(error @ CollectionError::SetAside { .. }) => error.to_string(),
        error => panic!("{error}"),
    }
}

#[test]
fn a_damaged_index_is_set_aside_until_it_is_rebuilt() {
    let mut fixture = filled();
    fixture.disk.process_crash();
    fixture.reopen();
    let tree = index_tree(&fixture, "x");
    fixture.store.shutdown().unwrap();
    hurt(&fixture, tree, 3);
    fixture.disk.process_crash();
    fixture.reopen();
    assert_eq!(told(&fixture), []);
    // Whoever changes all documents meets the page, and changes them all the same.
    let collection = fixture.collection("db.a");
    for id in 0..DOCUMENTS {
        fixture.replace(&collection, id, rawdoc! { "_id": id, "x": id, "u": id }).unwrap();
    }
    let by_index = || {
        let index = collection.indexes().find("x").unwrap().clone();
        let mut cursor = fixture.store.read_view().index_cursor(&collection, &index);
        while cursor.next()? {}
        Ok::<_, TransactionError>(())
    };
    let refused = by_index().unwrap_err();
    assert!(refused.is_damage(), "{refused}");
    assert!(set_aside(by_index()).contains("reIndex"));
    fixture.store.watch_writes();
    let expected = [("an index", "db.a".to_owned(), "x".to_owned())];
    assert_eq!(told(&fixture), expected);
    drop(collection);
    for life in 0..2 {
        assert_rest_is_served(&mut fixture, life);
        let collection = fixture.collection("db.a");
        let planned: Vec<String> = collection.indexes().ready().map(|index| index.name().to_owned()).collect();
        assert_eq!(planned, ["_id_", "u"]);
        fixture.insert(&collection, document(DOCUMENTS + life)).unwrap();
        fixture.delete(&collection, DOCUMENTS + life).unwrap();
        assert!(!fixture.store.validate(&collection, &|| false).unwrap().is_valid());
        drop(collection);
        restart(&mut fixture);
        assert_eq!(told(&fixture), expected);
    }
    let collection = fixture.collection("db.a");
    fixture.store.rebuild_indexes(&collection, &|| false).unwrap();
    assert_eq!(told(&fixture), []);
    assert_eq!(entries(&fixture.store, &collection, "x").len(), DOCUMENTS as usize);
    drop(collection);
    restart(&mut fixture);
    assert_eq!(told(&fixture), []);
    for collection in fixture.store.catalog().all_collections() {
        assert!(fixture.store.validate(&collection, &|| false).unwrap().is_valid());
    }
}

#[test]
fn keys_of_a_damaged_unique_index_are_refused_by_name_and_it_can_be_dropped() {
    let mut fixture = filled();
    fixture.disk.process_crash();
    fixture.reopen();
    let tree = index_tree(&fixture, "u");
    fixture.store.shutdown().unwrap();
    (0..3).for_each(|_| hurt(&fixture, tree, 0));
    fixture.disk.process_crash();
    fixture.reopen();
    let collection = fixture.collection("db.a");
    let mut refused = None;
    for id in DOCUMENTS..DOCUMENTS + 400 {
        match fixture.insert(&collection, document(id)) {
            Ok(_) => assert!(refused.is_none(), "{id}"),
            Err(error) => refused = Some(set_aside(Err::<(), _>(error))),
        }
    }
    let refused = refused.unwrap();
    assert!(refused.contains("index 'u'"), "{refused}");
    // What changes no key of it goes on.
    fixture
        .change(&collection, 3, |old, new| {
            let mut changed = bson::Document::try_from(old).unwrap();
            changed.insert("x", 1);
            new.extend_from_slice(bson::RawDocumentBuf::try_from(&changed).unwrap().as_bytes());
            Decision::Replace
        })
        .unwrap();
    fixture.delete(&collection, 4).unwrap();
    drop(collection);
    assert_rest_is_served(&mut fixture, 0);
    restart(&mut fixture);
    let collection = fixture.collection("db.a");
    set_aside(fixture.insert(&collection, document(2 * DOCUMENTS)));
    assert_eq!(told(&fixture), [("an index", "db.a".to_owned(), "u".to_owned())]);
    fixture.store.drop_indexes(&collection, WhichIndexes::Names(vec!["u".to_owned()])).unwrap();
    assert_eq!(told(&fixture), []);
    fixture.insert(&collection, document(2 * DOCUMENTS)).unwrap();
    assert!(fixture.store.validate(&collection, &|| false).unwrap().is_valid());
}

#[test]
fn a_collection_that_lacks_changes_refuses_by_name_until_it_is_dropped() {
    let mut fixture = filled();
    fixture.disk.process_crash();
    fixture.reopen();
    let collection = fixture.collection("db.a");
    let tree = collection.record_tree();
    for id in 0..DOCUMENTS {
        fixture.replace(&collection, id, rawdoc! { "_id": id, "x": id, "u": id }).unwrap();
    }
    drop(collection);
    let other = fixture.collection("db.b");
    fixture.insert(&other, document(DOCUMENTS + 7)).unwrap();
    fixture.flush_oplog();
    fixture.disk.process_crash();
    hurt(&fixture, tree, 3);
    fixture.reopen();
    let expected = [("a collection", "db.a".to_owned(), String::new())];
    for life in 0..2 {
        assert_eq!(told(&fixture), expected);
        let collection = fixture.collection("db.a");
        let refused = set_aside(fixture.insert(&collection, document(1)));
        assert!(refused.contains("collection db.a") && refused.contains("repair"), "{refused}");
        set_aside(fixture.store.read_view().record_cursor(&collection).next());
        drop(collection);
        assert_rest_is_served(&mut fixture, life);
        restart(&mut fixture);
    }
    let other = fixture.collection("db.b");
    assert!(find(&fixture.store, &other, DOCUMENTS + 7).is_some());
    fixture.store.drop_collection(&namespace("db.a")).unwrap().unwrap();
    assert_eq!(told(&fixture), []);
    let again = fixture.collection("db.a");
    fixture.insert(&again, document(1)).unwrap();
    drop((other, again));
    restart(&mut fixture);
    assert_eq!(told(&fixture), []);
    assert_rest_is_served(&mut fixture, 3);
}

#[test]
fn what_sessions_have_written_begins_anew_where_it_is_damaged() {
    let mut fixture = filled();
    fixture.disk.process_crash();
    fixture.reopen();
    let collection = fixture.collection("db.a");
    for number in 0..200_u8 {
        let session = fixture.store.sessions().refresh(bson::Uuid::from_bytes([number; 16])).unwrap();
        let statement = Statement { session, txn_number: 1, id: 0, details: collection::StatementDetails::None };
        fixture.context.set_statement(Some(statement));
        fixture.insert(&collection, rawdoc! { "_id": 10_000 + i32::from(number), "u": i32::from(number) }).unwrap();
    }
    fixture.context.set_statement(None);
    drop(collection);
    fixture.store.shutdown().unwrap();
    let tree = fixture.store.catalog().session_tree().unwrap();
    hurt(&fixture, tree, 0);
    fixture.disk.process_crash();
    fixture.reopen();
    let found = told(&fixture);
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(found[0].0, "what sessions have written");
    assert_rest_is_served(&mut fixture, 0);
    restart(&mut fixture);
    assert_eq!(told(&fixture), []);
    assert_ne!(fixture.store.catalog().session_tree(), Some(tree));
    for collection in fixture.store.catalog().all_collections() {
        assert!(fixture.store.validate(&collection, &|| false).unwrap().is_valid());
    }
}

#[test]
fn behind_a_damaged_page_of_the_catalog_the_rest_is_read_and_nothing_is_written() {
    let mut fixture = Fixture::new();
    for number in 0..400 {
        let collection = fixture.collection(&format!("db.c{number}"));
        fixture.insert(&collection, rawdoc! { "_id": number }).unwrap();
    }
    fixture.store.shutdown().unwrap();
    fixture.disk.process_crash();
    fixture.reopen();
    // What is logged and not in the checkpoint is there, too.
    for number in [0, 200, 399] {
        let collection = fixture.collection(&format!("db.c{number}"));
        fixture.insert(&collection, rawdoc! { "_id": -1 }).unwrap();
    }
    fixture.flush_oplog();
    fixture.disk.process_crash();
    hurt(&fixture, TreeId::CATALOG, 4);
    for _life in 0..2 {
        fixture.reopen();
        let collections = fixture.store.catalog().all_collections();
        assert!((200..400).contains(&collections.len()), "{}", collections.len());
        for number in [0, 399] {
            let collection = fixture.store.catalog().lookup(&format!("db.c{number}")).unwrap();
            assert_eq!(contents(&fixture.store, &collection).len(), 2);
        }
        assert_eq!(told(&fixture).first().map(|(what, ..)| *what), Some("a part of the catalog"));
        let stopped = fixture.store.writes_stopped().unwrap();
        assert!(stopped.contains("catalog") && stopped.contains("repair"), "{stopped}");
        let refused = fixture.insert(&collections[0], rawdoc! { "_id": -2 }).err().unwrap();
        assert!(matches!(refused, TransactionError::CatalogDamaged(_)), "{refused}");
        assert!(fixture.store.requested_checkpoint().is_err());
        drop(collections);
        assert!(fixture.store.shutdown().is_err());
        fixture.disk.process_crash();
    }
}

#[test]
fn definitions_that_no_longer_parse_are_set_aside() {
    let mut fixture = filled();
    fixture.disk.process_crash();
    fixture.reopen();
    let engine = fixture.store.engine().clone();
    let (mut cursor, mut batch) = (engine.cursor(&engine.begin_snapshot(), TreeId::CATALOG), Batch::new());
    cursor.seek_first().unwrap();
    while cursor.next().unwrap() {
        let Ok(entry) = bson::RawDocument::from_bytes(cursor.value().unwrap()) else { continue };
        let Ok(mut entry) = bson::Document::try_from(entry) else { continue };
        match entry.get_str("ns") {
            // The validator of a later version, and the same of an index.
            Ok("db.a") => drop(entry.insert("options", bson::doc! { "validator": { "$later": 1 } })),
            Ok("db.b") => {
                let indexes = entry.get_array_mut("indexes").unwrap();
                let index = indexes[1].as_document_mut().unwrap().get_document_mut("spec").unwrap();
                assert_eq!(index.get_str("name").unwrap(), "x");
                index.insert("partialFilterExpression", bson::doc! { "$later": 1 });
            }
            _ => continue,
        }
        let entry = bson::RawDocumentBuf::try_from(&entry).unwrap();
        batch.put(TreeId::CATALOG, cursor.key(), entry.as_bytes());
    }
    assert_eq!(batch.len(), 2);
    engine.apply_settled(&batch).unwrap();
    drop((cursor, engine));
    let expected =
        [("a collection", "db.a".to_owned(), String::new()), ("an index", "db.b".to_owned(), "x".to_owned())];
    for life in 0..2 {
        restart(&mut fixture);
        let mut found = told(&fixture);
        found.sort();
        assert_eq!(found, expected);
        let (hurt, other) = (fixture.collection("db.a"), fixture.collection("db.b"));
        let refused = set_aside(fixture.insert(&hurt, document(1)));
        assert!(refused.contains("$later"), "{refused}");
        fixture.insert(&other, document(DOCUMENTS + life)).unwrap();
        set_aside(fixture.store.rebuild_indexes(&other, &|| false));
        let new = fixture.collection("db.new");
        fixture.insert(&new, rawdoc! { "_id": life }).unwrap();
    }
    let other = fixture.collection("db.b");
    fixture.store.drop_indexes(&other, WhichIndexes::Names(vec!["x".to_owned()])).unwrap();
    fixture.store.drop_collection(&namespace("db.a")).unwrap().unwrap();
    assert_eq!(told(&fixture), []);
    assert_sound(&fixture.store);
}
