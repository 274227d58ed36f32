//! The catalog: which collections and indexes there are, and where their trees are.
//!
//! Called by `commands` and `transaction` to find collections, and by replay. Kept in the engine's catalog tree (format
//! in `catalog/stored.rs`) and in memory. Looking up never waits. Changes (`apply`, index builds, `reap`, `put_counts`) must be
//! made one at a time, under the definition lock of `transaction`; a checkpoint begins under that lock too, so that no
//! checkpoint has half of a change. They are applied in the same way when they happen and in replay.
//!
//! A dropped collection or index disappears from the catalog at once, but its trees stay until nobody holds it any more:
//! `reap` drops them then. A crash before that leaves a note in the catalog tree, which `load` acts on.

mod apply;
mod change;
mod load;
mod names;
mod private_collections;
mod private_trees;
mod replacement;
mod shapes;
mod stored;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use bson::{RawDocument, Uuid};
use parking_lot::{Mutex, RwLock};
use platform::{Clock, MemoryReservation, MemoryUse, Random};
use storage_engine::{Batch, Engine, EngineError, TreeId};

pub use change::{CatalogChange, IndexChange, IndexModification, Modification};

use crate::collection::{Collection, definition_bytes};
use crate::document_change::NewlyMultikey;
use crate::error::{CollectionError, Result};
use crate::index::{Index, Succession};
use crate::namespace::{NAMESPACE_BYTES_MAX, Namespace};
use names::CollectionMap;
pub(crate) use shapes::IndexShapes;
use stored::COUNTS_KEY;
pub(crate) use stored::{COLLECTION_KEY, DROPPED_TREE_KEY, decode_collection, split_key};

/// Bytes of a collection's entry, which the engine stores as one value: below its bound, for names and marks that are added later.
const DEFINITION_BYTES_MAX: usize = 15 << 20;
/// What an index takes in it beside its definition, at most.
const STORED_INDEX_BYTES: usize = 1 << 10;

/// All collections of one data directory.
pub struct Catalog {
    engine: Arc<Engine>,
    clock: Arc<dyn Clock>,
    random: Arc<dyn Random>,
    by_name: CollectionMap<String>,
    by_uuid: CollectionMap<Uuid>,
    /// Number of collections by database: a database exists as long as it has one.
    databases: RwLock<BTreeMap<String, usize>>,
    next_ident: AtomicU64,
    dropped: Mutex<Vec<Dropped>>,
    session_tree: Mutex<Option<TreeId>>,
    /// What of the catalog could not be read at the start.
    unreadable: Mutex<Vec<String>>,
    private_trees: Mutex<Vec<TreeId>>,
    shapes: Mutex<IndexShapes>,
}

/// Something dropped whose trees are still there.
enum Dropped {
    Collection(Arc<Collection>),
    Index(Arc<Index>),
    /// Another tree has its place.
    Replaced(Arc<Index>, Succession),
    /// Of a transaction that has ended.
    PrivateTree(TreeId),
}

impl Catalog {
    /// Reads the catalog from the engine's catalog tree; of a new engine it is empty. Index builds that a crash cut short are to go on. What of it cannot be read
    /// is in `unreadable`.
    ///
    /// # Errors
    /// `Engine`.
    pub fn load(engine: Arc<Engine>, clock: Arc<dyn Clock>, random: Arc<dyn Random>) -> Result<Catalog> {
        let shapes = IndexShapes::new(engine.memory().reservation(MemoryUse::Definitions));
        let catalog = Catalog {
            engine,
            clock,
            random,
            by_name: CollectionMap::new(),
            by_uuid: CollectionMap::new(),
            databases: RwLock::default(),
            next_ident: AtomicU64::new(1),
            dropped: Mutex::default(),
            session_tree: Mutex::default(),
            unreadable: Mutex::default(),
            private_trees: Mutex::default(),
            shapes: Mutex::new(shapes),
        };
        catalog.load_all()?;
        catalog.rebuild_names();
        Ok(catalog)
    }

    /// Makes names agree with the collections. For the end of replay, during which names may clash for a while.
    pub(crate) fn rebuild_names(&self) {
        let all = self.by_uuid.all();
        let mut databases = BTreeMap::new();
        for collection in &all {
            *databases.entry(collection.namespace().database().to_owned()).or_default() += 1;
        }
        self.by_name.fill(all.into_iter().map(|collection| (collection.namespace().as_str().to_owned(), collection)));
        *self.databases.write() = databases;
    }

    /// The collection called `namespace` (`database.collection`).
    #[inline]
    pub fn lookup(&self, namespace: &str) -> Option<Arc<Collection>> {
        self.by_name.get(namespace)
    }

    /// The collection with this identity.
    pub fn lookup_uuid(&self, uuid: Uuid) -> Option<Arc<Collection>> {
        self.by_uuid.get(&uuid)
    }

    /// The names of the databases, sorted.
    pub fn databases(&self) -> Vec<String> {
        self.databases.read().keys().cloned().collect()
    }

    /// The collections of a database, sorted by name.
    pub fn collections_of(&self, database: &str) -> Vec<Arc<Collection>> {
        let mut named: Vec<_> = self.by_uuid.all().into_iter().map(|found| (found.namespace(), found)).collect();
        named.retain(|(namespace, _)| namespace.database() == database);
        named.sort_by(|left, right| left.0.cmp(&right.0));
        named.into_iter().map(|(_, collection)| collection).collect()
    }

    /// Every collection, in no order.
    pub fn all_collections(&self) -> Vec<Arc<Collection>> {
        self.by_uuid.all()
    }

    /// Every tree that is in use or waits to be dropped: for `Engine::verify`.
    pub fn trees(&self) -> Vec<TreeId> {
        let mut trees = vec![TreeId::CATALOG];
        trees.extend(self.session_tree());
        trees.extend(self.private_trees.lock().iter());
        self.by_uuid.all().iter().for_each(|collection| trees.extend(collection.trees()));
        trees.extend(self.dropped.lock().iter().flat_map(Dropped::trees));
        trees
    }

    /// A new identity for a collection.
    pub fn new_uuid(&self) -> Uuid {
        let mut bytes = [0; 16];
        self.random.fill(&mut bytes);
        // Version 4 (random), variant of RFC 9562.
        bytes[6] = bytes[6] & 0x0F | 0x40;
        bytes[8] = bytes[8] & 0x3F | 0x80;
        Uuid::from_bytes(bytes)
    }

    /// Whether a collection of this name could be created.
    ///
    /// # Errors
    /// `NamespaceExists`; `DatabaseDifferCase`.
    pub fn check_can_create(&self, namespace: &Namespace) -> Result<()> {
        if self.lookup(namespace.as_str()).is_some() {
            return Err(CollectionError::NamespaceExists(format!("Collection {namespace} already exists.")));
        }
        if let Some(taken) = self.taken_by_series(namespace) {
            return Err(CollectionError::NamespaceExists(format!(
                "{taken} already exists, of a time-series collection."
            )));
        }
        let requested = namespace.database();
        let databases = self.databases.read();
        if databases.contains_key(requested) {
            return Ok(());
        }
        let lowercase = requested.to_lowercase();
        match databases.keys().find(|existing| existing.to_lowercase() == lowercase) {
            Some(existing) => {
                Err(CollectionError::DatabaseDifferCase { existing: existing.clone(), requested: requested.to_owned() })
            }
            None => Ok(()),
        }
    }

    /// What of a time-series collection has a name already: its buckets have `system.buckets.` before it.
    fn taken_by_series(&self, namespace: &Namespace) -> Option<String> {
        let buckets = format!("{}.system.buckets.{}", namespace.database(), namespace.collection());
        let is_series = self.lookup(&buckets)?.definition().options.time_series.is_some();
        is_series.then_some(buckets)
    }

    /// Refuses a change after which the definitions of a collection would not fit into its entry: `more` are added to what it has, if it is there yet. Asked before
    /// the change is logged.
    ///
    /// # Errors
    /// `DefinitionTooLarge`.
    pub fn check_definitions<'a>(
        &self,
        namespace: &Namespace,
        collection: Option<&Collection>,
        more: impl IntoIterator<Item = &'a RawDocument>,
    ) -> Result<()> {
        let more = more.into_iter().map(|document| document.as_bytes().len() + STORED_INDEX_BYTES);
        let there = collection.map_or(0, |collection| stored::encode_collection(collection).as_bytes().len());
        let bytes = more.fold(there, usize::saturating_add);
        if bytes <= DEFINITION_BYTES_MAX {
            return Ok(());
        }
        let namespace = namespace.as_str().to_owned();
        Err(CollectionError::DefinitionTooLarge { namespace, bytes, bytes_max: DEFINITION_BYTES_MAX })
    }

    /// Stores the counts of collections as of a coming checkpoint's mark.
    ///
    /// # Errors
    /// `Engine`.
    pub fn put_counts(&self, counts: &[(Arc<Collection>, i64, i64)]) -> Result<()> {
        let mut batch = Batch::new();
        for (collection, documents, bytes) in counts {
            if !collection.is_dropped() {
                let key = stored::key(COUNTS_KEY, collection.ident());
                batch.put(TreeId::CATALOG, &key, &stored::encode_counts(*documents, *bytes));
            }
        }
        if !batch.is_empty() {
            self.engine.apply_settled(&batch)?;
        }
        Ok(())
    }

    /// Notes that fields of indexes have met an array: in memory and in the catalog tree, before the batch that needs it
    /// is applied, so that no checkpoint has the entries without the note. May be called by any writer.
    ///
    /// # Errors
    /// `Engine`.
    pub fn add_multikey(&self, collection: &Collection, newly: &[NewlyMultikey]) -> Result<()> {
        for newly in newly {
            if let Some(index) = collection.indexes().all().get(newly.index) {
                index.add_multikey(&newly.paths);
            }
        }
        self.persist(collection)
    }

    /// Keeps that a collection, or an index of it, is set aside. Under the definition lock.
    ///
    /// # Errors
    /// `Engine`.
    pub fn save_set_aside(&self, collection: &Collection) -> Result<()> {
        self.persist(collection)
    }

    /// Writes the entry of a collection as it is now. One whose options cannot be read stays as it is.
    fn persist(&self, collection: &Collection) -> Result<()> {
        let _newest_wins = collection.persisting.lock();
        if collection.is_dropped() || collection.is_private() || !collection.is_readable() {
            return Ok(());
        }
        let mut batch = Batch::new();
        let key = stored::key(COLLECTION_KEY, collection.ident());
        let stored = stored::encode_collection(collection);
        collection.count_memory();
        batch.put(TreeId::CATALOG, &key, stored.as_bytes());
        Ok(self.engine.apply_settled(&batch)?)
    }

    /// Whether `reap` has something to look at.
    pub fn has_dropped(&self) -> bool {
        !self.dropped.lock().is_empty()
    }

    /// Whether the memory budget has room for another definition, of which so many bytes are stored.
    ///
    /// # Errors
    /// `Engine(NoMemory)`.
    pub fn check_room(&self, stored_bytes: usize) -> Result<()> {
        let room = self
            .engine
            .memory()
            .check_lasting(MemoryUse::Definitions, definition_bytes(1, NAMESPACE_BYTES_MAX, stored_bytes));
        room.map_err(|error| EngineError::NoMemory(error).into())
    }

    fn reservation(&self) -> MemoryReservation {
        self.engine.memory().reservation(MemoryUse::Definitions)
    }

    /// Drops the trees of dropped collections and indexes that nobody holds any more. Background work; returns how many
    /// things were finished.
    ///
    /// # Errors
    /// `Engine`.
    pub fn reap(&self) -> Result<usize> {
        let oldest_snapshot = self.engine.oldest_snapshot();
        for dropped in self.dropped.lock().iter() {
            if let Dropped::Replaced(_, succession) = dropped {
                succession.settle(oldest_snapshot);
            }
        }
        let finished: Vec<Dropped> = self.dropped.lock().extract_if(.., |dropped| dropped.is_unheld()).collect();
        for dropped in &finished {
            let trees = dropped.trees();
            let mut batch = Batch::new();
            trees.iter().for_each(|tree| batch.delete(TreeId::CATALOG, &stored::key(DROPPED_TREE_KEY, tree.0)));
            self.engine.apply_settled(&batch)?;
            if let Dropped::Collection(collection) = dropped
                && collection.ring().is_some()
            {
                self.engine.drop_ring(collection.ident());
            }
            for tree in trees {
                self.engine.drop_tree(tree)?;
            }
        }
        Ok(finished.len())
    }
}

impl Dropped {
    fn trees(&self) -> Vec<TreeId> {
        match self {
            Dropped::Collection(collection) => collection.trees(),
            Dropped::Index(index) | Dropped::Replaced(index, _) => vec![index.tree()],
            Dropped::PrivateTree(tree) => vec![*tree],
        }
    }

    fn is_unheld(&self) -> bool {
        match self {
            Dropped::Collection(collection) => Arc::strong_count(collection) == 1,
            Dropped::Index(index) | Dropped::Replaced(index, _) => index.holders() == 1,
            Dropped::PrivateTree(_) => true,
        }
    }
}
