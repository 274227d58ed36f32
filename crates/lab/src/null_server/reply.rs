//! What the null server answers: to each message the smallest reply that a driver accepts, unless it is to misbehave.

use std::io;
use std::sync::atomic::Ordering;
use std::time::Instant;

use bson::raw::{RawBsonRef, RawDocument, RawDocumentBuf};
use bson::{rawdoc, spec::ElementType};

use super::{HEADER_BYTES, Shared};

const OP_REPLY: i32 = 1;
const OP_QUERY: i32 = 2004;
const OP_MSG: i32 = 2013;
/// Header, flags and the kind of the first section of an OP_MSG.
const MESSAGE_BODY_OFFSET: usize = 21;

/// What became of a message.
pub(super) enum Answer {
    /// The reply was appended.
    Now,
    /// The reply was appended; it is to be sent at this moment, and not earlier.
    At(Instant),
    /// There is none: the server is to die.
    Never,
}

/// Appends the reply to a message.
///
/// # Errors
/// The bytes are no message that a driver would send.
pub(super) fn answer(message: &[u8], shared: &Shared, reply: &mut Vec<u8>) -> io::Result<Answer> {
    let request_id = read_i32(message, 4)?;
    let code = read_i32(message, 12)?;
    if code == OP_QUERY {
        let body = hello();
        write_header(reply, request_id, OP_REPLY, 20 + body.as_bytes().len());
        reply.extend_from_slice(&[0; 16]);
        reply.extend_from_slice(&1_i32.to_le_bytes());
        reply.extend_from_slice(body.as_bytes());
        return Ok(Answer::Now);
    }
    if code != OP_MSG {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let rest = message.get(MESSAGE_BODY_OFFSET..).unwrap_or_default();
    let body_length = usize::try_from(read_i32(rest, 0)?).unwrap_or(0);
    let body = rest.get(..body_length).and_then(|bytes| RawDocument::from_bytes(bytes).ok());
    let body = body.ok_or(io::ErrorKind::InvalidData)?;
    let name = body.iter_elements().next().and_then(Result::ok).map_or("", |first| first.key().as_str());
    let administrative = administrative_reply(name, shared);
    let is_data = administrative.is_none();
    let body = match administrative {
        Some(body) => body,
        None => match data_reply(name, body, rest.get(body_length..).unwrap_or_default(), shared) {
            Some(body) => body,
            None => return Ok(Answer::Never),
        },
    };
    write_header(reply, request_id, OP_MSG, 5 + body.as_bytes().len());
    reply.extend_from_slice(&[0; 5]);
    reply.extend_from_slice(body.as_bytes());
    Ok(shared.end_of_stall().filter(|_| is_data).map_or(Answer::Now, Answer::At))
}

fn write_header(reply: &mut Vec<u8>, request_id: i32, code: i32, body_bytes: usize) {
    for field in [(HEADER_BYTES + body_bytes) as i32, 1, request_id, code] {
        reply.extend_from_slice(&field.to_le_bytes());
    }
}

pub(super) fn read_i32(bytes: &[u8], offset: usize) -> io::Result<i32> {
    let field = bytes.get(offset..offset + 4).and_then(|field| field.try_into().ok());
    field.map(i32::from_le_bytes).ok_or_else(|| io::ErrorKind::InvalidData.into())
}

/// The reply to a command that concerns no documents; none to those that do.
fn administrative_reply(name: &str, shared: &Shared) -> Option<RawDocumentBuf> {
    match name {
        "hello" | "isMaster" | "ismaster" => Some(hello()),
        "buildInfo" | "buildinfo" => Some(rawdoc! { "version": "8.0.0", "gitVersion": "null", "ok": 1.0 }),
        "serverStatus" => Some(server_status(shared)),
        "ping" | "endSessions" | "create" | "createIndexes" | "drop" | "dropDatabase" | "dbStats" | "killCursors" => {
            Some(rawdoc! { "ok": 1.0 })
        }
        "listCollections" => Some(rawdoc! { "cursor": { "id": 0_i64, "ns": "a.b", "firstBatch": [] }, "ok": 1.0 }),
        _ => None,
    }
}

/// The reply to a command that concerns documents; none when the server dies of it.
fn data_reply(name: &str, body: &RawDocument, sequence: &[u8], shared: &Shared) -> Option<RawDocumentBuf> {
    let number = shared.commands.fetch_add(1, Ordering::Relaxed) + 1;
    if shared.misbehaviour.dies_after.is_some_and(|limit| number > limit) {
        return None;
    }
    if shared.misbehaviour.refuses_every.is_some_and(|every| number.is_multiple_of(every)) {
        return Some(rawdoc! {
            "ok": 0.0, "code": 462, "codeName": "IngressRequestRateLimitExceeded", "errmsg": "too much",
            "errorLabels": ["SystemOverloadedError", "RetryableError"],
        });
    }
    Some(success(name, body, sequence, shared))
}

fn success(name: &str, body: &RawDocument, sequence: &[u8], shared: &Shared) -> RawDocumentBuf {
    match name {
        "find" | "aggregate" => {
            let id = body.get_document("filter").ok().and_then(|filter| filter.get("_id").ok().flatten());
            let found = match id {
                Some(RawBsonRef::Int32(id)) => rawdoc! { "_id": id },
                Some(RawBsonRef::Int64(id)) => rawdoc! { "_id": id },
                _ => rawdoc! { "_id": 0 },
            };
            rawdoc! { "cursor": { "firstBatch": [found], "id": 0_i64, "ns": "null.null" }, "ok": 1.0 }
        }
        "insert" | "update" | "delete" => {
            let statements = statements_of(body, sequence);
            shared.documents_changed.fetch_add(statements as u64, Ordering::Relaxed);
            rawdoc! { "n": statements, "nModified": statements, "ok": 1.0 }
        }
        _ => rawdoc! { "n": 1, "value": { "_id": 0 }, "ok": 1.0 },
    }
}

/// How many statements a write has: in its document sequence, or in the array of the body.
fn statements_of(body: &RawDocument, sequence: &[u8]) -> i32 {
    if sequence.len() > 5 {
        let name_length = sequence.iter().skip(5).position(|&byte| byte == 0).unwrap_or(0);
        let mut rest = sequence.get(5 + name_length + 1..).unwrap_or_default();
        let mut count = 0;
        while let Ok(length) = read_i32(rest, 0) {
            count += 1;
            rest = rest.get(usize::try_from(length).unwrap_or(usize::MAX).max(5)..).unwrap_or_default();
        }
        return count;
    }
    let arrays = body.iter_elements().flatten().filter(|element| element.element_type() == ElementType::Array);
    let lengths = arrays.filter_map(|element| match element.value() {
        Ok(RawBsonRef::Array(array)) => Some(array.into_iter().count() as i32),
        _ => None,
    });
    lengths.max().unwrap_or(0)
}

fn hello() -> RawDocumentBuf {
    rawdoc! {
        "ismaster": true, "isWritablePrimary": true, "helloOk": true, "maxBsonObjectSize": 16_777_216,
        "maxMessageSizeBytes": 48_000_000, "maxWriteBatchSize": 100_000, "localTime": bson::DateTime::from_millis(0),
        "logicalSessionTimeoutMinutes": 30, "connectionId": 1, "minWireVersion": 0, "maxWireVersion": 25,
        "readOnly": false, "ok": 1.0,
    }
}

fn server_status(shared: &Shared) -> RawDocumentBuf {
    let changed = shared.documents_changed.load(Ordering::Relaxed) as i64;
    rawdoc! {
        "process": "null", "version": "8.0.0", "metrics": { "document": { "inserted": changed, "updated": changed } },
        "network": { "numRequests": shared.commands.load(Ordering::Relaxed) as i64 }, "ok": 1.0,
    }
}
