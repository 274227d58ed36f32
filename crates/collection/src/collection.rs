//! One collection as the running server holds it: where its records and indexes are, and its gate.
//!
//! Handed out by the catalog as `Arc<Collection>`; it stays usable for reading after a drop as long as somebody holds it,
//! because the trees are only given back once the last holder is gone.
//!
//! The gate is a reader-writer lock. Whoever changes documents holds it shared for one document; a change of the
//! definition (drop, rename, adding or removing an index) holds it exclusively for as long as it takes to append the
//! oplog entry and to swap the pointers. So the order of entries in the oplog is the order in which writers saw the
//! definitions. Lock order: see `docs/lock-order.md`.

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use arc_swap::{ArcSwap, Guard};
use bson::Uuid;
use parking_lot::{Mutex, RwLock, RwLockReadGuard, RwLockWriteGuard};
use platform::MemoryReservation;
use storage_engine::{Engine, EngineError, Ring, TreeId};

use crate::error::{CollectionError, Result};
use crate::index::{INDEX_BYTES, IndexList};
use crate::namespace::Namespace;
use crate::oplog_entry::EntryPrefix;
use crate::options::CollectionOptions;
use crate::record_id::RecordId;

/// What to do about a collection that is set aside.
pub const REPAIR_ADVICE: &str = "`plimsoll repair` saves what can be read, or it is dropped";

/// Counts what was ever set aside in this process, so that looking whether there is more costs nothing.
static SET_ASIDE: AtomicUsize = AtomicUsize::new(0);

/// How many collections and indexes were ever set aside in this process.
#[inline]
pub fn set_aside_count() -> usize {
    SET_ASIDE.load(Ordering::Acquire)
}

pub(crate) fn count_set_aside() {
    SET_ASIDE.fetch_add(1, Ordering::AcqRel);
}

/// Counts the changes of the collections that say who may do what, before each happens.
static ACCESS_CHANGES: AtomicUsize = AtomicUsize::new(0);

/// How many changes of users and roles were ever begun in this process. Who sees it grow from before a change to after has seen one.
#[inline]
pub fn access_change_count() -> usize {
    ACCESS_CHANGES.load(Ordering::Acquire)
}

/// A collection.
#[derive(Debug)]
pub struct Collection {
    ident: u64,
    uuid: Uuid,
    record_tree: TreeId,
    /// Where the documents of a capped collection are; their tree only has what was changed afterwards.
    ring: Option<Arc<Ring>>,
    definition: ArcSwap<CollectionDefinition>,
    indexes: ArcSwap<IndexList>,
    gate: RwLock<()>,
    dropped: AtomicBool,
    is_private: AtomicBool,
    /// Why it is set aside, if it is.
    aside: OnceLock<Box<str>>,
    /// Whether its stored options do not make sense to this build.
    is_unreadable: AtomicBool,
    record_ids: RecordIds,
    counts: CollectionCounts,
    /// Held while the catalog entry is encoded and stored, so that the newest one wins.
    pub(crate) persisting: Mutex<()>,
    /// Counts what it takes in memory, with its indexes.
    memory: Mutex<MemoryReservation>,
}

/// What a collection takes beside its indexes: itself, its places in two maps, its ring.
const COLLECTION_BYTES: usize =
    size_of::<Collection>() + size_of::<CollectionDefinition>() + size_of::<IndexList>() + 512;
/// How often what is stored of its options is there in memory, parsed: a validator most of all.
const OPTIONS_COPIES: usize = 6;
/// Where its name is: in the definition, as a key, before each entry of the oplog, and in what is allocated for that.
const NAME_COPIES: usize = 4;

/// The part of a collection that `renameCollection` and `collMod` change.
#[derive(Debug)]
pub struct CollectionDefinition {
    /// Its name.
    pub namespace: Namespace,
    /// Its options.
    pub options: CollectionOptions,
    /// What every oplog entry about its documents starts with.
    pub(crate) entry_prefix: EntryPrefix,
    /// Whether its documents say who may do what.
    decides_access: bool,
}

/// Proof that the gate is held shared and that the collection was not dropped then.
pub struct WriteAccess<'a> {
    _gate: RwLockReadGuard<'a, ()>,
    /// The collection.
    pub collection: &'a Arc<Collection>,
    /// Its indexes; they do not change while the gate is held.
    pub indexes: Guard<Arc<IndexList>>,
    /// Its definition; does not change while the gate is held.
    pub definition: Guard<Arc<CollectionDefinition>>,
}

/// Proof that the gate is held exclusively.
pub struct ExclusiveAccess<'a> {
    _gate: RwLockWriteGuard<'a, ()>,
}

/// What a collection with so many indexes takes, but for their shapes.
pub(crate) fn definition_bytes(indexes: usize, name_bytes: usize, options_bytes: usize) -> u64 {
    let of_definition = name_bytes * NAME_COPIES + options_bytes * OPTIONS_COPIES;
    (COLLECTION_BYTES + indexes * INDEX_BYTES + of_definition) as u64
}

impl Collection {
    #[allow(clippy::too_many_arguments, reason = "each is a part of what a collection is, and there are two callers")]
    pub(crate) fn new(
        ident: u64,
        uuid: Uuid,
        record_tree: TreeId,
        ring: Option<Arc<Ring>>,
        namespace: Namespace,
        options: CollectionOptions,
        indexes: IndexList,
        memory: MemoryReservation,
    ) -> Collection {
        Collection {
            ident,
            uuid,
            record_tree,
            ring,
            definition: ArcSwap::from_pointee(CollectionDefinition::new(namespace, uuid, options)),
            indexes: ArcSwap::from_pointee(indexes),
            gate: RwLock::new(()),
            dropped: AtomicBool::new(false),
            is_private: AtomicBool::new(false),
            aside: OnceLock::new(),
            is_unreadable: AtomicBool::new(false),
            record_ids: RecordIds::default(),
            counts: CollectionCounts::default(),
            persisting: Mutex::new(()),
            memory: Mutex::new(memory),
        }
    }

    /// Has the memory budget know what it takes. Whether there is room was asked before.
    pub(crate) fn count_memory(&self) {
        let (indexes, definition) = (self.indexes.load().all().len(), self.definition.load());
        let options_bytes = definition.options.to_document().as_bytes().len();
        let bytes = definition_bytes(indexes, definition.namespace.as_str().len(), options_bytes);
        self.memory.lock().resize_unchecked(bytes);
    }

    /// Its number inside this data directory, never used again.
    pub fn ident(&self) -> u64 {
        self.ident
    }

    /// Its identity for ever and everywhere.
    pub fn uuid(&self) -> Uuid {
        self.uuid
    }

    /// Where its records are.
    pub fn record_tree(&self) -> TreeId {
        self.record_tree
    }

    /// Every tree it has: of its records first, then of its indexes.
    pub fn trees(&self) -> Vec<TreeId> {
        let indexes = self.indexes();
        [self.record_tree].into_iter().chain(indexes.all().iter().map(|index| index.tree())).collect()
    }

    /// The ring of a capped collection.
    #[inline]
    pub fn ring(&self) -> Option<&Arc<Ring>> {
        self.ring.as_ref()
    }

    /// Its name and options now.
    pub fn definition(&self) -> Guard<Arc<CollectionDefinition>> {
        self.definition.load()
    }

    /// Its name now.
    pub fn namespace(&self) -> Namespace {
        self.definition.load().namespace.clone()
    }

    /// Its indexes now.
    pub fn indexes(&self) -> Guard<Arc<IndexList>> {
        self.indexes.load()
    }

    /// Documents and bytes, exact as of what is visible.
    pub fn counts(&self) -> &CollectionCounts {
        &self.counts
    }

    /// Whether it has been dropped.
    pub fn is_dropped(&self) -> bool {
        self.dropped.load(Ordering::Acquire)
    }

    /// Whether only the transaction that creates it knows it: then the catalog tree has nothing of it.
    pub(crate) fn is_private(&self) -> bool {
        self.is_private.load(Ordering::Acquire)
    }

    pub(crate) fn set_private(&self, is_private: bool) {
        self.is_private.store(is_private, Ordering::Release);
    }

    /// Fails when the collection has been dropped or set aside; cursors ask at every step.
    ///
    /// # Errors
    /// `CollectionDropped`, `SetAside`.
    #[inline]
    pub fn check_alive(&self) -> Result<()> {
        if self.is_dropped() {
            return Err(CollectionError::CollectionDropped { uuid: self.uuid });
        }
        match self.aside() {
            None => Ok(()),
            Some(reason) => Err(self.set_aside_error(reason)),
        }
    }

    /// Sets it aside: it lacks changes, or its definition cannot be read. From now on it can only be dropped.
    pub fn set_aside(&self, reason: &str) {
        let is_first = self.aside.set(reason.into()).is_ok();
        if is_first {
            count_set_aside();
        }
    }

    /// Why it is set aside.
    #[inline]
    pub fn aside(&self) -> Option<&str> {
        self.aside.get().map(|reason| &**reason)
    }

    pub(crate) fn set_unreadable(&self) {
        self.is_unreadable.store(true, Ordering::Release);
    }

    pub(crate) fn is_readable(&self) -> bool {
        !self.is_unreadable.load(Ordering::Acquire)
    }

    #[cold]
    fn set_aside_error(&self, reason: &str) -> CollectionError {
        let what = format!("collection {}", self.namespace());
        CollectionError::SetAside { what, reason: reason.to_owned(), advice: REPAIR_ADVICE }
    }

    /// Takes the gate shared, for the change of one document. Waits for a definition change that is under way.
    ///
    /// # Errors
    /// `CollectionDropped`, `SetAside`.
    pub fn begin_write(self: &Arc<Self>) -> Result<WriteAccess<'_>> {
        let gate = self.gate.read();
        self.check_alive()?;
        let definition = self.definition.load();
        definition.count_access_change();
        Ok(WriteAccess { _gate: gate, collection: self, indexes: self.indexes.load(), definition })
    }

    /// Takes the gate exclusively, for a change of the definition. Waits for the documents being changed.
    pub fn begin_definition_change(&self) -> ExclusiveAccess<'_> {
        ExclusiveAccess { _gate: self.gate.write() }
    }

    pub(crate) fn replace_definition(&self, namespace: Namespace, options: CollectionOptions) {
        let replaced = self.definition.swap(Arc::new(CollectionDefinition::new(namespace, self.uuid, options)));
        replaced.count_access_change();
        self.definition.load().count_access_change();
    }

    pub(crate) fn replace_indexes(&self, indexes: IndexList) {
        self.indexes.store(Arc::new(indexes));
    }

    pub(crate) fn mark_dropped(&self) {
        self.dropped.store(true, Ordering::Release);
        self.definition.load().count_access_change();
    }

    /// Says what an error of the engine is about, when it is about damaged data. A damaged index is set aside.
    pub fn locate(&self, error: EngineError) -> CollectionError {
        let EngineError::Corrupt { tree, .. } = &error else { return error.into() };
        let namespace = self.namespace();
        let indexes = self.indexes();
        let index = indexes.all().iter().find(|index| index.tree().0 == *tree);
        let what = match index {
            Some(index) => {
                index.set_aside(namespace.as_str(), &error.to_string());
                format!("index '{}' of {namespace}", index.name())
            }
            None => format!("collection {namespace}"),
        };
        CollectionError::DamagedData { what, cause: error }
    }

    /// The record id for the next new document.
    ///
    /// # Errors
    /// `Engine` when the last record id has to be looked up first and cannot be.
    pub fn allocate_record_id(&self, engine: &Arc<Engine>) -> Result<RecordId> {
        self.record_ids.allocate(engine, self.record_tree)
    }

    /// Before a record is deleted: if it is the last one, its id must not be found free afterwards and given out again while a snapshot sees it.
    ///
    /// # Errors
    /// `Engine` when the last record id has to be looked up and cannot be.
    pub fn settle_record_ids(&self, engine: &Arc<Engine>) -> Result<()> {
        if self.ring.is_some() { Ok(()) } else { self.record_ids.settle(engine, self.record_tree) }
    }

    /// Another member has given this record id out. `true`: record ids are settled, and this one is greater than all before, so nothing is stored there.
    pub fn note_record_id(&self, record_id: RecordId) -> bool {
        // One that is looked up later is found in the tree.
        let is_settled = self.record_ids.last.load(Ordering::Acquire) != 0;
        is_settled && self.record_ids.last.fetch_max(record_id.0, Ordering::AcqRel) < record_id.0
    }

    /// The last record id handed out, if record ids are settled: whatever was committed before has no greater one. Says nothing of rings.
    pub fn last_record_id(&self) -> Option<RecordId> {
        Some(self.record_ids.last.load(Ordering::Acquire)).filter(|last| *last != 0).map(RecordId)
    }
}

impl CollectionDefinition {
    fn new(namespace: Namespace, uuid: Uuid, options: CollectionOptions) -> CollectionDefinition {
        let entry_prefix = EntryPrefix::new(namespace.as_str(), uuid);
        let decides_access = matches!(namespace.as_str(), "admin.system.users" | "admin.system.roles");
        CollectionDefinition { namespace, options, entry_prefix, decides_access }
    }

    #[inline]
    fn count_access_change(&self) {
        if self.decides_access {
            ACCESS_CHANGES.fetch_add(1, Ordering::AcqRel);
        }
    }
}

/// Hands out record ids in ascending order. The last one used is looked up in the tree at the first request, so that
/// opening a database with many collections touches none of them.
#[derive(Debug, Default)]
struct RecordIds {
    /// The last record id handed out; 0 when not yet looked up.
    last: AtomicI64,
    looking_up: Mutex<()>,
}

impl RecordIds {
    #[inline]
    fn settle(&self, engine: &Arc<Engine>, tree: TreeId) -> Result<()> {
        if self.last.load(Ordering::Acquire) == 0 { self.look_up(engine, tree) } else { Ok(()) }
    }

    fn allocate(&self, engine: &Arc<Engine>, tree: TreeId) -> Result<RecordId> {
        self.settle(engine, tree)?;
        Ok(RecordId(self.last.fetch_add(1, Ordering::AcqRel) + 1))
    }

    /// Record ids start at 2 so that a looked-up empty tree (1) differs from one not looked up (0).
    fn look_up(&self, engine: &Arc<Engine>, tree: TreeId) -> Result<()> {
        let _one_at_a_time = self.looking_up.lock();
        if self.last.load(Ordering::Acquire) != 0 {
            return Ok(());
        }
        let mut cursor = engine.cursor(&engine.begin_newest_snapshot(), tree);
        cursor.seek_last()?;
        let last = if cursor.previous()? { RecordId::from_record_key(cursor.key())?.0 } else { 1 };
        self.last.store(last.max(1), Ordering::Release);
        Ok(())
    }
}

/// Number of documents and bytes in them. Moved by the visibility tracker in commit order, so that at any moment they are the
/// exact totals of what is visible; see `docs/file-format.md`, "Collection counts".
#[derive(Debug, Default)]
pub struct CollectionCounts {
    documents: AtomicI64,
    bytes: AtomicI64,
    changed: AtomicBool,
}

impl CollectionCounts {
    /// Visible documents.
    pub fn documents(&self) -> u64 {
        self.documents.load(Ordering::Relaxed).max(0) as u64
    }

    /// Bytes of the visible documents.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed).max(0) as u64
    }

    /// Adds the effect of one commit. True when this is the first since `take_changed`.
    pub fn add(&self, documents: i64, bytes: i64) -> bool {
        self.documents.fetch_add(documents, Ordering::Relaxed);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        !self.changed.swap(true, Ordering::Relaxed)
    }

    /// Whether `add` was called since `take_changed`.
    pub fn has_changed(&self) -> bool {
        self.changed.load(Ordering::Relaxed)
    }

    /// The totals, and starts a new period for `add`.
    pub fn take_changed(&self) -> (i64, i64) {
        self.changed.store(false, Ordering::Relaxed);
        (self.documents.load(Ordering::Relaxed), self.bytes.load(Ordering::Relaxed))
    }

    pub(crate) fn set(&self, documents: i64, bytes: i64) {
        self.documents.store(documents, Ordering::Relaxed);
        self.bytes.store(bytes, Ordering::Relaxed);
    }
}
