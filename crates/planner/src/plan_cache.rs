//! What trials have decided, by collection and query shape.
//!
//! Called by the executor. A decision names a plan by its signature and holds as long as the collection has the same list of indexes.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use bson::Uuid;
use collection::{Collection, IndexList};
use parking_lot::Mutex;

use crate::canonical_query::CanonicalQuery;

/// A decision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CachedPlan {
    /// Of the plan that won.
    pub signature: String,
    /// What it had worked when it won.
    pub works: u64,
}

/// Decisions of one server.
#[derive(Debug, Default)]
pub struct PlanCache {
    collections: Mutex<HashMap<[u8; 16], CollectionPlans>>,
}

#[derive(Debug)]
struct CollectionPlans {
    indexes: Weak<IndexList>,
    plans: HashMap<String, CachedPlan>,
}

/// Longest shape that is remembered, in bytes: what has so many conditions takes longer than its trial does.
const SHAPE_BYTES_MAX: usize = 16 << 10;

/// Shapes of one collection beyond which its decisions are forgotten.
const SHAPES_MAX: usize = 1000;

impl PlanCache {
    /// No decisions.
    pub fn new() -> PlanCache {
        PlanCache::default()
    }

    /// The decision for a shape.
    pub fn find(&self, collection: &Collection, shape: &str) -> Option<CachedPlan> {
        let collections = self.collections.lock();
        let known = collections.get(&collection.uuid().bytes())?;
        let is_current = std::ptr::eq(known.indexes.as_ptr(), Arc::as_ptr(&collection.indexes()));
        if is_current { known.plans.get(shape).cloned() } else { None }
    }

    /// Notes a decision, unless it is about a very long filter.
    pub fn remember(&self, collection: &Collection, shape: String, plan: CachedPlan) {
        if shape.len() + plan.signature.len() > SHAPE_BYTES_MAX {
            return;
        }
        let indexes = Arc::downgrade(&collection.indexes());
        let mut collections = self.collections.lock();
        let known = collections
            .entry(collection.uuid().bytes())
            .or_insert_with(|| CollectionPlans { indexes: indexes.clone(), plans: HashMap::new() });
        if !known.indexes.ptr_eq(&indexes) || known.plans.len() >= SHAPES_MAX {
            known.indexes = indexes;
            known.plans.clear();
        }
        known.plans.insert(shape, plan);
    }

    /// Forgets the decision for a shape, which did not do well.
    pub fn forget_shape(&self, collection: &Collection, shape: &str) {
        if let Some(known) = self.collections.lock().get_mut(&collection.uuid().bytes()) {
            known.plans.remove(shape);
        }
    }

    /// Forgets all decisions of a collection.
    pub fn forget(&self, collection: Uuid) {
        self.collections.lock().remove(&collection.bytes());
    }

    /// Forgets everything.
    pub fn clear(&self) {
        self.collections.lock().clear();
    }

    /// The decisions of a collection: shape and plan.
    pub fn entries(&self, collection: Uuid) -> Vec<(String, CachedPlan)> {
        let collections = self.collections.lock();
        let known = collections.get(&collection.bytes());
        known
            .map(|known| known.plans.iter().map(|(shape, plan)| (shape.clone(), plan.clone())).collect())
            .unwrap_or_default()
    }
}

/// What queries that can share a decision have in common: filter without constants, sort, projected fields.
pub fn query_shape(query: &CanonicalQuery) -> String {
    use std::fmt::Write as _;
    let mut shape = query.filter.shape();
    if let Some(sort) = &query.sort {
        for part in sort.parts() {
            let _ = write!(shape, "|{:?}{}", part.path.as_str(), if part.descending { '-' } else { '+' });
        }
    }
    if let Some(projection) = query.projection.as_ref().filter(|projection| projection.is_inclusion()) {
        let _ = write!(shape, "#{:?}", projection.dependencies().paths);
    }
    shape
}
