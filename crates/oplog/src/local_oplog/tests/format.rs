//! The written format: constants agree with `docs/file-format.md`, and old bytes stay readable.

use platform::OpenMode;

use super::*;
use crate::entry::{ENTRY_HEADER_BYTES, PAYLOAD_BYTES_MAX};
use crate::local_oplog::segment::{SEGMENT_HEADER_BYTES, SPARE_NAME};

#[test]
fn the_document_states_the_constants() {
    let document = include_str!("../../../../../docs/file-format.md");
    for statement in [
        format!("### Segment header: {SEGMENT_HEADER_BYTES} bytes"),
        format!("`{SEGMENT_HEADER_BYTES} + (p - start)`"),
        format!("### Entry: {ENTRY_HEADER_BYTES} bytes and the payload"),
        format!("the payload is at most {} MiB", PAYLOAD_BYTES_MAX >> 20),
        format!("`{SPARE_NAME}`"),
        format!("room for {} MiB of entries", OplogOptions::default().segment_bytes >> 20),
    ] {
        assert!(document.contains(&statement), "docs/file-format.md does not say: {statement}");
    }
}

#[test]
fn the_bytes_of_a_segment_are_as_documented() {
    let machine = Machine::new(1, 4096);
    let oplog = machine.open();
    append(&oplog, b"one").unwrap();
    append(&oplog, b"three").unwrap();
    oplog.flush_step().unwrap();
    let file = machine.disk.open(&machine.segment_path(0), OpenMode::Read).unwrap();
    let mut bytes = [0; 4096 + 27 + 29 + 8];
    file.read_exact_at(&mut bytes, 0).unwrap();
    let (header, entries) = bytes.split_at(4096);
    assert_eq!(header[..16], *b"PLMSOPLG\x01\0\0\0\0\0\0\0");
    assert_eq!(header[16..32], [0; 16]);
    assert_eq!(header[32..40], 1_700_000_000_000_i64.to_le_bytes());
    assert_eq!(header[40..44], crc32c::crc32c(&header[..40]).to_le_bytes());
    assert!(header[44..].iter().all(|byte| *byte == 0));
    let mut second = Vec::new();
    second.extend(29_u32.to_le_bytes());
    second.extend(27_u32.to_le_bytes());
    second.extend(((1_700_000_000_u64 << 32) | 2).to_le_bytes());
    let header_checksum = crc32c::crc32c_append(crc32c::crc32c(&27_u64.to_le_bytes()), &second);
    second.extend(header_checksum.to_le_bytes());
    second.extend(crc32c::crc32c_append(header_checksum, b"three").to_le_bytes());
    second.extend(b"three");
    assert_eq!(entries[27..56], second);
    assert_eq!(entries[56..], [0; 8]);
}
