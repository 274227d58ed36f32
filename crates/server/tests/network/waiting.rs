//! Awaitable hello: waits without a thread, and ends for every reason it should.

use std::time::{Duration, Instant};

use bson::{RawDocumentBuf, oid::ObjectId, rawdoc};

use crate::client::{Client, msg};
use crate::test_service::{TestServer, eventually};

fn awaitable(millis: i32) -> RawDocumentBuf {
    let version = rawdoc! { "processId": ObjectId::new(), "counter": 0_i64 };
    rawdoc! { "hello": 1, "topologyVersion": version, "maxAwaitTimeMS": millis, "$db": "admin" }
}

#[test]
fn it_replies_when_the_time_is_over() {
    let server = TestServer::start();
    let mut client = Client::connect(server.address);
    let start = Instant::now();
    let exhaust_allowed = 1 << 16;
    client.send(&msg(exhaust_allowed, &awaitable(200)));
    let reply = client.receive().unwrap();
    assert!(reply.document().get_bool("isWritablePrimary").unwrap());
    assert_eq!(reply.bytes[16..20], [0; 4], "no moreToCome");
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
    eventually("all arrived", || server.handle.network().requests == 200);
    eventually("none runs", || server.handle.connections().active == 0);
    std::thread::sleep(Duration::from_millis(50));
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
    eventually("it arrived", || server.handle.network().requests == 1);
    std::thread::sleep(Duration::from_millis(50));
    drop(client);
    eventually("it is gone", || server.handle.connections().current == 0);
}

#[test]
fn what_is_sent_meanwhile_is_answered_after_it() {
    let server = TestServer::start();
    let mut client = Client::connect(server.address);
    client.send(&msg(0, &awaitable(300)));
    std::thread::sleep(Duration::from_millis(50));
    client.send(&msg(0, &rawdoc! { "count": 1, "$db": "admin" }));
    assert!(client.receive().unwrap().document().get_bool("helloOk").unwrap());
    assert_eq!(client.receive().unwrap().document().get_i32("n").unwrap(), 3);
}
