//! What it takes to run a query: the store, the plans that are kept, and memory for the execution.
//!
//! Made by `ServerContext` for whoever reads documents and needs nothing else of the server.

use std::sync::Arc;

use executor::QueryServices;
use planner::{IndexFilters, PlanCache};
use platform::WorkingMemory;
use transaction::Store;

use crate::state::context::ServerContext;
use crate::state::parameters::Parameters;

/// See the module's head.
#[derive(Clone, Copy)]
pub(crate) struct Queries<'s> {
    pub(crate) store: &'s Arc<Store>,
    pub(crate) plan_cache: &'s Arc<PlanCache>,
    pub(crate) index_filters: &'s Arc<IndexFilters>,
    pub(crate) memory: &'s WorkingMemory,
    pub(crate) parameters: &'s Arc<Parameters>,
}

/// The same for what outlives its command.
#[derive(Clone)]
pub(crate) struct OwnedQueries {
    store: Arc<Store>,
    plan_cache: Arc<PlanCache>,
    index_filters: Arc<IndexFilters>,
    memory: WorkingMemory,
    parameters: Arc<Parameters>,
}

impl OwnedQueries {
    /// Lends them.
    pub(crate) fn lend(&self) -> Queries<'_> {
        let OwnedQueries { store, plan_cache, index_filters, memory, parameters } = self;
        Queries { store, plan_cache, index_filters, memory, parameters }
    }
}

impl ServerContext {
    /// What it takes to run a query.
    pub(crate) fn queries(&self) -> Queries<'_> {
        Queries {
            store: &self.store,
            plan_cache: &self.plan_cache,
            index_filters: &self.index_filters,
            memory: &self.memory,
            parameters: &self.parameters,
        }
    }
}

impl Queries<'_> {
    /// The same for what outlives its command.
    pub(crate) fn to_owned(self) -> OwnedQueries {
        OwnedQueries {
            store: self.store.clone(),
            plan_cache: self.plan_cache.clone(),
            index_filters: self.index_filters.clone(),
            memory: self.memory.clone(),
            parameters: self.parameters.clone(),
        }
    }

    /// What the executor works with.
    pub(crate) fn services(&self) -> QueryServices {
        QueryServices {
            store: self.store.clone(),
            plan_cache: self.plan_cache.clone(),
            index_filters: self.index_filters.clone(),
            memory: self.memory.clone(),
            forbids_collection_scans: self.parameters.forbids_collection_scans(),
            scan_sharing: self.parameters.scan_sharing(),
        }
    }
}
