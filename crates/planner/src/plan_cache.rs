//! What trials have decided, by collection and query shape.
//!
//! Called by the executor. A decision names a plan by its signature and holds as long as the collection has the same list of indexes.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use bson::Uuid;
use collection::{Collection, IndexList};
use parking_lot::Mutex;
use platform::{MemoryBudget, MemoryReservation, MemoryUse};

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
#[derive(Debug)]
pub struct PlanCache {
    known: Mutex<Known>,
    bytes_max: u64,
}

#[derive(Debug)]
struct Known {
    collections: HashMap<[u8; 16], CollectionPlans>,
    /// Counts all of them.
    memory: MemoryReservation,
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
/// All decisions take no more than this, and than such a part of the memory budget. Beyond it all are forgotten.
const BYTES_MAX: u64 = 16 << 20;
const BYTES_SHARE: u64 = 64;
/// A decision that takes more than such a part of that is not worth keeping.
const DECISION_SHARE: u64 = 16;
/// What a decision takes beside its texts: its place in the map, two allocations.
const DECISION_BYTES: usize = 160;

impl PlanCache {
    /// No decisions, which are counted in a budget.
    pub fn new(budget: &Arc<MemoryBudget>) -> PlanCache {
        let memory = budget.reservation(MemoryUse::Remembered);
        let bytes_max = BYTES_MAX.min(budget.limit() / BYTES_SHARE);
        PlanCache { known: Mutex::new(Known { collections: HashMap::new(), memory }), bytes_max }
    }

    /// The decision for a shape.
    pub fn find(&self, collection: &Collection, shape: &str) -> Option<CachedPlan> {
        let known = self.known.lock();
        let known = known.collections.get(&collection.uuid().bytes())?;
        let is_current = std::ptr::eq(known.indexes.as_ptr(), Arc::as_ptr(&collection.indexes()));
        if is_current { known.plans.get(shape).cloned() } else { None }
    }

    /// Notes a decision, unless it is about a very long filter.
    pub fn remember(&self, collection: &Collection, shape: String, plan: CachedPlan) {
        let bytes = bytes_of(&shape, &plan);
        if shape.len() + plan.signature.len() > SHAPE_BYTES_MAX || bytes > self.bytes_max / DECISION_SHARE {
            return;
        }
        let indexes = Arc::downgrade(&collection.indexes());
        let mut known = self.known.lock();
        if known.memory.bytes() + bytes > self.bytes_max {
            known.collections.clear();
            known.memory.shrink(0);
        }
        let Known { collections, memory } = &mut *known;
        let plans = collections
            .entry(collection.uuid().bytes())
            .or_insert_with(|| CollectionPlans { indexes: indexes.clone(), plans: HashMap::new() });
        if !plans.indexes.ptr_eq(&indexes) || plans.plans.len() >= SHAPES_MAX {
            plans.indexes = indexes;
            give_back(memory, plans.plans.drain());
        }
        give_back(memory, plans.plans.remove_entry(&shape));
        memory.grow_unchecked(bytes);
        plans.plans.insert(shape, plan);
    }

    /// Forgets the decision for a shape, which did not do well.
    pub fn forget_shape(&self, collection: &Collection, shape: &str) {
        let Known { collections, memory } = &mut *self.known.lock();
        if let Some(known) = collections.get_mut(&collection.uuid().bytes()) {
            give_back(memory, known.plans.remove_entry(shape));
        }
    }

    /// Forgets all decisions of a collection.
    pub fn forget(&self, collection: Uuid) {
        let Known { collections, memory } = &mut *self.known.lock();
        if let Some(known) = collections.remove(&collection.bytes()) {
            give_back(memory, known.plans);
        }
    }

    /// Forgets everything.
    pub fn clear(&self) {
        let mut known = self.known.lock();
        known.collections.clear();
        known.memory.shrink(0);
    }

    /// The decisions of a collection: shape and plan.
    pub fn entries(&self, collection: Uuid) -> Vec<(String, CachedPlan)> {
        let known = self.known.lock();
        let known = known.collections.get(&collection.bytes());
        known
            .map(|known| known.plans.iter().map(|(shape, plan)| (shape.clone(), plan.clone())).collect())
            .unwrap_or_default()
    }
}

fn bytes_of(shape: &str, plan: &CachedPlan) -> u64 {
    (shape.len() + plan.signature.len() + DECISION_BYTES) as u64
}

/// These are forgotten.
fn give_back(memory: &mut MemoryReservation, plans: impl IntoIterator<Item = (String, CachedPlan)>) {
    let bytes: u64 = plans.into_iter().map(|(shape, plan)| bytes_of(&shape, &plan)).sum();
    memory.shrink(memory.bytes().saturating_sub(bytes));
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
