//! Where `$out` writes: a new collection beside the one that it will replace.
//!
//! Made by `pipeline_host` once a pipeline is pulled. What is written is seen by nobody until the pipeline has ended. A
//! time-series collection is written and replaced as its buckets.

use std::sync::Arc;

use aggregation::OutputWriter;
use bson::{RawBsonRef, RawDocument, RawDocumentBuf};
use collection::{Collection, CollectionOptions, IndexSpecification, Namespace, TimeSeriesOptions, Validation};
use document::EmptyTimestamps;
use transaction::{CommitInfo, DefinitionScope, InsertOrder, RenameTarget, Store, WriteContext};

use super::measurement_inserts;
use super::query_arguments::{OwnedInterrupt, host_error};
use crate::handlers::schema::check_may_create;
use crate::handlers::time_series::{self, TimeSeries, index_face};
use crate::handlers::views;
use crate::request::error::{CommandError, Result};
use crate::state::pipeline_output::PipelineOutput;
use crate::state::queries::Queries;

/// What the name of a new collection begins with until it replaces another; then come the 24 digits of an ObjectId.
const TEMPORARY: &str = "tmp.agg_out.";
/// Bytes of documents that `$out` collects before it inserts them.
const OUTPUT_BYTES: usize = 256 * 1024;

/// See the module's head.
pub(super) struct ReplacingOutput {
    output: PipelineOutput,
    target: Namespace,
    /// The collection that is replaced by `collection`.
    replaced: Namespace,
    temporary: Namespace,
    interrupt: OwnedInterrupt,
    collection: Arc<Collection>,
    /// What `collection` has the buckets of.
    series: Option<TimeSeries>,
    validation: Validation,
    documents: Vec<RawDocumentBuf>,
    bytes: usize,
    is_finished: bool,
}

impl ReplacingOutput {
    /// Makes the new collection, with the options and indexes of the one that it will replace. With `time_series` it is a
    /// time-series collection that is as this says.
    ///
    /// # Errors
    /// The target is the server's own, a view, or another kind of collection; those of making a collection.
    pub(super) fn begin(
        output: PipelineOutput,
        target: Namespace,
        time_series: Option<&RawDocument>,
        validation: Validation,
        interrupt: OwnedInterrupt,
    ) -> Result<Self> {
        check_may_replace(&target)?;
        views::refuse(output.queries(), &target)?;
        let store = &output.writing.store;
        let (existing, options) = made_like(output.queries(), &target, time_series)?;
        let is_series = options.time_series.is_some();
        let unique = output.writing.new_object_id().to_hex();
        let mut temporary = Namespace::new(target.database(), &format!("{TEMPORARY}{unique}"))?;
        let mut replaced = target.clone();
        if is_series {
            temporary = time_series::new_buckets_of(&temporary)?;
            replaced = time_series::new_buckets_of(&target)?;
        }
        let (collection, _) = store.create_collection(&temporary, options.clone())?;
        let series = options.time_series.as_ref();
        let series = series.map(|options| TimeSeries::new(target.clone(), collection.clone(), options));
        let output = Self {
            output,
            target,
            replaced,
            temporary,
            interrupt,
            collection,
            series,
            validation,
            documents: Vec::new(),
            bytes: 0,
            is_finished: false,
        };
        output.create_indexes(existing.as_deref())?;
        Ok(output)
    }

    /// Those of the collection that it replaces, or those that a new one has.
    fn create_indexes(&self, existing: Option<&Collection>) -> Result<()> {
        let copied = match (existing, &self.series) {
            (Some(existing), _) => specifications(existing),
            (None, Some(series)) => index_face::usual(series)?.into_iter().collect(),
            (None, None) => Vec::new(),
        };
        if !copied.is_empty() {
            self.output.writing.store.create_indexes(&self.collection, copied)?;
        }
        Ok(())
    }

    fn insert_collected(&mut self) -> Result<()> {
        let documents: Vec<&RawDocument> = self.documents.iter().map(AsRef::as_ref).collect();
        let failed = match &self.series {
            Some(series) => {
                let inserted = measurement_inserts::insert(self, series, &documents, None, InsertOrder::Ordered);
                inserted.errors.into_iter().next().map(|(_, error)| error)
            }
            None => {
                let outcome = self.output.writing.with_context(|write| {
                    let (store, collection) = (&self.output.writing.store, &self.collection);
                    store.insert_documents(write, collection, &documents, InsertOrder::Ordered, self.validation)
                });
                outcome.errors.into_iter().next().map(|(_, error)| error.into())
            }
        };
        self.documents.clear();
        self.bytes = 0;
        failed.map_or(Ok(()), Err)
    }

    fn add(&mut self, document: &RawDocument) -> Result<()> {
        let document = as_stored(&self.output, document)?;
        self.bytes += document.as_bytes().len();
        self.documents.push(document);
        if self.bytes >= OUTPUT_BYTES { self.insert_collected() } else { Ok(()) }
    }

    /// Once no open transaction uses it.
    fn replace_target(&self) -> Result<CommitInfo> {
        let store = &self.output.writing.store;
        let scope = DefinitionScope::Collections(vec![self.replaced.clone()]);
        let _excluded = store
            .exclude_transactions(&scope, &|| self.interrupt.check_command().is_err())
            .map_err(|error| self.interrupt.check_command().err().unwrap_or_else(|| error.into()))?;
        let is_there = |namespace: &Namespace| store.catalog().lookup(namespace.as_str()).is_some();
        if self.series.is_some() && is_there(&self.target) {
            return Err(other_kind(&self.target));
        }
        if self.series.is_none() {
            time_series::refuse(self.output.queries(), &self.target, "$out")?;
        }
        Ok(store.rename_collection(&self.temporary, &self.replaced, RenameTarget::Drop)?)
    }
}

impl measurement_inserts::Writer for ReplacingOutput {
    fn queries(&self) -> Queries<'_> {
        self.output.queries()
    }

    fn check(&self) -> Result<()> {
        self.interrupt.check_command()
    }

    fn give_way(&self) {}

    fn write<T>(&self, _: i32, write: impl FnOnce(&mut WriteContext) -> T) -> T {
        self.output.writing.with_context(write)
    }
}

/// The collection that is replaced, if there is one, and the options of that which replaces it.
fn made_like(
    queries: Queries<'_>,
    target: &Namespace,
    asked: Option<&RawDocument>,
) -> Result<(Option<Arc<Collection>>, CollectionOptions)> {
    let asked = asked.map(|asked| TimeSeriesOptions::parse(RawBsonRef::Document(asked))).transpose()?;
    if let Some(existing) = queries.store.catalog().lookup(target.as_str()) {
        let options = existing.definition().options.clone();
        return if asked.is_some() { Err(other_kind(target)) } else { Ok((Some(existing), options)) };
    }
    if let Some(series) = time_series::of(queries, target) {
        let options = series.collection.definition().options.clone();
        if asked.is_some() && asked != options.time_series {
            let message = format!("Time series options of $out differ from those of the existing collection {target}");
            return Err(CommandError::named("InvalidOptions", message));
        }
        return Ok((Some(series.collection), options));
    }
    Ok((None, CollectionOptions { time_series: asked, ..CollectionOptions::default() }))
}

fn other_kind(target: &Namespace) -> CommandError {
    let message = format!("Cannot create a time-series collection from a non time-series collection or view: {target}");
    CommandError::named("InvalidOptions", message)
}

fn specifications(existing: &Collection) -> Vec<IndexSpecification> {
    let indexes = existing.indexes();
    let readable = indexes.complete().filter(|index| index.is_readable()).map(|index| index.specification());
    readable.filter(|specification| !specification.is_id_index()).cloned().collect()
}

/// Drops what pipelines have left that a kill or a loss of power has ended. Called at the start, before there are others.
///
/// # Errors
/// Those of dropping a collection.
pub(crate) fn drop_abandoned(store: &Store) -> Result<()> {
    for collection in store.catalog().all_collections() {
        let definition = collection.definition();
        if is_temporary(definition.namespace.collection()) {
            tracing::info!(collection = %definition.namespace, "dropped what an unfinished $out has left");
            store.drop_collection(&definition.namespace)?;
        }
    }
    Ok(())
}

fn is_temporary(name: &str) -> bool {
    let name = name.strip_prefix(time_series::PREFIX).unwrap_or(name);
    let unique = name.strip_prefix(TEMPORARY);
    unique.is_some_and(|unique| unique.len() == 24 && unique.bytes().all(|digit| digit.is_ascii_hexdigit()))
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
    check_may_create(target)
}

impl OutputWriter for ReplacingOutput {
    fn write(&mut self, document: &RawDocument) -> aggregation::Result<()> {
        self.add(document).map_err(host_error)
    }

    fn finish(mut self: Box<Self>) -> aggregation::Result<()> {
        let renamed = self.insert_collected().and_then(|()| self.replace_target());
        self.is_finished = renamed.is_ok();
        renamed.map(|_| ()).map_err(host_error)
    }
}

impl Drop for ReplacingOutput {
    fn drop(&mut self) {
        if !self.is_finished {
            // The error that ended the pipeline is the one to be told about.
            let _ = self.output.writing.store.drop_collection(&self.temporary);
        }
    }
}

/// A document as it is stored: with an `_id`, which is first, and without zero timestamps.
pub(super) fn as_stored(output: &PipelineOutput, document: &RawDocument) -> Result<RawDocumentBuf> {
    let PipelineOutput { writing, timestamps, .. } = output;
    let millis = writing.clock.wall_millis();
    let now = || timestamps.next(millis);
    let mut stored = Vec::new();
    let new_id = || writing.new_object_id();
    let is_changed = document::prepare_for_storage(document, EmptyTimestamps::Replace, new_id, now, &mut stored)?;
    Ok(if is_changed { RawDocumentBuf::from_bytes(stored)? } else { document.to_owned() })
}
