//! The documents of the benchmark, the messages of the raw client prepared ahead, and the check of replies.
//!
//! A message is built once with a marker as `_id`; sending an operation is writing its `_id` over the marker.

use bson::raw::{RawBsonRef, RawDocument, RawDocumentBuf};
use bson::spec::BinarySubtype;
use bson::{Document, rawdoc};

use super::{COLLECTION, Operation};
use crate::error::LabError;
use crate::op_message::{self, number_message, write_i32};

/// Size of every document, in bytes.
const DOCUMENT_BYTES: usize = 190;
/// An `_id` that occurs in a message only where an `_id` is to be written.
const MARKER: i32 = 0x5A17_C3B9;

/// A document of the benchmark: a few fields of usual types, filled up to 190 bytes.
pub(super) fn document(id: u32) -> RawDocumentBuf {
    let with_filling = |bytes: usize| {
        let filling = bson::Binary { subtype: BinarySubtype::Generic, bytes: vec![0xAB; bytes] };
        rawdoc! {
            "_id": id as i32, "name": format!("account-{id:010}"), "counter": 0, "active": true, "balance": 1024.5,
            "created": bson::DateTime::from_millis(1_700_000_000_000 + i64::from(id)), "filling": filling,
        }
    };
    let empty = with_filling(0).as_bytes().len();
    with_filling(DOCUMENT_BYTES.saturating_sub(empty))
}

/// A message with the places where its `_id` goes.
#[derive(Debug, Clone)]
pub(super) struct PreparedMessage {
    bytes: Vec<u8>,
    id_offsets: Vec<usize>,
}

impl PreparedMessage {
    /// The message of an operation on the collection of the benchmark.
    pub(super) fn of(operation: Operation, database: &str) -> Self {
        let key = rawdoc! { "_id": MARKER };
        match operation {
            Operation::FindOne => {
                let body =
                    rawdoc! { "find": COLLECTION, "filter": key, "limit": 1, "singleBatch": true, "$db": database };
                Self::new(&body, None)
            }
            Operation::InsertOne => {
                let body = rawdoc! { "insert": COLLECTION, "ordered": true, "$db": database };
                Self::new(&body, Some(("documents", &document(MARKER as u32))))
            }
            Operation::UpdateOne => {
                let body = rawdoc! { "update": COLLECTION, "ordered": true, "$db": database };
                let statement = rawdoc! { "q": key, "u": { "$inc": { "counter": 1 } }, "multi": false };
                Self::new(&body, Some(("updates", &statement)))
            }
            Operation::DeleteOne => {
                let body = rawdoc! { "delete": COLLECTION, "ordered": true, "$db": database };
                Self::new(&body, Some(("deletes", &rawdoc! { "q": key, "limit": 1 })))
            }
        }
    }

    /// A message of a body and, as drivers send statements, a document sequence of one.
    pub(super) fn new(body: &RawDocument, sequence: Option<(&str, &RawDocument)>) -> Self {
        let bytes = op_message::message(body, sequence);
        let marker = MARKER.to_le_bytes();
        let id_offsets =
            bytes.windows(4).enumerate().filter(|(_, window)| *window == marker).map(|(offset, _)| offset).collect();
        Self { bytes, id_offsets }
    }

    /// The bytes to send for an `_id`.
    pub(super) fn with(&mut self, id: u32, request_id: i32) -> &[u8] {
        for &offset in &self.id_offsets {
            write_i32(&mut self.bytes, offset, id as i32);
        }
        number_message(&mut self.bytes, request_id);
        &self.bytes
    }
}

/// The document of a reply to a request, or what is wrong with it.
pub(super) fn reply_body(reply: &[u8], request_id: i32) -> Result<&RawDocument, LabError> {
    let body = op_message::reply_body(reply, request_id).map_err(LabError::WrongReply)?;
    if number(body, "ok") == Some(1.0) { Ok(body) } else { Err(LabError::WrongReply(in_words(body))) }
}

/// Checks that a reply says exactly one document was found or changed.
pub(super) fn verify(operation: Operation, reply: &RawDocument, id: u32) -> Result<(), LabError> {
    let right = match operation {
        Operation::FindOne => found_id(reply) == Some(id as i32),
        Operation::InsertOne | Operation::DeleteOne => number(reply, "n") == Some(1.0),
        Operation::UpdateOne => number(reply, "n") == Some(1.0) && number(reply, "nModified") == Some(1.0),
    };
    if right {
        Ok(())
    } else {
        Err(LabError::WrongReply(format!("{} of _id {id}: {}", operation.name(), in_words(reply))))
    }
}

fn found_id(reply: &RawDocument) -> Option<i32> {
    let batch = reply.get_document("cursor").ok()?.get_array("firstBatch").ok()?;
    match batch.into_iter().next()?.ok()? {
        RawBsonRef::Document(document) => document.get_i32("_id").ok(),
        _ => None,
    }
}

fn in_words(reply: &RawDocument) -> String {
    Document::try_from(reply).map_or_else(|error| error.to_string(), |reply| reply.to_string())
}

fn number(document: &RawDocument, name: &str) -> Option<f64> {
    match document.get(name).ok()?? {
        RawBsonRef::Double(number) => Some(number),
        RawBsonRef::Int32(number) => Some(f64::from(number)),
        RawBsonRef::Int64(number) => Some(number as f64),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::op_message::read_i32;

    #[test]
    fn documents_are_190_bytes_whatever_the_id() {
        for id in [0, 9, 100_000, MARKER as u32, u32::MAX] {
            assert_eq!(document(id).as_bytes().len(), DOCUMENT_BYTES);
        }
    }

    #[test]
    fn every_message_holds_its_id_once() {
        for operation in [Operation::FindOne, Operation::InsertOne, Operation::UpdateOne, Operation::DeleteOne] {
            let mut message = PreparedMessage::of(operation, "bench");
            assert_eq!(message.id_offsets.len(), 1, "{operation:?}");
            let bytes = message.with(7, 99);
            assert_eq!(read_i32(bytes, 4), Some(99));
            assert!(!bytes.windows(4).any(|window| window == MARKER.to_le_bytes()));
        }
    }

    fn reply(body: &RawDocument) -> Vec<u8> {
        let mut bytes = PreparedMessage::new(body, None).bytes;
        write_i32(&mut bytes, 8, 5);
        bytes
    }

    #[test]
    fn replies_are_checked() {
        let counted = reply(&rawdoc! { "n": 1, "nModified": 1_i64, "ok": 1.0 });
        let body = reply_body(&counted, 5).unwrap();
        for operation in [Operation::InsertOne, Operation::UpdateOne, Operation::DeleteOne] {
            verify(operation, body, 3).unwrap();
        }
        verify(Operation::FindOne, body, 3).unwrap_err();
        let found = reply(&rawdoc! { "cursor": { "firstBatch": [ { "_id": 3 } ], "id": 0_i64, "ns": "a.b" }, "ok": 1 });
        verify(Operation::FindOne, reply_body(&found, 5).unwrap(), 3).unwrap();
        verify(Operation::FindOne, reply_body(&found, 5).unwrap(), 4).unwrap_err();
        let missed = reply(&rawdoc! { "n": 0, "nModified": 0, "ok": 1.0 });
        verify(Operation::UpdateOne, reply_body(&missed, 5).unwrap(), 3).unwrap_err();
        reply_body(&missed, 6).unwrap_err();
        reply_body(&reply(&rawdoc! { "ok": 0.0, "errmsg": "no" }), 5).unwrap_err();
    }
}
