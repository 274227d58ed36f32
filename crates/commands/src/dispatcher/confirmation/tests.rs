//! Commands on a server whose commits a shared log confirms, which here does so when the test says it.

use std::time::Duration;

use bson::{Document, RawDocumentBuf, doc, rawdoc};
use collection::{Namespace, Validation};
use oplog::Oplog;
use platform::{Clock, SystemClock};
use transaction::{Leadership, WriteContext};

use crate::registry;
use crate::request::declaration::{Needs, Sees};
use crate::test_server::{TestServer, send_as};
use crate::{Attempt, ClientContext, Dispatcher};

/// Time in which a command that does not wait has answered, and one that waits has not.
const SHORT: Duration = Duration::from_millis(25);

/// A server with one confirmed document.
fn confirming() -> TestServer {
    let mut server = TestServer::new();
    server.run("test", doc! {"insert": "c", "documents": [{"_id": 1, "a": 1}]});
    let store = server.dispatcher.server().store();
    store.begin_confirming(store.oplog().end_position());
    server
}

fn confirm(dispatcher: &Dispatcher) {
    let store = dispatcher.server().store();
    store.confirm(store.oplog().end_position());
}

/// Another client's commit, which is not confirmed.
fn insert_unconfirmed(dispatcher: &Dispatcher, id: i32) {
    let store = dispatcher.server().store();
    let collection = store.collection_or_create(&Namespace::parse("test.c").unwrap()).unwrap();
    let document = rawdoc! {"_id": id, "a": "unconfirmed"};
    let commit = store.insert_document(&mut WriteContext::new(), &collection, &document, Validation::Enforce).unwrap();
    store.acknowledge(&commit, transaction::Acknowledgement::Visible).unwrap();
}

fn run_as(dispatcher: &Dispatcher, client: &mut ClientContext, command: &Document) -> Document {
    let database = command.get_str("$db").unwrap_or("test").to_owned();
    let body = RawDocumentBuf::try_from(command).unwrap();
    send_as(dispatcher, client, &database, &body, Attempt::First).unwrap()
}

/// The reply of a command, which must not come before what is there is confirmed.
#[track_caller]
fn withheld(server: &mut TestServer, command: Document) -> Document {
    let TestServer { dispatcher, client, .. } = server;
    std::thread::scope(|scope| {
        let replying = scope.spawn(|| run_as(dispatcher, client, &command));
        SystemClock::new().sleep(SHORT);
        let has_replied = replying.is_finished();
        confirm(dispatcher);
        let reply = replying.join().unwrap();
        assert!(!has_replied, "{command} was answered with what may vanish: {reply}");
        reply
    })
}

/// The reply of a command that waits for nothing.
#[track_caller]
fn at_once(server: &mut TestServer, command: Document) -> Document {
    let TestServer { dispatcher, client, .. } = server;
    std::thread::scope(|scope| {
        let replying = scope.spawn(|| run_as(dispatcher, client, &command));
        for _ in 0..400 {
            if replying.is_finished() {
                return replying.join().unwrap();
            }
            SystemClock::new().sleep(SHORT);
        }
        confirm(dispatcher);
        panic!("{command} waits: {}", replying.join().unwrap())
    })
}

fn found(reply: &Document) -> usize {
    reply.get_document("cursor").unwrap().get_array("firstBatch").unwrap().len()
}

#[test]
fn a_write_is_answered_once_it_is_confirmed_and_read_from_then_on() {
    let mut server = confirming();
    let before = at_once(&mut server, doc! {"find": "c"});
    let inserted = withheld(&mut server, doc! {"insert": "c", "documents": [{"_id": 2}]});
    assert_eq!(inserted.get_i32("n").unwrap(), 1);
    assert!(inserted.get_timestamp("operationTime").unwrap() > before.get_timestamp("operationTime").unwrap());
    assert_eq!(found(&at_once(&mut server, doc! {"find": "c"})), 2);
    insert_unconfirmed(&server.dispatcher, 3);
    let read = at_once(&mut server, doc! {"find": "c"});
    assert_eq!(found(&read), 2);
    assert_eq!(read.get("operationTime"), inserted.get("operationTime"), "its time is what it has read");
    assert_eq!(found(&at_once(&mut server, doc! {"aggregate": "c", "pipeline": [], "cursor": {}})), 2);
    assert_eq!(at_once(&mut server, doc! {"distinct": "c", "key": "_id"}).get_array("values").unwrap().len(), 2);
    assert_eq!(withheld(&mut server, doc! {"count": "c"}).get_i32("n").unwrap(), 3);
}

/// An error tells as much as a success, and so does a write that found nothing to do.
#[test]
fn what_a_command_has_learnt_from_others_is_told_once_it_is_certain() {
    let mut server = confirming();
    let learning = [
        (doc! {"insert": "c", "documents": [{"_id": 2}]}, "writeErrors"),
        (doc! {"update": "c", "updates": [{"q": {"_id": 3}, "u": {"$set": {"a": "unconfirmed"}}}]}, "n"),
        (doc! {"update": "c", "updates": [{"q": {"_id": 99}, "u": {"$set": {"a": 1}}}]}, "n"),
        (doc! {"delete": "c", "deletes": [{"q": {"_id": 99}, "limit": 1}]}, "n"),
        (doc! {"findAndModify": "c", "query": {"_id": 6}, "remove": true}, "value"),
        (doc! {"create": "c"}, "ok"),
        (doc! {"aggregate": "c", "pipeline": [{"$out": "d"}], "cursor": {}}, "cursor"),
        (doc! {"validate": "c"}, "nrecords"),
    ];
    for (id, (command, told)) in (2..).zip(learning) {
        insert_unconfirmed(&server.dispatcher, id);
        let reply = withheld(&mut server, command);
        assert!(reply.contains_key(told), "{reply}");
    }
}

#[test]
fn a_retry_is_answered_once_what_it_repeats_is_confirmed() {
    let mut server = confirming();
    let session = doc! {"id": bson::Uuid::from_bytes([7; 16])};
    let write = doc! {"insert": "c", "documents": [{"_id": 5}], "lsid": session, "txnNumber": 1_i64};
    withheld(&mut server, write.clone());
    insert_unconfirmed(&server.dispatcher, 6);
    assert_eq!(withheld(&mut server, write).get_i32("n").unwrap(), 1);
}

#[test]
fn a_change_of_definitions_is_told_to_nobody_before_it_is_confirmed() {
    let mut server = confirming();
    let namespace = Namespace::parse("test.c").unwrap();
    server.dispatcher.server().store().drop_collection(&namespace).unwrap();
    assert_eq!(found(&withheld(&mut server, doc! {"find": "c"})), 0);
    server.dispatcher.server().store().collection_or_create(&namespace).unwrap();
    assert_eq!(found(&withheld(&mut server, doc! {"listCollections": 1})), 1);
    withheld(&mut server, doc! {"create": "view", "viewOn": "c", "pipeline": []});
    insert_unconfirmed(&server.dispatcher, 1);
    assert_eq!(found(&at_once(&mut server, doc! {"find": "view"})), 0);
}

#[test]
fn waiting_ends_with_the_commands_deadline_and_with_the_term() {
    let mut server = confirming();
    let concern = |wtimeout| doc! {"w": "majority", "wtimeout": wtimeout};
    let write = |id: i32| doc! {"insert": "c", "documents": [{"_id": id}], "writeConcern": concern(1)};
    let TestServer { dispatcher, client, clock, .. } = &mut server;
    let run = |client: &mut ClientContext, command: &Document| {
        std::thread::scope(|scope| {
            let replying = scope.spawn(|| run_as(dispatcher, client, command));
            while !replying.is_finished() {
                SystemClock::new().sleep(Duration::from_millis(1));
                clock.advance(Duration::from_millis(5));
            }
            replying.join().unwrap()
        })
    };
    let late = run(client, &write(2));
    assert_eq!(late.get_i32("n").unwrap(), 1);
    let error = late.get_document("writeConcernError").unwrap();
    assert_eq!(error.get_i32("code").unwrap(), 64);
    assert!(error.get_document("errInfo").unwrap().get_bool("wtimeout").unwrap());
    let timed_out =
        run(client, &doc! {"update": "c", "updates": [{"q": {}, "u": {"$set": {"a": 2}}}], "maxTimeMS": 50});
    assert_eq!(timed_out.get_i32("code").unwrap(), 50);
    let unacknowledged = doc! {"insert": "c", "documents": [{"_id": 3}], "writeConcern": {"w": 0}};
    assert_eq!(run_as(dispatcher, client, &unacknowledged).get_f64("ok").unwrap(), 1.0);
    let lost = std::thread::scope(|scope| {
        let replying = scope.spawn(|| run_as(dispatcher, client, &doc! {"insert": "c", "documents": [{"_id": 4}]}));
        SystemClock::new().sleep(SHORT);
        dispatcher.server().store().set_leadership(Leadership::Lost);
        replying.join().unwrap()
    });
    assert_eq!(lost.get_i32("code").unwrap(), 11602, "{lost}");
    assert!(lost.contains_key("topologyVersion"), "{lost}");
}

#[test]
fn while_the_log_is_silent_writes_are_refused_and_reads_go_on() {
    let mut server = confirming();
    server.dispatcher.server().store().set_leadership(Leadership::Stalled);
    let refused = at_once(&mut server, doc! {"insert": "c", "documents": [{"_id": 2}]});
    assert_eq!(refused.get_i32("code").unwrap(), 10107, "{refused}");
    let server_of = |server: &TestServer| server.dispatcher.server().clone();
    server_of(&server).look_at_writes();
    let changes = *server.hooks.topology_changes.lock();
    assert_eq!(changes, 1, "clients that wait for news are told");
    assert!(!at_once(&mut server, doc! {"hello": 1}).get_bool("isWritablePrimary").unwrap());
    assert_eq!(found(&at_once(&mut server, doc! {"find": "c"})), 1);
    server.dispatcher.server().store().set_leadership(Leadership::Held);
    server_of(&server).look_at_writes();
    assert_eq!(*server.hooks.topology_changes.lock(), 2);
    assert!(at_once(&mut server, doc! {"hello": 1}).get_bool("isWritablePrimary").unwrap());
    withheld(&mut server, doc! {"insert": "c", "documents": [{"_id": 2}]});
}

/// Drivers look for another primary, and try again, after the error of a command. One of a statement they hand to the application.
#[test]
fn a_write_that_meets_the_loss_of_the_lead_fails_as_a_whole() {
    let mut server = confirming();
    let set = doc! {"$set": {"a": 5}};
    let other = |operation: Document, extra: Document| {
        let mut command = doc! {"bulkWrite": 1, "ops": [operation], "nsInfo": [{"ns": "test.c"}], "$db": "admin"};
        command.extend(extra);
        command
    };
    let writes = [
        doc! {"insert": "c", "documents": [{"_id": 2}]},
        doc! {"insert": "c", "documents": [{"_id": 2}, {"_id": 3}], "ordered": false},
        doc! {"insert": "c", "documents": [{"_id": 1}, {"_id": 3}], "ordered": false},
        doc! {"insert": "new", "documents": [{"_id": 2}]},
        doc! {"update": "c", "updates": [{"q": {"_id": 1}, "u": &set}]},
        doc! {"update": "c", "updates": [{"q": {}, "u": &set, "multi": true}], "ordered": false},
        doc! {"update": "c", "updates": [{"q": {"_id": 9}, "u": &set, "upsert": true}]},
        doc! {"delete": "c", "deletes": [{"q": {"_id": 1}, "limit": 1}]},
        doc! {"delete": "c", "deletes": [{"q": {}, "limit": 0}], "ordered": false},
        doc! {"findAndModify": "c", "query": {"_id": 1}, "update": &set},
        other(doc! {"insert": 0, "document": {"_id": 2}}, doc! {}),
        other(doc! {"update": 0, "filter": {"_id": 1}, "updateMods": &set}, doc! {"ordered": false}),
        other(doc! {"delete": 0, "filter": {"_id": 1}}, doc! {"errorsOnly": true}),
        doc! {"aggregate": "c", "pipeline": [{"$merge": "d"}], "cursor": {}},
    ];
    server.dispatcher.server().store().set_leadership(Leadership::Stalled);
    let session = doc! {"id": bson::Uuid::from_bytes([8; 16])};
    let insert = doc! {"insert": "c", "documents": [{"_id": 20}], "lsid": &session, "txnNumber": 1_i64};
    let refused = at_once(&mut server, insert.clone());
    assert_eq!(refused.get_array("errorLabels").unwrap()[..], ["RetryableWriteError".into()], "{refused}");
    server.dispatcher.server().store().set_leadership(Leadership::Held);
    assert_eq!(withheld(&mut server, insert).get_i32("n").unwrap(), 1);
    for (leadership, code) in [(Leadership::Stalled, 10107), (Leadership::Following, 10107), (Leadership::Lost, 11602)]
    {
        server.dispatcher.server().store().set_leadership(leadership);
        for write in &writes {
            let refused = at_once(&mut server, write.clone());
            assert_eq!(refused.get_i32("code").ok(), Some(code), "{write}: {refused}");
            assert!(refused.contains_key("topologyVersion"), "{write}: {refused}");
        }
    }
}

/// Another member may lead soon: who waits is to ask there, and is told with a code that drivers retry, and with a topology that is news to them.
#[test]
fn who_waits_when_the_log_falls_silent_is_answered_at_once() {
    let mut server = confirming();
    let counter = |reply: &Document| reply.get_document("topologyVersion").unwrap().get_i64("counter").unwrap();
    let known = counter(&at_once(&mut server, doc! {"hello": 1}));
    insert_unconfirmed(&server.dispatcher, 2);
    let TestServer { dispatcher, client, .. } = &mut server;
    let reply = std::thread::scope(|scope| {
        let replying = scope.spawn(|| run_as(dispatcher, client, &doc! {"count": "c"}));
        SystemClock::new().sleep(SHORT);
        assert!(!replying.is_finished(), "a short silence is waited for");
        dispatcher.server().store().set_leadership(Leadership::Stalled);
        replying.join().unwrap()
    });
    assert_eq!(reply.get_i32("code").unwrap(), 11602, "{reply}");
    assert!(counter(&reply) > known, "{reply}");
    // It is there, unconfirmed, and who comes now does not wait either.
    assert_eq!(at_once(&mut server, doc! {"count": "c"}).get_i32("code").unwrap(), 11602);
    server.dispatcher.server().store().set_leadership(Leadership::Held);
    withheld(&mut server, doc! {"count": "c"});
}

#[test]
fn statements_of_a_transaction_wait_when_they_fail_and_when_they_commit() {
    let mut server = confirming();
    let session = doc! {"id": bson::Uuid::from_bytes([9; 16])};
    let part = |mut command: Document, is_first: bool| {
        command.insert("lsid", session.clone());
        command.extend(doc! {"txnNumber": 1_i64, "autocommit": false});
        if is_first {
            command.insert("startTransaction", true);
        }
        command
    };
    insert_unconfirmed(&server.dispatcher, 2);
    let inserted = at_once(&mut server, part(doc! {"insert": "c", "documents": [{"_id": 3}]}, true));
    assert_eq!(inserted.get_i32("n").unwrap(), 1);
    assert_eq!(found(&at_once(&mut server, part(doc! {"find": "c"}, false))), 2, "its own, and what is confirmed");
    let mut commit = part(doc! {"commitTransaction": 1}, false);
    commit.insert("$db", "admin");
    assert_eq!(withheld(&mut server, commit).get_f64("ok").unwrap(), 1.0);
    assert_eq!(found(&at_once(&mut server, doc! {"find": "c"})), 3);
}

/// Whatever a new command does: it is asked here what it may have seen.
#[test]
fn every_command_that_may_have_seen_the_newest_state_waits_whatever_its_result() {
    let mut server = confirming();
    let mut walked = 0;
    for (id, command) in (1000..).zip(registry::declarations()) {
        let is_walked = command.sees() == Sees::Newest && command.needs != Needs::Nothing;
        // It ends the walk.
        if !is_walked || command.name == "replSetStepDown" {
            continue;
        }
        insert_unconfirmed(&server.dispatcher, id);
        let database = if command.is_admin_only { "admin" } else { "test" };
        // Most of them fail, which is as good.
        withheld(&mut server, doc! {command.name: "c", "$db": database});
        walked += 1;
    }
    assert!(walked > 40, "{walked}");
}
