//! Arbitrary and mutated frames: an error or a message, never a panic, and never more memory than declared.

use bson::{RawDocumentBuf, rawdoc};
use proptest::prelude::*;
use wire_protocol::{Compressor, FrameHeader, Request};

use crate::frames::{body_section, compressed, frame, msg, query, sequence_section, with_checksum};

const ENABLED: [Compressor; 3] = [Compressor::Snappy, Compressor::Zlib, Compressor::Zstd];

/// Reads everything a parsed request offers.
fn exercise(bytes: &[u8]) {
    if let Some(header) = bytes.first_chunk() {
        let _ = FrameHeader::parse(header);
    }
    match Request::parse(bytes) {
        Ok(Request::Msg(msg)) => {
            assert!(msg.body.as_bytes().len() <= bytes.len());
            for sequence in msg.sequences.iter() {
                let documents: Vec<_> = sequence.documents().collect();
                assert_eq!(documents.len(), sequence.len());
                let size: usize = documents.iter().map(|document| document.as_bytes().len()).sum();
                assert_eq!(size, sequence.size_bytes());
            }
        }
        Ok(Request::Query(query)) => {
            let _ = query.command();
            let _ = query.command_database();
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
    let mut unpacked = Vec::new();
    if wire_protocol::decompress(bytes, &ENABLED, &mut unpacked).is_ok() {
        assert!(unpacked.len() <= wire_protocol::MESSAGE_SIZE_BYTES_MAX);
        assert_eq!(FrameHeader::of_frame(&unpacked).unwrap().message_length, unpacked.len());
        let _ = Request::parse(&unpacked);
    }
}

fn documents() -> impl Strategy<Value = Vec<RawDocumentBuf>> {
    prop::collection::vec("[a-z]{0,20}".prop_map(|text| rawdoc! { "text": text }), 0..5)
}

/// Frames that are well formed, of every kind.
fn well_formed() -> impl Strategy<Value = Vec<u8>> {
    (documents(), any::<bool>(), 0..4_u8, 0..4_usize).prop_map(|(documents, checksum, shape, compressor)| {
        let body = body_section(&rawdoc! { "insert": "c", "$db": "d" });
        let mut plain = msg(0, &[body, sequence_section("documents", &documents)]);
        if checksum {
            plain = with_checksum(plain);
        }
        match shape {
            0 => query("admin.$cmd", &rawdoc! { "isMaster": 1, "helloOk": true }),
            1 | 2 => {
                let mut packed = Vec::new();
                let all = [Compressor::Noop, Compressor::Snappy, Compressor::Zlib, Compressor::Zstd];
                wire_protocol::compress(&plain, all[compressor], &mut packed).unwrap();
                packed
            }
            _ => plain,
        }
    })
}

fn fix_length(frame: &mut [u8]) {
    let length = i32::try_from(frame.len()).unwrap().to_le_bytes();
    if let Some(slot) = frame.first_chunk_mut() {
        *slot = length;
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3000))]

    #[test]
    fn arbitrary_bytes(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        exercise(&bytes);
    }

    #[test]
    fn arbitrary_contents(op_code in prop::sample::select(vec![2013, 2004, 2012]),
                          content in prop::collection::vec(prop_oneof![Just(0), Just(1), any::<u8>()], 0..300)) {
        exercise(&frame(op_code, &content));
    }

    #[test]
    fn arbitrary_compressed(declared in prop_oneof![0..4096, any::<i32>()], compressor in 0..5_u8,
                            content in prop::collection::vec(any::<u8>(), 0..300)) {
        exercise(&compressed(2013, declared, compressor, &content));
    }

    #[test]
    fn well_formed_frames_parse(bytes in well_formed()) {
        let mut unpacked = Vec::new();
        let plain = match wire_protocol::decompress(&bytes, &ENABLED, &mut unpacked) {
            Ok(_) => &unpacked,
            Err(_) => &bytes,
        };
        prop_assert!(Request::parse(plain).is_ok());
        exercise(&bytes);
    }

    #[test]
    fn mutated_frames(bytes in well_formed(), edits in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
                      cut in prop::option::of(any::<prop::sample::Index>()), repair: bool) {
        let mut mutated = bytes;
        for (index, value) in edits {
            let position = index.index(mutated.len());
            mutated[position] = value;
        }
        if let Some(cut) = cut {
            mutated.truncate(cut.index(mutated.len()));
        }
        if repair {
            fix_length(&mut mutated);
        }
        exercise(&mutated);
    }
}
