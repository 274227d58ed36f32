//! A server that does nothing: it answers every command at once with the smallest reply that a driver accepts.
//!
//! What it measures is the client: `plimsoll bench null-server` serves in a process of its own, so that the load generator's
//! limit can be found and stated; tests run it in a thread, and let it stall, refuse or die on purpose ([`Misbehaviour`]).

use std::io::{self, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use bson::raw::{RawBsonRef, RawDocument, RawDocumentBuf};
use bson::{rawdoc, spec::ElementType};

const OP_REPLY: i32 = 1;
const OP_QUERY: i32 = 2004;
const OP_MSG: i32 = 2013;
const HEADER_BYTES: usize = 16;
/// Header, flags and the kind of the first section of an OP_MSG.
const MESSAGE_BODY_OFFSET: usize = 21;
/// Longer messages than a driver may send end the connection.
const MESSAGE_BYTES_MAX: usize = 48_000_000;

/// What a server of a test does wrong. The default does nothing wrong.
#[derive(Debug, Clone, Copy, Default)]
pub struct Misbehaviour {
    /// After this many data commands, every connection is closed and none is accepted any more.
    pub dies_after: Option<u64>,
    /// From this moment after the start, for this long, no data command is answered.
    pub stalls: Option<(Duration, Duration)>,
    /// Every so-many-th data command is answered with an error of code 462 and the label `SystemOverloadedError`.
    pub refuses_every: Option<u64>,
}

/// A null server that serves until it is dropped.
pub struct NullServer {
    address: SocketAddr,
    shared: Arc<Shared>,
}

struct Shared {
    started: Instant,
    misbehaviour: Misbehaviour,
    commands: AtomicU64,
    documents_changed: AtomicU64,
    stopped: AtomicBool,
}

impl NullServer {
    /// Listens at an address (port 0 for any free one) and serves each connection on a thread of its own.
    ///
    /// # Errors
    /// The address cannot be listened at.
    pub fn start(address: &str, misbehaviour: Misbehaviour) -> io::Result<Self> {
        let listener = TcpListener::bind(address)?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared {
            started: Instant::now(),
            misbehaviour,
            commands: AtomicU64::new(0),
            documents_changed: AtomicU64::new(0),
            stopped: AtomicBool::new(false),
        });
        let serving = Arc::clone(&shared);
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                if serving.stopped.load(Ordering::Relaxed) {
                    break;
                }
                let shared = Arc::clone(&serving);
                // A connection that breaks is the client's affair.
                thread::spawn(move || drop(serve_connection(&stream, &shared)));
            }
        });
        Ok(Self { address, shared })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Its connection string.
    pub fn uri(&self) -> String {
        format!("mongodb://{}", self.address)
    }

    /// Data commands answered so far.
    pub fn commands(&self) -> u64 {
        self.shared.commands.load(Ordering::Relaxed)
    }
}

impl Drop for NullServer {
    fn drop(&mut self) {
        self.shared.stopped.store(true, Ordering::Relaxed);
        // Wakes the listener, which then sees that it has been stopped.
        drop(TcpStream::connect(self.address));
    }
}

/// Serves until the process is ended. Prints where it listens.
///
/// # Errors
/// The address cannot be listened at.
pub fn serve_forever(address: &str) -> io::Result<()> {
    let server = NullServer::start(address, Misbehaviour::default())?;
    println!("a null server listens at {}", server.uri());
    loop {
        thread::park();
    }
}

fn serve_connection(stream: &TcpStream, shared: &Shared) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut reader = BufReader::with_capacity(64 << 10, stream);
    let mut message = Vec::new();
    let mut reply = Vec::with_capacity(512);
    loop {
        read_message(&mut reader, &mut message)?;
        if shared.stopped.load(Ordering::Relaxed) {
            return Ok(());
        }
        reply.clear();
        if answer(&message, shared, &mut reply)?.is_none() {
            shared.stopped.store(true, Ordering::Relaxed);
            return Ok(());
        }
        let mut writer = stream;
        writer.write_all(&reply)?;
    }
}

fn read_message(reader: &mut impl Read, message: &mut Vec<u8>) -> io::Result<()> {
    message.resize(HEADER_BYTES, 0);
    reader.read_exact(message)?;
    let length = usize::try_from(read_i32(message, 0)?).unwrap_or(0);
    if !(HEADER_BYTES..=MESSAGE_BYTES_MAX).contains(&length) {
        return Err(io::ErrorKind::InvalidData.into());
    }
    message.resize(length, 0);
    reader.read_exact(message.get_mut(HEADER_BYTES..).unwrap_or_default())
}

/// Appends the reply to a message; nothing when the server is to die instead.
fn answer(message: &[u8], shared: &Shared, reply: &mut Vec<u8>) -> io::Result<Option<()>> {
    let request_id = read_i32(message, 4)?;
    let code = read_i32(message, 12)?;
    if code == OP_QUERY {
        let body = hello();
        write_header(reply, request_id, OP_REPLY, 20 + body.as_bytes().len());
        reply.extend_from_slice(&[0; 16]);
        reply.extend_from_slice(&1_i32.to_le_bytes());
        reply.extend_from_slice(body.as_bytes());
        return Ok(Some(()));
    }
    if code != OP_MSG {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let rest = message.get(MESSAGE_BODY_OFFSET..).unwrap_or_default();
    let body_length = usize::try_from(read_i32(rest, 0)?).unwrap_or(0);
    let body = rest.get(..body_length).and_then(|bytes| RawDocument::from_bytes(bytes).ok());
    let body = body.ok_or(io::ErrorKind::InvalidData)?;
    let Some(body) = reply_to(body, rest.get(body_length..).unwrap_or_default(), shared) else { return Ok(None) };
    write_header(reply, request_id, OP_MSG, 5 + body.as_bytes().len());
    reply.extend_from_slice(&[0; 5]);
    reply.extend_from_slice(body.as_bytes());
    Ok(Some(()))
}

fn write_header(reply: &mut Vec<u8>, request_id: i32, code: i32, body_bytes: usize) {
    for field in [(HEADER_BYTES + body_bytes) as i32, 1, request_id, code] {
        reply.extend_from_slice(&field.to_le_bytes());
    }
}

fn read_i32(bytes: &[u8], offset: usize) -> io::Result<i32> {
    let field = bytes.get(offset..offset + 4).and_then(|field| field.try_into().ok());
    field.map(i32::from_le_bytes).ok_or_else(|| io::ErrorKind::InvalidData.into())
}

/// The reply to a command; nothing when the server dies of it.
fn reply_to(body: &RawDocument, sequence: &[u8], shared: &Shared) -> Option<RawDocumentBuf> {
    let name = body.iter_elements().next().and_then(Result::ok).map_or("", |first| first.key().as_str());
    match name {
        "hello" | "isMaster" | "ismaster" => return Some(hello()),
        "buildInfo" | "buildinfo" => return Some(rawdoc! { "version": "8.0.0", "gitVersion": "null", "ok": 1.0 }),
        "serverStatus" => return Some(server_status(shared)),
        "ping" | "endSessions" | "create" | "createIndexes" | "drop" | "dropDatabase" | "dbStats" | "killCursors" => {
            return Some(rawdoc! { "ok": 1.0 });
        }
        "listCollections" => {
            return Some(rawdoc! { "cursor": { "id": 0_i64, "ns": "a.b", "firstBatch": [] }, "ok": 1.0 });
        }
        _ => {}
    }
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
    if let Some((start, length)) = shared.misbehaviour.stalls {
        let now = shared.started.elapsed();
        if (start..start + length).contains(&now) {
            thread::sleep(start + length - now);
        }
    }
    Some(data_reply(name, body, sequence, shared))
}

fn data_reply(name: &str, body: &RawDocument, sequence: &[u8], shared: &Shared) -> RawDocumentBuf {
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
