//! A server that knows just the commands the benchmarks send, on integers as `_id`s in memory, and can misbehave on request.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard};

use bson::{Bson, Document, doc};

/// What goes wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Misbehaviour {
    None,
    /// Closes all connections and stops listening when the n-th update arrives.
    DiesAtUpdate(u32),
    /// Each update leaves out one document.
    MissesOneDocument,
}

/// A listening server; it ends with the test's process.
pub(crate) struct FakeServer {
    address: SocketAddr,
    state: Arc<Mutex<State>>,
}

struct State {
    misbehaviour: Misbehaviour,
    collections: BTreeMap<String, BTreeSet<i64>>,
    connections: Vec<TcpStream>,
    updates: u32,
    inserted: i64,
    updated: i64,
    dead: bool,
}

impl FakeServer {
    pub(crate) fn start(misbehaviour: Misbehaviour) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let state = Arc::new(Mutex::new(State {
            misbehaviour,
            collections: BTreeMap::new(),
            connections: Vec::new(),
            updates: 0,
            inserted: 0,
            updated: 0,
            dead: false,
        }));
        let shared = Arc::clone(&state);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                if lock(&shared).dead {
                    return;
                }
                lock(&shared).connections.push(stream.try_clone().unwrap());
                let state = Arc::clone(&shared);
                std::thread::spawn(move || serve(stream, &state));
            }
        });
        Self { address, state }
    }

    pub(crate) fn uri(&self) -> String {
        format!("mongodb://{}", self.address)
    }

    pub(crate) fn collections(&self) -> Vec<String> {
        lock(&self.state).collections.keys().cloned().collect()
    }
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap()
}

fn serve(mut stream: TcpStream, state: &Mutex<State>) {
    stream.set_nodelay(true).unwrap();
    let mut header = [0_u8; 16];
    while stream.read_exact(&mut header).is_ok() {
        let number = |offset: usize| i32::from_le_bytes(header[offset..offset + 4].try_into().unwrap());
        let mut message = vec![0; number(0) as usize - 16];
        if stream.read_exact(&mut message).is_err() {
            return;
        }
        let legacy = number(12) == 2004;
        let command = if legacy { query_command(&message) } else { message_command(&message) };
        let Some(reply) = lock(state).answer(&command) else { return };
        let more_to_come = !legacy && message[0] & 2 != 0;
        if !more_to_come && stream.write_all(&frame(&reply, number(4), legacy)).is_err() {
            return;
        }
    }
}

/// The command of an OP_QUERY (the first hello of some drivers).
fn query_command(message: &[u8]) -> Document {
    let name_end = 4 + message[4..].iter().position(|&byte| byte == 0).unwrap();
    Document::from_reader(&message[name_end + 9..]).unwrap()
}

/// The command of an OP_MSG, its document sequences put into it as arrays.
fn message_command(message: &[u8]) -> Document {
    let (mut command, mut sequences) = (Document::new(), Vec::new());
    let mut rest = &message[4..];
    while let Some((&kind, section)) = rest.split_first() {
        let length = i32::from_le_bytes(section[..4].try_into().unwrap()) as usize;
        if kind == 0 {
            command = Document::from_reader(&section[..length]).unwrap();
        } else {
            let name_end = 4 + section[4..].iter().position(|&byte| byte == 0).unwrap();
            let name = String::from_utf8(section[4..name_end].to_vec()).unwrap();
            let mut documents = &section[name_end + 1..length];
            let mut array = Vec::new();
            while !documents.is_empty() {
                array.push(Bson::Document(Document::from_reader(&mut documents).unwrap()));
            }
            sequences.push((name, array));
        }
        rest = &section[length..];
    }
    command.extend(sequences.into_iter().map(|(name, array)| (name, Bson::Array(array))));
    command
}

fn frame(reply: &Document, response_to: i32, legacy: bool) -> Vec<u8> {
    let body = reply.to_vec().unwrap();
    // OP_REPLY: flags, cursor (8 bytes), starting from, count of 1. OP_MSG: flags and the kind of section.
    let prefix: &[u8] = if legacy { &[8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0] } else { &[0; 5] };
    let length = (16 + prefix.len() + body.len()) as i32;
    let header = [length, 1, response_to, if legacy { 1 } else { 2013 }];
    header.iter().flat_map(|number| number.to_le_bytes()).chain(prefix.iter().copied()).chain(body).collect()
}

fn whole(value: &Bson) -> i64 {
    match *value {
        Bson::Int32(number) => number.into(),
        Bson::Int64(number) => number,
        Bson::Double(number) => number as i64,
        _ => panic!("not a number: {value}"),
    }
}

impl State {
    /// The reply, or none when the server has died of the command.
    fn answer(&mut self, command: &Document) -> Option<Document> {
        let (name, value) = command.iter().next().unwrap();
        let collection = value.as_str().unwrap_or_default().to_owned();
        let reply = match name.as_str() {
            "hello" | "isMaster" | "ismaster" => doc! {
                "ismaster": true, "isWritablePrimary": true, "maxBsonObjectSize": 16_777_216, "maxMessageSizeBytes": 48_000_000,
                "maxWriteBatchSize": 100_000, "minWireVersion": 0, "maxWireVersion": 21, "helloOk": true, "ok": 1.0,
            },
            "buildInfo" => doc! { "version": "7.0.0", "gitVersion": "none", "ok": 1.0 },
            "serverStatus" => doc! {
                "process": "fake", "pid": 1_i64, "ok": 1.0,
                "metrics": { "document": { "inserted": self.inserted, "updated": self.updated } },
            },
            "listCollections" => {
                let named = |name: &String| Bson::Document(doc! { "name": name, "type": "collection" });
                let batch: Vec<Bson> = self.collections.keys().map(named).collect();
                doc! { "cursor": { "firstBatch": batch, "id": 0_i64, "ns": "plimsoll_bench.$cmd.listCollections" }, "ok": 1.0 }
            }
            "dbStats" => doc! { "storageSize": 1000.0, "indexSize": 500.0, "ok": 1.0 },
            "drop" => {
                self.collections.remove(&collection);
                doc! { "ok": 1.0 }
            }
            "dropDatabase" => {
                self.collections.clear();
                doc! { "ok": 1.0 }
            }
            "create" => {
                self.collections.entry(collection).or_default();
                doc! { "ok": 1.0 }
            }
            "insert" => self.insert(&collection, command),
            "update" => return self.update(&collection, command),
            "delete" => {
                let id = whole(statement(command, "deletes").get_document("q").unwrap().get("_id").unwrap());
                let deleted = self.collections.get_mut(&collection).is_some_and(|ids| ids.remove(&id));
                doc! { "n": i32::from(deleted), "ok": 1.0 }
            }
            "find" => {
                let id = whole(command.get_document("filter").unwrap().get("_id").unwrap());
                let found = self.collections.get(&collection).is_some_and(|ids| ids.contains(&id));
                let batch: Vec<Bson> = found.then(|| Bson::Document(doc! { "_id": id as i32 })).into_iter().collect();
                doc! { "cursor": { "firstBatch": batch, "id": 0_i64, "ns": format!("plimsoll_bench.{collection}") }, "ok": 1.0 }
            }
            "createIndexes" | "endSessions" | "ping" => doc! { "ok": 1.0 },
            other => {
                doc! { "ok": 0.0, "code": 59, "codeName": "CommandNotFound", "errmsg": format!("no such command: '{other}'") }
            }
        };
        Some(reply)
    }

    fn insert(&mut self, collection: &str, command: &Document) -> Document {
        let documents = command.get_array("documents").unwrap();
        let ids = self.collections.entry(collection.to_owned()).or_default();
        ids.extend(documents.iter().map(|document| whole(document.as_document().unwrap().get("_id").unwrap())));
        self.inserted += documents.len() as i64;
        doc! { "n": documents.len() as i32, "ok": 1.0 }
    }

    fn update(&mut self, collection: &str, command: &Document) -> Option<Document> {
        self.updates += 1;
        if self.misbehaviour == Misbehaviour::DiesAtUpdate(self.updates) {
            self.dead = true;
            for connection in &self.connections {
                let _ = connection.shutdown(Shutdown::Both);
            }
        }
        if self.dead {
            return None;
        }
        let ids = self.collections.get(collection)?;
        let filter = statement(command, "updates").get_document("q").unwrap().get("_id").unwrap().clone();
        let mut matched = match filter {
            Bson::Document(modulo) => {
                let [divisor, remainder] = &modulo.get_array("$mod").unwrap()[..] else { panic!("$mod of two") };
                ids.iter().filter(|&&id| id % whole(divisor) == whole(remainder)).count() as i32
            }
            id => i32::from(ids.contains(&whole(&id))),
        };
        if self.misbehaviour == Misbehaviour::MissesOneDocument {
            matched -= 1;
        }
        self.updated += i64::from(matched);
        Some(doc! { "n": matched, "nModified": matched, "ok": 1.0 })
    }
}

fn statement<'a>(command: &'a Document, name: &str) -> &'a Document {
    command.get_array(name).unwrap()[0].as_document().unwrap()
}
