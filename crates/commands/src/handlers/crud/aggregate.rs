//! `aggregate`: runs a pipeline on a collection.
//!
//! What the front of the pipeline asks of the collection (filter, sort, skip, limit) goes to the executor, so that it can
//! use indexes; the rest runs over its results.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use aggregation::{
    AggregationError, BoxSource, DocumentSource, Pipeline, PipelineContext, PipelineCursor, PipelineSource,
};
use bson::{RawBsonRef, RawDocument, RawDocumentBuf};
use collection::{Namespace, Validation};
use executor::{ExecutionTotals, QueryExecutor, Target, Verbosity};
use planner::{CanonicalQuery, DiskUse, Hint};
use query_language::expression::Variables;

use super::explain::write_document;
use super::needed_privileges;
use super::query_arguments::{OwnedInterrupt, check_collation, hint, query, services, variables};
use super::query_memory::check_memory_for;
use super::write_errors::write_concern_error;
use crate::DocumentWriter;
use crate::handlers::command::Command;
use crate::handlers::crud::pipeline_host::CommandHost;
use crate::handlers::read_source::ReadSource;
use crate::handlers::{change_stream, oplog_view};
use crate::request::arguments::{Arguments, required};
use crate::request::declaration::{Class, Declaration, Needs, SessionUse, StableApi, WriteConcernUse};
use crate::request::error::{CommandError, Result};
use crate::request::read_concern::Level;
use crate::state::client_cursors::{BatchLimit, ClientCursor, CursorSource, FIRST_BATCH_DOCUMENTS, write_first_batch};
use crate::state::context::Context;
use crate::state::execution_notes::{Detail, Execution};
use crate::state::operations::Operation;

/// The fields of `aggregate`.
pub(crate) struct AggregateArguments<'a> {
    pub(crate) namespace: Namespace,
    pub(crate) stages: Vec<&'a RawDocument>,
    hint: Hint,
    pub(crate) declared: Option<&'a RawDocument>,
    pub(crate) batch_size: Option<u64>,
    has_cursor: bool,
    is_explain: bool,
    allow_disk_use: bool,
    /// Whether what $out writes must fit the validator of the collection that it replaces.
    validation: Validation,
}

impl AggregateArguments<'_> {
    fn disk_use(&self) -> DiskUse {
        if self.allow_disk_use { DiskUse::Allowed } else { DiskUse::Forbidden }
    }
}

pub(crate) static COMMAND: Command = Command::new(
    run,
    Declaration {
        class: Class::Read,
        session_use: SessionUse::InTransaction,
        read_concerns: Level::ALL,
        write_concern: WriteConcernUse::Taken,
        stable_api: StableApi::Version1,
        computed: Some(needed_privileges::of_pipeline),
        ..Declaration::new("aggregate", "Runs an aggregation pipeline on a collection.", Needs::Data, &[])
    },
);

/// Runs the command.
pub(crate) fn run(
    context: &mut Context<'_>,
    mut arguments: Arguments<'_>,
    reply: &mut DocumentWriter<'_>,
) -> Result<()> {
    let parsed = parse(context, &mut arguments)?;
    for stage in parsed.stages.iter().filter_map(|stage| document::elements(stage).next()) {
        context.read_concern.check_stage(stage.name())?;
    }
    if context.session.transaction().is_some() {
        check_in_transaction(&parsed.stages)?;
    }
    if !change_stream::is_wanted(&parsed.stages) {
        context.operation.set_time_limit(arguments.generic.max_time)?;
    }
    if parsed.is_explain {
        let explained = explain(context, parsed, Verbosity::QueryPlanner)?;
        return write_document(reply, &explained);
    }
    if !parsed.has_cursor {
        return Err(CommandError::failed_to_parse(
            "The 'cursor' option is required, except for aggregate with the explain argument",
        ));
    }
    if change_stream::is_wanted(&parsed.stages) {
        return change_stream::open(context, &parsed, arguments.generic.session, reply);
    }
    let server = context.server;
    let variables = variables(context, parsed.declared)?;
    let pipeline = parse_pipeline(&parsed, &variables)?;
    let writes = pipeline.writes();
    if writes {
        context.operation.goes_on_without_client();
    }
    let read = source_of(context, &parsed, &pipeline)?;
    let (query, rest) = split(pipeline, &parsed, read.as_ref(), &variables)?;
    let (source, examined) = open_source(context, &parsed, read, query)?;
    let host = CommandHost::new(context, parsed.namespace.database(), parsed.disk_use());
    let host = Arc::new(host.with_validation(parsed.validation));
    let results = rest.run(source, host)?;
    let mut cursor =
        ClientCursor::new(parsed.namespace.as_str().to_owned(), Box::new(PipelineResults::new(results, examined)))
            .with_session(arguments.generic.session)
            .with_transaction(context.session.txn_number());
    cursor.max_time = arguments.generic.max_time;
    cursor.at_cluster_time = context.snapshot_time();
    let limit = BatchLimit { documents: Some(parsed.batch_size.unwrap_or(FIRST_BATCH_DOCUMENTS)) };
    write_first_batch(context, cursor, limit, false, reply)?;
    if writes {
        context.release_ticket();
        write_concern_error(arguments.generic.write_concern.wait_for_all(&server.store, &server.replica_set), reply);
    }
    Ok(())
}

/// Reads the fields.
pub(crate) fn parse<'a>(context: &Context<'_>, arguments: &mut Arguments<'a>) -> Result<AggregateArguments<'a>> {
    let database = context.request.database;
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
    let mut parsed = AggregateArguments {
        namespace,
        stages: Vec::new(),
        hint: Hint::None,
        declared: None,
        batch_size: None,
        has_cursor: false,
        is_explain: false,
        allow_disk_use: true,
        validation: Validation::Enforce,
    };
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
            "collation" => check_collation(field)?,
            "exchange" | "fromMongos" | "needsMerge" | "requestReshardingResumeToken" => field.refuse_unless_null()?,
            _ => arguments.generic(field)?,
        }
    }
    parsed.stages = required(stages, "aggregate.pipeline")?;
    Ok(parsed)
}

fn parse_pipeline(parsed: &AggregateArguments<'_>, variables: &Arc<Variables>) -> Result<Pipeline> {
    let namespace = aggregation::Namespace::new(parsed.namespace.database(), parsed.namespace.collection());
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

/// Stages that look at or change something else than documents see no transaction.
fn check_in_transaction(stages: &[&RawDocument]) -> Result<()> {
    let refused = [
        "$collStats",
        "$currentOp",
        "$indexStats",
        "$listSessions",
        "$listLocalSessions",
        "$merge",
        "$out",
        "$planCacheStats",
        "$changeStream",
    ];
    for stage in stages {
        let name = document::elements(stage).next().map_or("", |element| element.name());
        if refused.contains(&name) {
            return Err(CommandError::named(
                "OperationNotSupportedInTransaction",
                format!("Stage not supported inside of a multi-document transaction: {name}"),
            ));
        }
    }
    Ok(())
}

/// What the pipeline reads from; `None` when its first stage makes the documents.
fn source_of(
    context: &Context<'_>,
    parsed: &AggregateArguments<'_>,
    pipeline: &Pipeline,
) -> Result<Option<ReadSource>> {
    match pipeline.source() {
        PipelineSource::FirstStage => Ok(None),
        PipelineSource::Collection => ReadSource::of(context, parsed.namespace.clone()).map(Some),
    }
}

/// Splits off what the executor can do.
fn split(
    pipeline: Pipeline,
    parsed: &AggregateArguments<'_>,
    read: Option<&ReadSource>,
    variables: &Arc<Variables>,
) -> Result<(CanonicalQuery, Pipeline)> {
    if !matches!(read, Some(ReadSource::Stored(_))) {
        return Ok((query(None, variables)?, pipeline));
    }
    let pushdown = pipeline.split_pushdown()?;
    let mut query = query(pushdown.filter.as_deref(), variables)?;
    query.sort = pushdown.sort;
    query.skip = pushdown.skip;
    query.limit = pushdown.limit;
    query.hint = parsed.hint.clone();
    query.disk_use = parsed.disk_use();
    Ok((query, pushdown.rest))
}

fn open_source(
    context: &Context<'_>,
    parsed: &AggregateArguments<'_>,
    read: Option<ReadSource>,
    query: CanonicalQuery,
) -> Result<(BoxSource, Option<Arc<Examined>>)> {
    let server = context.server;
    let target = match read {
        None => return Ok((aggregation::source_of(Vec::new()), None)),
        Some(ReadSource::Oplog) => {
            let first = parsed.stages.first().and_then(|stage| document::get_field(stage, "$match"));
            let entries = oplog_view::entries(server, first.and_then(|filter| filter.as_document()), false)?;
            return Ok((entries, None));
        }
        Some(ReadSource::Stored(stored)) => stored.target(),
    };
    let view = context.read_view();
    let executor = QueryExecutor::new(&services(server), view, target, Arc::new(query), &context.operation)?;
    let examined = Arc::new(Examined::of(&executor));
    let interrupt = OwnedInterrupt::of(context);
    Ok((Box::new(ExecutorSource { executor, interrupt, examined: Some(examined.clone()) }), Some(examined)))
}

/// What a pipeline's first source has done so far, for those who do not see it behind the pipeline.
pub(crate) struct Examined {
    keys: AtomicU64,
    documents: AtomicU64,
    sorts: bool,
    scans_collection: bool,
    plan: String,
}

impl Examined {
    fn of(executor: &QueryExecutor) -> Examined {
        Examined {
            keys: AtomicU64::new(0),
            documents: AtomicU64::new(0),
            sorts: executor.sorts_in_memory(),
            scans_collection: executor.scans_collection(),
            plan: executor.plan_summary(),
        }
    }

    fn update(&self, executor: &QueryExecutor) {
        let totals = executor.statistics();
        self.keys.store(totals.keys_examined, Ordering::Relaxed);
        self.documents.store(totals.docs_examined, Ordering::Relaxed);
    }

    fn execution(&self) -> Execution {
        let totals = ExecutionTotals {
            keys_examined: self.keys.load(Ordering::Relaxed),
            docs_examined: self.documents.load(Ordering::Relaxed),
            ..ExecutionTotals::default()
        };
        Execution { totals, sorts: self.sorts, scans_collection: self.scans_collection, plan: self.plan.clone() }
    }
}

/// What a pipeline reads from the executor.
pub(crate) struct ExecutorSource {
    pub(crate) executor: QueryExecutor,
    pub(crate) interrupt: OwnedInterrupt,
    pub(crate) examined: Option<Arc<Examined>>,
}

impl DocumentSource for ExecutorSource {
    fn next(&mut self) -> aggregation::Result<Option<RawDocumentBuf>> {
        let next = self.executor.next(&self.interrupt).map(|row| row.map(|row| row.document.to_owned()));
        if let Some(examined) = &self.examined {
            examined.update(&self.executor);
        }
        next.map_err(|error| AggregationError::Host(Box::new(CommandError::from(error))))
    }
}

/// A pipeline's results as a client cursor.
struct PipelineResults {
    results: PipelineCursor,
    examined: Option<Arc<Examined>>,
    last: Option<RawDocumentBuf>,
}

impl PipelineResults {
    fn new(results: PipelineCursor, examined: Option<Arc<Examined>>) -> Self {
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
    context: &Context<'_>,
    parsed: AggregateArguments<'_>,
    verbosity: Verbosity,
) -> Result<bson::Document> {
    let variables = variables(context, parsed.declared)?;
    let pipeline = parse_pipeline(&parsed, &variables)?;
    let read = source_of(context, &parsed, &pipeline)?;
    let (query, rest) = split(pipeline, &parsed, read.as_ref(), &variables)?;
    let target = match read {
        None => Target::missing(parsed.namespace.clone()),
        Some(read) => read.target_for("explain of commands")?,
    };
    let view = context.server.store.read_view();
    let mut executor =
        QueryExecutor::new(&services(context.server), view, target, Arc::new(query), &context.operation)?;
    let mut explained = executor.explain(verbosity, &context.operation)?;
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
