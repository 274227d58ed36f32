//! A store on a simulated disk, and the short forms that tests are written in.

use std::sync::Arc;

use bson::{Document, RawDocumentBuf};
use collection::{Collection, IndexSpecification, Namespace, Validation};
use planner::{CanonicalQuery, IndexFilters, PlanCache};
use platform::{Foreground, SeededRandom, SimulatedClock, SimulatedDisk, WorkingMemory};
use query_language::filter::{Filter, FilterOptions};
use storage_engine::EngineOptions;
use transaction::{Store, StoreOptions, WriteContext};

use crate::{QueryExecutor, QueryServices, Target, Uninterrupted};

pub(super) struct Fixture {
    pub(super) services: QueryServices,
    pub(super) collection: Arc<Collection>,
    context: WriteContext,
}

pub(super) fn raw(document: &Document) -> RawDocumentBuf {
    RawDocumentBuf::try_from(document).unwrap()
}

pub(super) fn query(filter: &Document) -> CanonicalQuery {
    CanonicalQuery::new(Filter::parse(&raw(filter), &FilterOptions::default()).unwrap())
}

impl Fixture {
    pub(super) fn new() -> Fixture {
        Fixture::with(Arc::new(SimulatedClock::new(1_700_000_000_000)), Arc::default())
    }

    pub(super) fn with(clock: Arc<SimulatedClock>, foreground: Arc<Foreground>) -> Fixture {
        let options = StoreOptions {
            foreground,
            engine: EngineOptions { cache_bytes: 8 << 20, history_memory_bytes: 1 << 20, ..EngineOptions::default() },
            replay_threads: 0,
            engine_threads: false,
            ..StoreOptions::default()
        };
        let disk = Arc::new(SimulatedDisk::new(7));
        let store = Store::open(disk, clock, Arc::new(SeededRandom::new(1)), options).unwrap();
        let collection = store.collection_or_create(&Namespace::parse("test.c").unwrap()).unwrap();
        let services = QueryServices {
            store,
            plan_cache: Arc::new(PlanCache::new(&platform::MemoryBudget::unlimited())),
            index_filters: Arc::new(IndexFilters::new(platform::MemoryBudget::unlimited())),
            memory: WorkingMemory::simulated(100 << 20).unwrap(),
            forbids_collection_scans: false,
            scan_sharing: Default::default(),
        };
        Fixture { services, collection, context: WriteContext::new() }
    }

    /// Whether the document could be inserted: not with parallel arrays in an index.
    pub(super) fn insert(&mut self, document: &Document) -> bool {
        let document = raw(document);
        let inserted =
            self.services.store.insert_document(&mut self.context, &self.collection, &document, Validation::Enforce);
        match inserted {
            Ok(commit) => {
                self.services.store.acknowledge(&commit, transaction::Acknowledgement::Visible).unwrap();
                true
            }
            Err(_) => false,
        }
    }

    pub(super) fn create_index(&self, specification: &Document) -> bool {
        let specification = IndexSpecification::parse(&raw(specification)).unwrap();
        self.services.store.create_indexes(&self.collection, vec![specification]).is_ok()
    }

    pub(super) fn executor(&self, query: CanonicalQuery) -> QueryExecutor {
        let view = self.services.store.read_view();
        let target = Target::of(&self.collection);
        QueryExecutor::new(&self.services, view, target, Arc::new(query), &Uninterrupted).unwrap()
    }

    pub(super) fn find(&self, query: CanonicalQuery) -> Vec<Document> {
        drain(&mut self.executor(query)).iter().map(|document| Document::try_from(&**document).unwrap()).collect()
    }
}

pub(super) fn drain(executor: &mut QueryExecutor) -> Vec<RawDocumentBuf> {
    let mut found = Vec::new();
    while let Some(row) = executor.next(&Uninterrupted).unwrap() {
        found.push(row.document.to_owned());
    }
    found
}
