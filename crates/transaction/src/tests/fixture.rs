//! A store on a simulated disk, and the short forms that tests are written in.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bson::{RawDocument, RawDocumentBuf};
use collection::{Collection, IndexSpecification, Namespace, RecordId, Validation};
use oplog::OplogOptions;
use platform::{Clock, SeededRandom, SimulatedClock, SimulatedDisk, SystemClock};
use storage_engine::EngineOptions;

use crate::*;

pub(crate) struct Fixture {
    pub(crate) disk: Arc<SimulatedDisk>,
    pub(crate) clock: Arc<SimulatedClock>,
    pub(crate) store: Arc<Store>,
    pub(super) context: WriteContext,
    pub(super) options: StoreOptions,
}

pub(crate) fn options() -> StoreOptions {
    StoreOptions {
        engine: EngineOptions { cache_bytes: 8 << 20, history_memory_bytes: 1 << 20, ..EngineOptions::default() },
        oplog: OplogOptions { segment_bytes: 256 << 10, ..OplogOptions::default() },
        replay_threads: 0,
        engine_threads: false,
        ..StoreOptions::default()
    }
}

pub(super) fn open(disk: &Arc<SimulatedDisk>, clock: &Arc<SimulatedClock>, options: &StoreOptions) -> Arc<Store> {
    // Another seed for every life, or collections of two lives would get the same UUID.
    static LIVES: AtomicU64 = AtomicU64::new(1);
    let random = SeededRandom::new(LIVES.fetch_add(1, Ordering::Relaxed));
    // Threads that rest on the simulated clock would take the processors from those that are tested.
    let clock: Arc<dyn Clock> = if options.engine_threads { Arc::new(SystemClock::new()) } else { clock.clone() };
    Store::open(disk.clone(), clock, Arc::new(random), options.clone()).unwrap()
}

pub(super) fn namespace(full: &str) -> Namespace {
    Namespace::parse(full).unwrap()
}

pub(super) fn specification(document: RawDocumentBuf) -> IndexSpecification {
    IndexSpecification::parse(&document).unwrap()
}

impl Fixture {
    pub(crate) fn new() -> Fixture {
        Fixture::with(options())
    }

    pub(crate) fn with(options: StoreOptions) -> Fixture {
        let disk = Arc::new(SimulatedDisk::new(7));
        let clock = Arc::new(SimulatedClock::new(1_700_000_000_000));
        let store = open(&disk, &clock, &options);
        Fixture { disk, clock, store, context: WriteContext::new(), options }
    }

    /// The process dies and starts again.
    pub(super) fn crash(&mut self) {
        self.disk.process_crash();
        self.reopen();
    }

    /// The power fails and comes back.
    pub(super) fn lose_power(&mut self) {
        self.disk.power_loss();
        self.reopen();
    }

    /// Makes everything so far durable.
    pub(super) fn flush_oplog(&self) {
        oplog::Oplog::flush_step(self.store.oplog()).unwrap();
    }

    pub(super) fn reopen(&mut self) {
        self.store = open(&self.disk, &self.clock, &self.options);
    }

    pub(crate) fn collection(&self, full: &str) -> Arc<Collection> {
        self.store.collection_or_create(&namespace(full)).unwrap()
    }

    pub(crate) fn insert(&mut self, collection: &Arc<Collection>, document: RawDocumentBuf) -> Result<CommitInfo> {
        let commit = self.store.insert_document(&mut self.context, collection, &document, Validation::Enforce)?;
        self.store.acknowledge(&commit, Acknowledgement::Visible)?;
        Ok(commit)
    }

    /// Replaces the document whose `_id` is `id`.
    pub(super) fn replace(
        &mut self,
        collection: &Arc<Collection>,
        id: i32,
        new: RawDocumentBuf,
    ) -> Result<ChangeOutcome> {
        self.change(collection, id, |_, buffer| {
            buffer.extend_from_slice(new.as_bytes());
            Decision::Replace
        })
    }

    pub(super) fn delete(&mut self, collection: &Arc<Collection>, id: i32) -> Result<ChangeOutcome> {
        self.change(collection, id, |_, _| Decision::Delete)
    }

    pub(super) fn change(
        &mut self,
        collection: &Arc<Collection>,
        id: i32,
        mut decide: impl FnMut(&RawDocument, &mut Vec<u8>) -> Decision,
    ) -> Result<ChangeOutcome> {
        match find(&self.store, collection, id) {
            Some(record_id) => {
                let decide = |document: &RawDocument, new: &mut Vec<u8>| Ok(decide(document, new));
                self.store.change_document(&mut self.context, collection, record_id, Validation::Enforce, decide)
            }
            None => Ok(ChangeOutcome::Gone),
        }
    }

    pub(super) fn create_index(
        &self,
        collection: &Arc<Collection>,
        document: RawDocumentBuf,
    ) -> Result<IndexesCreated> {
        self.store.create_indexes(collection, vec![specification(document)])
    }
}

/// The record with an `_id`.
pub(super) fn find(store: &Store, collection: &Arc<Collection>, id: i32) -> Option<RecordId> {
    let mut cursor = store.read_view().record_cursor(collection);
    while let Some(record_id) = cursor.next().unwrap() {
        if cursor.document().unwrap().get_i32("_id").unwrap() == id {
            return Some(record_id);
        }
    }
    None
}

/// All documents by `_id`.
pub(super) fn contents(store: &Store, collection: &Arc<Collection>) -> BTreeMap<i32, RawDocumentBuf> {
    let mut cursor = store.read_view().record_cursor(collection);
    let mut found = BTreeMap::new();
    while cursor.next().unwrap().is_some() {
        let document = cursor.document().unwrap().to_owned();
        let id = document.get_i32("_id").unwrap();
        assert!(found.insert(id, document).is_none(), "_id {id} is there twice");
    }
    found
}

/// Everything that must hold of every collection at any quiet moment.
pub(super) fn assert_sound(store: &Store) {
    for collection in store.catalog().all_collections() {
        let report = store.validate(&collection, &|| false).unwrap();
        assert!(report.is_valid(), "{report:#?}");
        assert_eq!(report.records, collection.counts().documents(), "count of {}", report.namespace);
        assert_eq!(report.bytes, collection.counts().bytes(), "bytes of {}", report.namespace);
    }
    // The engine's background may be moving pages while they are looked at: only what stays wrong is wrong.
    let mut checks = (0..20).map(|_| store.engine().verify(&store.catalog().trees()).unwrap());
    let is_sound = checks.any(|pages| pages.is_ok());
    assert!(is_sound, "{:#?}", store.engine().verify(&store.catalog().trees()).unwrap().errors);
}

/// The entries of an index, in order: key bytes and record.
pub(super) fn entries(store: &Store, collection: &Arc<Collection>, name: &str) -> Vec<(Vec<u8>, RecordId)> {
    let index = collection.indexes().find(name).unwrap().clone();
    let mut cursor = store.read_view().index_cursor(collection, &index);
    let mut found = Vec::new();
    while cursor.next().unwrap() {
        found.push((cursor.key().to_vec(), cursor.record_id()));
    }
    found
}
