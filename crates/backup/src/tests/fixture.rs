//! A store with collections, a place for backups, and the short forms that the tests are written in.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bson::{RawDocumentBuf, rawdoc};
use collection::{Collection, CollectionOptions, Namespace, Validation};
use oplog::{Oplog, OplogOptions};
use platform::{Disk, Random, SeededRandom, SimulatedClock, SimulatedDisk, Timestamp};
use storage_engine::EngineOptions;
use transaction::{Acknowledgement, Decision, Store, StoreOptions, WriteContext};

use crate::*;

/// Documents of each collection by `_id`.
pub(super) type Content = BTreeMap<String, BTreeMap<i32, RawDocumentBuf>>;

pub(super) struct Fixture {
    pub(super) store: Arc<Store>,
    pub(super) clock: Arc<SimulatedClock>,
    pub(super) objects: Arc<dyn ObjectStore>,
    context: RefCell<WriteContext>,
    next: AtomicU64,
}

fn store_options() -> StoreOptions {
    StoreOptions {
        engine: EngineOptions { cache_bytes: 8 << 20, history_memory_bytes: 1 << 20, ..EngineOptions::default() },
        oplog: OplogOptions { segment_bytes: 32 << 10, ..OplogOptions::default() },
        replay_threads: 0,
        engine_threads: false,
        ..StoreOptions::default()
    }
}

fn open(disk: Arc<dyn Disk>, clock: &Arc<SimulatedClock>) -> Arc<Store> {
    static LIVES: AtomicU64 = AtomicU64::new(1);
    let random = SeededRandom::new(LIVES.fetch_add(1, Ordering::Relaxed));
    Store::open(disk, clock.clone(), Arc::new(random), store_options()).unwrap()
}

pub(super) fn options() -> BackupOptions {
    BackupOptions {
        name: None,
        packing: Packing::default(),
        bytes_per_second: None,
        extent: Extent::Changed,
        server: "test",
    }
}

pub(super) fn random() -> SeededRandom {
    static DRAWS: AtomicU64 = AtomicU64::new(1);
    SeededRandom::new(DRAWS.fetch_add(1, Ordering::Relaxed))
}

impl Fixture {
    pub(super) fn new() -> Fixture {
        let clock = Arc::new(SimulatedClock::new(1_700_000_000_000));
        let store = open(Arc::new(SimulatedDisk::new(7)), &clock);
        let objects: Arc<dyn ObjectStore> = Arc::new(DirectoryStore::new(Arc::new(SimulatedDisk::new(8))));
        let fixture =
            Fixture { store, clock, objects, context: RefCell::new(WriteContext::new()), next: AtomicU64::new(0) };
        let capped = CollectionOptions::parse(&rawdoc! { "capped": true, "size": 20_000 }).unwrap();
        fixture.store.create_collection(&Namespace::parse("shop.ring").unwrap(), capped).unwrap();
        fixture
    }

    fn collection(&self, name: &str) -> Arc<Collection> {
        self.store.collection_or_create(&Namespace::parse(name).unwrap()).unwrap()
    }

    /// Inserts, changes and deletes some documents, durably.
    pub(super) fn go_on(&self) {
        let number = self.next.fetch_add(1, Ordering::Relaxed) as i32;
        self.clock.advance(std::time::Duration::from_millis(700));
        let mut context = self.context.borrow_mut();
        let padding = "p".repeat(50 + (number as usize * 37) % 900);
        for name in ["shop.orders", "shop.ring"] {
            let document = rawdoc! { "_id": number, "padding": padding.as_str(), "n": number * 7 };
            let collection = self.collection(name);
            let commit = self.store.insert_document(&mut context, &collection, &document, Validation::Enforce).unwrap();
            self.store.acknowledge(&commit, Acknowledgement::Durable).unwrap();
        }
        let orders = self.collection("shop.orders");
        let mut cursor = self.store.read_view().record_cursor(&orders);
        let record = cursor.next().unwrap().unwrap();
        drop(cursor);
        let is_deleted = number % 3 == 2;
        let decide = |old: &bson::RawDocument, new: &mut Vec<u8>| {
            if is_deleted {
                return Ok::<_, transaction::TransactionError>(Decision::Delete);
            }
            let id = old.get_i32("_id").unwrap();
            new.extend_from_slice(rawdoc! { "_id": id, "changed": number }.as_bytes());
            Ok(Decision::Replace)
        };
        self.store.change_document(&mut context, &orders, record, Validation::Enforce, decide).unwrap();
        self.store.oplog().flush_step().unwrap();
    }

    /// Inserts so many documents that are as large as many pages, and that nothing makes smaller.
    pub(super) fn insert_large(&self, count: i32) {
        let orders = self.collection("shop.orders");
        for _ in 0..count {
            let number = self.next.fetch_add(1, Ordering::Relaxed) as i32;
            let mut bytes = vec![0; 256 << 10];
            random().fill(&mut bytes);
            let bytes = bson::Binary { subtype: bson::spec::BinarySubtype::Generic, bytes };
            let document = rawdoc! { "_id": number, "bytes": bytes };
            let mut context = self.context.borrow_mut();
            self.store.insert_document(&mut context, &orders, &document, Validation::Enforce).unwrap();
        }
        self.store.oplog().flush_step().unwrap();
    }

    /// Inserts a document that is not durable.
    pub(super) fn insert_in_memory(&self) {
        let number = self.next.fetch_add(1, Ordering::Relaxed) as i32;
        let orders = self.collection("shop.orders");
        let mut context = self.context.borrow_mut();
        let document = rawdoc! { "_id": number, "is": "in memory" };
        let commit = self.store.insert_document(&mut context, &orders, &document, Validation::Enforce).unwrap();
        self.store.acknowledge(&commit, Acknowledgement::Visible).unwrap();
    }

    /// A checkpoint, and the rings in their files.
    pub(super) fn checkpoint(&self) {
        self.store.write_rings().unwrap();
        self.store.requested_checkpoint().unwrap();
    }

    /// A backup, while the store goes on until the end of the oplog is looked up.
    pub(super) fn back_up(&self, options: &BackupOptions) -> Manifest {
        self.try_back_up(options).unwrap()
    }

    pub(super) fn try_back_up(&self, options: &BackupOptions) -> Result<Manifest> {
        self.back_up_beside(options, || ())
    }

    /// The same; `look` is called again and again meanwhile.
    pub(super) fn back_up_beside(&self, options: &BackupOptions, look: impl FnMut()) -> Result<Manifest> {
        self.checkpoint();
        let look = RefCell::new(look);
        let (looks, progress) = (AtomicU64::new(0), Progress::default());
        let is_stopped = || {
            look.borrow_mut()();
            if progress.look().0 == Phase::Oplog {
                return false;
            }
            self.go_on();
            if looks.fetch_add(1, Ordering::Relaxed) % 4 == 3 {
                self.checkpoint();
            }
            false
        };
        make(&self.store, &self.objects, &random(), options, &progress, &is_stopped)
    }

    pub(super) fn content(&self) -> Content {
        content(&self.store)
    }

    pub(super) fn last_timestamp(&self) -> Timestamp {
        self.store.oplog().last_timestamp()
    }

    pub(super) fn restore(&self, options: &RestoreOptions) -> Result<(Restored, Content)> {
        restore_into(&*self.objects, &Arc::new(SimulatedDisk::new(9)), options, &self.clock)
    }
}

pub(super) fn restore_options(target: Target) -> RestoreOptions {
    RestoreOptions { backup: None, target, key: None, from: "here".to_owned(), standing: None }
}

pub(super) fn restore_into(
    objects: &dyn ObjectStore,
    disk: &Arc<SimulatedDisk>,
    options: &RestoreOptions,
    clock: &Arc<SimulatedClock>,
) -> Result<(Restored, Content)> {
    let plain: Arc<dyn Disk> = disk.clone();
    let restored = restore(objects, (&plain, &**disk), (&**clock, &random()), options, &Progress::default())?;
    let content = content_of_restored(disk, &restored, clock);
    Ok((restored, content))
}

/// Opens what was restored, and validates it.
pub(super) fn content_of_restored(
    disk: &Arc<SimulatedDisk>,
    restored: &Restored,
    clock: &Arc<SimulatedClock>,
) -> Content {
    assert!(!disk.exists(Path::new(UNFINISHED_NOTE)).unwrap() && disk.exists(Path::new(RESTORED_NOTE)).unwrap());
    // Faults are the restore's.
    disk.clear_faults();
    let store = open(disk.clone(), clock);
    assert_eq!(hex::encode(store.engine().identity()), restored.store);
    for collection in store.catalog().all_collections() {
        let report = store.validate(&collection, &|| false).unwrap();
        assert!(report.is_valid(), "{report:#?}");
    }
    let content = content(&store);
    // It goes on.
    store.requested_checkpoint().unwrap();
    store.shutdown().unwrap();
    content
}

pub(super) fn content(store: &Store) -> Content {
    let mut content = Content::new();
    for collection in store.catalog().all_collections() {
        let documents = content.entry(collection.namespace().to_string()).or_default();
        let mut cursor = store.read_view().record_cursor(&collection);
        while cursor.next().unwrap().is_some() {
            let document = cursor.document().unwrap().to_owned();
            assert!(documents.insert(document.get_i32("_id").unwrap(), document).is_none());
        }
    }
    content
}
