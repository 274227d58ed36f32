//! An index of a collection as the running server holds it.
//!
//! Called by `document_change` (which entries a document has), by the planner (`pattern`, `multikey`), by cursors in
//! `transaction`. Entries: key = index key ‖ record id, value = type bits (see `index_key`).
//!
//! Life: `Building` (writers maintain it, nobody reads it; a restart goes on with it) → `Ready` → dropped. Each step replaces the `Index`
//! in its collection's list by another `Arc` around the same `IndexRuntime`.
//!
//! An index of which something is damaged is *set aside*, whatever its state: nobody reads or maintains it until it is dropped or rebuilt. Writers that would
//! put a key into it are refused if it is unique.
//!
//! A rebuild (`reIndex`) puts a double beside each index: `Replacing` → `Ready` in the other's place, which is *replaced* then: nobody
//! maintains it any more, it serves snapshots from before (`at`), and who reads through it stays in such a view (`is_replaced`). A restart
//! leaves nothing of a double.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use bson::{RawDocument, RawDocumentBuf};
use index_key::{KeyGenerator, KeyPattern, Sparse};
use parking_lot::Mutex;
use storage_engine::{Timestamp, TreeId};

use crate::collection::count_set_aside;
use crate::error::{CollectionError, Result};
use crate::field_changes::FieldChanges;
use crate::index_specification::IndexSpecification;
use crate::record_id::RecordId;
use crate::record_set::RecordSet;

/// What to do about an index that is set aside.
pub const REBUILD_ADVICE: &str = "reIndex builds it from the documents, or it is dropped and created again";

/// Where an index is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IndexState {
    /// Being filled. Writers maintain it; it is not read and does not yet enforce uniqueness.
    Building,
    /// Being filled to take the place of the index of the same name. Writers maintain both; nobody else knows it.
    Replacing,
    /// In use.
    Ready,
}

impl IndexState {
    /// Whether it may lack entries: then it is not read, and enforces nothing.
    pub fn is_being_filled(self) -> bool {
        self != IndexState::Ready
    }
}

/// An index.
#[derive(Debug)]
pub struct Index {
    shape: Arc<IndexShape>,
    tree: TreeId,
    state: IndexState,
    runtime: Arc<IndexRuntime>,
}

/// What follows from an index's definition alone. Indexes of many collections that are defined alike share it.
#[derive(Debug)]
pub(crate) struct IndexShape {
    specification: IndexSpecification,
    dependencies: Dependencies,
    /// As it is stored, where this build cannot read it; `specification` only has its name then.
    unreadable: Option<RawDocumentBuf>,
}

impl IndexShape {
    pub(crate) fn new(specification: IndexSpecification) -> Arc<IndexShape> {
        let dependencies = Dependencies::of(&specification);
        Arc::new(IndexShape { specification, dependencies, unreadable: None })
    }

    /// Of an index whose stored definition does not parse.
    pub(crate) fn unreadable(stored: &RawDocument) -> Result<Arc<IndexShape>> {
        let specification = IndexSpecification::placeholder(stored)?;
        let dependencies = Dependencies::of(&specification);
        Ok(Arc::new(IndexShape { specification, dependencies, unreadable: Some(stored.to_owned()) }))
    }
}

/// An index in this process: no other has had it. Names and trees are given to others once an index is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IndexIdentity(u64);

impl IndexIdentity {
    fn next() -> IndexIdentity {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        IndexIdentity(NEXT.fetch_add(1, Ordering::Relaxed))
    }
}

/// What stays the same when an index is made ready, hidden or given another expiry.
#[derive(Debug)]
struct IndexRuntime {
    identity: IndexIdentity,
    /// Per field of the key pattern, a bit for each component of its path that has led into an array. Bits are only ever set.
    multikey_paths: Box<[AtomicU64]>,
    dropped: AtomicBool,
    replaced: AtomicBool,
    /// Why it is set aside, if it is.
    aside: OnceLock<Box<Aside>>,
    /// Whose place it has taken, for snapshots from before.
    predecessor: Mutex<Option<Arc<Index>>>,
    accesses: AtomicU64,
    accesses_since_millis: i64,
    /// Snapshots before this do not find every entry; 0 for an index that was there at start.
    ready_since: AtomicU64,
    /// Made when it is needed: there are hundreds of thousands of indexes that nobody builds.
    build: Mutex<Option<Box<BuildRuntime>>>,
}

/// Why an index is set aside, and of which collection it was then.
#[derive(Debug)]
struct Aside {
    namespace: String,
    reason: String,
}

/// How long a replaced index is wanted.
#[derive(Debug)]
pub(crate) struct Succession {
    successor: Weak<IndexRuntime>,
    since: Timestamp,
}

impl Succession {
    /// Lets go of the replaced index, when no snapshot is from before.
    pub(crate) fn settle(&self, oldest_snapshot: Timestamp) {
        if oldest_snapshot >= self.since
            && let Some(successor) = self.successor.upgrade()
        {
            *successor.predecessor.lock() = None;
        }
    }
}

/// What an index takes, but for its shape: itself, its place in two lists and the heads of what is allocated.
pub(crate) const INDEX_BYTES: usize = size_of::<Index>() + size_of::<IndexRuntime>() + 128;

/// What is known while an index is being built.
#[derive(Debug, Default)]
struct BuildRuntime {
    /// Keys that two documents had; looked at again before it is made ready.
    suspected_duplicates: Vec<SuspectedDuplicate>,
    /// The entries of all records up to this one are there.
    filled: i64,
    /// Records have been read up to this one.
    read: i64,
    /// Records of which writers have changed entries.
    changed: RecordSet,
}

/// A key that two documents had at one time.
#[derive(Debug)]
pub struct SuspectedDuplicate {
    /// The index key as it is stored.
    pub key: Vec<u8>,
    /// The value of its entry.
    pub value: Vec<u8>,
}

/// The top-level fields that decide whether and how a document is indexed.
#[derive(Clone, Debug)]
enum Dependencies {
    All,
    Fields(Vec<Box<[u8]>>),
}

impl Index {
    pub(crate) fn of_shape(
        shape: Arc<IndexShape>,
        tree: TreeId,
        state: IndexState,
        multikey_paths: &[u64],
        now_millis: i64,
    ) -> Index {
        let fields = shape.specification.pattern.fields().len();
        let paths = (0..fields).map(|field| AtomicU64::new(multikey_paths.get(field).copied().unwrap_or_default()));
        let runtime = IndexRuntime {
            identity: IndexIdentity::next(),
            multikey_paths: paths.collect(),
            dropped: AtomicBool::new(false),
            replaced: AtomicBool::new(false),
            aside: OnceLock::new(),
            predecessor: Mutex::default(),
            accesses: AtomicU64::new(0),
            accesses_since_millis: now_millis,
            ready_since: AtomicU64::new(0),
            build: Mutex::default(),
        };
        Index { shape, tree, state, runtime: Arc::new(runtime) }
    }

    /// The same index in another state or with other options that leave its entries as they are.
    pub(crate) fn with(&self, shape: Arc<IndexShape>, state: IndexState) -> Index {
        Index { shape, tree: self.tree, state, runtime: self.runtime.clone() }
    }

    pub(crate) fn shape(&self) -> &Arc<IndexShape> {
        &self.shape
    }

    /// Its definition.
    pub fn specification(&self) -> &IndexSpecification {
        &self.shape.specification
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.shape.specification.name
    }

    /// Its key pattern.
    pub fn pattern(&self) -> &KeyPattern {
        &self.shape.specification.pattern
    }

    /// Where its entries are.
    pub fn tree(&self) -> TreeId {
        self.tree
    }

    /// What tells it from all others, whatever is made of it.
    pub fn identity(&self) -> IndexIdentity {
        self.runtime.identity
    }

    /// Where it is in its life.
    pub fn state(&self) -> IndexState {
        self.state
    }

    /// Whether queries may read it: filled, not set aside, and not dropped.
    pub fn is_ready(&self) -> bool {
        self.is_complete() && self.aside().is_none()
    }

    /// Whether the collection has it, as its clients see it: it may be set aside.
    pub fn is_complete(&self) -> bool {
        self.state == IndexState::Ready && !self.is_dropped()
    }

    /// Sets it aside. `namespace`: of its collection.
    pub fn set_aside(&self, namespace: &str, reason: &str) {
        let aside = Aside { namespace: namespace.to_owned(), reason: reason.to_owned() };
        let is_first = self.runtime.aside.set(Box::new(aside)).is_ok();
        if is_first {
            count_set_aside();
        }
    }

    /// Why it is set aside.
    pub fn aside(&self) -> Option<&str> {
        self.runtime.aside.get().map(|aside| aside.reason.as_str())
    }

    /// Fails when it is set aside.
    ///
    /// # Errors
    /// `SetAside`.
    #[inline]
    pub fn check_usable(&self) -> Result<()> {
        match self.runtime.aside.get() {
            None => Ok(()),
            Some(aside) => Err(self.set_aside_error(aside)),
        }
    }

    #[cold]
    fn set_aside_error(&self, aside: &Aside) -> CollectionError {
        CollectionError::SetAside {
            what: format!("index '{}' of {}", self.name(), aside.namespace),
            reason: aside.reason.clone(),
            advice: if self.is_readable() { REBUILD_ADVICE } else { "drop it and create it again" },
        }
    }

    /// Whether its stored definition makes sense to this build.
    pub fn is_readable(&self) -> bool {
        self.shape.unreadable.is_none()
    }

    /// Its definition as it is stored.
    pub(crate) fn stored_specification(&self) -> RawDocumentBuf {
        self.shape.unreadable.clone().unwrap_or_else(|| self.shape.specification.to_document())
    }

    /// Whether a snapshot of this time may read it: an index that became ready later lacks what the snapshot sees.
    pub fn is_ready_at(&self, timestamp: Timestamp) -> bool {
        self.is_ready() && self.runtime.ready_since.load(Ordering::Acquire) <= timestamp.0
    }

    /// What a snapshot of this time may read of it: itself, or what it has taken the place of.
    pub fn at(self: &Arc<Self>, timestamp: Timestamp) -> Option<Arc<Index>> {
        if self.is_ready_at(timestamp) {
            return Some(self.clone());
        }
        let predecessor = self.runtime.predecessor.lock().clone();
        predecessor.filter(|_| !self.is_dropped()).and_then(|predecessor| predecessor.at(timestamp))
    }

    /// It takes the place of another for snapshots from `since` on.
    pub(crate) fn succeed(&self, predecessor: &Arc<Index>, since: Timestamp) -> Succession {
        *self.runtime.predecessor.lock() = Some(predecessor.clone());
        self.set_ready_since(since);
        predecessor.runtime.replaced.store(true, Ordering::Release);
        Succession { successor: Arc::downgrade(&self.runtime), since }
    }

    pub(crate) fn set_ready_since(&self, timestamp: Timestamp) {
        self.runtime.ready_since.store(timestamp.0, Ordering::Release);
    }

    /// Whether the planner should leave it alone.
    pub fn is_hidden(&self) -> bool {
        self.shape.specification.hidden
    }

    /// Whether any field has met an array: then one document may have several entries.
    pub fn is_multikey(&self) -> bool {
        self.runtime.multikey_paths.iter().any(|components| components.load(Ordering::Acquire) != 0)
    }

    /// For the field at `position` of the key pattern, a bit for each component of its path that has led into an array.
    ///
    /// Set before the first entry that needs it becomes visible, never cleared: read it after opening the `ReadView` that
    /// the entries are read through.
    pub fn multikey_components(&self, position: usize) -> u64 {
        self.runtime.multikey_paths.get(position).map_or(0, |components| components.load(Ordering::Acquire))
    }

    /// `multikey_components` of every field, for explain and the catalog.
    pub fn multikey_paths(&self) -> Vec<u64> {
        self.runtime.multikey_paths.iter().map(|components| components.load(Ordering::Acquire)).collect()
    }

    /// Whether `paths`, as key generation reports them, say something new.
    #[inline]
    pub(crate) fn lacks_multikey(&self, paths: &[u64]) -> bool {
        paths.iter().enumerate().any(|(position, components)| components & !self.multikey_components(position) != 0)
    }

    pub(crate) fn add_multikey(&self, paths: &[u64]) {
        for (known, components) in self.runtime.multikey_paths.iter().zip(paths) {
            known.fetch_or(*components, Ordering::AcqRel);
        }
    }

    /// Counts a use by a query, for `$indexStats`.
    pub fn count_access(&self) {
        self.runtime.accesses.fetch_add(1, Ordering::Relaxed);
    }

    /// Uses by queries, and since when (wall clock, milliseconds since 1970).
    pub fn accesses(&self) -> (u64, i64) {
        (self.runtime.accesses.load(Ordering::Relaxed), self.runtime.accesses_since_millis)
    }

    /// Whether it has been dropped, or its build given up.
    pub fn is_dropped(&self) -> bool {
        self.runtime.dropped.load(Ordering::Acquire)
    }

    /// Fails when the index has been dropped or set aside; cursors ask at every step.
    ///
    /// # Errors
    /// `IndexDropped`, `SetAside`.
    #[inline]
    pub fn check_alive(&self) -> Result<()> {
        if self.is_dropped() {
            return Err(CollectionError::IndexDropped { name: self.name().to_owned() });
        }
        self.check_usable()
    }

    pub(crate) fn mark_dropped(&self) {
        self.runtime.dropped.store(true, Ordering::Release);
    }

    /// Whether another tree has taken the place of this one. It has what snapshots from before see, and nothing newer.
    pub fn is_replaced(&self) -> bool {
        self.runtime.replaced.load(Ordering::Acquire)
    }

    /// How many `Index` values share the tree of this one: 1 when nobody else can reach it any more.
    pub(crate) fn holders(self: &Arc<Self>) -> usize {
        Arc::strong_count(self).max(Arc::strong_count(&self.runtime))
    }

    /// Notes a key that two documents had at one time while the index was being built.
    pub fn suspect_duplicate(&self, key: &[u8], value: &[u8]) {
        let suspected = SuspectedDuplicate { key: key.to_vec(), value: value.to_vec() };
        self.runtime.build.lock().get_or_insert_default().suspected_duplicates.push(suspected);
    }

    /// Takes the keys noted by `suspect_duplicate`.
    pub fn take_suspected_duplicates(&self) -> Vec<SuspectedDuplicate> {
        let mut build = self.runtime.build.lock();
        build.as_mut().map(|build| std::mem::take(&mut build.suspected_duplicates)).unwrap_or_default()
    }

    /// While it is being built: the entries of all records up to this one are there.
    pub fn filled(&self) -> RecordId {
        RecordId(self.runtime.build.lock().as_ref().map_or(0, |build| build.filled))
    }

    /// The entries of all records up to this one are there.
    pub fn set_filled(&self, up_to: RecordId) {
        self.runtime.build.lock().get_or_insert_default().filled = up_to.0;
    }

    /// While it is being built: records have been read up to this one.
    pub fn note_read(&self, up_to: RecordId) {
        self.runtime.build.lock().get_or_insert_default().read = up_to.0;
    }

    /// Up to which record the build has read.
    pub fn read_up_to(&self) -> RecordId {
        RecordId(self.runtime.build.lock().as_ref().map_or(0, |build| build.read.max(build.filled)))
    }

    /// While it is being built: a writer changes entries of this record, which is locked.
    pub fn note_changed(&self, record_id: RecordId) {
        self.runtime.build.lock().get_or_insert_default().changed.add(record_id);
    }

    /// Whether writers have changed entries of the record since the build began.
    pub fn has_changed(&self, record_id: RecordId) -> bool {
        self.runtime.build.lock().as_ref().is_some_and(|build| build.changed.has(record_id))
    }

    /// The build is over.
    pub(crate) fn forget_build(&self) {
        *self.runtime.build.lock() = None;
    }

    /// Whether the partial filter, if there is one, lets `document` into the index.
    ///
    /// # Errors
    /// `Query` when an expression in the filter fails.
    pub fn admits(&self, document: &RawDocument) -> Result<bool> {
        self.shape.specification.partial_filter.as_ref().map_or(Ok(true), |partial| partial.matches(document))
    }

    /// Whether one of the changed fields can change the entries of the document in this index.
    pub(crate) fn is_touched_by(&self, changes: &FieldChanges, old: &RawDocument, new: &RawDocument) -> bool {
        match &self.shape.dependencies {
            Dependencies::All => true,
            Dependencies::Fields(fields) => changes.contains_any(fields, old, new),
        }
    }
}

impl Dependencies {
    fn of(specification: &IndexSpecification) -> Dependencies {
        if specification.pattern.wildcard().is_some() {
            return Dependencies::All;
        }
        let key = document::elements(&specification.key).map(|element| top_level(element.name_bytes()));
        let mut fields: Vec<Box<[u8]>> = key.collect();
        if let Some(definition) = specification.pattern.text() {
            if definition.has_all_fields() {
                return Dependencies::All;
            }
            fields.push(definition.language_override().as_bytes().into());
            fields.extend(definition.paths().map(|path| top_level(path.as_bytes())));
        }
        if let Some(partial) = &specification.partial_filter {
            let referenced = partial.filter().referenced_paths();
            if referenced.whole_document {
                return Dependencies::All;
            }
            fields.extend(referenced.paths.iter().map(|path| top_level(path.as_bytes())));
        }
        fields.sort();
        fields.dedup();
        Dependencies::Fields(fields)
    }
}

fn top_level(path: &[u8]) -> Box<[u8]> {
    path.split(|byte| *byte == b'.').next().unwrap_or(path).into()
}

/// The indexes of a collection at one time; `_id_` is first.
#[derive(Debug)]
pub struct IndexList {
    indexes: Vec<Arc<Index>>,
    generator: Arc<KeyGenerator>,
    version: u64,
}

/// Gives every list of indexes in the process another version.
static NEXT_VERSION: AtomicU64 = AtomicU64::new(1);

impl IndexList {
    pub(crate) fn new(indexes: Vec<Arc<Index>>) -> IndexList {
        let patterns = indexes.iter().map(|index| {
            let sparse = if index.specification().sparse { Sparse::Yes } else { Sparse::No };
            (index.pattern().clone(), sparse)
        });
        let generator = Arc::new(KeyGenerator::new(patterns));
        IndexList::with_generator(indexes, generator)
    }

    /// With the generator of another list whose indexes have the same shapes.
    pub(crate) fn with_generator(indexes: Vec<Arc<Index>>, generator: Arc<KeyGenerator>) -> IndexList {
        IndexList { indexes, generator, version: NEXT_VERSION.fetch_add(1, Ordering::Relaxed) }
    }

    /// Makes the keys of documents; its numbers are positions in this list.
    pub(crate) fn generator(&self) -> &Arc<KeyGenerator> {
        &self.generator
    }

    /// Different for every list that there ever was.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// Every index that writers maintain, also those being built and those that are to take the place of others.
    pub fn all(&self) -> &[Arc<Index>] {
        &self.indexes
    }

    /// The indexes that the collection has, also those being built.
    pub fn listed(&self) -> impl Iterator<Item = &Arc<Index>> {
        self.indexes.iter().filter(|index| index.state != IndexState::Replacing)
    }

    /// Those that are to take the place of others.
    pub fn replacing(&self) -> impl Iterator<Item = &Arc<Index>> {
        self.indexes.iter().filter(|index| index.state == IndexState::Replacing)
    }

    /// The indexes that clients have: those that may be read, and those that are set aside.
    pub fn complete(&self) -> impl Iterator<Item = &Arc<Index>> {
        self.indexes.iter().filter(|index| index.is_complete())
    }

    /// The indexes that may be read.
    pub fn ready(&self) -> impl Iterator<Item = &Arc<Index>> {
        self.indexes.iter().filter(|index| index.is_ready())
    }

    /// The indexes that a snapshot of this time may read: what to plan with.
    pub fn ready_at(&self, timestamp: Timestamp) -> impl Iterator<Item = Arc<Index>> {
        self.listed().filter_map(move |index| index.at(timestamp))
    }

    /// The index on `_id` that a snapshot of this time may read.
    pub fn id_index_at(&self, timestamp: Timestamp) -> Option<Arc<Index>> {
        self.id_index().and_then(|index| index.at(timestamp))
    }

    /// The index on `_id`.
    pub fn id_index(&self) -> Option<&Arc<Index>> {
        self.indexes.first()
    }

    /// The index called `name`, whatever its state.
    pub fn find(&self, name: &str) -> Option<&Arc<Index>> {
        self.listed().find(|index| index.name() == name)
    }

    /// Where the index of this tree is in the list.
    pub fn position(&self, tree: TreeId) -> Option<usize> {
        self.indexes.iter().position(|index| index.tree == tree)
    }

    /// Its indexes with that of the same tree replaced, or added at the end.
    pub(crate) fn with(&self, index: Arc<Index>) -> Vec<Arc<Index>> {
        let mut indexes = self.indexes.clone();
        match indexes.iter_mut().find(|present| present.tree == index.tree) {
            Some(present) => *present = index,
            None => indexes.push(index),
        }
        indexes
    }

    /// Its indexes without that of this tree.
    pub(crate) fn without(&self, tree: TreeId) -> Vec<Arc<Index>> {
        self.indexes.iter().filter(|index| index.tree != tree).cloned().collect()
    }
}
