//! What pipelines need of the server: other collections, statistics, and the place where `$out` writes.
//!
//! Used by `aggregate`.

use std::sync::Arc;

use aggregation::{
    AggregationError, BoxSource, ForeignQuery, IdleOperations, OutputWriter, PipelineHost, SpillStore, StageMemory,
};
use bson::{RawDocument, RawDocumentBuf};
use collection::{Collection, CollectionOptions, IndexSpecification, Namespace, Validation};
use document::EmptyTimestamps;
use executor::QueryExecutor;
use planner::DiskUse;
use transaction::{CommitInfo, DefinitionScope, InsertOrder, ReadView, RenameTarget, Transaction};

use super::aggregate::ExecutorSource;
use super::query_arguments::{OwnedInterrupt, query, services};
use super::spill_files::{CountedMemory, SpillFiles};
use crate::handlers::diagnostics::current_op::current_operations;
use crate::handlers::oplog_view;
use crate::handlers::read_source::ReadSource;
use crate::handlers::schema;
use crate::request::error::{CommandError, Result};
use crate::state::access_control::names::UserName;
use crate::state::context::{Context, ServerContext};

/// Bytes of documents that `$out` collects before it inserts them.
const OUTPUT_BYTES: usize = 256 * 1024;

/// The server as a pipeline sees it.
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
}

impl CommandHost {
    pub(crate) fn new(context: &Context<'_>, database: &str, disk_use: DiskUse) -> Self {
        let files = || SpillFiles::new(context.server.memory.temporary());
        Self {
            server: context.server.clone(),
            database: database.to_owned(),
            interrupt: OwnedInterrupt::of(context),
            fixed_view: context.fixed_view(),
            transaction: context.session.transaction().cloned(),
            spill: (disk_use == DiskUse::Allowed).then(files),
            validation: Validation::Enforce,
            user: context.login.user().filter(|_| context.server.access.is_enforced()).cloned(),
        }
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
        let query = query(Some(&foreign.filter), &foreign.variables)?;
        let namespace = self.namespace(namespace)?;
        let target = match ReadSource::found_by(namespace, |namespace| self.collection(namespace))? {
            ReadSource::Oplog => return oplog_view::matching_entries(&self.server, query, &foreign.filter),
            ReadSource::Stored(stored) => stored.target(),
        };
        let view = self.fixed_view.clone().unwrap_or_else(|| self.server.store.read_view());
        let interrupt = self.interrupt.clone();
        let executor = QueryExecutor::new(&services(&self.server), view, target, Arc::new(query), &interrupt)?;
        Ok(Box::new(ExecutorSource { executor, interrupt, examined: None }))
    }

    fn begin_output(&self, namespace: &aggregation::Namespace) -> Result<Box<dyn OutputWriter>> {
        let target = self.namespace(namespace)?;
        check_may_replace(&target)?;
        let store = &self.server.store;
        let existing = store.catalog().lookup(target.as_str());
        let options = match &existing {
            Some(collection) => collection.definition().options.clone(),
            None => CollectionOptions::default(),
        };
        let unique = self.server.new_object_id().to_hex();
        let temporary = Namespace::new(target.database(), &format!("tmp.agg_out.{unique}"))?;
        let (collection, _) = store.create_collection(&temporary, options)?;
        let output = Output {
            server: self.server.clone(),
            target,
            temporary,
            interrupt: self.interrupt.clone(),
            collection,
            validation: self.validation,
            documents: Vec::new(),
            bytes: 0,
            is_finished: false,
        };
        if let Some(existing) = existing {
            let indexes = existing.indexes();
            let copied: Vec<IndexSpecification> = indexes
                .complete()
                .filter(|index| index.is_readable())
                .map(|index| index.specification())
                .filter(|specification| !specification.is_id_index())
                .cloned()
                .collect();
            if !copied.is_empty() {
                store.create_indexes(&output.collection, copied)?;
            }
        }
        Ok(Box::new(output))
    }
}

/// Refuses collections and databases of the server's own.
fn check_may_replace(target: &Namespace) -> Result<()> {
    if target.collection().starts_with("system.") {
        return Err(CommandError::numbered(
            17385,
            format!("Can't $out to special collection: {}", target.collection()),
        ));
    }
    if ["admin", "config", "local"].contains(&target.database()) {
        return Err(CommandError::numbered(31321, format!("Can't $out to internal database: {}", target.database())));
    }
    schema::check_may_create(target)
}

pub(super) fn host_error(error: CommandError) -> AggregationError {
    AggregationError::Host(Box::new(error))
}

impl PipelineHost for CommandHost {
    fn find(&self, namespace: &aggregation::Namespace, query: &ForeignQuery) -> aggregation::Result<BoxSource> {
        self.open(namespace, query).map_err(host_error)
    }

    fn collection_statistics(
        &self,
        namespace: &aggregation::Namespace,
        options: &RawDocument,
    ) -> aggregation::Result<RawDocumentBuf> {
        self.namespace(namespace)
            .and_then(|namespace| schema::coll_stats::collection_statistics(&self.server, &namespace, options))
            .map_err(host_error)
    }

    fn index_statistics(&self, namespace: &aggregation::Namespace) -> aggregation::Result<Vec<RawDocumentBuf>> {
        self.namespace(namespace)
            .and_then(|namespace| schema::index_stats::index_statistics(&self.server, &namespace))
            .map_err(host_error)
    }

    fn has_index(&self, namespace: &aggregation::Namespace, path: &str) -> aggregation::Result<bool> {
        let namespace = self.namespace(namespace).map_err(host_error)?;
        let Some(collection) = self.collection(&namespace).map_err(host_error)? else { return Ok(true) };
        let indexes = collection.indexes();
        // A sparse or partial index does not find all that may be equal.
        Ok(indexes.ready().any(|index| {
            let specification = index.specification();
            let first = index.pattern().fields().first();
            first.is_some_and(|first| first.path.as_str() == path)
                && !index.is_hidden()
                && !specification.sparse
                && specification.partial_filter.is_none()
        }))
    }

    fn current_operations(&self, wanted: IdleOperations) -> aggregation::Result<Vec<RawDocumentBuf>> {
        let only_of = self.user.as_deref().filter(|_| !wanted.all_users);
        current_operations(&self.server, wanted, only_of, &|| self.interrupt.check_command()).map_err(host_error)
    }

    fn replace_collection(&self, namespace: &aggregation::Namespace) -> aggregation::Result<Box<dyn OutputWriter>> {
        self.begin_output(namespace).map_err(host_error)
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

/// A new collection beside the one that it will replace.
struct Output {
    server: Arc<ServerContext>,
    target: Namespace,
    temporary: Namespace,
    interrupt: OwnedInterrupt,
    collection: Arc<Collection>,
    validation: Validation,
    documents: Vec<RawDocumentBuf>,
    bytes: usize,
    is_finished: bool,
}

impl Output {
    fn insert_collected(&mut self) -> Result<()> {
        let documents: Vec<&RawDocument> = self.documents.iter().map(AsRef::as_ref).collect();
        let outcome = self.server.with_write_context(|write| {
            let (store, collection) = (&self.server.store, &self.collection);
            store.insert_documents(write, collection, &documents, InsertOrder::Ordered, self.validation)
        });
        self.documents.clear();
        self.bytes = 0;
        match outcome.errors.into_iter().next() {
            Some((_, error)) => Err(error.into()),
            None => Ok(()),
        }
    }

    fn add(&mut self, document: &RawDocument) -> Result<()> {
        let clock = self.server.clock.wall_millis();
        let now = || self.server.timestamps.next(clock);
        let mut stored = Vec::new();
        let new_id = || self.server.new_object_id();
        let is_changed = document::prepare_for_storage(document, EmptyTimestamps::Replace, new_id, now, &mut stored)?;
        let document = if is_changed { RawDocumentBuf::from_bytes(stored)? } else { document.to_owned() };
        self.bytes += document.as_bytes().len();
        self.documents.push(document);
        if self.bytes >= OUTPUT_BYTES { self.insert_collected() } else { Ok(()) }
    }
}

impl Output {
    /// Once no open transaction uses it.
    fn replace_target(&self) -> Result<CommitInfo> {
        let store = &self.server.store;
        let scope = DefinitionScope::Collections(vec![self.target.clone()]);
        let _excluded = store
            .exclude_transactions(&scope, &|| self.interrupt.check_command().is_err())
            .map_err(|error| self.interrupt.check_command().err().unwrap_or_else(|| error.into()))?;
        Ok(store.rename_collection(&self.temporary, &self.target, RenameTarget::Drop)?)
    }
}

impl OutputWriter for Output {
    fn write(&mut self, document: &RawDocument) -> aggregation::Result<()> {
        self.add(document).map_err(host_error)
    }

    fn finish(mut self: Box<Self>) -> aggregation::Result<()> {
        let renamed = self.insert_collected().and_then(|()| self.replace_target());
        self.is_finished = renamed.is_ok();
        renamed.map(|_| ()).map_err(host_error)
    }
}

impl Drop for Output {
    fn drop(&mut self) {
        if !self.is_finished {
            // The error that ended the pipeline is the one to be told about.
            let _ = self.server.store.drop_collection(&self.temporary);
        }
    }
}
