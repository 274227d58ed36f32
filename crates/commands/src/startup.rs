//! How a server begins: its state is put together, and what every server has is stored.
//!
//! Called by `server` once, before clients are served. Above all other layers, as the state is told which commands
//! there are.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use document::ObjectIdGenerator;
use platform::{Clock, Random, WorkingMemory};
use transaction::Store;

use crate::handlers::crud::replacing_output;
use crate::handlers::diagnostics::{feature_compatibility, startup_log};
use crate::registry;
use crate::request::error::Result;
use crate::state::access_control::AccessControl;
use crate::state::admission::Admission;
use crate::state::audit::Audit;
use crate::state::client_cursors::ClientCursors;
use crate::state::command_figures::CommandFigures;
use crate::state::context::{ServerContext, ServerFacts};
use crate::state::default_concerns::DefaultConcerns;
use crate::state::fail_points::FailPoints;
use crate::state::fsync_lock::FsyncLock;
use crate::state::namespace_usage::NamespaceUsage;
use crate::state::operations::Operations;
use crate::state::profiler::Profiler;
use crate::state::query_settings::QuerySettings;
use crate::state::query_statistics::QueryStatistics;
use crate::state::replica_set::ReplicaSet;
use crate::state::server_hooks::{DiagnosticLog, ServerHooks};
use crate::state::session_end::TIMEOUT;
use crate::state::topology::Topology;
use crate::state::traces::Traces;
use crate::state::writing::Writing;

impl ServerContext {
    /// The state of a server over an open store.
    pub fn new(
        store: Arc<Store>,
        clock: Arc<dyn Clock>,
        random: &dyn Random,
        facts: ServerFacts,
        hooks: Arc<dyn ServerHooks>,
        log: Arc<dyn DiagnosticLog>,
        memory: WorkingMemory,
    ) -> Arc<Self> {
        let mut process = [0; 5];
        random.fill(&mut process);
        let object_ids = ObjectIdGenerator::new(process, random.next_u64() as u32);
        let process_id = object_ids.next((clock.wall_millis() / 1000) as u32);
        let fail_points = Arc::<FailPoints>::default();
        let traces = hooks.traces().map(Traces::new);
        let context = Arc::new(Self {
            audit: Audit::new(hooks.audit_settings()),
            backups: Default::default(),
            plan_cache: Arc::new(planner::PlanCache::new(memory.budget())),
            index_filters: Arc::new(planner::IndexFilters::new(memory.budget().clone())),
            cursors: ClientCursors::new(clock.clone(), random.next_u64(), memory.budget().clone()),
            operations: Operations::new(clock.clone(), fail_points.clone()),
            admission: Arc::new(Admission::new(clock.clone(), store.foreground().clone())),
            fail_points,
            replica_set: ReplicaSet::new(facts.replica_set.clone(), hooks.set_members()),
            default_concerns: DefaultConcerns::default(),
            query_settings: QuerySettings::new(memory.budget().clone()),
            query_statistics: QueryStatistics::new(memory.budget()),
            counts: Arc::default(),
            session_timeout: TIMEOUT,
            parameters: Arc::default(),
            usage: NamespaceUsage::new(memory.budget()),
            timestamps: Arc::default(),
            figures: CommandFigures::new(&mut registry::declarations()),
            profiler: Profiler::new(traces.is_some()),
            traces,
            fsync_lock: FsyncLock::default(),
            started: clock.monotonic(),
            access: AccessControl::new(facts.authorization, random, hooks.decoy_secret()),
            writing: Arc::new(Writing::new(store.clone(), clock.clone(), object_ids)),
            topology: Topology::new(process_id, hooks.set_members(), store.clone()),
            tells_of_stop: AtomicBool::new(false),
            store,
            clock,
            facts,
            hooks,
            log,
            memory,
        });
        context.store.set_working_memory(context.memory.clone());
        context
    }

    /// Stores what every server has: the document of the feature compatibility version. Called once by the server, when
    /// it is open.
    ///
    /// # Errors
    /// Those of an insert.
    pub fn store_own_documents(&self) -> Result<()> {
        // A secondary has the primary's.
        if self.replica_set.is_secondary() {
            return Ok(());
        }
        feature_compatibility::store_document(&self.writing)
    }

    /// Drops what pipelines with `$out` have left that a kill has ended. Called once by the server, when it is open.
    ///
    /// # Errors
    /// Those of dropping a collection.
    pub fn drop_abandoned_outputs(&self) -> Result<()> {
        if self.replica_set.is_secondary() {
            return Ok(());
        }
        replacing_output::drop_abandoned(&self.store)
    }

    /// Notes that the server starts.
    pub fn note_start(&self) {
        if self.replica_set.is_secondary() {
            return;
        }
        if let Err(error) = startup_log::note(&self.writing, &self.facts) {
            tracing::warn!(%error, "the start is not noted in local.startup_log");
        }
    }
}
