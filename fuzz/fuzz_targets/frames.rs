//! Whatever bytes come in as a frame: no panic, and no memory by what a length field says.
//!
//! Run by `cargo xtask fuzz frames`. The same calls, with generated frames, are in `crates/wire_protocol/tests/wire/properties.rs`,
//! which every test run includes.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wire_protocol::{Compressor, FrameHeader, Request};

const COMPRESSORS: [Compressor; 3] = [Compressor::Snappy, Compressor::Zlib, Compressor::Zstd];

fuzz_target!(|bytes: &[u8]| {
    let _ = FrameHeader::of_frame(bytes);
    let mut unpacked = Vec::new();
    let plain = match wire_protocol::decompress(bytes, &COMPRESSORS, &mut unpacked) {
        Ok(_) => &unpacked[..],
        Err(_) => bytes,
    };
    let Ok(request) = Request::parse(plain) else { return };
    if let Request::Msg(message) = &request {
        for sequence in message.sequences.iter() {
            assert!(sequence.documents().map(|document| document.as_bytes().len()).sum::<usize>() <= plain.len());
        }
    }
});
