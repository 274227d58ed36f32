//! `applyOps` as tools send it.

use bson::{Bson, Document, doc};

use crate::Attempt;
use crate::test_server::TestServer;

fn uuid(byte: u8) -> Bson {
    Bson::Binary(bson::Binary::from(bson::Uuid::from_bytes([byte; 16])))
}

fn apply(server: &mut TestServer, operations: Vec<Document>) {
    let count = operations.len() as i32;
    let reply = server.run("admin", doc! {"applyOps": operations});
    assert_eq!(reply.get_i32("applied").unwrap(), count);
    assert_eq!(reply.get_array("results").unwrap().len(), count as usize);
}

/// The code of what an operation alone fails with.
#[track_caller]
fn refused(server: &mut TestServer, operation: Document) -> i32 {
    server.fail("admin", doc! {"applyOps": [operation]}).0
}

fn documents(server: &mut TestServer, collection: &str) -> Vec<Document> {
    let reply = server.run("db", doc! {"find": collection, "sort": {"_id": 1}});
    let batch = reply.get_document("cursor").unwrap().get_array("firstBatch").unwrap();
    batch.iter().map(|document| document.as_document().unwrap().clone()).collect()
}

#[test]
fn documents_become_what_the_entries_say_however_often() {
    let mut server = TestServer::new();
    server.run("db", doc! {"create": "c"});
    let operations = vec![
        doc! {"op": "i", "ns": "db.c", "o": {"_id": 1, "a": 1, "l": [1, 2, 3]}, "ts": bson::Timestamp {time: 1, increment: 1}, "v": 2i64},
        doc! {"op": "i", "ns": "db.c", "o": {"_id": 2, "a": 2}},
        doc! {"op": "u", "ns": "db.c", "o": {"$v": 2, "diff": {"u": {"a": 7}, "i": {"b": 1}, "sl": {"a": true, "u1": 9}}}, "o2": {"_id": 1}},
        doc! {"op": "u", "ns": "db.c", "o": {"_id": 2, "z": 1}, "o2": {"_id": 2}, "b": true},
        doc! {"op": "u", "ns": "db.c", "o": {"$v": 2, "diff": {"u": {"late": true}}}, "o2": {"_id": 3}},
        doc! {"op": "i", "ns": "db.c", "o": {"_id": 4}},
        doc! {"op": "d", "ns": "db.c", "o": {"_id": 4}},
        doc! {"op": "d", "ns": "db.c", "o": {"_id": 5}},
        doc! {"op": "n", "ns": "", "o": {"msg": "nothing"}},
    ];
    let expected =
        [doc! {"_id": 1, "a": 7, "l": [1, 9, 3], "b": 1}, doc! {"_id": 2, "z": 1}, doc! {"_id": 3, "late": true}];
    for _ in 0..2 {
        apply(&mut server, operations.clone());
        assert_eq!(documents(&mut server, "c"), expected);
    }
}

#[test]
fn definitions_become_what_the_entries_say() {
    let mut server = TestServer::new();
    let command = |object: Document| doc! {"op": "c", "ns": "db.$cmd", "o": object};
    let id_index = doc! {"v": 2, "key": {"_id": 1}, "name": "_id_"};
    apply(
        &mut server,
        vec![
            doc! {
                "op": "c", "ns": "db.$cmd", "ui": uuid(7),
                "o": {"create": "c", "validator": {"a": {"$gt": 0}}, "idIndex": id_index.clone()},
            },
            // What was valid where it comes from is not validated again.
            doc! {"op": "i", "ns": "db.c", "ui": uuid(7), "o": {"_id": 1, "a": -1}},
            command(doc! {"createIndexes": "c", "v": 2, "key": {"a": 1}, "name": "a_1", "unique": true}),
            command(doc! {
                "commitIndexBuild": "c", "indexBuildUUID": uuid(1),
                "indexes": [{"v": 2, "key": {"b": 1}, "name": "b_1"}, {"v": 2, "key": {"c": 1}, "name": "c_1"}],
            }),
            command(doc! {"collMod": "c", "index": {"name": "b_1", "hidden": true}}),
            command(doc! {"dropIndexes": "c", "index": "c_1"}),
            command(doc! {"dropIndexes": "c", "index": "c_1"}),
            command(doc! {"create": "gone"}),
            doc! {"op": "c", "ns": "db.$cmd", "o": {"drop": "gone"}},
            command(doc! {"drop": "gone"}),
            command(doc! {"create": "target"}),
            command(doc! {"renameCollection": "db.c", "to": "db.target", "stayTemp": false, "dropTarget": uuid(9)}),
            doc! {"op": "c", "ns": "admin.$cmd", "o": {"applyOps": [{"op": "i", "ns": "db.target", "o": {"_id": 2, "a": 2}}]}},
        ],
    );
    let listed = server.run("db", doc! {"listCollections": 1});
    let listed = listed.get_document("cursor").unwrap().get_array("firstBatch").unwrap().clone();
    let [Bson::Document(only)] = listed.as_slice() else { panic!("{listed:?}") };
    assert_eq!(only.get_str("name").unwrap(), "target");
    assert_eq!(only.get_document("info").unwrap().get("uuid"), Some(&uuid(7)));
    let indexes = server.run("db", doc! {"listIndexes": "target"});
    let names: Vec<String> = indexes
        .get_document("cursor")
        .unwrap()
        .get_array("firstBatch")
        .unwrap()
        .iter()
        .map(|index| index.as_document().unwrap().get_str("name").unwrap().to_owned())
        .collect();
    assert_eq!(names, ["_id_", "a_1", "b_1"]);
    assert_eq!(documents(&mut server, "target"), [doc! {"_id": 1, "a": -1}, doc! {"_id": 2, "a": 2}]);
}

#[test]
fn a_failure_ends_the_command_and_says_how_far_it_came() {
    let mut server = TestServer::new();
    server.run("db", doc! {"create": "c"});
    let operations = vec![
        doc! {"op": "i", "ns": "db.c", "o": {"_id": 1}},
        doc! {"op": "i", "ns": "db.missing", "o": {"_id": 1}},
        doc! {"op": "i", "ns": "db.c", "o": {"_id": 2}},
    ];
    let reply = server.send("admin", doc! {"applyOps": operations}, Attempt::First).unwrap();
    assert_eq!((reply.get_i32("code").unwrap(), reply.get_i32("applied").unwrap()), (26, 1));
    assert_eq!(reply.get_array("results").unwrap(), &[Bson::Boolean(true), Bson::Boolean(false)]);
    assert_eq!(documents(&mut server, "c"), [doc! {"_id": 1}]);
}

#[test]
fn what_is_no_operation_is_refused() {
    let mut server = TestServer::new();
    server.run("db", doc! {"create": "c"});
    let insert = || doc! {"op": "i", "ns": "db.c", "o": {"_id": 1}};
    let without = |name: &str| {
        let mut operation = insert();
        operation.remove(name);
        operation
    };
    for name in ["op", "ns", "o"] {
        assert_eq!(refused(&mut server, without(name)), 9, "{name}");
    }
    let cases = [
        (doc! {"op": "x", "ns": "db.c", "o": {}}, 9),
        (doc! {"op": "i", "ns": "db.c", "o": {"a": 1}}, 4),
        (doc! {"op": "d", "ns": "db.c", "o": {"a": 1}}, 4),
        (doc! {"op": "u", "ns": "db.c", "o": {"$set": {"a": 1}}, "o2": {"_id": 1}}, 4_772_600),
        (doc! {"op": "u", "ns": "db.c", "o": {"$v": 1, "$set": {"a": 1}}, "o2": {"_id": 1}}, 4_772_600),
        (doc! {"op": "u", "ns": "db.c", "o": {"_id": 2}, "o2": {"_id": 1}}, 66),
        (doc! {"op": "i", "ns": "db.c", "ui": uuid(1), "o": {"_id": 1}}, 26),
        (doc! {"op": "i", "ns": "db.c", "ui": 5, "o": {"_id": 1}}, 207),
        (doc! {"op": "i", "ns": "db.c", "o": {"_id": 1}, "more": 1}, 40415),
        (doc! {"op": "c", "ns": "db.c", "o": {"create": "d"}}, 73),
        (doc! {"op": "c", "ns": "db.$cmd", "o": {"startIndexBuild": "c"}}, 115),
        (doc! {"op": "c", "ns": "db.$cmd", "o": {"noSuchCommand": "c"}}, 2),
        (doc! {"op": "c", "ns": "admin.$cmd", "o": {"applyOps": [], "prepare": true}}, 115),
    ];
    for (operation, code) in cases {
        assert_eq!(refused(&mut server, operation.clone()), code, "{operation}");
    }
    for option in ["alwaysUpsert", "preCondition", "oplogApplicationMode"] {
        assert_eq!(server.fail("admin", doc! {"applyOps": [insert()], option: true}).0, 238, "{option}");
    }
    assert_eq!(server.fail("admin", doc! {"applyOps": [insert(), insert()], "allowAtomic": true}).0, 238);
    let mut deep = insert();
    for _ in 0..11 {
        deep = doc! {"op": "c", "ns": "admin.$cmd", "o": {"applyOps": [deep]}};
    }
    assert_eq!(refused(&mut server, deep), 9);
    assert_eq!(documents(&mut server, "c"), []);
}

/// What `mongodump --oplog` reads and `mongorestore --oplogReplay` does with it: one server's oplog, applied to another one.
#[test]
fn the_oplog_of_one_server_can_be_applied_to_another() {
    let mut source = TestServer::new();
    source.run("db", doc! {"create": "c", "capped": false, "validator": {"a": {"$exists": true}}});
    source.run("db", doc! {"createIndexes": "c", "indexes": [{"key": {"a": 1}, "name": "a_1", "unique": true}]});
    source.insert("db", "c", 0..20);
    source.run(
        "db",
        doc! {"update": "c", "updates": [{"q": {"_id": {"$lt": 5}}, "u": {"$set": {"b.c": [1, 2]}}, "multi": true}]},
    );
    source.run("db", doc! {"update": "c", "updates": [{"q": {"_id": 3}, "u": {"$push": {"b.c": 3}, "$unset": {"a": 1}}}], "bypassDocumentValidation": true});
    source.run("db", doc! {"delete": "c", "deletes": [{"q": {"_id": {"$gte": 15}}, "limit": 0}]});
    source.run("db", doc! {"collMod": "c", "validationLevel": "moderate"});
    source.run("db", doc! {"create": "d", "capped": true, "size": 4096, "max": 3});
    source.insert("db", "d", 0..5);
    source.run("admin", doc! {"renameCollection": "db.d", "to": "db.e"});
    source.run("db", doc! {"dropIndexes": "c", "index": "a_1"});
    source.run("db", doc! {"createIndexes": "c", "indexes": [{"key": {"b": -1}, "name": "b"}]});
    let entries = source.run("local", doc! {"find": "oplog.rs", "batchSize": 1000});
    let entries = entries.get_document("cursor").unwrap().get_array("firstBatch").unwrap().clone();
    let mut target = TestServer::new();
    for entry in entries {
        let mut entry = entry.as_document().unwrap().clone();
        let skipped =
            |entry: &Document| entry.get_document("o").is_ok_and(|object| object.contains_key("startIndexBuild"));
        // As the tool does without --preserveUUID.
        entry.remove("ui");
        if entry.get_str("op").unwrap() == "n" || skipped(&entry) {
            continue;
        }
        target.run("admin", doc! {"applyOps": [entry]});
    }
    for collection in ["c", "e"] {
        assert_eq!(documents(&mut target, collection), documents(&mut source, collection), "{collection}");
        let indexes = |server: &mut TestServer| {
            let reply = server.run("db", doc! {"listIndexes": collection});
            reply.get_document("cursor").unwrap().get_array("firstBatch").unwrap().clone()
        };
        assert_eq!(indexes(&mut target), indexes(&mut source), "{collection}");
        let options = |server: &mut TestServer| {
            let reply = server.run("db", doc! {"listCollections": 1, "filter": {"name": collection}});
            let batch = reply.get_document("cursor").unwrap().get_array("firstBatch").unwrap().clone();
            batch[0].as_document().unwrap().get_document("options").unwrap().clone()
        };
        assert_eq!(options(&mut target), options(&mut source), "{collection}");
    }
}
