//! `local.oplog.rs`: the oplog as the capped collection that tools expect, read straight from its segments.
//!
//! Called by `find`, `aggregate`, `count`, `distinct`, `collStats` and `listCollections`. Filter, sort, skip, limit and projection run as a pipeline over the entries. A lower
//! bound on `ts` is where reading begins; `{$natural: -1}` reads backward, segment by segment.

use std::sync::Arc;

use aggregation::{AggregationError, BoxSource, DocumentSource, Pipeline, PipelineContext, PipelineCursor};
use bson::{RawBsonRef, RawDocument, RawDocumentBuf, rawdoc};
use collection::{is_local, served_entry};
use document::{FieldPath, Number, elements};
use executor::{DistinctValues, ValueList};
use oplog::{Oplog, OplogError, OplogPosition};
use planner::{CanonicalQuery, DiskUse};
use storage_engine::Timestamp;
use transaction::{BackwardOplog, OplogFollower, Store, TransactionError};

use crate::DocumentWriter;
use crate::handlers::crud::find::FindArguments;
use crate::handlers::crud::pipeline_host::CommandHost;
use crate::handlers::crud::query_arguments::variables;
use crate::handlers::read_source::OPLOG;
use crate::handlers::tail::{Tail, Tailing};
use crate::request::arguments::Arguments;
use crate::request::document_writer::document_of;
use crate::request::error::{CommandError, Result};
use crate::state::client_cursors::{BatchLimit, ClientCursor, CursorSource, FIRST_BATCH_DOCUMENTS, write_first_batch};
use crate::state::context::{Context, ServerContext};
use crate::state::operations::Operation;
use crate::state::replica_set::terms::Terms;

/// The collection's database.
pub(crate) const DATABASE: &str = "local";
const COLLECTION: &str = "oplog.rs";

/// Runs `find` on the oplog.
pub(crate) fn find(
    context: &mut Context<'_>,
    parsed: &FindArguments<'_>,
    arguments: &Arguments<'_>,
    reply: &mut DocumentWriter<'_>,
) -> Result<()> {
    let tailing = parsed.tailing();
    let is_backward = parsed.is_naturally_backward()?;
    let stages = parsed.as_stages();
    let source = entries(context.server, parsed.filter, is_backward)?;
    let results = run_pipeline(context, &stages, source)?;
    let tail = (tailing != Tailing::No).then(|| Tail::of_oplog(&context.server.store, tailing));
    if tail.is_none() {
        context.operation.set_time_limit(arguments.generic.max_time)?;
    }
    let cursor = ClientCursor::new(OPLOG.to_owned(), Box::new(OplogResults::new(results, tail)))
        .with_session(arguments.generic.session);
    let limit = BatchLimit { documents: Some(parsed.batch_size.unwrap_or(FIRST_BATCH_DOCUMENTS)) };
    write_first_batch(context, cursor, limit, parsed.is_single_batch || parsed.limit == 1, reply)
}

fn run_pipeline(context: &Context<'_>, stages: &[RawDocumentBuf], source: BoxSource) -> Result<PipelineCursor> {
    let stages: Vec<&RawDocument> = stages.iter().map(|stage| &**stage).collect();
    let namespace = aggregation::Namespace::new(DATABASE, COLLECTION);
    let pipeline = Pipeline::parse(&stages, &PipelineContext::new(namespace, variables(context, None)?))?;
    let host = Arc::new(CommandHost::new(context, DATABASE, DiskUse::Allowed));
    Ok(pipeline.run(source, host)?)
}

/// The entries, from where the filter begins.
pub(crate) fn entries(server: &ServerContext, filter: Option<&RawDocument>, is_backward: bool) -> Result<BoxSource> {
    let store = &server.store;
    let terms = server.replica_set.terms();
    if is_backward {
        return Ok(Box::new(Backward { oplog: store.oplog_backward()?, terms }));
    }
    let from = match filter.and_then(lower_bound) {
        Some(timestamp) => store.oplog().position_at(timestamp)?,
        None => store.oplog().first_position(),
    };
    Ok(Box::new(Forward { follower: follow(store, from)?, terms }))
}

/// How many entries match, after skip and limit.
pub(crate) fn count_entries(
    context: &Context<'_>,
    query: &CanonicalQuery,
    filter: Option<&RawDocument>,
) -> Result<u64> {
    let (mut found, end) = (0, query.limit.map(|limit| limit.saturating_add(query.skip)));
    for_each_match(context, query, filter, |_| {
        found += 1;
        end.is_none_or(|end| found < end)
    })?;
    Ok(found.saturating_sub(query.skip))
}

/// The different values of a field among the entries that match.
pub(crate) fn distinct(
    context: &Context<'_>,
    query: &CanonicalQuery,
    filter: Option<&RawDocument>,
    key: &str,
) -> Result<ValueList> {
    let (mut found, path) = (DistinctValues::default(), FieldPath::new(key));
    let mut added = Ok(());
    for_each_match(context, query, filter, |entry| {
        added = found.add_document(entry, &path);
        added.is_ok()
    })?;
    added?;
    Ok(found.into_values()?)
}

/// Calls `visit` with each entry that matches, for as long as it returns `true`. `filter` is the query's, as it was sent.
fn for_each_match(
    context: &Context<'_>,
    query: &CanonicalQuery,
    filter: Option<&RawDocument>,
    mut visit: impl FnMut(&RawDocument) -> bool,
) -> Result<()> {
    let mut entries = entries(context.server, filter, false)?;
    while let Some(entry) = entries.next()? {
        context.operation.check_interrupt()?;
        if query.filter.matches(&entry)? && !visit(&entry) {
            break;
        }
    }
    Ok(())
}

/// The entries that match, for who reads the oplog as a foreign collection. `filter` is the query's, as it was sent.
pub(crate) fn matching_entries(
    server: &ServerContext,
    query: CanonicalQuery,
    filter: &RawDocument,
) -> Result<BoxSource> {
    Ok(Box::new(Matching { entries: entries(server, Some(filter), false)?, query }))
}

struct Matching {
    entries: BoxSource,
    query: CanonicalQuery,
}

impl DocumentSource for Matching {
    fn next(&mut self) -> aggregation::Result<Option<RawDocumentBuf>> {
        while let Some(entry) = self.entries.next()? {
            if self
                .query
                .filter
                .matches(&entry)
                .map_err(|error| AggregationError::Host(Box::new(CommandError::from(error))))?
            {
                return Ok(Some(entry));
            }
        }
        Ok(None)
    }
}

fn follow(store: &Arc<Store>, from: OplogPosition) -> Result<OplogFollower> {
    Ok(store.follow_oplog(from)?)
}

/// What the filter says of the least `ts`.
fn lower_bound(filter: &RawDocument) -> Option<Timestamp> {
    let number = |value: RawBsonRef<'_>| match value {
        RawBsonRef::Timestamp(timestamp) => {
            Some(Timestamp(u64::from(timestamp.time) << 32 | u64::from(timestamp.increment)))
        }
        _ => None,
    };
    match document::get_field(filter, "ts")? {
        RawBsonRef::Document(bounds) => {
            ["$gte", "$gt", "$eq"].into_iter().find_map(|operator| number(document::get_field(bounds, operator)?))
        }
        value => number(value),
    }
}

struct Forward {
    follower: OplogFollower,
    terms: Arc<Terms>,
}

impl DocumentSource for Forward {
    fn next(&mut self) -> aggregation::Result<Option<RawDocumentBuf>> {
        loop {
            let entry = self.follower.next().map_err(|error| AggregationError::Host(Box::new(position_lost(error))))?;
            let Some(entry) = entry else { return Ok(None) };
            if !is_local(&entry.payload) {
                return Ok(Some(served_entry(entry.timestamp, self.terms.at(entry.timestamp), &entry.payload)));
            }
        }
    }
}

/// A reader whose place was given up.
fn position_lost(error: TransactionError) -> CommandError {
    match error {
        TransactionError::Oplog(OplogError::PositionTruncated { .. }) => {
            CommandError::named("CappedPositionLost", "the oplog was truncated beyond the place that was being read")
        }
        error => error.into(),
    }
}

struct Backward {
    oplog: BackwardOplog,
    terms: Arc<Terms>,
}

impl DocumentSource for Backward {
    fn next(&mut self) -> aggregation::Result<Option<RawDocumentBuf>> {
        loop {
            let entry =
                self.oplog.previous().map_err(|error| AggregationError::Host(Box::new(CommandError::from(error))))?;
            let Some((timestamp, payload)) = entry else { return Ok(None) };
            if !is_local(&payload) {
                return Ok(Some(served_entry(timestamp, self.terms.at(timestamp), &payload)));
            }
        }
    }
}

/// The results of a pipeline over the oplog.
struct OplogResults {
    results: PipelineCursor,
    last: Option<RawDocumentBuf>,
    tail: Option<Tail>,
}

impl OplogResults {
    fn new(mut results: PipelineCursor, tail: Option<Tail>) -> OplogResults {
        if tail.is_some() {
            results.tail();
        }
        OplogResults { results, last: None, tail }
    }
}

impl CursorSource for OplogResults {
    fn next(&mut self, operation: &Operation<'_>) -> Result<Option<&RawDocument>> {
        operation.check_interrupt()?;
        self.last = self.results.next_document()?;
        Ok(self.last.as_deref())
    }

    fn is_tailing(&self) -> bool {
        self.tail.is_some()
    }

    fn awaits(&self) -> bool {
        self.tail.as_ref().is_some_and(Tail::awaits)
    }

    fn wait(&mut self, longest: std::time::Duration) {
        if let Some(tail) = &self.tail {
            tail.wait(longest);
        }
    }
}

impl FindArguments<'_> {
    /// The query as a pipeline; `$natural` is left out.
    fn as_stages(&self) -> Vec<RawDocumentBuf> {
        let mut stages = Vec::new();
        if let Some(filter) = self.filter {
            stages.push(rawdoc! { "$match": filter.to_owned() });
        }
        if let Some(sort) = self.sort.filter(|sort| elements(sort).next().is_some_and(|key| key.name() != "$natural")) {
            stages.push(rawdoc! { "$sort": sort.to_owned() });
        }
        let (skip, limit) = (self.skip, self.limit);
        if skip > 0 {
            stages.push(rawdoc! { "$skip": skip as i64 });
        }
        if limit > 0 {
            stages.push(rawdoc! { "$limit": limit as i64 });
        }
        if let Some(projection) = self.projection.filter(|projection| !projection.is_empty()) {
            stages.push(rawdoc! { "$project": projection.to_owned() });
        }
        stages
    }

    fn is_naturally_backward(&self) -> Result<bool> {
        let Some(first) = self.sort.and_then(|sort| elements(sort).next()) else { return Ok(false) };
        if first.name() != "$natural" {
            return Ok(false);
        }
        match Number::from_bson(first.value()).and_then(Number::to_i64_exact) {
            Some(1) => Ok(false),
            Some(-1) => Ok(true),
            _ => Err(CommandError::bad_value("$natural sort cannot be set to a value other than -1 or 1.")),
        }
    }
}

/// What `listCollections` says of it.
pub(crate) fn description(server: &ServerContext) -> Result<RawDocumentBuf> {
    let (bytes, _) = server.store.oplog_retention();
    document_of(|document| {
        document.string("name", COLLECTION);
        document.string("type", "collection");
        document.document("options", |options| {
            options.boolean("capped", true);
            options.count("size", bytes);
        });
        document.document("info", |info| info.boolean("readOnly", false));
    })
}

/// How many bytes it has.
pub(crate) fn bytes(server: &ServerContext) -> u64 {
    let statistics = server.store.oplog().statistics();
    statistics.end_position.0 - statistics.first_position.0
}

/// What `collStats` says of it.
pub(crate) fn write_statistics(server: &ServerContext, scale: u64, reply: &mut DocumentWriter<'_>) {
    let statistics = server.store.oplog().statistics();
    let (size, (bytes, _)) = (bytes(server), server.store.oplog_retention());
    reply.count("size", size / scale);
    reply.count("storageSize", size / scale);
    reply.boolean("capped", true);
    reply.count("maxSize", bytes / scale);
    reply.count("extentCount", statistics.segments);
    reply.int32("nindexes", 0);
    reply.int32("totalIndexSize", 0);
    reply.count("totalSize", size / scale);
    reply.document("indexSizes", |_| {});
    reply.count("scaleFactor", scale);
}
