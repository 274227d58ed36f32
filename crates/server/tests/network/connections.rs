//! Connections: idle ones are cheap, busy and blocked ones do not disturb each other, the limit holds.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bson::rawdoc;
use platform::{MemoryBudget, MemoryUse};

use crate::client::{Client, msg};
use crate::test_service::{TestServer, eventually};

#[test]
fn an_idle_connection_answers_again_and_again() {
    let memory = MemoryBudget::new(1 << 30);
    let server = TestServer::with_memory(10, Duration::from_secs(5), Arc::clone(&memory));
    let mut client = Client::connect(server.address);
    for becomes_idle in [false, true, false, true, true] {
        if becomes_idle {
            eventually("it has no thread any more", || memory.used() <= 4096);
        }
        for _ in 0..20 {
            client.run(&rawdoc! { "ping": 1, "$db": "admin" });
        }
    }
    assert_eq!(client.run(&rawdoc! { "count": 1, "$db": "admin" }).get_i32("n").unwrap(), 101);
}

#[test]
fn a_frame_that_trickles_in_is_put_together() {
    let server = TestServer::start();
    let (mut client, mut other) = (Client::connect(server.address), Client::connect(server.address));
    let ping = rawdoc! { "ping": 1, "$db": "admin" };
    for bytes in msg(0, &ping).chunks(7) {
        client.send(bytes);
        // So long that each piece comes by itself.
        (0..5).for_each(|_| drop(other.run(&ping)));
    }
    assert_eq!(client.receive().unwrap().document().get_f64("ok").unwrap(), 1.0);
}

#[test]
fn long_commands_delay_nobody_else() {
    let server = TestServer::start();
    let mut busy: Vec<Client> = (0..50).map(|_| Client::connect(server.address)).collect();
    for one in &mut busy {
        one.send(&msg(0, &rawdoc! { "runUntilReleased": 1, "$db": "admin" }));
    }
    eventually("all run", || server.handle.connections().active == 50);
    let mut client = Client::connect(server.address);
    for _ in 0..100 {
        client.run(&rawdoc! { "ping": 1, "$db": "admin" });
    }
    eventually("they still run", || server.handle.connections().active == 50);
    server.seen.gate.release();
    for one in &mut busy {
        one.receive().unwrap();
    }
}

#[test]
fn those_for_whom_there_is_no_memory_for_a_thread_share_threads() {
    let memory = MemoryBudget::new(5 << 20);
    let server = TestServer::with_memory(1000, Duration::from_secs(5), Arc::clone(&memory));
    let mut clients: Vec<Client> = (0..120).map(|_| Client::connect(server.address)).collect();
    for _ in 0..3 {
        clients.iter_mut().for_each(|client| client.send(&msg(0, &rawdoc! { "runUntilReleased": 1, "$db": "admin" })));
        eventually("all run", || server.handle.connections().active == 120);
        assert!(memory.used() > 3 << 20 && memory.used() <= memory.limit(), "{}", memory.used());
        assert!(memory.used_for(MemoryUse::Threads) > 2 << 20, "{}", memory.used_for(MemoryUse::Threads));
        server.seen.gate.release();
        clients.iter_mut().for_each(|client| drop(client.receive().unwrap()));
    }
    // Large messages and waiting ones need a thread, and have one.
    let text = "x".repeat(200_000);
    for client in &mut clients {
        let reply = client.run(&rawdoc! { "echo": text.as_str(), "$db": "d" });
        assert_eq!(reply.get_str("echo").unwrap().len(), text.len());
    }
    eventually("idle ones take little", || memory.used() <= 120 * 4096);
    drop(clients);
    eventually("and those that are gone nothing", || memory.used() == 0);
}

#[test]
fn too_many_connections_are_refused_and_room_is_used_again() {
    let server = TestServer::with_limits(2, Duration::from_secs(5));
    let ping = rawdoc! { "ping": 1, "$db": "admin" };
    let mut first = Client::connect(server.address);
    first.run(&ping);
    let mut second = Client::connect(server.address);
    second.run(&ping);
    assert!(Client::connect(server.address).is_closed());
    let counts = server.handle.connections();
    assert_eq!((counts.current, counts.available, counts.created, counts.refused), (2, 0, 2, 1));
    drop(first);
    eventually("one is gone", || server.handle.connections().current == 1);
    Client::connect(server.address).run(&ping);
    second.run(&ping);
}

#[test]
fn the_service_hears_of_every_beginning_and_end() {
    let server = TestServer::start();
    let ping = rawdoc! { "ping": 1, "$db": "admin" };
    for last in [rawdoc! { "close": 1, "$db": "admin" }, rawdoc! { "panic": 1, "$db": "admin" }] {
        let mut client = Client::connect(server.address);
        client.run(&ping);
        client.send(&msg(0, &last));
        assert!(client.is_closed());
    }
    drop(Client::connect(server.address));
    eventually("all ended", || server.seen.disconnected.load(Ordering::SeqCst) == 3);
    assert_eq!(server.seen.connected.load(Ordering::SeqCst), 3);
    assert_eq!(server.handle.connections().current, 0);
    assert_eq!(server.handle.connections().active, 0);
}

#[test]
fn a_command_ends_when_its_client_goes_away() {
    let server = TestServer::start();
    let mut clients: Vec<Client> = (0..3).map(|_| Client::connect(server.address)).collect();
    clients.iter_mut().for_each(|client| client.send(&msg(0, &rawdoc! { "untilGone": 1, "$db": "admin" })));
    eventually("all run", || server.seen.until_gone.lock().unwrap().len() == 3);
    // One that has sent another request before is gone as well.
    clients[0].send(&msg(0, &rawdoc! { "ping": 1, "$db": "admin" }));
    clients.truncate(2);
    eventually("one is gone", || server.handle.connections().current == 2);
    clients.remove(0);
    eventually("another is gone", || server.handle.connections().current == 1);
    assert_eq!(server.handle.connections().active, 1);
    drop(clients);
    eventually("all are gone", || server.handle.connections().current == 0);
    assert_eq!(server.seen.gone.lock().unwrap().len(), 3);
}
