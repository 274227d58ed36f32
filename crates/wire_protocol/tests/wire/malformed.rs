//! Every malformed case has its own error, and none a panic.

use bson::rawdoc;
use wire_protocol::{Compressor, FrameHeader, MESSAGE_SIZE_BYTES_MAX, Request, WireError};

use crate::frames::{body_section, compressed, frame, msg, ping, query, sequence_section, with_checksum};

fn error_of(frame: &[u8]) -> WireError {
    Request::parse(frame).unwrap_err()
}

fn unpack_error(frame: &[u8]) -> WireError {
    let enabled = [Compressor::Snappy, Compressor::Zlib, Compressor::Zstd];
    wire_protocol::decompress(frame, &enabled, &mut Vec::new()).unwrap_err()
}

fn header_error(length: i32, op_code: i32) -> WireError {
    let mut bytes = [0; 16];
    bytes[..4].copy_from_slice(&length.to_le_bytes());
    bytes[12..].copy_from_slice(&op_code.to_le_bytes());
    FrameHeader::parse(&bytes).unwrap_err()
}

#[test]
fn header_lengths_are_bounded() {
    for length in [i32::MIN, -1, 0, 15] {
        assert!(matches!(header_error(length, 2013), WireError::MessageTooShort { .. }), "{length}");
    }
    let max = i32::try_from(MESSAGE_SIZE_BYTES_MAX).unwrap();
    for length in [max + 1, i32::MAX] {
        assert!(matches!(header_error(length, 2013), WireError::MessageTooLong { .. }), "{length}");
    }
    let mut short = msg(0, &[body_section(&ping())]);
    short.pop();
    assert!(matches!(error_of(&short), WireError::LengthMismatch { .. }));
    assert_eq!(error_of(&short[..10]), WireError::Truncated("the header"));
}

#[test]
fn other_operations_are_refused_by_name() {
    for (number, name) in [(2001, "OP_UPDATE"), (2002, "OP_INSERT"), (2006, "OP_DELETE"), (2007, "OP_KILL_CURSORS")] {
        assert_eq!(header_error(100, number), WireError::RemovedOperation { name });
    }
    assert_eq!(header_error(100, 4242), WireError::UnknownOperation(4242));
    assert_eq!(error_of(&frame(1, &[0; 20])), WireError::ReplyFromClient);
    assert_eq!(error_of(&frame(2012, &[0; 20])), WireError::Compressed);
}

#[test]
fn flags_and_sections_are_checked() {
    let body = body_section(&ping());
    assert_eq!(error_of(&frame(2013, &[0; 3])), WireError::Truncated("the OP_MSG flags"));
    assert_eq!(error_of(&msg(1 << 5, std::slice::from_ref(&body))), WireError::UnknownFlags(1 << 5));
    assert_eq!(error_of(&msg(0, &[])), WireError::NoBody);
    assert_eq!(error_of(&msg(0, &[body.clone(), body.clone()])), WireError::SecondBody);
    assert_eq!(error_of(&msg(0, &[vec![2]])), WireError::UnknownSectionKind(2));
    assert_eq!(error_of(&msg(1, &[vec![0; 3]])), WireError::Truncated("the checksum"));
}

#[test]
fn a_wrong_checksum_is_noticed() {
    let mut frame = with_checksum(msg(0, &[body_section(&ping())]));
    *frame.last_mut().unwrap() ^= 1;
    assert!(matches!(error_of(&frame), WireError::ChecksumMismatch { .. }));
}

#[test]
fn documents_lengths_are_checked() {
    for (length, bytes) in [(-1, 20), (0, 20), (4, 20), (21, 20), (i32::MAX, 20), (10, 20)] {
        let mut section = vec![0];
        section.extend_from_slice(&i32::to_le_bytes(length));
        section.extend_from_slice(&vec![1; bytes - 4]);
        assert!(matches!(error_of(&msg(0, &[section])), WireError::MalformedDocument { .. }), "{length}");
    }
    assert_eq!(error_of(&msg(0, &[vec![0, 5, 0]])), WireError::Truncated("the body"));
}

#[test]
fn sequences_are_checked() {
    let body = body_section(&ping());
    let sequence = |bytes: &[u8]| error_of(&msg(0, &[body.clone(), bytes.to_vec()]));
    for size in [-1, 0, 3, 100, i32::MIN, i32::MAX] {
        let mut section = vec![1];
        section.extend_from_slice(&i32::to_le_bytes(size));
        section.extend_from_slice(b"documents\0");
        assert_eq!(sequence(&section), WireError::Truncated("a document sequence"), "{size}");
    }
    assert_eq!(sequence(&[1, 6, 0, 0, 0, b'a', b'b']), WireError::Truncated("a document sequence's identifier"));
    assert_eq!(sequence(&[1, 6, 0, 0, 0, 0xff, 0]), WireError::NotUtf8("a document sequence's identifier"));
    let mut cut = sequence_section("documents", &[rawdoc! { "a": 1 }]);
    let last = cut.len() - 1;
    cut[last] = 9;
    assert!(matches!(sequence(&cut), WireError::MalformedDocument { .. }));
    let one = sequence_section("a", &[]);
    let twice = [body.clone(), one.clone(), one.clone()];
    assert_eq!(error_of(&msg(0, &twice)), WireError::DuplicateSequence("a".into()));
    let three = [body, one, sequence_section("b", &[]), sequence_section("c", &[])];
    assert_eq!(error_of(&msg(0, &three)), WireError::TooManySequences(2));
}

#[test]
fn queries_are_checked() {
    let good = query("admin.$cmd", &ping());
    for end in 16..good.len() {
        let cut = frame(2004, &good[16..end]);
        assert!(Request::parse(&cut).is_err(), "cut at {end}");
    }
    let mut long = good[16..].to_vec();
    long.extend_from_slice(rawdoc! {}.as_bytes());
    assert!(Request::parse(&frame(2004, &long)).is_ok(), "a field selector is allowed");
    long.push(0);
    assert_eq!(error_of(&frame(2004, &long)), WireError::TrailingBytes(1));
}

#[test]
fn compressed_frames_are_bounded() {
    let max = i32::try_from(MESSAGE_SIZE_BYTES_MAX).unwrap();
    assert!(matches!(unpack_error(&compressed(2013, -1, 1, &[])), WireError::MessageTooShort { .. }));
    assert!(matches!(unpack_error(&compressed(2013, max - 15, 3, &[])), WireError::MessageTooLong { .. }));
    assert!(matches!(unpack_error(&compressed(2013, max - 16, 1, &[0; 40])), WireError::Decompression { .. }));
    assert!(matches!(unpack_error(&compressed(2013, max - 16, 2, &[0; 40])), WireError::Decompression { .. }));
    assert!(matches!(unpack_error(&compressed(2013, max - 16, 3, &[0; 40])), WireError::Decompression { .. }));
    assert_eq!(unpack_error(&compressed(2013, 5, 9, &[0; 5])), WireError::UnknownCompressor(9));
    assert_eq!(unpack_error(&compressed(2012, 5, 0, &[0; 5])), WireError::Compressed);
    assert!(matches!(unpack_error(&compressed(2002, 5, 0, &[0; 5])), WireError::RemovedOperation { .. }));
    assert!(matches!(unpack_error(&frame(2012, &[0xdd, 7, 0, 0, 1, 0])), WireError::Truncated(_)));
}

#[test]
fn what_comes_out_must_be_what_was_declared() {
    let original = msg(0, &[body_section(&ping())]);
    for (number, compressor) in [(1, Compressor::Snappy), (2, Compressor::Zlib), (3, Compressor::Zstd)] {
        let mut packed = Vec::new();
        wire_protocol::compress(&original, compressor, &mut packed).unwrap();
        let size = i32::try_from(original.len() - 16).unwrap();
        for wrong in [size - 1, size + 1, 0] {
            let frame = compressed(2013, wrong, number, &packed[25..]);
            assert!(matches!(unpack_error(&frame), WireError::Decompression { .. }), "{compressor:?} {wrong}");
        }
    }
}

#[test]
fn a_disabled_compressor_is_refused() {
    let original = msg(0, &[body_section(&ping())]);
    let mut packed = Vec::new();
    wire_protocol::compress(&original, Compressor::Zstd, &mut packed).unwrap();
    let refused = wire_protocol::decompress(&packed, &[Compressor::Snappy], &mut Vec::new());
    assert_eq!(refused, Err(WireError::CompressorNotEnabled("zstd")));
}
