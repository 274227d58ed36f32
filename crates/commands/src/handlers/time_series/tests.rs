//! A time-series collection against a plain one with the same documents, step by step at random; definitions; refusals.

use std::collections::BTreeMap;

use bson::{Bson, DateTime, Document, doc};

use crate::test_server::TestServer;

/// A small generator: the same steps each time.
struct Dice(u64);

impl Dice {
    fn below(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % sides
    }

    fn time(&mut self) -> DateTime {
        // Most in one day, some long before 1970 or after 2106.
        match self.below(20) {
            0 => DateTime::from_millis(-5_000_000_000_000 + self.below(10_000_000) as i64),
            1 => DateTime::from_millis(9_000_000_000_000 + self.below(10_000_000) as i64),
            _ => DateTime::from_millis(1_700_000_000_000 + self.below(86_400_000) as i64),
        }
    }

    fn series(&mut self) -> Bson {
        match self.below(4) {
            0 => Bson::String(["a", "b"][self.below(2) as usize].to_owned()),
            1 => Bson::Null,
            _ => Bson::Document(doc! { "s": self.below(3) as i32, "r": "x" }),
        }
    }

    fn measurement(&mut self, id: i32) -> Document {
        let mut measurement = doc! { "_id": id, "t": self.time() };
        if self.below(5) > 0 {
            measurement.insert("m", self.series());
        }
        match self.below(6) {
            0 => drop(measurement.insert("v", "text")),
            1 => {}
            2 => drop(measurement.insert("v", vec![3, 40])),
            3 => drop(measurement.insert("v", f64::NAN)),
            _ => drop(measurement.insert("v", self.below(1_000) as f64 / 10.0)),
        }
        measurement.insert("w", self.below(50) as i32);
        match self.below(12) {
            0 => {}
            1 => drop(measurement.insert("n", self.below(9) as i32)),
            2 => drop(measurement.insert("n", vec![doc! { "x": self.below(100) as i32 }])),
            3 => drop(measurement.insert("n", doc! { "x": "text" })),
            _ => {
                let inner = doc! { "z": self.time(), "q": true };
                measurement.insert("n", doc! { "x": self.below(100) as i32, "y": inner });
            }
        }
        measurement
    }

    fn filter(&mut self) -> Document {
        match self.below(14) {
            10 => doc! { "n.x": { "$gte": self.below(100) as i32 } },
            11 => doc! { "n.y.z": { "$lt": self.time() }, "w": { "$gt": 10 } },
            12 => doc! { "n.x": self.below(100) as i32, "v": { "$lt": self.below(100) as i32 } },
            13 => doc! { "w": self.below(60) as i32 },
            0 => doc! {},
            1 => doc! { "m.s": self.below(3) as i32 },
            2 => doc! { "m": self.series() },
            3 => doc! { "t": { "$gte": self.time(), "$lt": self.time() } },
            4 => doc! { "v": { "$gt": self.below(100) as i32 } },
            5 => doc! { "w": { "$in": [self.below(50) as i32, self.below(50) as i32] }, "m": { "$exists": true } },
            6 => doc! { "$or": [{ "m": "a", "t": { "$lte": self.time() } }, { "w": { "$lt": 3 } }] },
            7 => doc! { "$nor": [{ "m": "a" }, { "v": { "$lte": 50 } }] },
            8 => doc! { "$expr": { "$eq": ["$m.s", self.below(3) as i32] } },
            _ => doc! { "t": { "$in": [self.time(), self.time()] } },
        }
    }
}

fn all(server: &mut TestServer, command: Document) -> Vec<Bson> {
    let reply = server.run("d", command);
    reply.get_document("cursor").unwrap().get_array("firstBatch").unwrap().clone()
}

/// What both have and say is the same; NaN is no reason to differ.
fn assert_same(server: &mut TestServer, of: &dyn Fn(&str) -> Document) {
    // A field that was taken away and given back stands elsewhere.
    let in_order = |found: Vec<Bson>| -> Vec<String> {
        let fields = |found: &Bson| found.as_document().unwrap().clone().into_iter().collect::<BTreeMap<_, _>>();
        found.iter().map(|found| format!("{:?}", fields(found))).collect()
    };
    let (series, plain) = (all(server, of("series")), all(server, of("plain")));
    assert_eq!(in_order(series), in_order(plain), "{}", of("series"));
}

/// On both, on a field of measurements.
fn create_index(server: &mut TestServer, dice: &mut Dice, step: i32) {
    let keys = [doc! { "w": 1 }, doc! { "n.x": -1, "m": 1 }, doc! { "v": 1, "t": 1 }, doc! { "n.y.z": 1 }];
    let index = doc! { "key": keys[dice.below(4) as usize].clone(), "name": format!("i{step}") };
    for name in ["series", "plain"] {
        server.run("d", doc! { "createIndexes": name, "indexes": [index.clone()] });
    }
}

#[test]
fn a_time_series_is_like_a_plain_collection_with_the_same_documents() {
    let mut server = TestServer::new();
    server.run("d", doc! { "create": "series", "timeseries": { "timeField": "t", "metaField": "m" } });
    let (mut dice, mut next_id) = (Dice(20_261_129), 0);
    for step in 0..120 {
        match dice.below(10) {
            0..=3 => {
                let count = 1 + dice.below(if step % 7 == 0 { 400 } else { 20 }) as i32;
                let measurements: Vec<Document> = (next_id..next_id + count).map(|id| dice.measurement(id)).collect();
                next_id += count;
                for name in ["series", "plain"] {
                    let reply = server.run("d", doc! { "insert": name, "documents": measurements.clone() });
                    assert_eq!(reply.get_i32("n").unwrap(), count);
                }
            }
            4 => {
                let filter = dice.filter();
                let deleted = |server: &mut TestServer, name: &str| {
                    let statement = doc! { "q": filter.clone(), "limit": 0 };
                    server.run("d", doc! { "delete": name, "deletes": [statement] }).get_i32("n").unwrap()
                };
                assert_eq!(deleted(&mut server, "series"), deleted(&mut server, "plain"), "{filter}");
            }
            5 => {
                let filter = if dice.below(2) == 0 {
                    doc! { "m": dice.series() }
                } else {
                    doc! { "m.s": 1 }
                };
                let update = match dice.below(3) {
                    0 => doc! { "$set": { "m": dice.series() } },
                    1 => doc! { "$unset": { "m": "" } },
                    _ => doc! { "$set": { "m": { "s": dice.below(3) as i32, "r": "x" } } },
                };
                let updated = |server: &mut TestServer, name: &str| {
                    let statement = doc! { "q": filter.clone(), "u": update.clone(), "multi": true };
                    server.run("d", doc! { "update": name, "updates": [statement] }).get_i32("n").unwrap()
                };
                assert_eq!(updated(&mut server, "series"), updated(&mut server, "plain"), "{filter} {update}");
            }
            7 if step % 4 == 0 => create_index(&mut server, &mut dice, step),
            6 if step % 5 == 0 => server = server.restarted(),
            6 if step % 3 == 0 => {
                server.run("d", doc! { "collMod": "series", "timeseries": { "granularity": "minutes" } });
            }
            _ => {}
        }
        let filter = dice.filter();
        assert_same(&mut server, &|name| {
            doc! { "find": name, "filter": filter.clone(), "sort": { "_id": 1 }, "batchSize": 100_000 }
        });
        // Of equal times any may come first.
        let (direction, limit) = (if dice.below(2) == 0 { 1 } else { -1 }, 1 + dice.below(30) as i32);
        assert_same(&mut server, &|name| {
            doc! { "find": name, "filter": filter.clone(), "sort": { "t": direction }, "limit": limit, "projection": { "t": 1, "_id": 0 } }
        });
        assert_same(&mut server, &|name| {
            let group = doc! { "$group": { "_id": "$m", "n": { "$sum": 1 }, "w": { "$sum": "$w" } } };
            doc! { "aggregate": name, "cursor": {}, "pipeline": [{ "$match": filter.clone() }, group, { "$sort": { "_id": 1 } }] }
        });
        let count = |server: &mut TestServer, name: &str| {
            server.run("d", doc! { "count": name, "query": filter.clone() }).get_i32("n").unwrap()
        };
        assert_eq!(count(&mut server, "series"), count(&mut server, "plain"), "{filter}");
    }
    let valid = server.run("d", doc! { "validate": "series" });
    assert!(valid.get_bool("valid").unwrap());
}

#[test]
fn definitions_are_shown_as_clients_know_them() {
    let mut server = TestServer::new();
    let options = doc! { "timeField": "t", "metaField": "m", "granularity": "hours" };
    server.run("d", doc! { "create": "c", "timeseries": options, "expireAfterSeconds": 60 });
    let listed = all(&mut server, doc! { "listCollections": 1, "filter": { "type": "timeseries" } });
    let shown = doc! { "name": "c", "type": "timeseries", "options": { "expireAfterSeconds": 60_i64, "timeseries":
    { "timeField": "t", "metaField": "m", "granularity": "hours", "bucketMaxSpanSeconds": 2_592_000 } },
    "info": { "readOnly": false } };
    assert_eq!(listed, [Bson::from(shown)]);
    server.run("d", doc! { "createIndexes": "c", "indexes": [{ "key": { "m.a": 1, "t": -1 }, "name": "own" }] });
    let names = |server: &mut TestServer| {
        let indexes = all(server, doc! { "listIndexes": "c" });
        indexes
            .iter()
            .map(|index| index.as_document().unwrap().get_document("key").unwrap().clone())
            .collect::<Vec<_>>()
    };
    assert_eq!(names(&mut server), [doc! { "m": 1, "t": 1 }, doc! { "m.a": 1, "t": -1 }]);
    server.run("d", doc! { "dropIndexes": "c", "index": { "m.a": 1, "t": -1 } });
    assert_eq!(names(&mut server).len(), 1);
    let of_values = doc! { "v": -1, "m": 1, "in.side": 1 };
    server.run("d", doc! { "createIndexes": "c", "indexes": [{ "key": of_values.clone(), "name": "values" }] });
    assert_eq!(names(&mut server), [doc! { "m": 1, "t": 1 }, of_values]);
    let hinted = doc! { "find": "c", "filter": { "m": 1 }, "hint": { "m": 1, "t": 1 } };
    assert_eq!(all(&mut server, hinted), []);
    server.insert("d", "other", 0..2);
    for refused in [
        doc! { "create": "c" },
        doc! { "create": "c", "viewOn": "other" },
        doc! { "collMod": "c", "timeseries": { "granularity": "seconds" } },
        doc! { "collMod": "c", "validator": { "a": 1 } },
        doc! { "createIndexes": "c", "indexes": [{ "key": { "m": 1 }, "name": "u", "unique": true }] },
        doc! { "createIndexes": "c", "indexes": [{ "key": { "v": "hashed" }, "name": "v" }] },
        doc! { "createIndexes": "c", "indexes": [{ "key": { "at": "2dsphere" }, "name": "at" }] },
        doc! { "createIndexes": "c", "indexes": [{ "key": { "$**": 1 }, "name": "all" }] },
        doc! { "createIndexes": "c", "indexes": [{ "key": { "v": "text" }, "name": "v" }] },
        doc! { "findAndModify": "c", "query": {}, "remove": true },
        doc! { "aggregate": "c", "pipeline": [{ "$changeStream": {} }], "cursor": {} },
        doc! { "aggregate": "other", "pipeline": [{ "$merge": "c" }], "cursor": {} },
    ] {
        server.fail("d", refused);
    }
    server.fail("admin", doc! { "renameCollection": "d.c", "to": "d.e" });
    server.run("d", doc! { "drop": "c" });
    server.run("d", doc! { "drop": "other" });
    assert_eq!(all(&mut server, doc! { "listCollections": 1 }), []);
    server.run("d", doc! { "create": "c" });
    server.fail("d", doc! { "create": "c", "timeseries": { "timeField": "t" } });
}

fn write_error(server: &mut TestServer, command: Document) -> i32 {
    let reply = server.run("d", command);
    let errors = reply.get_array("writeErrors").unwrap();
    errors[0].as_document().unwrap().get_i32("code").unwrap()
}

#[test]
fn what_a_time_series_cannot_do_is_refused() {
    let mut server = TestServer::new();
    server.run("d", doc! { "create": "c", "timeseries": { "timeField": "t", "metaField": "m" } });
    assert_eq!(write_error(&mut server, doc! { "insert": "c", "documents": [{ "m": 1 }] }), 2);
    assert_eq!(write_error(&mut server, doc! { "insert": "c", "documents": [{ "t": "today" }] }), 2);
    for statement in [
        doc! { "q": { "m": 1 }, "u": { "$set": { "m": 2 } } },
        doc! { "q": { "m": 1 }, "u": { "$set": { "m": 2 } }, "multi": true, "upsert": true },
        doc! { "q": { "v": 1 }, "u": { "$set": { "m": 2 } }, "multi": true },
        doc! { "q": { "m": 1 }, "u": { "$set": { "v": 2 } }, "multi": true },
        doc! { "q": { "m": 1 }, "u": [{ "$set": { "m": 2 } }], "multi": true },
    ] {
        assert_eq!(write_error(&mut server, doc! { "update": "c", "updates": [statement] }), 72);
    }
    for options in [
        doc! { "timeField": "a.b" },
        doc! { "timeField": "t", "metaField": "t" },
        doc! { "timeField": "t", "metaField": "_id" },
        doc! { "timeField": "t", "granularity": "seconds", "bucketMaxSpanSeconds": 5 },
        doc! { "timeField": "t", "bucketMaxSpanSeconds": 5 },
    ] {
        assert_eq!(server.fail("d", doc! { "create": "e", "timeseries": options }).0, 72);
    }
    let capped = doc! { "create": "e", "timeseries": { "timeField": "t" }, "capped": true, "size": 4096 };
    assert_eq!(server.fail("d", capped).0, 72);
}

#[test]
fn restored_buckets_are_looked_at() {
    let mut server = TestServer::new();
    server.run("d", doc! { "create": "c", "timeseries": { "timeField": "t", "metaField": "m" } });
    let bucket = |version: i32, number: u8| {
        let (first, last) = (DateTime::from_millis(1_000), DateTime::from_millis(2_000));
        doc! {
            "_id": bson::oid::ObjectId::from_bytes([number; 12]),
            "control": { "version": version, "min": { "t": first }, "max": { "t": last } },
            "meta": "a",
            "data": { "t": { "0": first, "1": last }, "v": { "1": 5 } },
        }
    };
    let insert = |bucket: Document| doc! { "insert": "system.buckets.c", "documents": [bucket] };
    assert_eq!(server.run("d", insert(bucket(1, 1))).get_i32("n").unwrap(), 1);
    assert_eq!(write_error(&mut server, insert(bucket(2, 2))), 238);
    assert_eq!(write_error(&mut server, insert(doc! { "_id": 5 })), 22);
    let found = all(&mut server, doc! { "find": "c", "filter": { "v": 5 }, "projection": { "t": 0 } });
    assert_eq!(found, [Bson::from(doc! { "v": 5, "m": "a" })]);
    let dumped = all(&mut server, doc! { "find": "system.buckets.c" });
    assert_eq!(dumped.len(), 1);
}

#[test]
fn a_clustered_collection_is_shown_as_one() {
    let mut server = TestServer::new();
    let clustered = doc! { "key": { "_id": 1 }, "unique": true, "name": "cluster" };
    server.run("d", doc! { "create": "c", "clusteredIndex": clustered.clone(), "expireAfterSeconds": 100 });
    let shown = doc! { "v": 2, "key": { "_id": 1 }, "name": "cluster", "unique": true, "clustered": true,
    "expireAfterSeconds": 100_i64 };
    assert_eq!(all(&mut server, doc! { "listIndexes": "c" }), [Bson::from(shown)]);
    let listed = all(&mut server, doc! { "listCollections": 1 });
    let options = listed[0].as_document().unwrap().get_document("options").unwrap();
    let index = doc! { "v": 2, "key": { "_id": 1 }, "name": "cluster", "unique": true };
    assert_eq!(options, &doc! { "clusteredIndex": index, "expireAfterSeconds": 100_i64 });
    server.insert("d", "c", 0..20);
    for find in [
        doc! { "find": "c", "filter": { "_id": { "$gt": 3, "$lte": 7 } } },
        doc! { "find": "c", "hint": "cluster", "max": { "_id": 4 } },
    ] {
        assert_eq!(all(&mut server, find).len(), 4);
    }
    let explained = server.run("d", doc! { "explain": { "find": "c", "filter": { "_id": { "$gt": 3, "$lte": 7 } } } });
    let plan = explained.get_document("queryPlanner").unwrap().get_document("winningPlan").unwrap();
    assert_eq!(plan.get_str("stage").unwrap(), "CLUSTERED_IXSCAN");
    assert_eq!((plan.get_i32("minRecord").unwrap(), plan.get_i32("maxRecord").unwrap()), (3, 7));
    let mut server = server.restarted();
    assert_eq!(server.fail("d", doc! { "dropIndexes": "c", "index": "cluster" }).0, 5_979_800);
    server.run("d", doc! { "collMod": "c", "expireAfterSeconds": "off" });
    let same = doc! { "createIndexes": "c", "indexes": [clustered_index(&clustered)] };
    server.run("d", same);
    assert_eq!(all(&mut server, doc! { "listIndexes": "c" }).len(), 1);
    for (refused, code) in [
        (doc! { "create": "e", "clusteredIndex": { "key": { "a": 1 }, "unique": true } }, 197),
        (doc! { "create": "e", "clusteredIndex": { "key": { "_id": 1 }, "unique": false } }, 197),
        (doc! { "create": "e", "clusteredIndex": clustered.clone(), "capped": true, "size": 4096 }, 72),
        (doc! { "create": "e", "expireAfterSeconds": 5 }, 72),
        (doc! { "collMod": "c", "index": { "name": "cluster", "hidden": true } }, 2),
        (doc! { "createIndexes": "plain", "indexes": [clustered_index(&clustered)] }, 197),
    ] {
        assert_eq!(server.fail("d", refused.clone()).0, code, "{refused}");
    }
}

fn clustered_index(clustered: &Document) -> Document {
    let mut index = clustered.clone();
    index.insert("clustered", true);
    index
}

#[test]
fn an_index_on_values_leaves_buckets_out() {
    let mut server = TestServer::new();
    server.run("d", doc! { "create": "c", "timeseries": { "timeField": "t", "metaField": "m" } });
    server.run("d", doc! { "createIndexes": "c", "indexes": [{ "key": { "in.v": 1 }, "name": "v" }] });
    for hour in 0..50_i64 {
        let time = |second: i64| DateTime::from_millis(1_700_000_000_000 + hour * 3_600_000 + second * 1_000);
        let measurements: Vec<Document> =
            (0..20).map(|second| doc! { "t": time(second), "m": 1, "in": { "v": hour * 100 + second } }).collect();
        server.run("d", doc! { "insert": "c", "documents": measurements });
    }
    let pipeline = vec![doc! { "$match": { "in.v": { "$gte": 700, "$lt": 710 } } }];
    assert_eq!(all(&mut server, doc! { "aggregate": "c", "pipeline": pipeline.clone(), "cursor": {} }).len(), 10);
    let explained = server.run(
        "d",
        doc! { "explain": { "aggregate": "c", "pipeline": pipeline, "cursor": {} }, "verbosity": "executionStats" },
    );
    let stages = explained.get_array("stages").unwrap();
    let cursor = stages[0].as_document().unwrap().get_document("$cursor").unwrap();
    assert!(cursor.to_string().contains("IXSCAN"), "{cursor}");
    let examined = cursor.get_document("executionStats").unwrap().get_i32("totalDocsExamined").unwrap();
    assert!(examined <= 2, "{examined}");
}

#[test]
fn a_pipeline_ends_in_a_time_series() {
    let mut server = TestServer::new();
    let time = |second: i64| DateTime::from_millis(1_700_000_000_000 + second * 1_000);
    let readings: Vec<Document> = (0..500_i64)
        .map(|number| doc! { "_id": number, "t": time(number * 30), "m": number % 3, "v": number })
        .collect();
    server.run("d", doc! { "insert": "readings", "documents": readings });
    let out = |options: Document| {
        let target = doc! { "db": "d", "coll": "series", "timeseries": options };
        doc! { "aggregate": "readings", "pipeline": [{ "$match": { "v": { "$gte": 100 } } }, { "$out": target }], "cursor": {} }
    };
    let options = doc! { "timeField": "t", "metaField": "m", "granularity": "minutes" };
    let count = |server: &mut TestServer| server.run("d", doc! { "count": "series" }).get_i32("n").unwrap();
    let indexes = |server: &mut TestServer| all(server, doc! { "listIndexes": "series" }).len();
    server.run("d", out(options.clone()));
    assert_eq!((count(&mut server), indexes(&mut server)), (400, 1));
    let listed = all(&mut server, doc! { "listCollections": 1, "filter": { "type": "timeseries" } });
    assert_eq!(listed.len(), 1);
    server.run("d", doc! { "createIndexes": "series", "indexes": [{ "key": { "v": 1 }, "name": "v" }] });
    // What is there is replaced, as what it is, with its indexes.
    let replaced = doc! { "aggregate": "readings", "pipeline": [{ "$limit": 7 }, { "$out": "series" }], "cursor": {} };
    server.run("d", replaced);
    assert_eq!((count(&mut server), indexes(&mut server)), (7, 2));
    server.run("d", out(options.clone()));
    assert_eq!((count(&mut server), indexes(&mut server)), (400, 2));
    for refused in [doc! { "timeField": "t" }, doc! { "timeField": "v" }, doc! {}] {
        server.fail("d", out(refused));
    }
    let no_time = doc! { "aggregate": "readings", "pipeline": [{ "$unset": "t" }, { "$out": "series" }], "cursor": {} };
    server.fail("d", no_time);
    let onto_plain = doc! { "db": "d", "coll": "readings", "timeseries": options };
    server.fail("d", doc! { "aggregate": "readings", "pipeline": [{ "$out": onto_plain }], "cursor": {} });
    assert_eq!(count(&mut server), 400);
    let names = all(&mut server, doc! { "listCollections": 1, "nameOnly": true });
    assert_eq!(names.len(), 3, "readings, the series and its buckets: {names:?}");
}

#[test]
fn an_unordered_insert_goes_on_after_what_fails() {
    let mut server = TestServer::new();
    server.run("d", doc! { "create": "c", "timeseries": { "timeField": "t", "metaField": "m" } });
    let documents = [
        doc! { "t": DateTime::from_millis(1), "m": 1 },
        doc! { "t": "never", "m": 1 },
        doc! { "t": DateTime::from_millis(2), "m": 2 },
    ];
    let insert = |ordered: bool| doc! { "insert": "c", "documents": documents.to_vec(), "ordered": ordered };
    assert_eq!(server.run("d", insert(true)).get_i32("n").unwrap(), 1);
    let reply = server.run("d", insert(false));
    assert_eq!((reply.get_i32("n").unwrap(), reply.get_array("writeErrors").unwrap().len()), (2, 1));
}
