//! Copying one part of a collection: a cursor on the source, inserts into the target.
//!
//! Called by `copy` for several parts at once. The next batch is read while the one before is inserted.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bson::raw::cstr;
use bson::{Bson, RawArrayBuf, RawDocument, RawDocumentBuf, doc, rawdoc};
use mongodb::Client;
use mongodb::options::{FindOptions, Hint};
use tokio::sync::mpsc;

use crate::catalog::{Kind, Listed};
use crate::error::CopyError;
use crate::ranges::Part;

/// What one insert carries at most.
const BATCH_DOCUMENTS_MAX: usize = 10_000;
const BATCH_BYTES_MAX: usize = 4 << 20;
/// What one reply of the source carries.
const READ_DOCUMENTS: u32 = 5_000;
/// Batches between reader and writer.
const BATCHES_BETWEEN: usize = 2;
const DUPLICATE_KEY: i32 = 11_000;

/// Figures of the whole copy, for the progress bar.
#[derive(Debug, Default)]
pub(crate) struct Done {
    pub(crate) documents: AtomicU64,
    pub(crate) bytes: AtomicU64,
}

/// One part, from where it is to its end.
pub(crate) struct Transfer {
    pub(crate) source: Client,
    pub(crate) target: Client,
    pub(crate) listed: Arc<Listed>,
    pub(crate) part: Part,
    /// All up to this `_id` are in the target already.
    pub(crate) after: Option<Bson>,
    pub(crate) done: Arc<Done>,
}

struct Batch {
    documents: RawArrayBuf,
    count: usize,
    bytes: usize,
    last: Option<Bson>,
}

impl Batch {
    fn new() -> Self {
        Self { documents: RawArrayBuf::new(), count: 0, bytes: 0, last: None }
    }

    fn push(&mut self, document: &RawDocument) {
        self.bytes += document.as_bytes().len();
        self.count += 1;
        self.documents.push(document.to_owned());
    }

    fn is_full(&self) -> bool {
        self.count >= BATCH_DOCUMENTS_MAX || self.bytes >= BATCH_BYTES_MAX
    }
}

impl Transfer {
    /// Copies; `told` hears of each `_id` up to which all is in the target.
    pub(crate) async fn run(self, told: impl Fn(Option<Bson>)) -> Result<(), CopyError> {
        let (batches, mut taken) = mpsc::channel(BATCHES_BETWEEN);
        let reading = self.read(batches);
        let writing = async {
            while let Some(batch) = taken.recv().await {
                let batch: Batch = batch;
                let last = batch.last.clone();
                self.insert(batch).await?;
                told(last);
            }
            Ok(())
        };
        let (read, written) = tokio::join!(reading, writing);
        written.and(read)
    }

    async fn read(&self, batches: mpsc::Sender<Batch>) -> Result<(), CopyError> {
        let what = || CopyError::command(format!("read {}", self.listed.namespace()));
        let collection = self.source.database(&self.listed.database).collection::<RawDocumentBuf>(&self.listed.name);
        let mut cursor = collection.find(doc! {}).with_options(self.options()).await.map_err(what())?;
        let mut batch = Batch::new();
        while cursor.advance().await.map_err(what())? {
            batch.push(cursor.current());
            if batch.is_full() {
                batch.last = id_of(cursor.current());
                // The writer has ended: it says why.
                if batches.send(std::mem::replace(&mut batch, Batch::new())).await.is_err() {
                    return Ok(());
                }
            }
        }
        if batch.count > 0 {
            let _ = batches.send(batch).await;
        }
        Ok(())
    }

    fn options(&self) -> FindOptions {
        let mut options = FindOptions::builder().batch_size(READ_DOCUMENTS).no_cursor_timeout(true).build();
        if self.listed.kind == Kind::Capped {
            options.hint = Some(Hint::Keys(doc! { "$natural": 1 }));
        } else if self.listed.has_ranges() {
            options.hint = Some(Hint::Keys(doc! { "_id": 1 }));
            options.min = self.after.as_ref().or(self.part.from.as_ref()).map(|id| doc! { "_id": id.clone() });
            options.max = self.part.to.as_ref().map(|id| doc! { "_id": id.clone() });
        }
        options
    }

    async fn insert(&self, batch: Batch) -> Result<(), CopyError> {
        let is_capped = self.listed.kind == Kind::Capped;
        let mut command = rawdoc! {
            "insert": &*self.listed.target.name,
            // One by one in a collection that has an order, and what is there already stops nothing elsewhere.
            "ordered": is_capped,
            "bypassDocumentValidation": true,
        };
        command.append(cstr!("documents"), batch.documents);
        let what = CopyError::command(format!("insert into {}", self.listed.target.namespace()));
        let reply = self.target.database(&self.listed.target.database).run_raw_command(command).await.map_err(what)?;
        let refusal = reply.get_array("writeErrors").ok().into_iter().flatten().filter_map(bson::Bson::as_document);
        let others = refusal.filter(|error| error.get_i32("code").ok() != Some(DUPLICATE_KEY) || !is_of_id(error));
        if let Some(error) = others.into_iter().next() {
            let reason = error.get_str("errmsg").unwrap_or("it does not say why").to_owned();
            return Err(CopyError::Refused { namespace: self.listed.target.namespace(), reason });
        }
        self.done.documents.fetch_add(batch.count as u64, Ordering::Relaxed);
        self.done.bytes.fetch_add(batch.bytes as u64, Ordering::Relaxed);
        Ok(())
    }
}

/// Whether a duplicate is one of `_id`: the document is there from before. Unique indexes are built later, so there are no others on a fresh target.
fn is_of_id(error: &bson::Document) -> bool {
    error.get_document("keyPattern").is_ok_and(|key| key.contains_key("_id"))
        || error.get_str("errmsg").is_ok_and(|text| text.contains("_id_"))
}

/// The `_id`, if there is one.
pub(crate) fn id_of(document: &RawDocument) -> Option<Bson> {
    document.get("_id").ok().flatten().and_then(|id| Bson::try_from(id).ok())
}
