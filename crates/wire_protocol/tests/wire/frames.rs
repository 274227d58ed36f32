//! Builds frames byte by byte, without the code under test.

use bson::{RawDocumentBuf, rawdoc};

pub(crate) fn frame(op_code: i32, content: &[u8]) -> Vec<u8> {
    let length = i32::try_from(16 + content.len()).unwrap();
    let mut frame = Vec::new();
    for field in [length, 7, 0, op_code] {
        frame.extend_from_slice(&field.to_le_bytes());
    }
    frame.extend_from_slice(content);
    frame
}

pub(crate) fn ping() -> RawDocumentBuf {
    rawdoc! { "ping": 1, "$db": "admin" }
}

pub(crate) fn body_section(document: &RawDocumentBuf) -> Vec<u8> {
    let mut section = vec![0];
    section.extend_from_slice(document.as_bytes());
    section
}

pub(crate) fn sequence_section(identifier: &str, documents: &[RawDocumentBuf]) -> Vec<u8> {
    let mut content = identifier.as_bytes().to_vec();
    content.push(0);
    for document in documents {
        content.extend_from_slice(document.as_bytes());
    }
    let mut section = vec![1];
    section.extend_from_slice(&i32::try_from(content.len() + 4).unwrap().to_le_bytes());
    section.extend_from_slice(&content);
    section
}

pub(crate) fn msg(flags: u32, sections: &[Vec<u8>]) -> Vec<u8> {
    let mut content = flags.to_le_bytes().to_vec();
    for section in sections {
        content.extend_from_slice(section);
    }
    frame(2013, &content)
}

pub(crate) fn with_checksum(mut frame: Vec<u8>) -> Vec<u8> {
    frame[16] |= 1;
    let length = i32::try_from(frame.len() + 4).unwrap();
    frame[..4].copy_from_slice(&length.to_le_bytes());
    let checksum = crc32c::crc32c(&frame);
    frame.extend_from_slice(&checksum.to_le_bytes());
    frame
}

pub(crate) fn query(namespace: &str, document: &RawDocumentBuf) -> Vec<u8> {
    let mut content = 0_i32.to_le_bytes().to_vec();
    content.extend_from_slice(namespace.as_bytes());
    content.push(0);
    content.extend_from_slice(&0_i32.to_le_bytes());
    content.extend_from_slice(&(-1_i32).to_le_bytes());
    content.extend_from_slice(document.as_bytes());
    frame(2004, &content)
}

pub(crate) fn compressed(op_code: i32, declared: i32, compressor: u8, bytes: &[u8]) -> Vec<u8> {
    let mut content = op_code.to_le_bytes().to_vec();
    content.extend_from_slice(&declared.to_le_bytes());
    content.push(compressor);
    content.extend_from_slice(bytes);
    frame(2012, &content)
}
