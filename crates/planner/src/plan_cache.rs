//! What trials have decided, by collection and query shape.
//!
//! Called by the executor. A decision names a plan by its signature and holds as long as the collection has the same list of indexes.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use bson::{RawDocumentBuf, Uuid};
use collection::{Collection, IndexList};
use parking_lot::Mutex;
use platform::{MemoryBudget, MemoryReservation, MemoryUse};

use crate::candidates::Purpose;
use crate::canonical_query::{CanonicalQuery, ProjectionUse};
use crate::predicates::size;

/// A decision.
#[derive(Debug, Clone, PartialEq)]
pub struct CachedPlan {
    /// Of the plan that won.
    pub signature: String,
    /// What it had worked when it won.
    pub works: u64,
    /// For who lists the decisions.
    pub origin: Arc<DecisionOrigin>,
}

/// What a decision was made for.
#[derive(Debug, Clone, PartialEq)]
pub struct DecisionOrigin {
    /// The query's filter; `None` where it is very long.
    pub filter: Option<RawDocumentBuf>,
    /// Its order; empty for none.
    pub sort: RawDocumentBuf,
    /// Its projection; empty for none.
    pub projection: RawDocumentBuf,
    /// Its collation; empty for none.
    pub collation: RawDocumentBuf,
    /// The plan as `explain` shows it; `None` where that is very long.
    pub plan: Option<RawDocumentBuf>,
    /// Tells shapes and the indexes for them apart.
    pub key: String,
    /// Whether an index filter had a say.
    pub has_index_filter: bool,
    /// When it was made.
    pub millis: i64,
}

/// Bytes of a document beyond which a decision does not keep it.
const ORIGIN_BYTES_MAX: usize = 2 << 10;
/// The same for conditions and constants of its filter.
const ORIGIN_CONDITIONS_MAX: usize = 100;

impl DecisionOrigin {
    /// Of a query and the plan that was chosen for it, as `explain` shows that. Long ones are not even shown.
    pub fn of(
        collection: &Collection,
        query: &CanonicalQuery,
        plan: impl FnOnce() -> Option<RawDocumentBuf>,
        has_index_filter: bool,
        millis: i64,
    ) -> DecisionOrigin {
        let short = |document: &RawDocumentBuf| document.as_bytes().len() <= ORIGIN_BYTES_MAX;
        let has_few = size(query.filter.root()) <= ORIGIN_CONDITIONS_MAX;
        let sort = query.sort.as_ref().and_then(|sort| sort.to_document().ok()).unwrap_or_default();
        let shown = query.projection.as_ref().filter(|_| query.projection_use == ProjectionUse::Shown);
        let projection = shown.map(|shown| shown.source().to_owned()).unwrap_or_default();
        let collation = query.collator.as_ref().map(|known| known.definition().to_owned()).unwrap_or_default();
        DecisionOrigin {
            filter: has_few.then(|| query.filter.to_document()).filter(short),
            sort: Some(sort).filter(short).unwrap_or_default(),
            projection: Some(projection).filter(short).unwrap_or_default(),
            collation,
            plan: has_few.then(plan).flatten().filter(short),
            key: plan_cache_key(collection, query),
            has_index_filter,
            millis,
        }
    }

    fn bytes(&self) -> usize {
        let documents =
            [&self.sort, &self.projection, &self.collation].into_iter().chain(&self.filter).chain(&self.plan);
        size_of::<DecisionOrigin>()
            + self.key.len()
            + documents.map(|document| document.as_bytes().len()).sum::<usize>()
    }
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

    /// Forgets the decisions for a shape, whatever the documents are wanted for.
    pub fn forget_shape(&self, collection: &Collection, shape: &str) {
        let Known { collections, memory } = &mut *self.known.lock();
        if let Some(known) = collections.get_mut(&collection.uuid().bytes()) {
            let is_it =
                |known: &str| known.strip_prefix(shape).is_some_and(|rest| rest.is_empty() || rest.starts_with(WANTED));
            give_back(memory, known.plans.extract_if(|known, _| is_it(known)));
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

    /// The decisions of a collection that hold: shape and plan.
    pub fn entries(&self, collection: &Collection) -> Vec<(String, CachedPlan)> {
        let known = self.known.lock();
        let known = known.collections.get(&collection.uuid().bytes());
        let known = known.filter(|known| std::ptr::eq(known.indexes.as_ptr(), Arc::as_ptr(&collection.indexes())));
        known
            .map(|known| known.plans.iter().map(|(shape, plan)| (shape.clone(), plan.clone())).collect())
            .unwrap_or_default()
    }
}

/// What a decision takes.
fn bytes_of(shape: &str, plan: &CachedPlan) -> u64 {
    (shape.len() + plan.bytes()) as u64
}

impl CachedPlan {
    /// What it takes in memory, without the shape.
    pub fn bytes(&self) -> usize {
        self.signature.len() + self.origin.bytes() + DECISION_BYTES
    }
}

/// These are forgotten.
fn give_back(memory: &mut MemoryReservation, plans: impl IntoIterator<Item = (String, CachedPlan)>) {
    let bytes: u64 = plans.into_iter().map(|(shape, plan)| bytes_of(&shape, &plan)).sum();
    memory.shrink(memory.bytes().saturating_sub(bytes));
}

/// Stands between a shape and what the documents are wanted for.
const WANTED: char = '\u{1}';

/// A shape with all that a decision depends on: what the documents are wanted for, too.
pub fn decision_shape(query: &CanonicalQuery, purpose: Purpose) -> String {
    use std::fmt::Write as _;
    let mut shape = query_shape(query);
    let is_plain = purpose == Purpose::Documents && query.distinct.is_none();
    if is_plain && (query.projection.is_none() || query.projection_use == ProjectionUse::Shown) {
        return shape;
    }
    let _ = write!(shape, "{WANTED}{purpose:?}");
    if query.projection_use == ProjectionUse::Needed {
        write_projection(&mut shape, query);
    }
    if let Some(distinct) = &query.distinct {
        let _ = write!(shape, "!{:?}", distinct.path.as_str());
    }
    shape
}

fn write_projection(shape: &mut String, query: &CanonicalQuery) {
    use std::fmt::Write as _;
    if let Some(projection) = query.projection.as_ref().filter(|projection| projection.is_inclusion()) {
        let _ = write!(shape, "#{:?}", projection.dependencies().paths);
    }
}

/// A shape in eight digits, as `explain` tells it.
pub fn query_hash(shape: &str) -> String {
    let shape = shape.split_once(WANTED).map_or(shape, |(shape, _)| shape);
    // FNV-1a.
    let hash = shape.bytes().fold(0x811C_9DC5u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    format!("{hash:08X}")
}

/// The same of a query's shape together with the indexes that it could be answered by: others make it another decision.
pub fn plan_cache_key(collection: &Collection, query: &CanonicalQuery) -> String {
    use std::fmt::Write as _;
    let mut shape = query_shape(query);
    let mut paths = query.filter.referenced_paths().paths;
    paths.extend(query.sort.iter().flat_map(|sort| sort.parts()).map(|part| part.path.as_str().to_owned()));
    for index in collection.indexes().ready().filter(|index| !index.is_hidden()) {
        let fields = index.pattern().fields();
        let is_wildcard = index.pattern().wildcard().is_some();
        if is_wildcard || fields.iter().any(|field| paths.contains(field.path.as_str())) {
            let _ = write!(shape, "/{:?}{:?}", index.name(), index.pattern().document());
        }
    }
    query_hash(&shape)
}

/// What queries that can share a decision have in common: filter without constants, sort, projected fields, collation.
pub fn query_shape(query: &CanonicalQuery) -> String {
    use std::fmt::Write as _;
    let mut shape = query.filter.shape();
    if let Some(sort) = &query.sort {
        for part in sort.parts() {
            let _ = write!(shape, "|{:?}{}", part.path.as_str(), if part.descending { '-' } else { '+' });
        }
    }
    if query.projection_use == ProjectionUse::Shown {
        write_projection(&mut shape, query);
    }
    if let Some(collator) = &query.collator {
        shape.push('@');
        for element in document::elements(collator.definition()) {
            let _ = write!(shape, "{:?},", element.value());
        }
    }
    shape
}
