//! `local.oplog.rs`: the oplog as the capped collection that tools expect.
//!
//! Called by `find`, `count` and `distinct`. Filter, sort, skip, limit and projection run as a pipeline over the entries
//! (`oplog_entries`); `{$natural: -1}` reads them backward.

use std::sync::Arc;

use aggregation::{BoxSource, Pipeline, PipelineContext, PipelineCursor};
use bson::{RawDocument, RawDocumentBuf, rawdoc};
use document::{FieldPath, Number, elements};
use executor::{DistinctValues, ValueList};
use planner::{CanonicalQuery, DiskUse};

use super::oplog_entries::{self, COLLECTION, DATABASE};
use crate::DocumentWriter;
use crate::handlers::crud::find_arguments::FindArguments;
use crate::handlers::crud::pipeline_host::{CommandHost, PipelineOpening};
use crate::handlers::crud::query_arguments::variables;
use crate::handlers::read_source::OPLOG;
use crate::handlers::tail::{Tail, Tailing};
use crate::request::arguments::Arguments;
use crate::request::error::{CommandError, Result};
use crate::state::client_cursors::{
    BatchLimit, ClientCursor, CursorSource, CursorWork, FIRST_BATCH_DOCUMENTS, write_first_batch,
};
use crate::state::operations::Operation;

/// Runs `find` on the oplog.
pub(crate) fn find(
    opening: PipelineOpening<'_>,
    cursors: &CursorWork<'_>,
    parsed: &FindArguments<'_>,
    arguments: &Arguments<'_>,
    reply: &mut DocumentWriter<'_>,
) -> Result<()> {
    let tailing = parsed.tailing();
    let is_backward = parsed.is_naturally_backward()?;
    let stages = parsed.as_stages();
    let source = entries(opening, parsed.filter, is_backward)?;
    let results = run_pipeline(opening, &stages, source)?;
    let tail = (tailing != Tailing::No).then(|| Tail::of_oplog(opening.reading.queries.store, tailing));
    if tail.is_none() {
        opening.operation.set_time_limit(arguments.generic.max_time)?;
    }
    let cursor = ClientCursor::new(OPLOG.to_owned(), Box::new(OplogResults::new(results, tail)))
        .with_session(arguments.generic.session);
    let limit = BatchLimit { documents: Some(parsed.batch_size.unwrap_or(FIRST_BATCH_DOCUMENTS)) };
    write_first_batch(cursors, cursor, limit, parsed.is_single_batch || parsed.limit == 1, reply)
}

fn entries(opening: PipelineOpening<'_>, filter: Option<&RawDocument>, is_backward: bool) -> Result<BoxSource> {
    oplog_entries::entries(opening.reading.queries.store, opening.terms(), filter, is_backward)
}

fn run_pipeline(opening: PipelineOpening<'_>, stages: &[RawDocumentBuf], source: BoxSource) -> Result<PipelineCursor> {
    let stages: Vec<&RawDocument> = stages.iter().map(|stage| &**stage).collect();
    let namespace = aggregation::Namespace::new(DATABASE, COLLECTION);
    let pipeline = Pipeline::parse(&stages, &PipelineContext::new(namespace, variables(opening.reading, None)?))?;
    let host = Arc::new(CommandHost::new(opening, DATABASE, DiskUse::Allowed));
    Ok(pipeline.run(source, host)?)
}

/// How many entries match, after skip and limit.
pub(crate) fn count_entries(
    opening: PipelineOpening<'_>,
    query: &CanonicalQuery,
    filter: Option<&RawDocument>,
) -> Result<u64> {
    let (mut found, end) = (0, query.limit.map(|limit| limit.saturating_add(query.skip)));
    for_each_match(opening, query, filter, |_| {
        found += 1;
        end.is_none_or(|end| found < end)
    })?;
    Ok(found.saturating_sub(query.skip))
}

/// The different values of a field among the entries that match.
pub(crate) fn distinct(
    opening: PipelineOpening<'_>,
    query: &CanonicalQuery,
    filter: Option<&RawDocument>,
    key: &str,
) -> Result<ValueList> {
    let (mut found, path) = (DistinctValues::default(), FieldPath::new(key));
    let mut added = Ok(());
    for_each_match(opening, query, filter, |entry| {
        added = found.add_document(entry, &path);
        added.is_ok()
    })?;
    added?;
    Ok(found.into_values()?)
}

/// Calls `visit` with each entry that matches, for as long as it returns `true`. `filter` is the query's, as it was sent.
fn for_each_match(
    opening: PipelineOpening<'_>,
    query: &CanonicalQuery,
    filter: Option<&RawDocument>,
    mut visit: impl FnMut(&RawDocument) -> bool,
) -> Result<()> {
    let mut entries = entries(opening, filter, false)?;
    while let Some(entry) = entries.next()? {
        opening.operation.check_interrupt()?;
        if query.filter.matches(&entry)? && !visit(&entry) {
            break;
        }
    }
    Ok(())
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
