//! Plimsoll's storage behind the C interface that `engine_plimsoll.cc` declares.
//!
//! Called by the comparison of storage engines. What is measured is `transaction::Store`, all that lies below the wire: record locks, index keys
//! made from the document, the oplog, blind index changes, checkpoints. Errors end the process: a comparison that goes on
//! after one means nothing. `unsafe` is in `interface.rs` alone.

mod interface;

use std::sync::Arc;
use std::time::Duration;

use bson::{RawDocument, rawdoc};
use collection::{Collection, IndexSpecification, Namespace, RecordId, Validation};
use platform::{RealDisk, SystemClock, SystemRandom};
use transaction::{ChangeOutcome, Decision, Store, StoreOptions, TransactionError, WriteContext};

/// Offset of `a`'s eight bytes in a record of `bench.h`.
const A_OFFSET: usize = 4 + 13 + 28 + 3;
/// Entries that a scan passes to the caller before it goes on in a newer view, as the other engines' scans do.
const MATCHES_PER_VIEW: usize = 128;

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// What a run is opened with.
struct Settings {
    directory: String,
    cache_bytes: usize,
    collections: usize,
    indexes: usize,
    sync: Duration,
    checkpoint: Duration,
}

struct Peer {
    store: Arc<Store>,
    collections: Vec<Arc<Collection>>,
}

struct Worker {
    store: Arc<Store>,
    collections: Vec<Arc<Collection>>,
    /// The record id of each collection's first document; 0 while unknown.
    first_record_ids: Vec<i64>,
    context: WriteContext,
}

impl Peer {
    fn open(settings: &Settings) -> Result<Peer, Failure> {
        let disk = Arc::new(RealDisk::new(&settings.directory)?);
        let mut options = StoreOptions {
            checkpoint_interval: settings.checkpoint,
            checkpoint_log_bytes: u64::MAX,
            checkpoint_spread: settings.checkpoint / 6,
            ..StoreOptions::default()
        };
        options.engine.cache_bytes = settings.cache_bytes;
        options.oplog.flush_interval = settings.sync;
        let store = Store::open(disk, Arc::new(SystemClock::new()), Arc::new(SystemRandom), options)?;
        store.start_background()?;
        let collections = (0..settings.collections).map(|number| make_collection(&store, number, settings.indexes));
        Ok(Peer { collections: collections.collect::<Result<_, _>>()?, store })
    }

    /// Counters since the store was opened, as the rest of a JSON object.
    fn counters(&self) -> Result<String, Failure> {
        let seen = self.store.engine().statistics()?;
        Ok(format!(
            ",\"pages_read\":{},\"pages_merged\":{},\"pages_written\":{},\"page_mb_read\":{},\"page_mb_written\":{},\"page_mb_moved\":{},\
             \"buffered_mb\":{},\"buffered_leaves\":{},\"live_mb\":{},\"backed_mb\":{},\"history_mb\":{}",
            seen.pages_read,
            seen.pages_merged,
            seen.pages_written,
            seen.store.bytes_read >> 20,
            seen.store.bytes_written >> 20,
            seen.store.bytes_relocated >> 20,
            seen.buffered_change_bytes >> 20,
            seen.buffered_pages,
            seen.store.live_bytes >> 20,
            seen.store.backed_bytes >> 20,
            (seen.history.memory_bytes + seen.history.spilled_bytes) >> 20,
        ))
    }

    fn worker(&self) -> Worker {
        Worker {
            store: self.store.clone(),
            collections: self.collections.clone(),
            first_record_ids: vec![0; self.collections.len()],
            context: WriteContext::new(),
        }
    }
}

fn make_collection(store: &Arc<Store>, number: usize, indexes: usize) -> Result<Arc<Collection>, Failure> {
    let collection = store.collection_or_create(&Namespace::parse(&format!("peers.c{number}"))?)?;
    let specifications = (0..indexes).map(|index| {
        let field = format!("b{index}");
        let mut key = rawdoc! { "x": 1, "a": 1, "_id": 1 };
        key.append(<&bson::raw::CStr>::try_from(field.as_str())?, 1);
        Ok(IndexSpecification::parse(&rawdoc! { "key": key, "name": field })?)
    });
    store.create_indexes(&collection, specifications.collect::<Result<_, Failure>>()?)?;
    Ok(collection)
}

impl Worker {
    fn insert(&mut self, collection: usize, record: &[u8]) -> Result<(), Failure> {
        let document = RawDocument::from_bytes(record)?;
        self.store.insert_document(&mut self.context, &self.collections[collection], document, Validation::Enforce)?;
        Ok(())
    }

    /// `{$inc: {a: 1}}` on the document that was inserted as number `document`, from 0.
    fn increment(&mut self, collection: usize, document: u64) -> Result<(), Failure> {
        let record_id = RecordId(self.first_record_id(collection)? + document as i64);
        let increment = |old: &RawDocument, new: &mut Vec<u8>| -> Result<Decision, TransactionError> {
            new.extend_from_slice(old.as_bytes());
            let a = &mut new[A_OFFSET..A_OFFSET + 8];
            let value = f64::from_le_bytes(a.try_into().unwrap_or_default());
            a.copy_from_slice(&(value + 1.0).to_le_bytes());
            Ok(Decision::Replace)
        };
        let target = &self.collections[collection];
        match self.store.change_document(&mut self.context, target, record_id, Validation::Enforce, increment)? {
            ChangeOutcome::Replaced(_) => Ok(()),
            _ => Err(format!("document {document} of collection {collection} is not there").into()),
        }
    }

    /// Each collection is loaded by one thread, so that its record ids follow its `_id`s.
    fn first_record_id(&mut self, collection: usize) -> Result<i64, Failure> {
        if self.first_record_ids[collection] == 0 {
            let mut cursor = self.store.read_view().record_cursor(&self.collections[collection]);
            cursor.seek_first()?;
            let first = cursor.next()?.ok_or("an empty collection")?;
            if number(cursor.document()?, "_id")? != 0.0 {
                return Err("the first record is not the first document".into());
            }
            self.first_record_ids[collection] = first.0;
        }
        Ok(self.first_record_ids[collection])
    }

    /// Goes through the `_id` index and passes on the documents whose number leaves `remainder`.
    fn scan(&mut self, collection: usize, (modulus, remainder): (u64, u64), mut hit: impl FnMut(&mut Worker, u64)) -> Result<(), Failure> {
        let first = self.first_record_id(collection)?;
        let target = self.collections[collection].clone();
        let index = target.indexes().id_index().cloned().ok_or("no index of _id")?;
        let mut cursor = self.store.read_view().index_cursor(&target, &index);
        cursor.seek_first()?;
        let mut matches = 0;
        while cursor.next()? {
            let document = (cursor.record_id().0 - first) as u64;
            if document % modulus == remainder {
                hit(self, document);
                matches += 1;
                if matches % MATCHES_PER_VIEW == 0 {
                    cursor.reseat(&self.store.read_view())?;
                }
            }
        }
        Ok(())
    }

    /// How many entries the first of the indexes has, and the sum of `a` over the documents.
    fn verify(&mut self, collection: usize) -> Result<(u64, u64), Failure> {
        let target = self.collections[collection].clone();
        let view = self.store.read_view();
        let (mut entries, mut sum) = (0, 0.0);
        let index = target.indexes().find("b0").cloned().ok_or("no secondary index")?;
        let mut keys = view.index_cursor(&target, &index);
        keys.seek_first()?;
        while keys.next()? {
            entries += 1;
        }
        let mut records = view.record_cursor(&target);
        records.seek_first()?;
        while records.next()?.is_some() {
            sum += number(records.document()?, "a")?;
        }
        Ok((entries, sum as u64))
    }
}

fn number(document: &RawDocument, field: &str) -> Result<f64, Failure> {
    Ok(document.get_f64(field)?)
}
