//! Index filters: which indexes the planner may consider for a shape of query, as an administrator has said.
//!
//! Set, listed and cleared by the commands `planCacheSetFilter`, `planCacheListFilters` and `planCacheClearFilters`; looked up by
//! the executor before it plans. They are kept in memory only, for the collection itself: they follow it when it is renamed, and
//! are gone when it is dropped, or when another takes its place (`renameCollection` with `dropTarget`, `convertToCapped`, `$out`).
//!
//! A filter stands above the client's hint. It does not say how a lookup by `_id` is done, and it leaves a query with `min` or
//! `max` alone, whose bounds are keys of the hinted index.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

use bson::RawDocumentBuf;
use collection::{Collection, Index};
use index_key::KeyPattern;
use parking_lot::RwLock;
use platform::{MemoryBudget, MemoryReservation, MemoryUse, OverBudget};

use crate::canonical_query::CanonicalQuery;
use crate::plan_cache::query_shape;

/// An index that a filter names.
#[derive(Debug, Clone, PartialEq)]
pub enum AllowedIndex {
    /// The one of this name.
    Name(String),
    /// All with this key pattern.
    KeyPattern(RawDocumentBuf),
}

/// The indexes for one shape of query.
#[derive(Debug, Clone, PartialEq)]
pub struct IndexFilter {
    /// The example from which the shape was taken.
    pub query: RawDocumentBuf,
    /// Its order.
    pub sort: RawDocumentBuf,
    /// The fields it shows.
    pub projection: RawDocumentBuf,
    /// Its collation, as it was given.
    pub collation: RawDocumentBuf,
    /// What the planner may consider.
    pub indexes: Vec<AllowedIndex>,
}

impl IndexFilter {
    fn memory_bytes(&self) -> usize {
        let documents = [&self.query, &self.sort, &self.projection, &self.collation];
        let indexes = self.indexes.iter().map(|allowed| match allowed {
            AllowedIndex::Name(name) => name.len() + size_of::<AllowedIndex>(),
            AllowedIndex::KeyPattern(pattern) => pattern.as_bytes().len() + size_of::<AllowedIndex>(),
        });
        documents.iter().map(|document| document.as_bytes().len()).sum::<usize>()
            + indexes.sum::<usize>()
            + FILTER_BYTES
    }

    /// Whether the planner may consider an index.
    pub fn allows(&self, index: &Index) -> bool {
        self.indexes.iter().any(|allowed| match allowed {
            AllowedIndex::Name(name) => index.name() == name,
            AllowedIndex::KeyPattern(pattern) => {
                KeyPattern::parse(pattern).is_ok_and(|pattern| *index.pattern() == pattern)
            }
        })
    }
}

/// What a filter takes beside its documents and its shape.
const FILTER_BYTES: usize = 512;

/// The filters of one server.
#[derive(Debug)]
pub struct IndexFilters {
    budget: Arc<MemoryBudget>,
    collections: RwLock<HashMap<[u8; 16], CollectionFilters>>,
    /// How many collections have filters: mostly none, and then no query computes its shape.
    count: AtomicUsize,
}

#[derive(Debug)]
struct CollectionFilters {
    collection: Weak<Collection>,
    by_shape: BTreeMap<String, (Arc<IndexFilter>, MemoryReservation)>,
}

impl IndexFilters {
    /// No filters, which are counted in a budget.
    pub fn new(budget: Arc<MemoryBudget>) -> IndexFilters {
        IndexFilters { budget, collections: RwLock::default(), count: AtomicUsize::new(0) }
    }

    /// Sets the filter of a shape, in place of another.
    ///
    /// # Errors
    /// There is no memory for it.
    pub fn set(&self, collection: &Arc<Collection>, shape: String, filter: IndexFilter) -> Result<(), OverBudget> {
        let bytes = (shape.len() + filter.memory_bytes()) as u64;
        self.budget.check_lasting(MemoryUse::Remembered, bytes)?;
        let memory = self.budget.reserve_fixed(MemoryUse::Remembered, bytes);
        let mut collections = self.collections.write();
        collections.retain(|_, filters| filters.collection.upgrade().is_some_and(|known| known.check_alive().is_ok()));
        let filters = collections
            .entry(collection.uuid().bytes())
            .or_insert_with(|| CollectionFilters { collection: Arc::downgrade(collection), by_shape: BTreeMap::new() });
        filters.by_shape.insert(shape, (Arc::new(filter), memory));
        self.count.store(collections.len(), Ordering::Release);
        Ok(())
    }

    /// The filter for a query.
    pub fn find(&self, collection: &Collection, query: &CanonicalQuery) -> Option<Arc<IndexFilter>> {
        if self.count.load(Ordering::Acquire) == 0 || query.min.is_some() || query.max.is_some() {
            return None;
        }
        let collections = self.collections.read();
        let filters = collections.get(&collection.uuid().bytes())?;
        filters.by_shape.get(&query_shape(query)).map(|(filter, _)| filter.clone())
    }

    /// The filters of a collection.
    pub fn list(&self, collection: &Collection) -> Vec<Arc<IndexFilter>> {
        let collections = self.collections.read();
        let filters = collections.get(&collection.uuid().bytes());
        filters.map(|filters| filters.by_shape.values().map(|(filter, _)| filter.clone()).collect()).unwrap_or_default()
    }

    /// Removes the filter of a shape, if there is one.
    pub fn clear_shape(&self, collection: &Collection, shape: &str) {
        let mut collections = self.collections.write();
        let uuid = collection.uuid().bytes();
        if let Some(filters) = collections.get_mut(&uuid) {
            filters.by_shape.remove(shape);
            if filters.by_shape.is_empty() {
                collections.remove(&uuid);
            }
        }
        self.count.store(collections.len(), Ordering::Release);
    }

    /// Removes all filters of a collection.
    pub fn clear(&self, collection: &Collection) {
        let mut collections = self.collections.write();
        collections.remove(&collection.uuid().bytes());
        self.count.store(collections.len(), Ordering::Release);
    }
}
