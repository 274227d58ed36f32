//! Stopping: what runs ends, what is idle closes, what does not end is cut off, and the service is closed last.

use std::io::Write;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use bson::{oid::ObjectId, rawdoc};
use server::{ListenError, Listeners};

use crate::client::{Client, msg};
use crate::test_service::{TestServer, eventually};

#[test]
fn running_commands_finish_and_the_rest_closes() {
    let mut server = TestServer::start();
    let mut idle = Client::connect(server.address);
    idle.run(&rawdoc! { "ping": 1, "$db": "admin" });
    let mut waiting = Client::connect(server.address);
    let version = rawdoc! { "processId": ObjectId::new(), "counter": 0_i64 };
    waiting
        .send(&msg(0, &rawdoc! { "hello": 1, "topologyVersion": version, "maxAwaitTimeMS": 60_000, "$db": "admin" }));
    let mut running = Client::connect(server.address);
    running.send(&msg(0, &rawdoc! { "runUntilReleased": 1, "$db": "admin" }));
    eventually("it waits", || server.handle.waiting_for_topology() == 1);
    eventually("it runs", || server.handle.connections().active == 1);
    server.handle.request_stop();
    eventually("it stops", || server.seen.stopping.load(Ordering::SeqCst));
    server.seen.gate.release();
    server.stop();
    assert_eq!(running.receive().unwrap().document().get_f64("ok").unwrap(), 1.0);
    for mut client in [idle, waiting, running] {
        assert!(client.is_closed());
    }
    assert!(server.seen.stopped.load(Ordering::SeqCst));
    assert_eq!(server.seen.disconnected.load(Ordering::SeqCst), 3);
    assert!(std::net::TcpStream::connect(server.address).is_err());
}

#[test]
fn a_client_that_reads_no_reply_is_cut_off() {
    let mut server = TestServer::with_limits(10, Duration::from_millis(100));
    let mut client = Client::connect(server.address);
    let bytes = msg(0, &rawdoc! { "echo": "z".repeat(1_000_000), "$db": "d" });
    // Neither side's buffers hold this much, so the server's thread is stuck in sending a reply, and then so is the client.
    let sender = std::thread::spawn(move || while client.stream.write_all(&bytes).is_ok() {});
    eventually("no request is taken any more", || {
        let before = server.handle.network().requests;
        std::thread::sleep(Duration::from_millis(300));
        before > 0 && before == server.handle.network().requests
    });
    let start = Instant::now();
    server.stop();
    assert!(start.elapsed() < Duration::from_secs(4), "{:?}", start.elapsed());
    sender.join().unwrap();
    assert!(server.seen.stopped.load(Ordering::SeqCst));
}

#[test]
fn an_address_in_use_is_said_plainly() {
    let server = TestServer::start();
    Client::connect(server.address);
    match Listeners::bind(&[server.address.to_string()]) {
        Err(error @ ListenError::AddressInUse(_)) => {
            assert_eq!(error.to_string(), format!("address in use: another server runs on {}", server.address));
        }
        other => panic!("{:?}", other.map(|listeners| listeners.addresses())),
    }
    assert!(matches!(Listeners::bind(&["no-such-host.invalid:1".into()]), Err(ListenError::Unresolved { .. })));
}
