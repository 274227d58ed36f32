//! The diagnostics and session commands as a client sees them.

use bson::{Bson, Document, doc};

use crate::Attempt;
use crate::test_server::TestServer;

/// The names of a document's fields.
fn names(document: &Document) -> Vec<&str> {
    document.keys().map(String::as_str).collect()
}

#[test]
fn hello_says_what_drivers_look_for() {
    let mut server = TestServer::new();
    let reply = server.run(
        "admin",
        doc! {
            "hello": 1, "helloOk": true, "compression": ["zstd", "lzo", "snappy"], "$db": "admin",
            "client": {"driver": {"name": "d", "version": "1"}, "os": {"type": "Linux"}},
            "backpressure": "2", "saslSupportedMechs": "admin.someone", "speculativeAuthenticate": {"saslStart": 1},
        },
    );
    assert_eq!(reply.get("compression"), Some(&Bson::from(vec!["zstd", "snappy"])));
    for name in ["helloOk", "ismaster", "isWritablePrimary"] {
        assert!(reply.get_bool(name).unwrap(), "{name}");
    }
    let figures = [
        ("maxBsonObjectSize", 16_777_216),
        ("maxMessageSizeBytes", 48_000_000),
        ("maxWriteBatchSize", 100_000),
        ("logicalSessionTimeoutMinutes", 30),
        ("minWireVersion", 0),
        ("maxWireVersion", 25),
        ("connectionId", 1),
    ];
    figures.iter().for_each(|(name, value)| assert_eq!(reply.get_i32(name).unwrap(), *value, "{name}"));
    assert!(!reply.get_bool("readOnly").unwrap());
    assert!(reply.get_datetime("localTime").is_ok());
    let again = doc! {"ismaster": 1, "client": {"driver": {}, "os": {}}};
    assert_eq!(server.fail("admin", again).0, 186);
    assert_eq!(server.fail("admin", doc! {"hello": 1, "loadBalanced": true}).0, 238);
    assert_eq!(server.fail("admin", doc! {"hello": 1, "helo": true}).0, 40415);
}

#[test]
fn hello_waits_for_a_topology_that_does_not_change() {
    let mut server = TestServer::new();
    let topology = server.run("admin", doc! {"hello": 1}).get_document("topologyVersion").unwrap().clone();
    assert_eq!(topology.get_i64("counter").unwrap(), 0);
    let command = doc! {"hello": 1, "topologyVersion": topology.clone(), "maxAwaitTimeMS": 10_000};
    assert!(server.send("admin", command.clone(), Attempt::First).is_none());
    for attempt in [Attempt::AfterWait, Attempt::Following] {
        assert!(server.send("admin", command.clone(), attempt).is_some());
    }
    let other = doc! {"processId": bson::oid::ObjectId::from_bytes([1; 12]), "counter": 5i64};
    server.run("admin", doc! {"hello": 1, "topologyVersion": other, "maxAwaitTimeMS": 10_000});
    assert_eq!(server.fail("admin", doc! {"hello": 1, "topologyVersion": topology.clone()}).0, 31368);
    assert_eq!(server.fail("admin", doc! {"hello": 1, "maxAwaitTimeMS": 5}).0, 31368);
    let newer = doc! {"processId": topology.get_object_id("processId").unwrap(), "counter": 1i64};
    assert_eq!(server.fail("admin", doc! {"hello": 1, "topologyVersion": newer, "maxAwaitTimeMS": 5}).0, 31382);
}

#[test]
fn hello_tells_of_a_change_of_topology_and_of_the_end() {
    let mut server = TestServer::new();
    let topology = server.run("admin", doc! {"hello": 1}).get_document("topologyVersion").unwrap().clone();
    let command = doc! {"hello": 1, "topologyVersion": topology.clone(), "maxAwaitTimeMS": 10_000};
    server.dispatcher.server().topology_changed();
    assert_eq!(*server.hooks.topology_changes.lock(), 1, "those who wait are woken");
    let changed = server.run("admin", command.clone()).get_document("topologyVersion").unwrap().clone();
    assert_eq!((changed.get_i64("counter").unwrap(), changed.get("processId")), (1, topology.get("processId")));
    server.dispatcher.server().stop();
    assert_eq!(*server.hooks.topology_changes.lock(), 2);
    let stopping = server.send("admin", command, Attempt::AfterWait).unwrap();
    assert_eq!(stopping.get_i32("code").unwrap(), 91);
    assert_eq!(stopping.get_document("topologyVersion").unwrap().get_i64("counter").unwrap(), 2);
}

#[test]
fn clients_may_hold_themselves_to_the_stable_api() {
    let mut server = TestServer::new();
    server.run("admin", doc! {"ping": 1, "apiVersion": "1", "apiStrict": true, "apiDeprecationErrors": true});
    server.run("admin", doc! {"serverStatus": 1, "apiVersion": "1"});
    let strict = doc! {"serverStatus": 1, "apiVersion": "1", "apiStrict": true};
    assert_eq!(server.fail("admin", strict).0, 323);
    for (command, code) in [
        (doc! {"ping": 1, "apiStrict": true}, 4_886_600),
        (doc! {"ping": 1, "apiDeprecationErrors": true}, 4_886_600),
        (doc! {"ping": 1, "apiVersion": "2"}, 322),
        (doc! {"ping": 1, "apiVersion": 1}, 14),
        (doc! {"ping": 1, "apiVersion": "1", "apiStrict": 1}, 14),
    ] {
        assert_eq!(server.fail("admin", command.clone()).0, code, "{command}");
    }
}

#[test]
fn times_that_no_clock_has_reached_are_refused() {
    let mut server = TestServer::new();
    let now = u32::try_from(platform::Clock::wall_millis(&*server.clock) / 1000).unwrap();
    let sent = |time| doc! {"ping": 1, "$clusterTime": {"clusterTime": bson::Timestamp { time, increment: 1 }}};
    server.run("admin", sent(1));
    server.run("admin", sent(now + 3600));
    let reply = server.send("admin", sent(now + 2 * 365 * 86400), Attempt::First).unwrap();
    let code_name = reply.get_str("codeName").unwrap();
    assert_eq!((reply.get_i32("code").unwrap(), code_name), (202, "ClusterTimeFailsRateLimiter"));
    assert_eq!(server.fail("admin", doc! {"ping": 1, "$clusterTime": 5}).0, 14);
    assert_eq!(server.fail("admin", doc! {"ping": 1, "$clusterTime": {"clusterTime": 5}}).0, 14);
    assert_eq!(server.fail("admin", doc! {"ping": 1, "$clusterTime": {}}).0, 4);
}

#[test]
fn facts_about_the_server() {
    let mut server = TestServer::new();
    let build = server.run("admin", doc! {"buildinfo": 1});
    assert_eq!(build.get_str("version").unwrap(), "8.0.16");
    assert_eq!(build.get("versionArray"), Some(&Bson::from(vec![8, 0, 16, 0])));
    assert_eq!(build.get_i32("maxBsonObjectSize").unwrap(), 16_777_216);
    let host = server.run("admin", doc! {"hostInfo": 1});
    assert!(host.get_document("system").unwrap().get_i64("memSizeMB").unwrap() > 0);
    assert_eq!(server.run("admin", doc! {"whatsmyuri": 1}).get_str("you").unwrap(), "127.0.0.1:50000");
    let options = server.run("admin", doc! {"getCmdLineOpts": 1});
    assert_eq!(options.get("argv"), Some(&Bson::from(vec!["plimsoll"])));
    let status = server.run("admin", doc! {"connectionStatus": 1, "showPrivileges": true});
    let expected = ["authenticatedUsers", "authenticatedUserRoles", "authenticatedUserPrivileges"];
    assert_eq!(names(status.get_document("authInfo").unwrap()), expected);
    let commands = server.run("admin", doc! {"listCommands": 1});
    assert!(commands.get_document("commands").unwrap().contains_key("insert"));
    server.run("test", doc! {"ping": 1});
    assert_eq!(server.fail("admin", doc! {"ping": 1, "pong": 1}).0, 40415);
    assert_eq!(server.fail("test", doc! {"getCmdLineOpts": 1}).0, 13);
}

#[test]
fn parameters_are_found_by_name() {
    let mut server = TestServer::new();
    let one = server.run("admin", doc! {"getParameter": 1, "featureCompatibilityVersion": 1, "nonsense": 1});
    assert_eq!(one.get_document("featureCompatibilityVersion").unwrap(), &doc! {"version": "8.0"});
    let all = server.run("admin", doc! {"getParameter": "*"});
    assert!(!all.get_bool("enableTestCommands").unwrap());
    let none = server.fail("admin", doc! {"getParameter": 1, "nonsense": 1});
    assert_eq!(none, (72, "no option found to get".to_owned()));
}

#[test]
fn the_number_of_tickets_can_be_fixed() {
    let mut server = TestServer::new();
    let algorithm = "storageEngineConcurrencyAdjustmentAlgorithm";
    let writes = "storageEngineConcurrentWriteTransactions";
    let found = server.run("admin", doc! {"getParameter": 1, algorithm: 1, writes: 1});
    assert_eq!(found.get_str(algorithm).unwrap(), "throughputProbing");
    assert!(found.get_i32(writes).unwrap() > 0);
    // As long as the server finds it, nobody else sets it.
    assert_eq!(server.fail("admin", doc! {"setParameter": 1, writes: 40}).0, 20);
    assert_eq!(server.fail("admin", doc! {"setParameter": 1, algorithm: "guessing"}).0, 2);
    let before = server.run("admin", doc! {"setParameter": 1, algorithm: "fixedConcurrentTransactions"});
    assert_eq!(before.get_str("was").unwrap(), "throughputProbing");
    assert_eq!(server.fail("admin", doc! {"setParameter": 1, writes: 0}).0, 2);
    server.run("admin", doc! {"setParameter": 1, writes: 40});
    let found = server.run("admin", doc! {"getParameter": 1, writes: 1});
    assert_eq!(found.get_i32(writes).unwrap(), 40);
}

#[test]
fn the_log_is_shown() {
    let mut server = TestServer::new();
    let names = server.run("admin", doc! {"getLog": "*"});
    assert_eq!(names.get("names"), Some(&Bson::from(vec!["global", "startupWarnings"])));
    let log = server.run("admin", doc! {"getLog": "global"});
    assert_eq!(log.get_i32("totalLinesWritten").unwrap(), 12);
    assert_eq!(log.get_array("log").unwrap().len(), 1);
    let warnings = server.run("admin", doc! {"getLog": "startupWarnings"});
    assert_eq!(warnings.get_i32("totalLinesWritten").unwrap(), 1);
    assert_eq!(warnings.get("log"), Some(&Bson::from(vec!["{\"msg\":\"open to all\"}"])));
    assert_eq!(server.fail("admin", doc! {"getLog": "x"}), (96, "no RamLog named: x".to_owned()));
    assert_eq!(server.fail("admin", doc! {"getLog": 1}).0, 14);
}

#[test]
fn server_status_counts() {
    let mut server = TestServer::new();
    server.insert("db", "c", 0..3);
    let status = server.run("admin", doc! {"serverStatus": 1, "recordStats": 0});
    assert_eq!(status.get_str("host").unwrap(), "machine:27018");
    assert_eq!(status.get_document("opcounters").unwrap().get_i64("insert").unwrap(), 3);
    let connections = doc! {"current": 1, "available": 99, "totalCreated": 5, "rejected": 0, "active": 0};
    assert_eq!(status.get_document("connections").unwrap(), &connections);
    let network = status.get_document("network").unwrap();
    assert_eq!((network.get_i64("bytesIn").unwrap(), network.get_i64("physicalBytesIn").unwrap()), (100, 90));
    let documents = status.get_document("metrics").unwrap().get_document("document").unwrap();
    assert_eq!(documents.get_i64("inserted").unwrap(), 3);
    let ours = status.get_document("plimsoll").unwrap();
    assert_eq!(ours.get_document("heldBack").unwrap().get_str("what").unwrap(), "nothing");
    assert!(ours.get_document("oplog").unwrap().get_i64("appendedEntries").unwrap() >= 4);
    assert_eq!(ours.get_i64("clientPageWrites").unwrap(), 0);
    let without = server.run("admin", doc! {"serverStatus": 1, "plimsoll": 0, "wiredTiger": 0});
    assert!(!without.contains_key("plimsoll") && without.contains_key("mem"));
    let only = server.run("admin", doc! {"serverStatus": 1, "none": 1, "mem": 1});
    assert!(only.contains_key("mem") && !only.contains_key("opcounters"));
    // A section that a server of MongoDB may have or not.
    assert!(!server.run("admin", doc! {"serverStatus": 1, "tcmalloc": 1}).contains_key("tcmalloc"));
    let top = server.run("admin", doc! {"top": 1});
    let entry = top.get_document("totals").unwrap().get_document("db.c").unwrap();
    assert_eq!(entry.get_document("writeLock").unwrap().get_i64("count").unwrap(), 1);
}

#[test]
fn running_commands_are_listed_and_killed() {
    let mut server = TestServer::new();
    let listed = server.run("admin", doc! {"currentOp": 1, "$ownOps": true, "active": true, "op": "command"});
    let entries = listed.get_array("inprog").unwrap();
    let [Bson::Document(own)] = entries.as_slice() else { panic!("{entries:?}") };
    assert_eq!(own.get_str("desc").unwrap(), "conn1");
    assert_eq!(own.get_str("ns").unwrap(), "admin.$cmd");
    assert!(own.get_document("command").unwrap().get_bool("$ownOps").unwrap());
    let none = server.run("admin", doc! {"currentOp": 1, "secs_running": {"$gt": 100}});
    assert!(none.get_array("inprog").unwrap().is_empty());
    let killed = server.run("admin", doc! {"killOp": 1, "op": 12345});
    assert_eq!(killed.get_str("info").unwrap(), "attempting to kill op");
    assert_eq!(server.fail("admin", doc! {"killOp": 1}).0, 4);
}

#[test]
fn orders_to_the_server() {
    let mut server = TestServer::new();
    server.insert("db", "c", 0..3);
    assert_eq!(server.run("admin", doc! {"fsync": 1}).get_i32("numFiles").unwrap(), 1);
    assert_eq!(server.fail("admin", doc! {"fsyncUnlock": 1}).0, 20);
    assert_eq!(server.run("admin", doc! {"fsync": 1, "lock": true}).get_i64("lockCount").unwrap(), 1);
    assert!(server.run("admin", doc! {"currentOp": 1}).get_bool("fsyncLock").unwrap());
    assert_eq!(server.run("admin", doc! {"fsyncUnlock": 1}).get_i64("lockCount").unwrap(), 0);
    server.insert("db", "c", 3..4);
    assert_eq!(server.fail("admin", doc! {"logRotate": 1}), (96, "there is no log file".to_owned()));
    let refused = (96, "Certificate rotation failed: there are no certificates".to_owned());
    assert_eq!(server.fail("admin", doc! {"rotateCertificates": 1, "message": "the yearly ones"}), refused);
    assert_eq!(server.fail("admin", doc! {"rotateCertificates": 1, "message": 3}).0, 14);
    // It closes the connection instead of answering.
    assert!(server.send("admin", doc! {"shutdown": 1, "force": true, "timeoutSecs": 1}, Attempt::First).is_none());
    assert_eq!(*server.hooks.shutdowns.lock(), 1);
}

#[test]
fn sessions_begin_and_end() {
    let mut server = TestServer::new();
    let started = server.run("admin", doc! {"startSession": 1});
    assert_eq!(started.get_i32("timeoutMinutes").unwrap(), 30);
    let id = started.get_document("id").unwrap().clone();
    let count = |server: &TestServer| server.dispatcher.server().store.sessions().count();
    assert_eq!(count(&server), 1);
    server.run("admin", doc! {"refreshSessions": [id.clone()]});
    server.clock.advance(std::time::Duration::from_secs(60));
    server.run("admin", doc! {"endSessions": [id]});
    assert_eq!(count(&server), 0);
    assert_eq!(server.fail("admin", doc! {"endSessions": [{"id": 1}]}).0, 14);
    assert_eq!(server.fail("admin", doc! {"endSessions": 1}).0, 14);
}

#[test]
fn when_writes_have_stopped_hello_and_server_status_say_why_and_what_to_do() {
    let facts = crate::state::replica_set::ReplicaSetFacts {
        name: "rs".to_owned(),
        advertised: None,
        address: "127.0.0.1:27017".to_owned(),
        initiation: crate::Initiation::Automatic,
    };
    for mut server in [TestServer::new(), TestServer::of_replica_set(facts)] {
        server.run("db", doc! {"insert": "c", "documents": [{"_id": 1}]});
        let before = server.run("admin", doc! {"hello": 1});
        assert!(before.get_bool("isWritablePrimary").unwrap() && before.get("info").is_none());
        let status = server.run("admin", doc! {"serverStatus": 1});
        let writes =
            |status: &Document| status.get_document("plimsoll").unwrap().get_document("writes").unwrap().clone();
        assert!(writes(&status).get_bool("areAccepted").unwrap());
        server.take_directory_away();
        let hello = server.run("admin", doc! {"hello": 1});
        assert!(!hello.get_bool("isWritablePrimary").unwrap() && !hello.get_bool("ismaster").unwrap());
        assert!(hello.get_bool("readOnly").unwrap());
        let info = hello.get_str("info").unwrap();
        assert!(info.contains("not there any more") && info.contains("started again"), "{info}");
        let counter = |hello: &Document| hello.get_document("topologyVersion").unwrap().get_i64("counter").unwrap();
        assert!(counter(&hello) > counter(&before), "clients that wait are told");
        if hello.get("setName").is_some() {
            assert!(hello.get_bool("secondary").unwrap() && hello.get("primary").is_none());
        }
        let status = server.run("admin", doc! {"serverStatus": 1});
        assert!(!writes(&status).get_bool("areAccepted").unwrap());
        assert!(writes(&status).get_str("stoppedBecause").unwrap().contains("not there any more"));
        assert!(writes(&status).get_str("advice").unwrap().contains("started again"));
        let refused = server.run("db", doc! {"insert": "c", "documents": [{"_id": 2}]});
        assert!(refused.to_string().contains("not there any more"), "{refused}");
        assert_eq!(refused.get_i32("n").unwrap(), 0);
        server.fail("admin", doc! {"fsync": 1});
        let found = server.run("db", doc! {"find": "c"});
        assert_eq!(found.get_document("cursor").unwrap().get_array("firstBatch").unwrap().len(), 1);
    }
}
