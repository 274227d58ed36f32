//! A pipeline that a command asks for: its fields, and what it reads from.
//!
//! `aggregate_command` is `aggregate` itself. Others stand for a pipeline (`mapReduce`), read a view as one
//! (`views::read`), explain one, or begin with a stream (`change_stream`). `opened_pipeline` runs it.
//!
//! What the front of the pipeline asks of the collection (filter, sort, skip, limit) goes to the executor, so that it can
//! use indexes; the rest runs over its results.

use std::sync::Arc;

use aggregation::{BoxSource, OneOfEach, Pipeline, PipelineContext, PipelineCursor, PipelineSource, Which};
use bson::{RawBsonRef, RawDocument, RawDocumentBuf};
use collection::{Namespace, Validation};
use document::FieldPath;
use executor::{Target, Verbosity};
use planner::{CanonicalQuery, DiskUse, DistinctField, Hint, Missing, ProjectionUse, WhichDocument};
use query_language::expression::{Metadata, Variables};

use super::executor_source::{Examined, ExecutorSource, Takes};
use super::pipeline_host::PipelineOpening;
use super::query_arguments::{OwnedInterrupt, hint, query, variables};
use super::query_memory::check_memory_for;
use super::query_settings;
use crate::handlers::oplog_entries;
use crate::handlers::read_source::ReadSource;
use crate::handlers::views::{self, View};
use crate::request::arguments::{Arguments, required};
use crate::request::error::{CommandError, Result};
use crate::state::client_cursors::CursorSource;
use crate::state::execution_notes::{Detail, Execution};
use crate::state::operations::Operation;
use crate::state::query_settings::StoredSettings;
use crate::state::reading::Reading;

/// The fields of `aggregate`.
pub(crate) struct AggregateArguments<'a> {
    /// What the command names.
    pub(crate) namespace: Namespace,
    /// What it reads: what a view of that name stands on.
    source: Namespace,
    pub(crate) stages: Vec<&'a RawDocument>,
    hint: Hint,
    pub(crate) declared: Option<&'a RawDocument>,
    pub(crate) batch_size: Option<u64>,
    pub(super) has_cursor: bool,
    pub(super) is_explain: bool,
    allow_disk_use: bool,
    /// What has been said of its shape.
    pub(super) settings: Option<Arc<StoredSettings>>,
    /// Whether what $out writes must fit the validator of the collection that it replaces.
    pub(super) validation: Validation,
}

impl<'a> AggregateArguments<'a> {
    /// Of a pipeline alone: one that another command stands for, or that is read further.
    pub(super) fn of_stages(namespace: Namespace, stages: Vec<&'a RawDocument>, validation: Validation) -> Self {
        AggregateArguments {
            source: namespace.clone(),
            namespace,
            stages,
            hint: Hint::None,
            declared: None,
            batch_size: None,
            has_cursor: false,
            is_explain: false,
            allow_disk_use: true,
            settings: None,
            validation,
        }
    }

    /// A command that reads a view, of which these are all stages down to the collection.
    pub(crate) fn over_view(
        view: &View,
        stages: Vec<&'a RawDocument>,
        hint: Hint,
        declared: Option<&'a RawDocument>,
        disk_use: DiskUse,
    ) -> Self {
        Self {
            source: view.base.clone(),
            hint: view.hint(&hint),
            declared,
            allow_disk_use: disk_use == DiskUse::Allowed,
            ..Self::of_stages(view.namespace.clone(), stages, Validation::Enforce)
        }
    }

    /// The same with what has been said of the shape of the command that it stands for.
    pub(crate) fn with_settings(self, settings: Option<Arc<StoredSettings>>) -> Self {
        Self { settings, ..self }
    }

    /// The same command through the view that its namespace is, if it is one (`view_of`).
    pub(super) fn through<'v>(self, view: Option<&'v View>) -> Result<AggregateArguments<'v>>
    where
        'a: 'v,
    {
        let Some(view) = view else { return Ok(self) };
        // They tell of a collection, not of documents.
        let of_collections = ["$changeStream", "$collStats", "$indexStats", "$planCacheStats"];
        let first = self.stages.first().and_then(|stage| document::elements(stage).next());
        // Those of its buckets are those of a time-series collection.
        if view.own_series().is_some()
            && first.is_some_and(|first| first.name() != "$changeStream" && of_collections.contains(&first.name()))
        {
            return Ok(AggregateArguments { source: view.base.clone(), ..self });
        }
        if first.is_some_and(|first| of_collections.contains(&first.name())) {
            return Err(views::not_on_view(&view.namespace));
        }
        let stages = view.stages.iter().map(|stage| &**stage).chain(self.stages).collect();
        Ok(AggregateArguments { stages, source: view.base.clone(), hint: view.hint(&self.hint), ..self })
    }

    pub(super) fn disk_use(&self) -> DiskUse {
        if self.allow_disk_use { DiskUse::Allowed } else { DiskUse::Forbidden }
    }
}

/// The view that a command names, if it does and does not go through it yet.
pub(super) fn view_of(reading: Reading<'_>, parsed: &AggregateArguments<'_>) -> Result<Option<View>> {
    if parsed.source != parsed.namespace || reading.collection(&parsed.namespace)?.is_some() {
        return Ok(None);
    }
    views::resolve(reading.queries, &parsed.namespace)
}

/// Reads the fields.
pub(crate) fn parse<'a>(reading: Reading<'_>, arguments: &mut Arguments<'a>) -> Result<AggregateArguments<'a>> {
    let database = reading.database;
    let namespace = match arguments.target().map(|field| field.value()) {
        Some(RawBsonRef::String(name)) => Namespace::new(database, name)?,
        Some(value) if document::Number::from_bson(value).and_then(|number| number.to_i64_exact()) == Some(1) => {
            Namespace::of_database(database)?
        }
        _ => {
            let message = "Invalid command format: the 'aggregate' field must specify a collection name or 1";
            return Err(CommandError::failed_to_parse(message));
        }
    };
    let mut stages = None;
    let mut parsed = AggregateArguments::of_stages(namespace, Vec::new(), Validation::Enforce);
    for field in arguments.fields() {
        match field.name() {
            "pipeline" => stages = field.documents()?,
            "cursor" => {
                parsed.has_cursor = true;
                for option in field.given("type 'object'")?.fields_of("aggregate.cursor")? {
                    match option.name() {
                        "batchSize" => parsed.batch_size = option.unsigned()?,
                        _ => return Err(option.unknown()),
                    }
                }
            }
            "explain" => parsed.is_explain = field.boolean()?,
            "allowDiskUse" => parsed.allow_disk_use = field.boolean_or(true)?,
            "hint" => parsed.hint = hint(field)?,
            "let" => parsed.declared = field.document()?,
            "bypassDocumentValidation" => {
                parsed.validation = if field.boolean()? { Validation::Bypass } else { Validation::Enforce };
            }
            "collation" => drop(field.document()?),
            "exchange" | "fromMongos" | "needsMerge" | "requestReshardingResumeToken" => field.refuse_unless_null()?,
            _ => arguments.generic(field)?,
        }
    }
    parsed.stages = required(stages, "aggregate.pipeline")?;
    parsed.settings = query_settings::of_command(reading, arguments.body)?;
    Ok(parsed)
}

pub(super) fn parse_pipeline(parsed: &AggregateArguments<'_>, variables: &Arc<Variables>) -> Result<Pipeline> {
    let namespace = aggregation::Namespace::new(parsed.source.database(), parsed.source.collection());
    check_memory_for(parsed.stages.iter().copied())?;
    let pipeline = Pipeline::parse(&parsed.stages, &PipelineContext::new(namespace, variables.clone()))?;
    if parsed.namespace.collection() == "$cmd.aggregate" && pipeline.source() == PipelineSource::Collection {
        let stage = parsed.stages.first().and_then(|stage| document::elements(stage).next());
        let name = stage.map_or("", |element| element.name());
        return Err(CommandError::named(
            "InvalidNamespace",
            format!("{{aggregate: 1}} is not valid for '{name}'; a collection is required."),
        ));
    }
    Ok(pipeline)
}

/// What the pipeline reads from; `None` when its first stage makes the documents.
pub(super) fn source_of(
    reading: Reading<'_>,
    parsed: &AggregateArguments<'_>,
    pipeline: &Pipeline,
) -> Result<Option<ReadSource>> {
    match pipeline.source() {
        PipelineSource::FirstStage => Ok(None),
        PipelineSource::Collection => ReadSource::of(reading, parsed.source.clone()).map(Some),
    }
}

/// A pipeline in two parts.
pub(super) struct Front {
    /// What the executor does.
    pub(super) query: CanonicalQuery,
    /// What the rest takes of its results.
    pub(super) takes: Takes,
    pub(super) rest: Pipeline,
}

/// Splits off what the executor can do.
pub(super) fn split(
    pipeline: Pipeline,
    parsed: &AggregateArguments<'_>,
    read: Option<&ReadSource>,
    variables: &Arc<Variables>,
) -> Result<Front> {
    if !matches!(read, Some(ReadSource::Stored(_))) {
        return Ok(Front { query: query(None, variables)?, takes: Takes::Documents, rest: pipeline });
    }
    let pushdown = pipeline.split_pushdown()?;
    let mut query = query(pushdown.filter.as_deref(), variables)?;
    query.skip = pushdown.skip;
    query.limit = pushdown.limit;
    query.hint = parsed.hint.clone();
    if let Some(settings) = &parsed.settings {
        settings.restrict(parsed.source.as_str(), &mut query);
    }
    query.disk_use = parsed.disk_use();
    query.passes_metadata = pushdown.rest.metadata();
    if pushdown.needed_paths.as_ref().is_some_and(Vec::is_empty) && !query.passes_metadata.is_any() {
        return Ok(Front { query, takes: Takes::TheirNumber, rest: pushdown.rest });
    }
    query.sort = pushdown.sort;
    let paths = pushdown.needed_paths.as_deref();
    query.projection = paths.and_then(|paths| planner::needed_projection(paths.iter().map(String::as_str)));
    query.projection_use = ProjectionUse::Needed;
    query.distinct = pushdown.one_of_each.as_ref().map(distinct_field);
    Ok(Front { query, takes: Takes::Documents, rest: pushdown.rest })
}

fn distinct_field(one: &OneOfEach) -> DistinctField {
    let which = match one.which {
        Which::Any => None,
        Which::First => Some(WhichDocument::First),
        Which::Last => Some(WhichDocument::Last),
    };
    DistinctField { path: FieldPath::new(&one.path), missing: Missing::Null, which }
}

pub(super) fn open_source(
    opening: PipelineOpening<'_>,
    parsed: &AggregateArguments<'_>,
    read: Option<ReadSource>,
    query: CanonicalQuery,
    takes: Takes,
) -> Result<(BoxSource, Option<Arc<Examined>>)> {
    let PipelineOpening { reading, operation, .. } = opening;
    let target = match read {
        None => return Ok((aggregation::source_of(Vec::new()), None)),
        Some(ReadSource::Oplog) => {
            let first = parsed.stages.first().and_then(|stage| document::get_field(stage, "$match"));
            let filter = first.and_then(|filter| filter.as_document());
            let entries = oplog_entries::entries(reading.queries.store, opening.terms(), filter, false)?;
            return Ok((entries, None));
        }
        Some(ReadSource::Stored(stored)) => stored.target(),
        Some(view @ ReadSource::View(_)) => view.target_for("a view within itself")?,
    };
    let view = reading.view();
    let executor = takes.executor((reading, operation), view, target, query)?;
    let examined = Arc::new(Examined::of(&executor));
    let interrupt = OwnedInterrupt::of(operation);
    let metadata = Metadata::default();
    let source = ExecutorSource { executor, takes, interrupt, examined: Some(examined.clone()), metadata };
    Ok((Box::new(source), Some(examined)))
}

/// A pipeline's results as a client cursor.
pub(crate) struct PipelineResults {
    pub(super) results: PipelineCursor,
    examined: Option<Arc<Examined>>,
    last: Option<RawDocumentBuf>,
}

impl PipelineResults {
    pub(super) fn new(results: PipelineCursor, examined: Option<Arc<Examined>>) -> Self {
        Self { results, examined, last: None }
    }
}

impl CursorSource for PipelineResults {
    fn next(&mut self, operation: &Operation<'_>) -> Result<Option<&RawDocument>> {
        operation.check()?;
        self.last = self.results.next_document()?;
        Ok(self.last.as_deref())
    }

    fn execution(&self, _: Detail) -> Option<Execution> {
        self.examined.as_ref().map(|examined| examined.execution())
    }
}

/// How a pipeline would be run.
pub(crate) fn explain(
    (reading, operation): (Reading<'_>, &Operation<'_>),
    parsed: AggregateArguments<'_>,
    verbosity: Verbosity,
) -> Result<bson::Document> {
    let over_view = view_of(reading, &parsed)?;
    let parsed = parsed.through(over_view.as_ref())?;
    let variables = variables(reading, parsed.declared)?;
    let pipeline = parse_pipeline(&parsed, &variables)?;
    let read = source_of(reading, &parsed, &pipeline)?;
    let Front { query, takes, rest } = split(pipeline, &parsed, read.as_ref(), &variables)?;
    let target = match read {
        None => Target::missing(parsed.source.clone()),
        Some(read) => read.target_for("explain of commands")?,
    };
    let view = reading.queries.store.read_view();
    let mut executor = takes.executor((reading, operation), view, target, query)?;
    let mut explained = executor.explain(verbosity, operation)?;
    if rest.is_empty() {
        return Ok(explained);
    }
    explained.remove("explainVersion");
    let mut stages = vec![bson::Bson::Document(bson::doc! { "$cursor": explained })];
    for stage in &rest.to_bson()? {
        stages.push(bson::Bson::try_from(stage?.to_owned())?);
    }
    Ok(bson::doc! { "explainVersion": "1", "stages": stages })
}
