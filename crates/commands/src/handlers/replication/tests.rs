//! A replica set of one as a client sees it.

mod several_members;

use bson::{Bson, Document, doc};

use crate::test_server::TestServer;
use crate::{Attempt, Initiation, ReplicaSetFacts};

fn member(initiation: Initiation) -> TestServer {
    TestServer::of_replica_set(ReplicaSetFacts {
        name: "rs0".to_owned(),
        advertised: None,
        address: "127.0.0.1:27018".to_owned(),
        initiation,
    })
}

fn configuration(version: i32, host: &str) -> Document {
    doc! {"_id": "rs0", "version": version, "members": [{"_id": 0, "host": host, "tags": {"dc": "east"}}]}
}

#[test]
fn a_member_without_a_configuration_says_so_and_refuses_data() {
    let mut server = member(Initiation::OnCommand);
    let hello = server.run("admin", doc! {"hello": 1});
    assert!(!hello.get_bool("isWritablePrimary").unwrap() && !hello.get_bool("secondary").unwrap());
    assert!(hello.get_bool("isreplicaset").unwrap());
    assert!(!hello.contains_key("setName") && !hello.contains_key("msg"));
    let refused = server.send("test", doc! {"insert": "c", "documents": [{"a": 1}]}, Attempt::First).unwrap();
    assert_eq!(refused.get_i32("code").unwrap(), 10107);
    assert_eq!(refused.get("topologyVersion"), hello.get("topologyVersion"));
    assert_eq!(server.fail("test", doc! {"find": "c"}).0, 13435);
    assert_eq!(server.fail("admin", doc! {"replSetGetStatus": 1}).0, 94);
    assert_eq!(server.fail("admin", doc! {"replSetGetConfig": 1}).0, 94);
    server.run("local", doc! {"find": "system.replset"});
    server.run("admin", doc! {"ping": 1});
}

#[test]
fn initiation_makes_it_the_primary_and_wakes_who_waits() {
    let mut server = member(Initiation::OnCommand);
    let topology = server.run("admin", doc! {"hello": 1}).get_document("topologyVersion").unwrap().clone();
    let waiting = doc! {"hello": 1, "topologyVersion": topology, "maxAwaitTimeMS": 10_000};
    assert!(server.send("admin", waiting.clone(), Attempt::First).is_none());
    assert_eq!(
        server.fail("admin", doc! {"replSetInitiate": {"_id": "other", "members": [{"_id": 0, "host": "h:1"}]}}).0,
        93
    );
    server.run("admin", doc! {"replSetInitiate": configuration(1, "db1.example:4711")});
    assert_eq!(*server.hooks.topology_changes.lock(), 1);
    let hello = server.run("admin", waiting);
    for name in ["me", "primary"] {
        assert_eq!(hello.get_str(name).unwrap(), "db1.example:4711");
    }
    assert_eq!(hello.get("hosts"), Some(&Bson::from(vec!["db1.example:4711"])));
    assert_eq!((hello.get_str("setName").unwrap(), hello.get_i32("setVersion").unwrap()), ("rs0", 1));
    assert_eq!(hello.get_object_id("electionId").unwrap().to_hex(), "7fffffff0000000000000001");
    assert_eq!(hello.get_document("tags").unwrap(), &doc! {"dc": "east"});
    let written = hello.get_document("lastWrite").unwrap().get_document("opTime").unwrap();
    assert_eq!(written.get_i64("t").unwrap(), 1);
    assert_eq!(server.fail("admin", doc! {"replSetInitiate": configuration(1, "h:1")}).0, 23);
    server.run("test", doc! {"insert": "c", "documents": [{"a": 1}]});
    let stored = server.run("local", doc! {"find": "system.replset"});
    let stored = stored.get_document("cursor").unwrap().get_array("firstBatch").unwrap();
    assert_eq!(stored[0].as_document().unwrap().get_str("_id").unwrap(), "rs0");
}

#[test]
fn initiation_without_a_configuration_takes_its_own_address() {
    let mut server = member(Initiation::OnCommand);
    let reply = server.run("admin", doc! {"replSetInitiate": {}});
    assert_eq!(reply.get_str("me").unwrap(), "127.0.0.1:27018");
    assert_eq!(server.run("admin", doc! {"hello": 1}).get_str("me").unwrap(), "127.0.0.1:27018");
}

#[test]
fn each_start_is_a_term_of_its_own() {
    let mut server = member(Initiation::Automatic);
    let term = |server: &mut TestServer| {
        let hello = server.run("admin", doc! {"hello": 1});
        let last = hello.get_object_id("electionId").unwrap().bytes()[11];
        let status = server.run("admin", doc! {"replSetGetStatus": 1});
        assert_eq!(status.get_i64("term").unwrap(), i64::from(last));
        assert_eq!(hello.get_i32("setVersion").unwrap(), 1);
        last
    };
    assert_eq!(term(&mut server), 1);
    server.run("test", doc! {"insert": "c", "documents": [{"_id": 1}]});
    let mut server = server.restarted();
    assert_eq!(term(&mut server), 2);
    server.run("test", doc! {"insert": "c", "documents": [{"_id": 2}]});
    let found = server.run("local", doc! {"find": "oplog.rs", "filter": {"op": {"$in": ["i", "n"]}}});
    let found = found.get_document("cursor").unwrap().get_array("firstBatch").unwrap();
    let told: Vec<(i64, String)> = found
        .iter()
        .map(|entry| {
            let entry = entry.as_document().unwrap();
            let object = entry.get_document("o").unwrap();
            let what = object.get_str("msg").map_or_else(|_| object.get("_id").unwrap().to_string(), str::to_owned);
            (entry.get_i64("t").unwrap(), what)
        })
        .collect();
    let expected = [(-1, "initiating set"), (1, "new primary"), (1, "1"), (2, "new primary"), (2, "2")];
    assert_eq!(told, expected.map(|(term, what)| (term, what.to_owned())));
}

#[test]
fn what_was_told_of_the_set_survives_a_loss_of_power() {
    let mut server = member(Initiation::Automatic);
    let mut identities = Vec::new();
    for round in 1..4_i32 {
        let hello = server.run("admin", doc! {"hello": 1});
        identities.push(hello.get_object_id("electionId").unwrap());
        assert_eq!(hello.get_i32("setVersion").unwrap(), round);
        let mut changed = server.run("admin", doc! {"replSetGetConfig": 1}).get_document("config").unwrap().clone();
        changed.insert("version", round + 1);
        server.run("admin", doc! {"replSetReconfig": changed});
        server.run("admin", doc! {"setDefaultRWConcern": 1, "defaultWriteConcern": {"w": 1, "wtimeout": round}});
        server = server.after_power_loss();
        let kept = server.run("admin", doc! {"getDefaultRWConcern": 1});
        assert_eq!(kept.get_document("defaultWriteConcern").unwrap(), &doc! {"w": 1, "wtimeout": round});
    }
    assert!(identities.is_sorted_by(|earlier, later| earlier < later), "{identities:?}");
}

#[test]
fn reconfiguration_needs_a_greater_version_and_the_same_identity() {
    let mut server = member(Initiation::Automatic);
    let mut current = server.run("admin", doc! {"replSetGetConfig": 1}).get_document("config").unwrap().clone();
    assert_eq!(server.fail("admin", doc! {"replSetReconfig": current.clone()}).0, 103);
    current.insert("version", 2);
    current.insert("members", vec![doc! {"_id": 0, "host": "elsewhere:1", "priority": 3.0, "tags": {"dc": "west"}}]);
    server.run("admin", doc! {"replSetReconfig": current.clone()});
    let hello = server.run("admin", doc! {"hello": 1});
    assert_eq!((hello.get_str("me").unwrap(), hello.get_i32("setVersion").unwrap()), ("elsewhere:1", 2));
    let mut other = current.clone();
    other.insert("version", 3);
    other.get_document_mut("settings").unwrap().insert("replicaSetId", bson::oid::ObjectId::from_bytes([1; 12]));
    assert_eq!(server.fail("admin", doc! {"replSetReconfig": other}).0, 103);
    server.run("admin", doc! {"replSetReconfig": current, "force": true});
    let mut server = server.restarted();
    let kept = server.run("admin", doc! {"replSetGetConfig": 1, "commitmentStatus": true});
    assert!(kept.get_bool("commitmentStatus").unwrap());
    let kept = kept.get_document("config").unwrap();
    assert_eq!(kept.get_i32("version").unwrap(), 10_002);
    assert_eq!(kept.get_i64("term").unwrap(), 2);
}

#[test]
fn what_the_only_member_cannot_do_is_refused_with_the_reason() {
    let mut server = member(Initiation::Automatic);
    let (code, message) = server.fail("admin", doc! {"replSetStepDown": 60});
    assert_eq!(code, 262);
    assert!(message.contains("only member"), "{message}");
    assert_eq!(server.fail("admin", doc! {"replSetStepDown": 60, "force": true}).0, 238);
    assert_eq!(server.fail("admin", doc! {"replSetStepDown": -1}).0, 2);
    assert_eq!(server.fail("admin", doc! {"replSetStepDown": 5, "secondaryCatchUpPeriodSecs": 9}).0, 2);
    assert_eq!(server.fail("admin", doc! {"replSetFreeze": 5}).0, 95);
    assert_eq!(server.fail("admin", doc! {"replSetSyncFrom": "h:1"}).0, 95);
    assert_eq!(server.fail("admin", doc! {"replSetHeartbeat": "rs0"}).0, 59);
}

#[test]
fn a_server_of_its_own_is_no_member() {
    let mut server = TestServer::new();
    let commands = [
        doc! {"replSetGetStatus": 1},
        doc! {"replSetGetConfig": 1},
        doc! {"replSetInitiate": {}},
        doc! {"replSetReconfig": configuration(2, "h:1")},
        doc! {"replSetStepDown": 60},
        // Whatever else is wrong with it.
        doc! {"replSetStepDown": 1},
        doc! {"replSetFreeze": 0},
    ];
    for command in commands {
        assert_eq!(server.fail("admin", command.clone()).0, 76, "{command}");
    }
    assert_eq!(server.run("admin", doc! {"hello": 1}).get_str("msg").unwrap(), "isdbgrid");
    assert_eq!(server.run("admin", doc! {"isdbgrid": 1}).get_i32("isdbgrid").unwrap(), 1);
}

#[test]
fn a_member_is_no_router() {
    let mut server = member(Initiation::Automatic);
    assert_eq!(server.fail("admin", doc! {"isdbgrid": 1}).0, 59);
}

#[test]
fn another_sets_data_is_refused() {
    let server = member(Initiation::Automatic);
    let refused = server.try_restarted(Some(ReplicaSetFacts {
        name: "rs1".to_owned(),
        advertised: None,
        address: "127.0.0.1:27018".to_owned(),
        initiation: Initiation::Automatic,
    }));
    assert_eq!(refused.err().unwrap().code, 93);
}

#[test]
fn notes_are_logged_and_move_the_time_on() {
    let mut server = member(Initiation::Automatic);
    let reply = server.send("admin", doc! {"appendOplogNote": 1, "data": {"from": "a tool"}}, Attempt::First).unwrap();
    let time = reply.get_timestamp("operationTime").unwrap();
    let found = server.run("local", doc! {"find": "oplog.rs", "sort": {"$natural": -1}, "limit": 1});
    let last = found.get_document("cursor").unwrap().get_array("firstBatch").unwrap()[0].as_document().unwrap();
    assert_eq!((last.get_str("op").unwrap(), last.get_document("o").unwrap()), ("n", &doc! {"from": "a tool"}));
    assert_eq!(last.get_timestamp("ts").unwrap(), time);
    let stale = doc! {"appendOplogNote": 1, "data": {}, "maxClusterTime": time};
    assert_eq!(server.fail("admin", stale).0, 209);
    assert_eq!(server.fail("admin", doc! {"appendOplogNote": 1}).0, 40414);
}

/// The error of a write concern in a reply that says that the command succeeded.
fn concern_error(server: &mut TestServer, database: &str, command: Document) -> Option<(i32, String)> {
    let reply = server.run(database, command);
    let error = reply.get_document("writeConcernError").ok()?;
    Some((error.get_i32("code").unwrap(), error.get_str("codeName").unwrap().to_owned()))
}

#[test]
fn a_write_concern_that_one_member_cannot_satisfy_is_told_after_the_write() {
    let too_few = Some((100, "UnsatisfiableWriteConcern".to_owned()));
    for mut server in [TestServer::new(), member(Initiation::Automatic)] {
        let insert = |id: i32, w: Bson| doc! {"insert": "c", "documents": [{"_id": id}], "writeConcern": {"w": w}};
        assert_eq!(concern_error(&mut server, "test", insert(1, 2.into())), too_few);
        assert_eq!(concern_error(&mut server, "test", insert(2, "elsewhere".into())).unwrap().0, 79);
        assert_eq!(concern_error(&mut server, "test", insert(3, "majority".into())), None);
        assert_eq!(server.run("test", doc! {"count": "c"}).get_i32("n").unwrap(), 3);
        assert_eq!(server.fail("test", insert(4, 51.into())).0, 9);
        let out = doc! {"aggregate": "c", "pipeline": [{"$out": "d"}], "cursor": {}, "writeConcern": {"w": 2}};
        assert_eq!(concern_error(&mut server, "test", out), too_few);
        assert_eq!(server.run("test", doc! {"count": "d"}).get_i32("n").unwrap(), 3);
    }
}

#[test]
fn a_named_write_concern_is_that_of_the_configuration() {
    let mut server = member(Initiation::OnCommand);
    let mut initial = configuration(1, "h:1");
    initial.insert("settings", doc! {"getLastErrorModes": {"here": {"dc": 1}, "two": {"dc": 2}}});
    server.run("admin", doc! {"replSetInitiate": initial});
    let create = |name: &str, w: &str| doc! {"create": name, "writeConcern": {"w": w}};
    assert_eq!(concern_error(&mut server, "test", create("a", "here")), None);
    assert_eq!(concern_error(&mut server, "test", create("b", "two")).unwrap().0, 100);
}

#[test]
fn the_default_write_concern_is_kept_and_obeyed() {
    let mut server = member(Initiation::Automatic);
    let implicit = server.run("admin", doc! {"getDefaultRWConcern": 1});
    assert_eq!(implicit.get_document("defaultWriteConcern").unwrap().get_str("w").unwrap(), "majority");
    assert_eq!(implicit.get_str("defaultWriteConcernSource").unwrap(), "implicit");
    let mut alone = TestServer::new();
    let implicit = alone.run("admin", doc! {"getDefaultRWConcern": 1});
    assert_eq!(implicit.get_document("defaultWriteConcern").unwrap().get_i32("w").unwrap(), 1);
    let refused = [
        (doc! {"setDefaultRWConcern": 1}, 2),
        (doc! {"setDefaultRWConcern": 1, "defaultWriteConcern": {"w": 0}}, 2),
        (doc! {"setDefaultRWConcern": 1, "defaultWriteConcern": {"j": true}}, 2),
        (doc! {"setDefaultRWConcern": 1, "defaultWriteConcern": {"w": 2}}, 100),
        (doc! {"setDefaultRWConcern": 1, "defaultReadConcern": {"level": "linearizable"}}, 2),
    ];
    for (command, code) in refused {
        assert_eq!(server.fail("admin", command.clone()).0, code, "{command}");
    }
    let set =
        doc! {"setDefaultRWConcern": 1, "defaultWriteConcern": {"w": 1}, "defaultReadConcern": {"level": "majority"}};
    server.run("admin", set);
    let unset = doc! {"setDefaultRWConcern": 1, "defaultWriteConcern": {}};
    assert_eq!(server.fail("admin", unset).0, 20);
    let mut server = server.restarted();
    let kept = server.run("admin", doc! {"getDefaultRWConcern": 1});
    assert_eq!(kept.get_document("defaultWriteConcern").unwrap(), &doc! {"w": 1, "wtimeout": 0});
    assert_eq!(kept.get_document("defaultReadConcern").unwrap(), &doc! {"level": "majority"});
    assert_eq!(kept.get_str("defaultReadConcernSource").unwrap(), "global");
    assert!(kept.get_timestamp("updateOpTime").is_ok());
}

#[test]
fn a_default_write_concern_holds_for_commands_that_name_none() {
    let mut server = member(Initiation::OnCommand);
    let mut initial = configuration(1, "h:1");
    initial.insert("settings", doc! {"getLastErrorModes": {"here": {"dc": 1}}});
    server.run("admin", doc! {"replSetInitiate": initial});
    server.run("admin", doc! {"setDefaultRWConcern": 1, "defaultWriteConcern": {"w": "here"}});
    assert_eq!(concern_error(&mut server, "test", doc! {"insert": "c", "documents": [{"_id": 1}]}), None);
    let config = doc! {"_id": "rs0", "version": 2, "members": [{"_id": 0, "host": "h:1"}]};
    server.run("admin", doc! {"replSetReconfig": config});
    let insert = |id: i32| doc! {"insert": "c", "documents": [{"_id": id}]};
    assert_eq!(concern_error(&mut server, "test", insert(2)).unwrap().0, 79);
    let mut explicit = insert(3);
    explicit.insert("writeConcern", doc! {"w": 1});
    assert_eq!(concern_error(&mut server, "test", explicit), None);
}

#[test]
fn a_server_of_its_own_gives_recovery_tokens_as_routers_do() {
    let lsid = doc! {"id": Bson::Binary(bson::Binary::from(bson::Uuid::from_bytes([7; 16])))};
    let session = |command: Document, starts: bool| {
        let mut command = command;
        command.extend(doc! {"lsid": lsid.clone(), "txnNumber": 1i64, "autocommit": false});
        if starts {
            command.insert("startTransaction", true);
        }
        command
    };
    for (mut server, gives) in [(TestServer::new(), true), (member(Initiation::Automatic), false)] {
        let insert = session(doc! {"insert": "c", "documents": [{"_id": 1}]}, true);
        assert_eq!(server.run("test", insert).contains_key("recoveryToken"), gives);
        let find = session(doc! {"find": "c"}, false);
        assert_eq!(server.run("test", find).contains_key("recoveryToken"), gives);
        let mut commit = session(doc! {"commitTransaction": 1, "writeConcern": {"w": 2}}, false);
        commit.insert("recoveryToken", doc! {"recoveryShardId": "plimsoll"});
        let reply = server.run("admin", commit);
        assert_eq!(reply.contains_key("recoveryToken"), gives);
        assert_eq!(reply.get_document("writeConcernError").unwrap().get_i32("code").unwrap(), 100);
        assert_eq!(server.run("test", doc! {"count": "c"}).get_i32("n").unwrap(), 1);
    }
}

#[test]
fn server_status_tells_of_the_set() {
    let mut server = member(Initiation::Automatic);
    let status = server.run("admin", doc! {"serverStatus": 1});
    let section = status.get_document("repl").unwrap();
    assert_eq!((section.get_str("setName").unwrap(), section.get_str("me").unwrap()), ("rs0", "127.0.0.1:27018"));
    assert!(section.get_bool("isWritablePrimary").unwrap());
    assert!(!TestServer::new().run("admin", doc! {"serverStatus": 1}).contains_key("repl"));
}
