//! How `find`, `count` and `distinct` read a view: as its pipeline, with stages that do what they ask.
//!
//! `aggregate` reads one by itself. Each of these becomes such a command, so that indexes of the collection are used.

use aggregation::PipelineCursor;
use bson::raw::cstr;
use bson::{RawBson, RawDocument, RawDocumentBuf};
use document::FieldPath;
use executor::{DistinctValues, ValueList};
use planner::{CanonicalQuery, DiskUse, Hint};

use super::{View, stage};
use crate::handlers::crud::aggregate::AggregateArguments;
use crate::handlers::crud::find_arguments::{FindArguments, natural_hint};
use crate::handlers::crud::opened_pipeline::open;
use crate::handlers::crud::pipeline_host::PipelineOpening;
use crate::handlers::crud::query_arguments::hint;
use crate::request::error::{CommandError, Result};

/// A command on a view as a pipeline.
pub(crate) struct ViewQuery {
    stages: Vec<RawDocumentBuf>,
    hint: Hint,
    declared: Option<RawDocumentBuf>,
    disk_use: DiskUse,
}

impl ViewQuery {
    /// What `find` asks.
    ///
    /// # Errors
    /// InvalidPipelineOperator (168) for what pipelines cannot do.
    pub(crate) fn of_find(parsed: &FindArguments<'_>) -> Result<Self> {
        let refused = [
            ("min", parsed.min.is_some()),
            ("max", parsed.max.is_some()),
            ("returnKey", parsed.return_key),
            ("showRecordId", parsed.show_record_id),
            ("tailable", parsed.is_tailable),
        ];
        if let Some((option, _)) = refused.iter().find(|(_, is_given)| *is_given) {
            let message = format!("Option {option} not supported in aggregation.");
            return Err(CommandError::named("InvalidPipelineOperator", message));
        }
        let mut stages = Vec::new();
        stages.extend(parsed.filter.filter(|filter| !filter.is_empty()).map(|filter| stage(cstr!("$match"), filter)));
        let mut hinted = parsed.hint.map(hint).transpose()?.unwrap_or(Hint::None);
        match parsed.sort.map(natural_hint).transpose()?.flatten() {
            Some(natural) => hinted = natural,
            None => stages.extend(parsed.sort.filter(|sort| !sort.is_empty()).map(|sort| stage(cstr!("$sort"), sort))),
        }
        add_range(&mut stages, parsed.skip, Some(parsed.limit).filter(|limit| *limit > 0));
        let projection = parsed.projection.filter(|projection| !projection.is_empty());
        stages.extend(projection.map(|projection| stage(cstr!("$project"), projection)));
        let disk_use = if parsed.forbids_disk_use { DiskUse::Forbidden } else { DiskUse::Allowed };
        Ok(Self { stages, hint: hinted, declared: parsed.declared.map(ToOwned::to_owned), disk_use })
    }

    /// What `count` asks, or `distinct` of its documents.
    pub(crate) fn of_query(query: &CanonicalQuery, filter: Option<&RawDocument>) -> Self {
        let mut stages = Vec::new();
        stages.extend(filter.filter(|filter| !filter.is_empty()).map(|filter| stage(cstr!("$match"), filter)));
        add_range(&mut stages, query.skip, query.limit);
        Self { stages, hint: query.hint.clone(), declared: None, disk_use: DiskUse::Allowed }
    }

    /// The same with one document at the end: how many there are.
    pub(crate) fn counted(mut self) -> Self {
        self.stages.push(stage(cstr!("$count"), "n"));
        self
    }

    /// The command that reads the view so.
    pub(crate) fn over<'a>(&'a self, view: &'a View) -> AggregateArguments<'a> {
        let stages = view.stages.iter().chain(&self.stages).map(|stage| &**stage).collect();
        AggregateArguments::over_view(view, stages, self.hint.clone(), self.declared.as_deref(), self.disk_use)
    }
}

fn add_range(stages: &mut Vec<RawDocumentBuf>, skip: u64, limit: Option<u64>) {
    let number = |number: u64| RawBson::Int64(i64::try_from(number).unwrap_or(i64::MAX));
    if skip > 0 {
        stages.push(stage(cstr!("$skip"), number(skip)));
    }
    stages.extend(limit.map(|limit| stage(cstr!("$limit"), number(limit))));
}

/// How many documents of a view match.
///
/// # Errors
/// Those of the pipeline.
pub(crate) fn count(
    opening: PipelineOpening<'_>,
    view: &View,
    query: &CanonicalQuery,
    filter: Option<&RawDocument>,
) -> Result<u64> {
    let counted = ViewQuery::of_query(query, filter).counted();
    let mut results = results(opening, view, &counted)?;
    let Some(document) = results.next_document()? else { return Ok(0) };
    let count = document::get_field(&document, "n").and_then(document::Number::from_bson);
    Ok(count.map_or(0, |count| count.to_i64_saturating().unsigned_abs()))
}

/// The different values of a field of a view's documents.
///
/// # Errors
/// Those of the pipeline; 17217.
pub(crate) fn distinct(
    opening: PipelineOpening<'_>,
    view: &View,
    query: &CanonicalQuery,
    filter: Option<&RawDocument>,
    key: &str,
) -> Result<ValueList> {
    let (mut found, path) = (DistinctValues::default(), FieldPath::new(key));
    let mut results = results(opening, view, &ViewQuery::of_query(query, filter))?;
    while let Some(document) = results.next_document()? {
        opening.operation.check_interrupt()?;
        found.add_document(&document, &path)?;
    }
    Ok(found.into_values()?)
}

fn results(opening: PipelineOpening<'_>, view: &View, query: &ViewQuery) -> Result<PipelineCursor> {
    Ok(open(opening, &query.over(view))?.into_cursor())
}
