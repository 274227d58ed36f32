//! Golden scripts: what a `pipeline` gives over `documents` (carried over).
//!
//! Sections: `documents` and `foreign` (the collection `other`), both carried over, `pipeline`, `collation`, `let`,
//! `memory` (the limit
//! of a blocking stage in bytes) and `show`, which says what is expected: the output, one document a line (when absent),
//! `explain`, `pushdown`, or `written` (what `$out` wrote).
//!
//! A case without `memory` runs several times: as it stands, with the front taken off as a query plan would, over documents
//! instead of rows and over one row at a time, with its stages as they are written, and with so little memory that every
//! blocking stage spills. All must give the same documents.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod graphs;
mod host;
mod optimization;
mod rows;
mod trial;
mod windows;

use std::collections::BTreeSet;
use std::sync::Arc;

use aggregation::{AggregationError, Namespace, Pipeline, PipelineContext, Pushdown, source_of};
use bson::{DateTime, RawBson, RawBsonRef, RawDocument, RawDocumentBuf};
use query_language::ErrorKind;
use query_language::expression::{ParseContext, Variables};
use query_language::filter::{Filter, FilterOptions};
use query_language::projection::{Projection, ProjectionKind};
use query_language::rows::BATCH_ROWS;
use script_test::{Case, Suite, print_document, print_value};

use host::TestHost;

type Result<T> = aggregation::Result<T>;

#[test]
fn pipelines() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/testscripts");
    let suite = Suite::new(folder).carry_over("documents").carry_over("foreign");
    let count = suite.run(|case| outcome(case).unwrap_or_else(|error| error_line(&error)));
    assert!(count >= 140, "{count} cases");
}

fn error_line(error: &AggregationError) -> String {
    match error {
        AggregationError::Query(error) => match error.kind {
            ErrorKind::Location(number) => format!("error Location{number}: {}", error.message),
            kind => format!("error {kind:?}: {}", error.message),
        },
        AggregationError::Host(error) => format!("error of the host: {error}"),
    }
}

fn variables(case: &Case) -> Arc<Variables> {
    let mut variables = Variables::new(DateTime::from_millis(1_700_000_000_000), None, 1);
    if let Some(defined) = case.optional_document("let") {
        for (name, value) in defined.iter().flatten() {
            variables.define(name.as_str(), Some(RawBson::from(value))).unwrap();
        }
    }
    Arc::new(variables)
}

fn context(case: &Case) -> PipelineContext {
    let mut context = PipelineContext::new(Namespace::new("test", "local"), variables(case));
    if let Some(bytes) = case.text("memory") {
        context.memory_bytes_max = bytes.parse().unwrap();
    }
    context
}

fn parse(case: &Case, context: &PipelineContext) -> Result<Pipeline> {
    parse_with(case, context, Pipeline::parse)
}

fn parse_with(
    case: &Case,
    context: &PipelineContext,
    parser: fn(&[&RawDocument], &PipelineContext) -> Result<Pipeline>,
) -> Result<Pipeline> {
    let RawBson::Array(stages) = case.value("pipeline") else { panic!("{}: a pipeline is an array", case.place) };
    let stages: Vec<_> = stages.into_iter().map(|stage| stage.unwrap().as_document().unwrap()).collect();
    parser(&stages, context)
}

fn outcome(case: &Case) -> Result<String> {
    let collation = case.optional_document("collation");
    let collator = collation.and_then(|collation| document::collation::parse(&collation).unwrap());
    let _collation = document::collation::enter(collator);
    let mut context = context(case);
    let pipeline = parse(case, &context)?;
    let host = Arc::new(TestHost::new(case.documents("documents"), case.documents("foreign")));
    match case.text("show") {
        Some("explain") => Ok(print_value(RawBson::Array(pipeline.to_bson()?).as_raw_bson_ref())),
        Some("pushdown") => Ok(show_pushdown(&pipeline.split_pushdown()?)),
        Some("written") => {
            run(&pipeline, case.documents("documents"), &host)?;
            Ok(host.written().join("\n"))
        }
        Some(other) => panic!("{}: nothing to show as {other}", case.place),
        None => {
            let direct = run(&pipeline, case.documents("documents"), &host)?;
            if !case.has("memory") && !case.has("random") {
                let pushed = run_pushed_down(pipeline.split_pushdown()?, case, &host)?;
                assert_eq!(direct, pushed, "{}: with the front taken off", case.place);
                for rows in [0, 1] {
                    let context = PipelineContext { batch_rows_max: rows, ..context.clone() };
                    let found = run(&parse(case, &context)?, case.documents("documents"), &host)?;
                    assert_eq!(direct, found, "{}: in batches of {rows}", case.place);
                }
                let written =
                    run(&parse_with(case, &context, Pipeline::parse_as_written)?, case.documents("documents"), &host)?;
                assert_eq!(direct, written, "{}: as written", case.place);
                context.memory_bytes_max = 64;
                host.allow_spilling();
                for rows in [0, 1, BATCH_ROWS] {
                    context.batch_rows_max = rows;
                    check_spilled(&direct, case, &parse(case, &context)?, &host);
                }
            }
            Ok(direct.join("\n"))
        }
    }
}

/// Runs with next to no memory; stages that cannot spill say so.
fn check_spilled(direct: &[String], case: &Case, pipeline: &Pipeline, host: &Arc<TestHost>) {
    match run(pipeline, case.documents("documents"), host) {
        Ok(mut spilled) => {
            let mut direct = direct.to_vec();
            direct.sort();
            spilled.sort();
            assert_eq!(direct, spilled, "{}: spilled", case.place);
        }
        Err(AggregationError::Query(error)) => assert!(error.message.contains("memory"), "{}: {error}", case.place),
        Err(error) => panic!("{}: {error}", case.place),
    }
}

fn run(pipeline: &Pipeline, documents: Vec<RawDocumentBuf>, host: &Arc<TestHost>) -> Result<Vec<String>> {
    let mut cursor = pipeline.run(source_of(documents), Arc::clone(host) as _)?;
    let mut lines = Vec::new();
    while let Some(document) = cursor.next_document()? {
        lines.push(print_document(&document));
    }
    assert!(cursor.next_document()?.is_none());
    Ok(lines)
}

/// Does by hand what an executor would, giving only the needed paths to the rest.
fn run_pushed_down(pushdown: Pushdown, case: &Case, host: &Arc<TestHost>) -> Result<Vec<String>> {
    run_pushed_down_over(pushdown, case.documents("documents"), &variables(case), host)
}

fn run_pushed_down_over(
    pushdown: Pushdown,
    mut documents: Vec<RawDocumentBuf>,
    variables: &Arc<Variables>,
    host: &Arc<TestHost>,
) -> Result<Vec<String>> {
    if let Some(filter) = &pushdown.filter {
        let filter = Filter::parse(filter, &FilterOptions::new(Arc::clone(variables)))?;
        documents.retain(|document| filter.matches(document).unwrap());
    }
    if let Some(sort) = &pushdown.sort {
        documents.sort_by(|left, right| sort.compare(&sort.key(left).unwrap(), &sort.key(right).unwrap()));
    }
    documents.drain(..documents.len().min(pushdown.skip as usize));
    documents.truncate(pushdown.limit.map_or(usize::MAX, |limit| limit as usize));
    if let Some(paths) = &pushdown.needed_paths {
        documents = documents.iter().map(|document| only(paths, document, variables)).collect();
    }
    run(&pushdown.rest, documents, host)
}

/// The document with the needed paths alone. As an index that knows a path holds no arrays along it, an array on the
/// way comes whole.
pub(crate) fn only(paths: &[String], document: &RawDocumentBuf, variables: &Variables) -> RawDocumentBuf {
    let given: BTreeSet<&str> = paths.iter().map(|path| up_to_array(path, document)).collect();
    let is_inside = |path: &str| path.match_indices('.').any(|(at, _)| given.contains(&path[..at]));
    let mut inclusion = RawDocumentBuf::new();
    for path in given.iter().filter(|path| !is_inside(path)) {
        inclusion.append(<&bson::raw::CStr>::try_from(*path).unwrap(), true);
    }
    if !paths.iter().any(|path| path == "_id" || path.starts_with("_id.")) {
        inclusion.append(bson::raw::cstr!("_id"), false);
    }
    let projection = Projection::parse(&inclusion, ProjectionKind::Find, &ParseContext::new()).unwrap();
    match paths.is_empty() {
        true => RawDocumentBuf::new(),
        false => projection.apply(document, None, variables).unwrap(),
    }
}

/// A path, up to the first array on its way in the document.
fn up_to_array<'p>(path: &'p str, document: &RawDocumentBuf) -> &'p str {
    let mut inside: &RawDocument = document;
    for (end, _) in path.match_indices('.').chain([(path.len(), "")]) {
        let name = path[..end].rsplit('.').next().unwrap();
        match inside.get(name).unwrap() {
            Some(RawBsonRef::Document(document)) => inside = document,
            Some(RawBsonRef::Array(_)) => return &path[..end],
            _ => break,
        }
    }
    path
}

fn show_pushdown(pushdown: &Pushdown) -> String {
    let mut lines = Vec::new();
    if let Some(filter) = &pushdown.filter {
        lines.push(format!("filter {}", print_document(filter)));
    }
    if let Some(sort) = &pushdown.sort {
        lines.push(format!("sort {}", print_document(&sort.to_document().unwrap())));
    }
    lines.push(format!("skip {} limit {:?}", pushdown.skip, pushdown.limit));
    lines.push(format!("needs {:?}", pushdown.needed_paths));
    if let Some(one) = &pushdown.one_of_each {
        lines.push(format!("{:?} of each {}", one.which, one.path));
    }
    lines.push(format!("rest {}", print_value(RawBson::Array(pushdown.rest.to_bson().unwrap()).as_raw_bson_ref())));
    lines.join("\n")
}
