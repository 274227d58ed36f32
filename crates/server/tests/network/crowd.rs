//! Many busy connections served by few threads: each is answered in order and completely, who waits for a place has no thread, and
//! connections come and go.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bson::{RawDocumentBuf, oid::ObjectId, rawdoc};
use platform::MemoryBudget;

use crate::client::{Client, msg};
use crate::test_service::{TestServer, eventually};

fn count() -> RawDocumentBuf {
    rawdoc! { "count": 1, "$db": "d" }
}

fn limited() -> RawDocumentBuf {
    rawdoc! { "limited": 1, "$db": "d" }
}

/// So many connections that are in the crowd.
fn members(server: &TestServer, number: usize) -> Vec<Client> {
    let mut clients: Vec<Client> = (0..number).map(|_| Client::connect(server.address)).collect();
    clients.iter_mut().for_each(|client| drop(client.run(&count())));
    clients
}

#[test]
fn everybody_is_answered_in_order() {
    let server = TestServer::crowded();
    let mut clients = members(&server, 60);
    for round in 0..30 {
        // Several at once, so that some lie in the buffer or at the socket while others run.
        let requests: Vec<u8> = (0..3).flat_map(|_| msg(0, &count())).collect();
        clients.iter_mut().for_each(|client| client.send(&requests));
        for client in &mut clients {
            for place in 0..3 {
                let reply = client.receive().unwrap().document();
                assert_eq!(reply.get_i32("n").unwrap(), 2 + round * 3 + place);
            }
        }
    }
}

#[test]
fn large_and_trickling_messages_and_those_that_wait_come_through() {
    let server = TestServer::crowded();
    let mut clients = members(&server, 2);
    let mut other = clients.pop().unwrap();
    let client = &mut clients[0];
    for length in [100, 1_000_000, 8_000, 100_000] {
        let text = "x".repeat(length);
        let reply = client.run(&rawdoc! { "echo": text.as_str(), "$db": "d" });
        assert_eq!(reply.get_str("echo").unwrap(), text);
    }
    for bytes in msg(0, &count()).chunks(9) {
        client.send(bytes);
        // Who comes later is answered: so what came before has been read.
        other.run(&count());
    }
    assert_eq!(client.receive().unwrap().document().get_i32("n").unwrap(), 6);
    let version = rawdoc! { "processId": ObjectId::new(), "counter": 0_i64 };
    let hello = rawdoc! { "hello": 1, "topologyVersion": version, "maxAwaitTimeMS": 30, "$db": "admin" };
    assert!(client.run(&hello).get_bool("isWritablePrimary").unwrap());
    assert_eq!(client.run(&count()).get_i32("n").unwrap(), 9);
}

#[test]
fn who_waits_for_a_place_has_no_thread_and_keeps_nobody_waiting() {
    let server = TestServer::crowded();
    let mut clients = members(&server, 50);
    clients.iter_mut().for_each(|client| client.send(&msg(0, &limited())));
    eventually("all wait", || server.seen.waiting() == 50);
    assert_eq!(server.handle.connections().active, 0);
    let mut other = members(&server, 1);
    (0..100).for_each(|_| drop(other[0].run(&count())));
    server.seen.let_in(1);
    for client in &mut clients {
        assert!(client.receive().unwrap().document().get_bool("hasPlace").unwrap());
    }
    assert_eq!(server.seen.waiting(), 0);
}

#[test]
fn who_has_waited_for_too_long_is_told_and_goes_on() {
    let server = TestServer::crowded();
    let mut clients = members(&server, 20);
    clients.iter_mut().for_each(|client| client.send(&msg(0, &limited())));
    eventually("all wait", || server.seen.waiting() == 20);
    server.seen.gate.refuses.store(true, Ordering::SeqCst);
    for client in &mut clients {
        assert_eq!(client.receive().unwrap().document().get_i32("code").unwrap(), 462);
    }
    server.seen.gate.refuses.store(false, Ordering::SeqCst);
    server.seen.let_in(2);
    for client in &mut clients {
        assert!(client.run(&limited()).get_bool("hasPlace").unwrap());
    }
}

#[test]
fn connections_come_and_go() {
    let memory = MemoryBudget::new(1 << 30);
    let server = TestServer::with_memory(1000, Duration::from_secs(5), Arc::clone(&memory));
    let mut clients = members(&server, 10);
    for round in 0..6 {
        server.seen.gate.is_crowded.store(round % 2 == 0, Ordering::SeqCst);
        if round == 3 {
            eventually("they become idle, from the crowd", || memory.used() <= 10 * 4096);
        }
        for client in &mut clients {
            (0..20).for_each(|_| drop(client.run(&count())));
        }
    }
    for client in &mut clients {
        assert_eq!(client.run(&count()).get_i32("n").unwrap(), 122);
    }
    let mut last = clients.pop().unwrap();
    drop(clients);
    eventually("they are gone", || server.seen.disconnected.load(Ordering::SeqCst) == 9);
    assert_eq!(last.run(&count()).get_i32("n").unwrap(), 123);
}

#[test]
fn panics_and_closing_end_only_their_connection() {
    let server = TestServer::crowded();
    let mut clients = members(&server, 8);
    for (number, client) in clients.iter_mut().enumerate() {
        let name = if number % 2 == 0 {
            rawdoc! { "panic": 1, "$db": "d" }
        } else {
            rawdoc! { "close": 1, "$db": "d" }
        };
        client.send(&msg(0, &name));
        assert!(client.is_closed());
    }
    let mut others = members(&server, 8);
    others[0].send(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n");
    assert!(others[0].is_closed());
    assert_eq!(others[1].run(&count()).get_i32("n").unwrap(), 2);
    eventually("they are gone", || server.seen.disconnected.load(Ordering::SeqCst) == 9);
}

#[test]
fn stopping_ends_the_crowd() {
    let mut server = TestServer::crowded();
    let mut clients = members(&server, 20);
    for client in &mut clients[..10] {
        client.send(&msg(0, &limited()));
    }
    eventually("they wait", || server.seen.waiting() == 10);
    clients[15].send(&msg(0, &rawdoc! { "runUntilReleased": 1, "$db": "d" }));
    eventually("it runs", || server.handle.connections().active == 1);
    server.handle.request_stop();
    eventually("it stops", || server.seen.stopping.load(Ordering::SeqCst));
    server.seen.gate.refuses.store(true, Ordering::SeqCst);
    server.seen.gate.release();
    server.stop();
    assert_eq!(clients[15].receive().unwrap().document().get_f64("ok").unwrap(), 1.0);
    for client in &mut clients[..10] {
        assert_eq!(client.receive().unwrap().document().get_i32("code").unwrap(), 462);
    }
    assert!(clients.iter_mut().all(Client::is_closed));
    assert_eq!(server.seen.disconnected.load(Ordering::SeqCst), 20);
    assert!(server.seen.stopped.load(Ordering::SeqCst));
}
