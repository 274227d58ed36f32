//! What pipelines need of the server: other collections, statistics, and the places where `$out` and `$merge` write.
//!
//! Used by `opened_pipeline`, `oplog_view` and change streams.

use std::sync::Arc;

use aggregation::{
    BoxSource, DocumentSource, FindById, ForeignQuery, IdleOperations, ListedSessions, MergeRules, MergeWriter,
    NearQuery, NearSource, OutputWriter, Pipeline, PipelineContext, PipelineCursor, PipelineHost, SpillStore,
    StageMemory,
};
use bson::{RawDocument, RawDocumentBuf};
use collection::{Collection, Namespace, Validation};
use executor::QueryExecutor;
use planner::{CanonicalQuery, DiskUse};
use query_language::expression::Metadata;
use transaction::{ReadView, Transaction};

use super::executor_source::{ExecutorSource, Takes};
use super::find_by_id::ById;
use super::merge_output::MergeOutput;
use super::neighbours::{self, Neighbours};
use super::plan_cache_stats;
use super::query_arguments::{OwnedInterrupt, host_error, query};
use super::query_settings;
use super::query_statistics;
use super::replacing_output::ReplacingOutput;
use super::spill_files::{CountedMemory, SpillFiles};
use crate::handlers::diagnostics::current_op::current_operations;
use crate::handlers::oplog_entries;
use crate::handlers::read_source::ReadSource;
use crate::handlers::schema;
use crate::handlers::sessions;
use crate::handlers::time_series;
use crate::handlers::views::{self, View};
use crate::request::error::Result;
use crate::state::access_control::names::UserName;
use crate::state::context::{Context, ServerContext};
use crate::state::operations::Operation;
use crate::state::query_settings::StoredSettings;
use crate::state::reading::Reading;
use crate::state::replica_set::terms::Terms;

/// What a command opens pipelines with: what it reads from, and the server for their stages, which nobody else asks.
#[derive(Clone, Copy)]
pub(crate) struct PipelineOpening<'a> {
    pub(crate) reading: Reading<'a>,
    pub(crate) operation: &'a Operation<'a>,
    /// Who asks, where that makes a difference.
    user: Option<&'a Arc<UserName>>,
    server: &'a Arc<ServerContext>,
}

impl<'a> PipelineOpening<'a> {
    /// What a command opens pipelines with.
    pub(crate) fn of(context: &'a Context<'_>) -> Self {
        let server = context.server;
        Self {
            reading: context.reading(),
            operation: &context.operation,
            user: context.login.user().filter(|_| server.access.is_enforced()),
            server,
        }
    }

    /// In which term entries of the oplog were written.
    pub(crate) fn terms(&self) -> Arc<Terms> {
        self.server.replica_set.terms()
    }
}

/// The server as a pipeline sees it. Its stages may ask for whatever a command may, for as long as its cursor is open: that is why it has the
/// server whole, and hands each who answers them what he needs.
pub(crate) struct CommandHost {
    server: Arc<ServerContext>,
    database: String,
    interrupt: OwnedInterrupt,
    /// What the pipeline reads from, if that is one point in time.
    fixed_view: Option<ReadView>,
    /// What it is a part of.
    transaction: Option<Arc<Transaction>>,
    /// Where stages put what exceeds their memory; nowhere when the command forbids it.
    spill: Option<SpillFiles>,
    /// Of what is written.
    validation: Validation,
    /// Who asks, where that makes a difference.
    user: Option<Arc<UserName>>,
    /// Views around this pipeline.
    views: usize,
    /// What has been said of the shape of the query.
    settings: Option<Arc<StoredSettings>>,
}

impl CommandHost {
    pub(crate) fn new(opening: PipelineOpening<'_>, database: &str, disk_use: DiskUse) -> Self {
        let PipelineOpening { reading, server, .. } = opening;
        let files = || SpillFiles::new(server.memory.temporary());
        Self {
            server: server.clone(),
            database: database.to_owned(),
            interrupt: OwnedInterrupt::of(opening.operation),
            fixed_view: reading.fixed_view(),
            transaction: reading.transaction().cloned(),
            spill: (disk_use == DiskUse::Allowed).then(files),
            validation: Validation::Enforce,
            user: opening.user.cloned(),
            views: 0,
            settings: None,
        }
    }

    /// The same where something has been said of the shape of the query.
    pub(super) fn with_settings(self, settings: Option<Arc<StoredSettings>>) -> Self {
        Self { settings, ..self }
    }

    /// The same with another rule for what is written.
    pub(crate) fn with_validation(self, validation: Validation) -> Self {
        Self { validation, ..self }
    }

    fn namespace(&self, namespace: &aggregation::Namespace) -> Result<Namespace> {
        let database = if namespace.database.is_empty() { &self.database } else { &namespace.database };
        Ok(Namespace::new(database, &namespace.collection)?)
    }

    /// The collection of a name, as the pipeline's transaction or snapshot sees it.
    fn collection(&self, namespace: &Namespace) -> Result<Option<Arc<Collection>>> {
        let store = &self.server.store;
        match (&self.transaction, &self.fixed_view) {
            (None, Some(view)) => Ok(store.collection_at(namespace, view.timestamp())?),
            (transaction, _) => Ok(store.collection_seen_by(transaction.as_ref(), namespace)?),
        }
    }

    fn open(&self, namespace: &aggregation::Namespace, foreign: &ForeignQuery) -> Result<BoxSource> {
        let mut query = query(Some(&foreign.filter), &foreign.variables)?;
        query.passes_metadata = foreign.metadata;
        let namespace = self.namespace(namespace)?;
        if let ReadSource::View(view) = self.source_of(namespace.clone())? {
            return self.open_view(&view, foreign);
        }
        self.open_query(namespace, query, Some(&foreign.filter))
    }

    fn source_of(&self, namespace: Namespace) -> Result<ReadSource> {
        ReadSource::found_by(self.server.queries(), namespace, |namespace| self.collection(namespace))
    }

    /// The documents that a query gives of what is no view; `filter` is the query's, as it was sent.
    fn open_query(
        &self,
        namespace: Namespace,
        mut query: CanonicalQuery,
        filter: Option<&RawDocument>,
    ) -> Result<BoxSource> {
        if let Some(settings) = &self.settings {
            settings.restrict(namespace.as_str(), &mut query);
        }
        let target = match self.source_of(namespace)? {
            ReadSource::Oplog => {
                let empty = RawDocumentBuf::new();
                return oplog_entries::matching_entries(
                    &self.server.store,
                    self.server.replica_set.terms(),
                    query,
                    filter.unwrap_or(&empty),
                );
            }
            ReadSource::Stored(stored) => stored.target(),
            view @ ReadSource::View(_) => view.target_for("a view within itself")?,
        };
        let view = self.fixed_view.clone().unwrap_or_else(|| self.server.store.read_view());
        let interrupt = self.interrupt.clone();
        let executor =
            QueryExecutor::new(&self.server.queries().services(), view, target, Arc::new(query), &interrupt)?;
        let metadata = Metadata::default();
        Ok(Box::new(ExecutorSource { executor, takes: Takes::Documents, interrupt, examined: None, metadata }))
    }

    fn open_near(&self, namespace: &aggregation::Namespace, near: &NearQuery) -> Result<Box<dyn NearSource>> {
        let namespace = self.namespace(namespace)?;
        neighbours::check_is_collection(&namespace)?;
        let target = match self.source_of(namespace.clone())? {
            ReadSource::Stored(stored) => stored.target(),
            ReadSource::Oplog | ReadSource::View(_) => return Err(neighbours::no_index(&namespace)),
        };
        let view = self.fixed_view.clone().unwrap_or_else(|| self.server.store.read_view());
        let services = self.server.queries().services();
        Ok(Box::new(Neighbours::open(&services, view, target, near, self.interrupt.clone())?))
    }

    /// What a view has that matches. Its pipeline may read other views: how deep is bounded.
    fn open_view(&self, view: &View, foreign: &ForeignQuery) -> Result<BoxSource> {
        let host = Arc::new(self.inside_view()?);
        let filter = (!foreign.filter.is_empty()).then(|| views::matching(&foreign.filter));
        let stages: Vec<&RawDocument> = view.stages.iter().chain(&filter).map(|stage| &**stage).collect();
        let base = aggregation::Namespace::new(view.base.database(), view.base.collection());
        let pipeline = Pipeline::parse(&stages, &PipelineContext::new(base, Arc::clone(&foreign.variables)))?;
        let pushdown = pipeline.split_pushdown()?;
        let mut query = query(pushdown.filter.as_deref(), &foreign.variables)?;
        (query.sort, query.skip, query.limit) = (pushdown.sort, pushdown.skip, pushdown.limit);
        query.passes_metadata = pushdown.rest.metadata();
        let source = self.open_query(view.base.clone(), query, pushdown.filter.as_deref())?;
        Ok(Box::new(ViewSource(pushdown.rest.run(source, host)?)))
    }

    /// The same host for the pipeline of a view.
    fn inside_view(&self) -> Result<Self> {
        if self.views >= views::DEPTH_MAX {
            return Err(views::too_deep());
        }
        Ok(Self {
            server: self.server.clone(),
            database: self.database.clone(),
            interrupt: self.interrupt.clone(),
            fixed_view: self.fixed_view.clone(),
            transaction: self.transaction.clone(),
            spill: self.spill.as_ref().map(|_| SpillFiles::new(self.server.memory.temporary())),
            validation: self.validation,
            user: self.user.clone(),
            views: self.views + 1,
            settings: self.settings.clone(),
        })
    }
}

/// The documents of a view.
struct ViewSource(PipelineCursor);

impl DocumentSource for ViewSource {
    fn next(&mut self) -> aggregation::Result<Option<RawDocumentBuf>> {
        self.0.next_document()
    }
}

impl PipelineHost for CommandHost {
    fn find(&self, namespace: &aggregation::Namespace, query: &ForeignQuery) -> aggregation::Result<BoxSource> {
        self.open(namespace, query).map_err(host_error)
    }

    fn near(&self, namespace: &aggregation::Namespace, query: &NearQuery) -> aggregation::Result<Box<dyn NearSource>> {
        self.open_near(namespace, query).map_err(host_error)
    }

    fn collection_statistics(
        &self,
        namespace: &aggregation::Namespace,
        options: &RawDocument,
    ) -> aggregation::Result<RawDocumentBuf> {
        self.namespace(namespace)
            .and_then(|namespace| {
                let ServerContext { usage, facts, clock, .. } = &*self.server;
                schema::coll_stats::collection_statistics(
                    self.server.queries(),
                    usage,
                    facts,
                    &**clock,
                    &namespace,
                    options,
                )
            })
            .map_err(host_error)
    }

    fn index_statistics(&self, namespace: &aggregation::Namespace) -> aggregation::Result<Vec<RawDocumentBuf>> {
        self.namespace(namespace)
            .and_then(|namespace| {
                schema::index_stats::index_statistics(&self.server.store, &self.server.facts, &namespace)
            })
            .map_err(host_error)
    }

    fn plan_cache_statistics(&self, namespace: &aggregation::Namespace) -> aggregation::Result<Vec<RawDocumentBuf>> {
        let found = self.namespace(namespace).and_then(|namespace| self.collection(&namespace)).map_err(host_error)?;
        let server = &self.server;
        let statistics =
            |collection: Arc<Collection>| plan_cache_stats::decisions(&server.facts, &server.plan_cache, &collection);
        found.map_or(Ok(Vec::new()), |collection| statistics(collection).map_err(host_error))
    }

    fn cluster_catalog(&self, database: Option<&str>, shows_shards: bool) -> aggregation::Result<Vec<RawDocumentBuf>> {
        let check = || self.interrupt.check_command();
        schema::list_collections::catalog(
            self.server.queries(),
            &self.server.replica_set,
            database,
            shows_shards,
            &check,
        )
        .map_err(host_error)
    }

    fn query_statistics(&self, key: Option<&[u8]>) -> aggregation::Result<Vec<RawDocumentBuf>> {
        let check = || self.interrupt.check_command();
        query_statistics::documents(&self.server.query_statistics, &*self.server.clock, key, &check).map_err(host_error)
    }

    fn query_settings(&self, shows_shape: bool) -> aggregation::Result<Vec<RawDocumentBuf>> {
        query_settings::documents(&self.server.query_settings, shows_shape).map_err(host_error)
    }

    fn by_id(&self, namespace: &aggregation::Namespace) -> aggregation::Result<Option<Box<dyn FindById>>> {
        let source = self.namespace(namespace).and_then(|namespace| self.source_of(namespace)).map_err(host_error)?;
        let ReadSource::Stored(stored) = source else { return Ok(None) };
        let found = stored.target().collection;
        let by_id = found.and_then(|collection| ById::new(&self.server.store, &collection, self.fixed_view.clone()));
        Ok(by_id.map(|by_id| Box::new(by_id) as Box<dyn FindById>))
    }

    fn has_index(&self, namespace: &aggregation::Namespace, path: &str) -> aggregation::Result<bool> {
        let namespace = self.namespace(namespace).map_err(host_error)?;
        let Some(collection) = self.collection(&namespace).map_err(host_error)? else {
            // Nothing is found at once; a view is better read once.
            let is_view = views::is_view(self.server.queries(), &namespace).map_err(host_error)?;
            return Ok(!is_view && time_series::of(self.server.queries(), &namespace).is_none());
        };
        let indexes = collection.indexes();
        // A sparse or partial index does not find all that may be equal.
        Ok(indexes.ready().any(|index| {
            let specification = index.specification();
            let first = index.pattern().fields().first();
            first.is_some_and(|first| first.path.as_str() == path && !first.kind.is_place())
                && !index.is_hidden()
                && index.pattern().text().is_none()
                && !specification.sparse
                && specification.partial_filter.is_none()
        }))
    }

    fn current_operations(&self, wanted: IdleOperations) -> aggregation::Result<Vec<RawDocumentBuf>> {
        let only_of = self.user.as_deref().filter(|_| !wanted.all_users);
        current_operations(self.server.running_work(), wanted, only_of, &|| self.interrupt.check_command())
            .map_err(host_error)
    }

    fn sessions(&self, wanted: &ListedSessions) -> aggregation::Result<Vec<RawDocumentBuf>> {
        let check = || self.interrupt.check_command();
        sessions::listed::documents(&self.server.store, &*self.server.clock, wanted, self.user.as_deref(), &check)
            .map_err(host_error)
    }

    fn replace_collection(
        &self,
        namespace: &aggregation::Namespace,
        time_series: Option<&RawDocument>,
    ) -> aggregation::Result<Box<dyn OutputWriter>> {
        let begun = self.namespace(namespace).and_then(|target| {
            ReplacingOutput::begin(
                self.server.pipeline_output(),
                target,
                time_series,
                self.validation,
                self.interrupt.clone(),
            )
        });
        Ok(Box::new(begun.map_err(host_error)?))
    }

    fn begin_merge(&self, rules: &MergeRules) -> aggregation::Result<Box<dyn MergeWriter>> {
        let begun = self.namespace(&rules.target).and_then(|target| {
            MergeOutput::begin(self.server.pipeline_output(), target, rules, self.validation, self.interrupt.clone())
        });
        Ok(Box::new(begun.map_err(host_error)?))
    }

    fn spill_store(&self) -> Option<&dyn SpillStore> {
        self.spill.as_ref().map(|files| files as &dyn SpillStore)
    }

    fn stage_memory(&self) -> Box<dyn StageMemory> {
        Box::new(CountedMemory::new(self.server.memory.begin()))
    }

    fn check_interrupt(&self) -> aggregation::Result<()> {
        self.interrupt.check_command().map_err(host_error)
    }
}
