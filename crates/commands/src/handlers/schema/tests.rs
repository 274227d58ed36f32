//! The schema commands as a client sees them.

use bson::{Bson, Document, RawDocument, doc};

use super::{coll_stats, index_stats};
use crate::test_server::TestServer;

/// The documents of a reply's first batch, and the cursor's id.
fn batch(reply: &Document) -> (Vec<Document>, i64) {
    let cursor = reply.get_document("cursor").unwrap();
    let items = cursor.get_array("firstBatch").unwrap().iter();
    (items.map(|item| item.as_document().unwrap().clone()).collect(), cursor.get_i64("id").unwrap())
}

fn names(documents: &[Document]) -> Vec<&str> {
    documents.iter().map(|document| document.get_str("name").unwrap()).collect()
}

#[test]
fn collections_are_created_listed_and_dropped() {
    let mut server = TestServer::new();
    server.run("db", doc! {"create": "b", "validator": {"a": {"$gt": 1}}, "writeConcern": {"w": "majority"}});
    server.run("db", doc! {"create": "b", "validator": {"a": {"$gt": 1}}});
    assert_eq!(server.fail("db", doc! {"create": "b"}).0, 48);
    server.run("db", doc! {"create": "a", "idIndex": {"v": 2, "key": {"_id": 1}, "name": "_id_"}});
    for (field, value, code) in [
        // The size is missing.
        ("capped", Bson::Boolean(true), 72),
        // Of itself.
        ("viewOn", Bson::from("x"), 5),
        ("pipeline", Bson::Array(Vec::new()), 72),
        ("timeseries", Bson::from(doc! {"timeField": "$t"}), 72),
        ("size", Bson::Int32(5), 72),
        ("sise", Bson::Int32(5), 40415),
    ] {
        assert_eq!(server.fail("db", doc! {"create": "x", field: value}).0, code, "{field}");
    }
    let reply = server.run("db", doc! {"listCollections": 1, "cursor": {}});
    assert_eq!(reply.get_document("cursor").unwrap().get_str("ns").unwrap(), "db.$cmd.listCollections");
    let (listed, id) = batch(&reply);
    assert_eq!((names(&listed), id), (vec!["a", "b"], 0));
    assert_eq!(listed[1].get_document("options").unwrap(), &doc! {"validator": {"a": {"$gt": 1}}});
    assert_eq!(listed[0].get_str("type").unwrap(), "collection");
    assert!(listed[0].get_document("info").unwrap().contains_key("uuid"));
    assert_eq!(listed[0].get_document("idIndex").unwrap(), &doc! {"v": 2, "key": {"_id": 1}, "name": "_id_"});
    let filtered = server.run("db", doc! {"listCollections": 1, "filter": {"name": "b"}, "nameOnly": true});
    assert_eq!(batch(&filtered).0, [doc! {"name": "b", "type": "collection"}]);
    let dropped = server.run("db", doc! {"drop": "b"});
    assert_eq!((dropped.get_i32("nIndexesWas").unwrap(), dropped.get_str("ns").unwrap()), (1, "db.b"));
    assert_eq!(server.run("db", doc! {"drop": "b"}), doc! {"ok": 1.0});
    assert_eq!(server.run("db", doc! {"dropDatabase": 1}).get_str("dropped").unwrap(), "db");
    assert_eq!(server.run("db", doc! {"dropDatabase": 1}), doc! {"ok": 1.0});
    assert!(batch(&server.run("db", doc! {"listCollections": 1})).0.is_empty());
}

#[test]
fn long_lists_have_a_cursor() {
    let mut server = TestServer::new();
    for name in ["a", "b", "c"] {
        server.run("db", doc! {"create": name});
    }
    let reply = server.run("db", doc! {"listCollections": 1, "cursor": {"batchSize": 2}});
    let (listed, id) = batch(&reply);
    assert_eq!(names(&listed), ["a", "b"]);
    let more = server.run("db", doc! {"getMore": id, "collection": "$cmd.listCollections"});
    let cursor = more.get_document("cursor").unwrap();
    assert_eq!((cursor.get_i64("id").unwrap(), cursor.get_array("nextBatch").unwrap().len()), (0, 1));
    let whole = server.run("db", doc! {"listCollections": 1, "cursor": {"batchSize": 3}});
    assert_eq!(batch(&whole).1, 0);
}

#[test]
fn databases_are_listed_and_measured() {
    let mut server = TestServer::new();
    server.insert("one", "c", 0..10);
    server.insert("two", "c", 0..10);
    let reply = server.run("admin", doc! {"listDatabases": 1, "filter": {"name": "one"}});
    let databases = reply.get_array("databases").unwrap();
    let [Bson::Document(database)] = databases.as_slice() else { panic!("{databases:?}") };
    let size = database.get_i64("sizeOnDisk").unwrap();
    assert!(size > 0);
    assert_eq!((database.get_str("name").unwrap(), database.get_bool("empty").unwrap()), ("one", false));
    assert_eq!(reply.get_i64("totalSize").unwrap(), size);
    let named = server.run("admin", doc! {"listDatabases": 1, "nameOnly": true});
    let all = ["admin", "config", "local", "one", "two"].map(|name| doc! {"name": name});
    assert_eq!(named, doc! {"databases": all.to_vec(), "ok": 1.0});
    assert_eq!(server.fail("local", doc! {"dropDatabase": 1}).0, 20);
    assert_eq!(server.fail("admin", doc! {"dropDatabase": 1}).0, 20);
    assert_eq!(server.fail("one", doc! {"listDatabases": 1}).0, 13);
    let stats = server.run("one", doc! {"dbStats": 1, "scale": 1});
    assert_eq!((stats.get_i64("objects").unwrap(), stats.get_i64("collections").unwrap()), (10, 1));
    assert_eq!(stats.get_f64("totalSize").unwrap(), size as f64);
    assert_eq!(server.fail("one", doc! {"dbStats": 1, "scale": 0}).0, 51024);
}

#[test]
fn collections_are_renamed() {
    let mut server = TestServer::new();
    server.insert("db", "a", 0..2);
    server.insert("db", "b", 0..1);
    let rename = |to: &str| doc! {"renameCollection": "db.a", "to": to};
    assert_eq!(server.fail("admin", rename("db.b")).0, 48);
    assert_eq!(server.fail("admin", rename("db.a")).0, 20);
    assert_eq!(server.fail("admin", doc! {"renameCollection": "db.a"}).0, 40414);
    server.run("admin", doc! {"renameCollection": "db.a", "to": "db.b", "dropTarget": true});
    assert_eq!(server.fail("admin", rename("db.c")).0, 26);
    assert_eq!(server.run("db", doc! {"collStats": "b"}).get_i32("count").unwrap(), 2);
}

#[test]
fn indexes_are_built_listed_and_dropped() {
    let mut server = TestServer::new();
    assert_eq!(server.fail("db", doc! {"listIndexes": "c"}), (26, "ns does not exist: db.c".to_owned()));
    let index = doc! {"key": {"a": 1}, "name": "a_1"};
    let create = doc! {"createIndexes": "c", "indexes": [index.clone()]};
    let created = server.run("db", create.clone());
    let expected =
        doc! {"numIndexesBefore": 1, "numIndexesAfter": 2, "createdCollectionAutomatically": true, "ok": 1.0};
    assert_eq!(created, expected);
    assert_eq!(server.run("db", create).get_str("note").unwrap(), "all indexes already exist");
    let quorum = |quorum: Bson| doc! {"createIndexes": "c", "indexes": [index.clone()], "commitQuorum": quorum};
    for satisfied in ["majority".into(), "votingMembers".into(), Bson::Int32(1), Bson::Int32(0), Bson::Null] {
        server.run("db", quorum(satisfied));
    }
    assert_eq!(server.fail("db", quorum(Bson::Int32(2))).0, 278);
    assert_eq!(server.fail("db", quorum("nowhere".into())).0, 79);
    assert_eq!(server.fail("db", quorum(true.into())).0, 9);
    assert_eq!(server.fail("db", doc! {"createIndexes": "c", "indexes": []}).0, 2);
    server.run("db", doc! {"createIndexes": "c", "indexes": [{"key": {"b": 1}, "name": "b_1", "unique": true}]});
    let (listed, _) = batch(&server.run("db", doc! {"listIndexes": "c"}));
    assert_eq!(names(&listed), ["_id_", "a_1", "b_1"]);
    assert_eq!(listed[2], doc! {"v": 2, "key": {"b": 1}, "name": "b_1", "unique": true});
    let missing = server.fail("db", doc! {"dropIndexes": "c", "index": "x"});
    assert_eq!(missing, (27, "index not found with name [x]".to_owned()));
    assert_eq!(server.fail("db", doc! {"dropIndexes": "c", "index": "_id_"}).0, 72);
    assert_eq!(server.fail("db", doc! {"dropIndexes": "c", "index": {"z": 1}}).0, 27);
    assert_eq!(server.fail("db", doc! {"dropIndexes": "none", "index": "*"}).0, 26);
    // A double names the same index as an integer.
    server.run("db", doc! {"dropIndexes": "c", "index": {"a": 1.0}});
    assert_eq!(server.run("db", doc! {"dropIndexes": "c", "index": "*"}).get_i32("nIndexesWas").unwrap(), 2);
    assert_eq!(names(&batch(&server.run("db", doc! {"listIndexes": "c"})).0), ["_id_"]);
}

#[test]
fn collections_are_modified() {
    let mut server = TestServer::new();
    server.run("db", doc! {"create": "c", "validator": {"a": 1}});
    let index = doc! {"key": {"at": 1}, "name": "at_1", "expireAfterSeconds": 60};
    server.run("db", doc! {"createIndexes": "c", "indexes": [index]});
    let changed =
        server.run("db", doc! {"collMod": "c", "index": {"name": "at_1", "expireAfterSeconds": 90, "hidden": true}});
    let expected = doc! {
        "expireAfterSeconds_old": 60i64, "expireAfterSeconds_new": 90i64, "hidden_old": false, "hidden_new": true, "ok": 1.0,
    };
    assert_eq!(changed, expected);
    let (indexes, _) = batch(&server.run("db", doc! {"listIndexes": "c"}));
    assert!(indexes[1].get_bool("hidden").unwrap());
    assert_eq!(indexes[1].get_i32("expireAfterSeconds").unwrap(), 90);
    server.run("db", doc! {"collMod": "c", "index": {"keyPattern": {"at": 1}, "hidden": false}});
    server.run("db", doc! {"collMod": "c", "validationLevel": "moderate"});
    let options = |server: &mut TestServer| {
        let (listed, _) = batch(&server.run("db", doc! {"listCollections": 1}));
        listed[0].get_document("options").unwrap().clone()
    };
    assert_eq!(options(&mut server), doc! {"validator": {"a": 1}, "validationLevel": "moderate"});
    server.run("db", doc! {"collMod": "c", "validator": {}});
    assert_eq!(options(&mut server), doc! {"validationLevel": "moderate"});
    let wrong = [
        (doc! {"collMod": "none"}, 26),
        (doc! {"collMod": "c", "index": {"name": "x", "hidden": true}}, 27),
        (doc! {"collMod": "c", "index": {"name": "at_1"}}, 72),
        (doc! {"collMod": "c", "index": {"hidden": true}}, 72),
        (doc! {"collMod": "c", "index": {"name": "_id_", "hidden": true}}, 2),
        (doc! {"collMod": "c", "index": {"name": "at_1", "expireAfterSeconds": -1}}, 72),
        (doc! {"collMod": "c", "viewOn": "x"}, 72),
        (doc! {"collMod": "c", "nonsense": 1}, 40415),
    ];
    for (command, code) in wrong {
        let text = command.to_string();
        assert_eq!(server.fail("db", command).0, code, "{text}");
    }
}

#[test]
fn collections_are_measured_and_validated() {
    let mut server = TestServer::new();
    server.insert("db", "c", 0..100);
    server.run("db", doc! {"createIndexes": "c", "indexes": [{"key": {"a": 1}, "name": "a_1"}]});
    let stats = server.run("db", doc! {"collStats": "c"});
    assert_eq!((stats.get_i32("count").unwrap(), stats.get_i32("nindexes").unwrap()), (100, 2));
    assert_eq!((stats.get_i32("size").unwrap(), stats.get_i32("avgObjSize").unwrap()), (2100, 21));
    assert!(stats.get_document("indexSizes").unwrap().contains_key("a_1"));
    assert_eq!(server.run("db", doc! {"collStats": "none"}).get_i32("count").unwrap(), 0);
    let report = server.run("db", doc! {"validate": "c", "full": true});
    assert_eq!((report.get_bool("valid").unwrap(), report.get_i32("nrecords").unwrap()), (true, 100));
    assert_eq!(report.get_document("keysPerIndex").unwrap(), &doc! {"_id_": 100, "a_1": 100});
    assert_eq!(server.fail("db", doc! {"validate": "c", "repair": true}).0, 238);
    assert_eq!(server.fail("db", doc! {"validate": "none"}).0, 26);
}

#[test]
fn documents_of_the_statistics_stages() {
    let mut server = TestServer::new();
    server.insert("db", "c", 0..4);
    let context = server.dispatcher.server();
    let statistics = |namespace: &str, options: &RawDocument| {
        let (queries, usage, facts) = (context.queries(), &context.usage, &context.facts);
        coll_stats::collection_statistics(queries, usage, facts, &*context.clock, namespace, options)
    };
    let all = bson::rawdoc! {"count": {}, "storageStats": {"scale": 2}};
    let document = statistics("db.c", &all).unwrap();
    let document = Document::try_from(document).unwrap();
    assert_eq!((document.get_i32("count").unwrap(), document.get_str("host").unwrap()), (4, "machine:27018"));
    assert_eq!(document.get_document("storageStats").unwrap().get_i32("size").unwrap(), 42);
    let latencies = bson::rawdoc! {"latencyStats": {}};
    let latencies = Document::try_from(statistics("db.c", &latencies).unwrap()).unwrap();
    let writes = latencies.get_document("latencyStats").unwrap().get_document("writes").unwrap();
    assert_eq!(writes.get_i64("ops").unwrap(), 1);
    let histograms = bson::rawdoc! {"latencyStats": {"histograms": true}};
    let histograms = Document::try_from(statistics("db.c", &histograms).unwrap()).unwrap();
    let ranges = |kind: &str| {
        let kinds = histograms.get_document("latencyStats").unwrap();
        kinds.get_document(kind).unwrap().get_array("histogram").unwrap().clone()
    };
    assert_eq!((ranges("writes").len(), ranges("reads").len(), ranges("transactions").len()), (1, 0, 0));
    assert_eq!(ranges("writes")[0].as_document().unwrap().get_i64("count").unwrap(), 1);
    assert_eq!(statistics("db.x", &all).unwrap_err().code, 26);
    let indexes = index_stats::index_statistics(&context.store, &context.facts, "db.c").unwrap();
    let index = Document::try_from(indexes[0].clone()).unwrap();
    assert_eq!(index.get_document("accesses").unwrap().get_i64("ops").unwrap(), 0);
    assert_eq!(index.get_document("key").unwrap(), &doc! {"_id": 1});
}
