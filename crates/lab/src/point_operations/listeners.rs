//! Change streams that are open while operations are measured: a connection each, which asks for what comes and throws it away, so that their own work is small
//! beside the server's.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;

use bson::{RawArrayBuf, RawBsonRef, RawDocument, RawDocumentBuf, rawdoc};
use clap::ValueEnum;
use serde::Serialize;

use super::raw_connection::RawConnection;
use super::{COLLECTION, Operation};
use crate::error::LabError;

/// What the listeners listen to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Listened {
    /// Every change of the measured collection
    All,
    /// The measured collection, and of it only deletions
    Deletions,
    /// Another collection, which nobody changes
    Elsewhere,
}

/// The listeners. They end when this is dropped.
pub(super) struct Listeners {
    is_over: Arc<AtomicBool>,
    bytes: Arc<AtomicU64>,
    threads: Vec<JoinHandle<()>>,
}

impl Listeners {
    /// Opens them all.
    pub(super) fn open(
        (host, port): (&str, u16),
        database: &str,
        count: u32,
        listened: Listened,
    ) -> Result<Listeners, LabError> {
        let (is_over, bytes) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let mut threads = Vec::new();
        for _ in 0..count {
            let mut connection = RawConnection::open(host, port, Operation::FindOne, database)?;
            let reply = connection.request(&open_command(database, listened))?;
            let cursor = cursor_of(reply)?;
            let collection = collection_of(listened);
            let more = rawdoc! { "getMore": cursor, "collection": collection, "maxTimeMS": 500, "$db": database };
            let (is_over, bytes) = (is_over.clone(), bytes.clone());
            threads.push(std::thread::spawn(move || {
                while !is_over.load(Ordering::Relaxed) {
                    let Ok(reply) = connection.request(&more) else { return };
                    bytes.fetch_add(reply.as_bytes().len() as u64, Ordering::Relaxed);
                }
            }));
        }
        Ok(Listeners { is_over, bytes, threads })
    }

    /// Bytes that came to all of them.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }
}

impl Drop for Listeners {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            // One that failed has ended already.
            let _ = thread.join();
        }
    }
}

fn collection_of(listened: Listened) -> &'static str {
    if listened == Listened::Elsewhere { "point_ops_elsewhere" } else { COLLECTION }
}

fn open_command(database: &str, listened: Listened) -> RawDocumentBuf {
    let mut pipeline = RawArrayBuf::new();
    pipeline.push(rawdoc! { "$changeStream": {} });
    if listened == Listened::Deletions {
        pipeline.push(rawdoc! { "$match": { "operationType": "delete" } });
    }
    rawdoc! { "aggregate": collection_of(listened), "pipeline": pipeline, "cursor": {}, "$db": database }
}

fn cursor_of(reply: &RawDocument) -> Result<i64, LabError> {
    match reply.get_document("cursor").map(|cursor| cursor.get("id")) {
        Ok(Ok(Some(RawBsonRef::Int64(id)))) => Ok(id),
        _ => Err(LabError::WrongReply("a change stream without a cursor".to_owned())),
    }
}
