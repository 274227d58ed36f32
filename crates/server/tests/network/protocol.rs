//! What comes back for each kind of message.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bson::rawdoc;
use platform::{MemoryBudget, MemoryUse};
use wire_protocol::Compressor;

use crate::client::{Client, frame, msg, query};
use crate::test_service::{COMPRESSORS, TestServer, eventually};

#[test]
fn a_command_gets_its_reply() {
    let server = TestServer::start();
    let mut client = Client::connect(server.address);
    client.send(&msg(0, &rawdoc! { "ping": 1, "$db": "admin" }));
    let reply = client.receive().unwrap();
    assert_eq!((reply.op_code, reply.response_to), (2013, 77));
    assert_eq!(reply.document().get_f64("ok").unwrap(), 1.0);
    let network = server.handle.network();
    assert_eq!(network.requests, 1);
    assert!(network.bytes_in > 40 && network.bytes_out > 20);
}

#[test]
fn pipelined_requests_are_answered_in_order_and_unacknowledged_ones_not_at_all() {
    let server = TestServer::start();
    let mut client = Client::connect(server.address);
    let mut bytes = Vec::new();
    for i in 0..100 {
        bytes.extend(msg(0, &rawdoc! { "echo": i.to_string(), "$db": "d" }));
        bytes.extend(msg(2, &rawdoc! { "ping": 1, "$db": "d" }));
        bytes.extend(msg(2, &rawdoc! { "refused": "without $db" }));
    }
    client.send(&bytes);
    for i in 0..100 {
        assert_eq!(client.receive().unwrap().document().get_str("echo").unwrap(), i.to_string());
    }
    eventually("all ran", || server.seen.unacknowledged.load(Ordering::SeqCst) == 100);
}

#[test]
fn a_message_of_the_largest_size_is_taken() {
    let server = TestServer::start();
    let mut client = Client::connect(server.address);
    let document = rawdoc! { "pad": "x".repeat(1_000_000) };
    let mut sequence = b"documents\0".to_vec();
    for _ in 0..47 {
        sequence.extend_from_slice(document.as_bytes());
    }
    let mut content = vec![0; 5];
    content.extend_from_slice(rawdoc! { "insert": "c", "$db": "d" }.as_bytes());
    content.push(1);
    content.extend_from_slice(&i32::try_from(sequence.len() + 4).unwrap().to_le_bytes());
    content.extend_from_slice(&sequence);
    client.send(&frame(2013, &content));
    assert_eq!(client.receive().unwrap().document().get_i32("n").unwrap(), 47);
    assert_eq!(client.run(&rawdoc! { "count": 1, "$db": "d" }).get_i32("n").unwrap(), 2);
}

#[test]
fn a_legacy_handshake_works_and_no_other_query() {
    let server = TestServer::start();
    let mut client = Client::connect(server.address);
    client.send(&query("admin.$cmd", &rawdoc! { "isMaster": 1, "helloOk": true }));
    let reply = client.receive().unwrap();
    assert_eq!((reply.op_code, reply.response_to), (1, 77));
    assert!(reply.document().get_bool("ismaster").unwrap());
    for (namespace, body) in [("admin.$cmd", rawdoc! { "find": "c" }), ("d.c", rawdoc! { "a": 1 })] {
        client.send(&query(namespace, &body));
        let reply = client.receive().unwrap();
        assert_eq!(reply.bytes[16] & 2, 2, "QueryFailure");
        let document = reply.document();
        assert_eq!(document.get_i32("code").unwrap(), 352);
        assert_eq!(document.get_str("codeName").unwrap(), "UnsupportedOpQueryCommand");
        assert!(document.get_str("$err").unwrap().contains("OP_QUERY"));
    }
}

#[test]
fn what_is_no_command_is_refused_with_its_code() {
    let server = TestServer::start();
    let mut client = Client::connect(server.address);
    let mut code = |body| client.run(&body).get_i32("code").unwrap();
    assert_eq!(code(rawdoc! { "ping": 1 }), 40571);
    assert_eq!(code(rawdoc! { "ping": 1, "$db": 5 }), 14);
    assert_eq!(code(rawdoc! { "unknown": 1, "$db": "d" }), 59);
    assert_eq!(code(rawdoc! { "nothing": 1, "$db": "d" }), 1);
    let mut twice = msg(0, &rawdoc! { "insert": "c", "documents": [], "$db": "d" });
    twice.extend_from_slice(&[1, 14, 0, 0, 0]);
    twice.extend_from_slice(b"documents\0");
    client.send(&frame(2013, &twice[16..]));
    assert_eq!(client.receive().unwrap().document().get_i32("code").unwrap(), 40433);
    let broken = frame(2013, &[0, 0, 0, 0, 0, 9, 0, 0, 0, 0x7d, b'a', 0, 1, 0]);
    client.send(&broken);
    assert_eq!(client.receive().unwrap().document().get_i32("code").unwrap(), 22);
}

#[test]
fn replies_use_the_requests_compressor_except_for_handshakes() {
    let server = TestServer::start();
    let mut client = Client::connect(server.address);
    for compressor in COMPRESSORS {
        let text = "y".repeat(10_000);
        for (body, is_compressed) in
            [(rawdoc! { "echo": text.as_str(), "$db": "d" }, true), (rawdoc! { "hello": 1, "$db": "d" }, false)]
        {
            let mut request = Vec::new();
            wire_protocol::compress(&msg(0, &body), compressor, &mut request).unwrap();
            client.send(&request);
            let mut reply = client.receive().unwrap();
            assert_eq!(reply.op_code, if is_compressed { 2012 } else { 2013 });
            if is_compressed {
                assert!(reply.bytes.len() < 1000, "{compressor:?}");
                let mut plain = Vec::new();
                let used = wire_protocol::decompress(&reply.bytes, &[compressor], &mut plain).unwrap();
                assert_eq!(used, compressor);
                (reply.bytes, reply.op_code) = (plain, 2013);
                assert_eq!(reply.document().get_str("echo").unwrap(), text);
            }
        }
    }
    let mut request = Vec::new();
    wire_protocol::compress(&msg(0, &rawdoc! { "ping": 1, "$db": "d" }), Compressor::Noop, &mut request).unwrap();
    client.send(&request);
    assert_eq!(client.receive().unwrap().op_code, 2012);
}

#[test]
fn a_reply_that_memory_has_no_room_to_compress_is_sent_as_it_is() {
    let memory = MemoryBudget::new(64 << 20);
    let server = TestServer::with_memory(10, Duration::from_secs(5), Arc::clone(&memory));
    let mut client = Client::connect(server.address);
    let mut request = Vec::new();
    let body = rawdoc! { "long": 1_000_000, "$db": "d" };
    wire_protocol::compress(&msg(0, &body), Compressor::Zlib, &mut request).unwrap();
    let mut op_code_of_reply = || {
        client.send(&request);
        client.receive().unwrap().op_code
    };
    assert_eq!(op_code_of_reply(), 2012);
    let mut taken = memory.reservation(MemoryUse::Operations);
    eventually("all is taken but for less than a reply", || taken.resize(memory.limit() - (500 << 10)).is_ok());
    assert_eq!(op_code_of_reply(), 2013);
    drop(taken);
    assert_eq!(op_code_of_reply(), 2012);
}

#[test]
fn malformed_frames_end_their_connection_and_no_other() {
    let server = TestServer::start();
    let mut bystander = Client::connect(server.address);
    let ping = rawdoc! { "ping": 1, "$db": "admin" };
    bystander.run(&ping);
    let mut with_bad_checksum = msg(1, &ping);
    with_bad_checksum.extend_from_slice(&[1, 2, 3, 4]);
    let cases = [
        b"GET / HTTP/1.1\r\n\r\n".to_vec(),
        vec![0xff; 64],
        frame(2002, &[0; 30]),
        frame(9999, &[]),
        frame(2013, &[0, 0, 0, 0, 7]),
        frame(2013, &with_bad_checksum[16..]),
        frame(2012, &[0xdd, 7, 0, 0, 0xff, 0xff, 0xff, 0x7f, 1, 0]),
        msg(1 << 9, &ping),
    ];
    for bytes in cases {
        let mut client = Client::connect(server.address);
        client.send(&bytes);
        assert!(client.is_closed(), "{bytes:?}");
        bystander.run(&ping);
    }
    eventually("the others are gone", || server.handle.connections().current == 1);
}
