//! Awaitable hello: waits without a thread, and ends for every reason it should; streams of replies to one request, of hello and of batches.

use std::time::{Duration, Instant};

use bson::{RawDocumentBuf, oid::ObjectId, rawdoc};

use crate::client::{Client, msg};
use crate::test_service::{TestServer, eventually};

const EXHAUST_ALLOWED: u32 = 1 << 16;

fn awaitable(millis: i32) -> RawDocumentBuf {
    let version = rawdoc! { "processId": ObjectId::new(), "counter": 0_i64 };
    rawdoc! { "hello": 1, "topologyVersion": version, "maxAwaitTimeMS": millis, "$db": "admin" }
}

#[test]
fn it_replies_when_the_time_is_over() {
    let server = TestServer::start();
    let mut client = Client::connect(server.address);
    let start = Instant::now();
    client.send(&msg(0, &awaitable(200)));
    let reply = client.receive().unwrap();
    assert!(reply.document().get_bool("isWritablePrimary").unwrap());
    assert!(!reply.has_more_to_come());
    let elapsed = start.elapsed();
    assert!(elapsed >= Duration::from_millis(200) && elapsed < Duration::from_secs(2), "{elapsed:?}");
    client.run(&rawdoc! { "ping": 1, "$db": "admin" });
}

#[test]
fn many_wait_without_threads_and_wake_on_a_change() {
    let server = TestServer::start();
    let mut waiting: Vec<Client> = (0..200).map(|_| Client::connect(server.address)).collect();
    for client in &mut waiting {
        client.send(&msg(0, &awaitable(60_000)));
    }
    eventually("all wait", || server.handle.waiting_for_topology() == 200);
    eventually("none runs", || server.handle.connections().active == 0);
    let start = Instant::now();
    server.handle.topology_changed();
    for client in &mut waiting {
        assert!(client.receive().unwrap().document().get_bool("helloOk").unwrap());
    }
    assert!(start.elapsed() < Duration::from_secs(5));
    assert_eq!(server.handle.network().requests, 200, "a wait is one request");
}

#[test]
fn it_ends_with_its_client() {
    let server = TestServer::start();
    let mut client = Client::connect(server.address);
    client.send(&msg(0, &awaitable(60_000)));
    eventually("it waits", || server.handle.waiting_for_topology() == 1);
    drop(client);
    eventually("it is gone", || server.handle.connections().current == 0);
}

#[test]
fn what_is_sent_meanwhile_is_answered_after_it() {
    let server = TestServer::start();
    let mut client = Client::connect(server.address);
    client.send(&msg(0, &awaitable(60_000)));
    eventually("it waits", || server.handle.waiting_for_topology() == 1);
    client.send(&msg(0, &rawdoc! { "count": 1, "$db": "admin" }));
    server.handle.topology_changed();
    assert!(client.receive().unwrap().document().get_bool("helloOk").unwrap());
    assert_eq!(client.receive().unwrap().document().get_i32("n").unwrap(), 3);
}

#[test]
fn a_client_that_takes_several_replies_gets_them_when_the_time_is_over_and_when_the_topology_changes() {
    let server = TestServer::start();
    let mut client = Client::connect(server.address);
    client.send(&msg(EXHAUST_ALLOWED, &awaitable(100)));
    let start = Instant::now();
    let mut answered = 77;
    for _ in 0..3 {
        let reply = client.receive().unwrap();
        assert!(reply.document().get_bool("isWritablePrimary").unwrap());
        assert!(reply.has_more_to_come());
        assert_eq!(reply.response_to, answered, "each reply answers the one before");
        answered = reply.request_id;
    }
    assert!(start.elapsed() >= Duration::from_millis(300), "{:?}", start.elapsed());
    drop(client);
    eventually("it ends with its client", || server.handle.connections().current == 0);

    let mut client = Client::connect(server.address);
    client.send(&msg(EXHAUST_ALLOWED, &awaitable(60_000)));
    eventually("it waits", || server.handle.waiting_for_topology() == 1);
    for changes in 1..=3 {
        server.handle.topology_changed();
        assert!(client.receive().unwrap().has_more_to_come(), "{changes}");
    }
    assert_eq!(server.handle.network().requests, 2, "a stream is one request");
}

#[test]
fn a_stream_ends_when_the_server_stops() {
    let mut server = TestServer::start();
    let mut client = Client::connect(server.address);
    client.send(&msg(EXHAUST_ALLOWED, &awaitable(60_000)));
    eventually("it waits", || server.handle.waiting_for_topology() == 1);
    let start = Instant::now();
    server.stop();
    assert!(start.elapsed() < Duration::from_secs(3), "{:?}", start.elapsed());
    assert!(client.is_closed());
}

#[test]
fn batches_follow_one_another_without_a_request() {
    for server in [TestServer::start(), TestServer::crowded()] {
        let mut client = Client::connect(server.address);
        for _ in 0..2 {
            client.send(&msg(EXHAUST_ALLOWED, &rawdoc! { "batches": 200, "$db": "d" }));
            for left in (0..200).rev() {
                let reply = client.receive().unwrap();
                assert_eq!(reply.document().get_i32("left").unwrap(), left);
                assert_eq!(reply.has_more_to_come(), left > 0);
            }
            assert_eq!(client.run(&rawdoc! { "ping": 1, "$db": "d" }).get_f64("ok").unwrap(), 1.0);
        }
        let mut modest = Client::connect(server.address);
        modest.send(&msg(0, &rawdoc! { "batches": 200, "$db": "d" }));
        let reply = modest.receive().unwrap();
        assert!(!reply.has_more_to_come(), "this client has not said that it takes more");
        modest.run(&rawdoc! { "ping": 1, "$db": "d" });
        // A client that goes away in the midst of a stream.
        let mut gone = Client::connect(server.address);
        gone.send(&msg(EXHAUST_ALLOWED, &rawdoc! { "batches": i32::MAX, "$db": "d" }));
        gone.receive().unwrap();
        drop((gone, client, modest));
        eventually("all are gone", || server.handle.connections().current == 0);
    }
}
