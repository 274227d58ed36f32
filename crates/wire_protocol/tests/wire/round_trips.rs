//! What is well formed is read as it was meant, and replies are what a client reads.

use bson::{RawDocument, rawdoc};
use wire_protocol::{Compressor, FrameHeader, OpCode, ReplyBuilder, ReplyError, ReplyTo, Request};

use crate::frames::{body_section, msg, ping, query, sequence_section, with_checksum};

const ALL: [Compressor; 4] = [Compressor::Noop, Compressor::Snappy, Compressor::Zlib, Compressor::Zstd];

fn parse_msg(frame: &[u8]) -> wire_protocol::OpMsg<'_> {
    match Request::parse(frame).unwrap() {
        Request::Msg(msg) => msg,
        Request::Query(_) => panic!("an OP_QUERY"),
    }
}

#[test]
fn a_body_is_read_in_place() {
    let frame = msg(0, &[body_section(&ping())]);
    let parsed = parse_msg(&frame);
    assert_eq!(parsed.body.as_bytes(), ping().as_bytes());
    assert_eq!(parsed.header.request_id, 7);
    assert!(parsed.sequences.is_empty());
}

#[test]
fn sequences_keep_order_and_count_wherever_the_body_is() {
    let documents: Vec<_> = (0..3).map(|i| rawdoc! { "_id": i }).collect();
    let body = rawdoc! { "insert": "c", "$db": "d" };
    let sections = [sequence_section("documents", &documents), body_section(&body), sequence_section("empty", &[])];
    let frame = msg(0b10, &sections);
    let parsed = parse_msg(&frame);
    assert!(parsed.flags.more_to_come);
    let sequence = parsed.sequences.get("documents").unwrap();
    assert_eq!(sequence.len(), 3);
    assert_eq!(sequence.documents().len(), 3);
    let ids: Vec<i32> = sequence.documents().map(|document| document.get_i32("_id").unwrap()).collect();
    assert_eq!(ids, [0, 1, 2]);
    assert!(parsed.sequences.get("empty").unwrap().is_empty());
    assert!(parsed.sequences.get("other").is_none());
    assert_eq!(parsed.sequences.iter().count(), 2);
}

#[test]
fn a_right_checksum_and_optional_flags_are_accepted() {
    let frame = with_checksum(msg(1 << 16 | 1 << 30, &[body_section(&ping())]));
    let parsed = parse_msg(&frame);
    assert!(parsed.flags.checksum_present);
    assert!(parsed.flags.exhaust_allowed);
}

#[test]
fn a_legacy_query_is_unwrapped() {
    let wrapped = rawdoc! { "$query": { "isMaster": 1 }, "$readPreference": { "mode": "primary" } };
    for document in [wrapped, rawdoc! { "isMaster": 1 }] {
        let frame = query("admin.$cmd", &document);
        let Request::Query(parsed) = Request::parse(&frame).unwrap() else { panic!("not an OP_QUERY") };
        assert_eq!(parsed.command_database(), Some("admin"));
        assert_eq!(parsed.command().get_i32("isMaster").unwrap(), 1);
    }
    let frame = query("d.c", &rawdoc! {});
    let Request::Query(parsed) = Request::parse(&frame).unwrap() else { panic!("not an OP_QUERY") };
    assert_eq!(parsed.command_database(), None);
}

#[test]
fn every_compressor_gives_back_the_frame() {
    let big = rawdoc! { "insert": "c", "pad": "x".repeat(100_000), "$db": "d" };
    for body in [ping(), big] {
        let frame = msg(0, &[body_section(&body)]);
        for compressor in ALL {
            let mut packed = vec![1, 2, 3];
            wire_protocol::compress(&frame, compressor, &mut packed).unwrap();
            assert_eq!(FrameHeader::of_frame(&packed).unwrap().op_code, OpCode::Compressed);
            let mut unpacked = vec![4, 5, 6];
            assert_eq!(wire_protocol::decompress(&packed, &ALL, &mut unpacked).unwrap(), compressor);
            assert_eq!(unpacked, frame, "{compressor:?}");
        }
    }
}

#[test]
fn compressor_names_go_both_ways() {
    for compressor in ALL {
        assert_eq!(Compressor::from_name(compressor.name()), Some(compressor));
    }
    assert_eq!(Compressor::from_name("lz4"), None);
}

#[test]
fn a_reply_to_a_msg_is_a_msg_with_the_checksum_asked_for() {
    let mut builder = ReplyBuilder::default();
    for checksum in [false, true] {
        builder.begin(ReplyTo::Msg { checksum });
        builder.append(&ping());
        let frame = builder.finish(40, 7).unwrap();
        let parsed = parse_msg(frame);
        assert_eq!((parsed.header.request_id, parsed.header.response_to), (40, 7));
        assert_eq!(parsed.flags.checksum_present, checksum);
        assert_eq!(parsed.body.as_bytes(), ping().as_bytes());
    }
}

#[test]
fn a_reply_says_whether_another_follows() {
    let mut builder = ReplyBuilder::default();
    builder.begin(ReplyTo::Msg { checksum: true });
    builder.mark_more_to_come();
    builder.append(&ping());
    assert!(parse_msg(builder.finish(40, 7).unwrap()).flags.more_to_come);
    // Not the next one, and never a legacy reply.
    builder.begin(ReplyTo::Msg { checksum: false });
    builder.append(&ping());
    assert!(!parse_msg(builder.finish(41, 8).unwrap()).flags.more_to_come);
    builder.begin(ReplyTo::Query);
    builder.mark_more_to_come();
    assert!(!builder.has_more_to_come());
}

#[test]
fn a_reply_to_a_query_has_one_document_and_says_when_it_failed() {
    let mut builder = ReplyBuilder::default();
    builder.begin(ReplyTo::Query);
    builder.append(&rawdoc! { "thrown": "away" });
    builder.replace(&rawdoc! { "ok": 0 });
    builder.mark_query_failure();
    let frame = builder.finish(1, 7).unwrap();
    assert_eq!(FrameHeader::of_frame(frame).unwrap().op_code, OpCode::Reply);
    assert_eq!(frame[16..20], 0b1010_u32.to_le_bytes());
    assert_eq!(frame[32..36], 1_i32.to_le_bytes());
    assert_eq!(RawDocument::from_bytes(&frame[36..]).unwrap().get_i32("ok").unwrap(), 0);
}

#[test]
fn what_is_not_one_document_is_no_reply() {
    let mut builder = ReplyBuilder::default();
    builder.begin(ReplyTo::Msg { checksum: false });
    assert!(matches!(builder.finish(1, 1), Err(ReplyError::NotOneDocument(_))));
    builder.begin(ReplyTo::Msg { checksum: false });
    builder.append(&ping());
    builder.append(&ping());
    assert!(matches!(builder.finish(1, 1), Err(ReplyError::NotOneDocument(_))));
    builder.begin(ReplyTo::Msg { checksum: false });
    builder.append(&rawdoc! { "pad": "x".repeat(48_000_000) });
    assert!(matches!(builder.finish(1, 1), Err(ReplyError::TooLong(_))));
}
