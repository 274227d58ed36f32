//! Views: names that stand for a pipeline over a collection or over another view.
//!
//! A view is a document of its database's `system.views`, `{_id: "db.name", viewOn, pipeline}`, so that it is logged,
//! dumped and found after a crash as documents are. Clients write that collection through `create`, `collMod` and
//! `drop` only (`define`). What reads by name learns of views from `read_source`; `read` is how each command reads one.
//! A collection hides a view of its name: whoever makes one looks for the other first.

pub(crate) mod define;
mod graph;
pub(crate) mod read;

use std::sync::Arc;

use bson::raw::cstr;
use bson::{RawBsonRef, RawDocument, RawDocumentBuf};
use collection::{Collection, Namespace};
use document::collation::Collator;
use document::{array_elements, collation, elements, get_field};
use executor::{QueryExecutor, Target, Uninterrupted};
use planner::{CanonicalQuery, Hint};
use query_language::filter::{Filter, FilterOptions};

use super::time_series::{self, TimeSeries};
use crate::request::error::{CommandError, Result};
use crate::state::queries::Queries;

/// The collection that has the views of a database.
pub(crate) const COLLECTION: &str = "system.views";
/// Views that may stand on one another.
pub(crate) const DEPTH_MAX: usize = 20;
/// Bytes of the pipelines of views on one another, together.
pub(crate) const PIPELINE_BYTES_MAX: usize = 16 << 20;

/// Whether documents of this collection define views.
pub(crate) fn is_definition(namespace: &str) -> bool {
    namespace.split_once('.').is_some_and(|(_, collection)| collection == COLLECTION)
}

/// What a view is, as it is stored.
#[derive(Debug)]
pub(crate) struct Definition {
    document: RawDocumentBuf,
}

impl Definition {
    fn new(namespace: &Namespace, on: &str, pipeline: &bson::RawArray, collator: Option<&Collator>) -> Self {
        let mut document = RawDocumentBuf::new();
        document.append(cstr!("_id"), namespace.as_str());
        document.append(cstr!("viewOn"), on);
        document.append(cstr!("pipeline"), pipeline);
        if let Some(collator) = collator {
            document.append(cstr!("collation"), collator.definition());
        }
        Self { document }
    }

    /// The name of the view in its database.
    pub(crate) fn name(&self) -> &str {
        let full = get_field(&self.document, "_id").and_then(|id| id.as_str()).unwrap_or_default();
        full.split_once('.').map_or("", |(_, name)| name)
    }

    /// The name of what it stands on.
    pub(crate) fn on(&self) -> &str {
        get_field(&self.document, "viewOn").and_then(|on| on.as_str()).unwrap_or_default()
    }

    /// What it compares text by, as it is stored.
    fn collation(&self) -> Option<&RawDocument> {
        get_field(&self.document, "collation").and_then(|collation| collation.as_document())
    }

    /// What it compares text by.
    ///
    /// # Errors
    /// What is stored is not right.
    pub(crate) fn collator(&self) -> Result<Option<Arc<Collator>>> {
        Ok(self.collation().map(collation::parse).transpose()?.flatten())
    }

    /// Its stages.
    pub(crate) fn stages(&self) -> impl Iterator<Item = &RawDocument> {
        let pipeline = get_field(&self.document, "pipeline").and_then(|pipeline| pipeline.as_array());
        pipeline.into_iter().flat_map(array_elements).filter_map(|stage| stage.value().as_document())
    }

    /// Its options, as `listCollections` shows them.
    pub(crate) fn options(&self) -> RawDocumentBuf {
        let mut options = RawDocumentBuf::new();
        for element in elements(&self.document).filter(|element| element.name() != "_id") {
            if let Ok(name) = <&bson::raw::CStr>::try_from(element.name()) {
                options.append(name, bson::RawBson::from(element.value()));
            }
        }
        options
    }
}

/// A view down to what it stands on.
pub(crate) struct View {
    /// Its own name.
    pub(crate) namespace: Namespace,
    /// The collection, which need not be there.
    pub(crate) base: Namespace,
    /// From the collection's documents to its own.
    pub(crate) stages: Vec<RawDocumentBuf>,
    /// The time-series collection that it stands on, which may be itself: the first stage unpacks its buckets.
    pub(crate) series: Option<TimeSeries>,
}

impl View {
    /// A time-series collection, read as what a view makes of its buckets.
    fn of_series(namespace: Namespace, series: TimeSeries, stages: impl Iterator<Item = RawDocumentBuf>) -> Self {
        let base = series.collection.namespace();
        let stages = std::iter::once(series.unpack_stage()).chain(stages).collect();
        Self { namespace, base, stages, series: Some(series) }
    }

    /// The time-series collection that it is, if it is no more than that.
    pub(crate) fn own_series(&self) -> Option<&TimeSeries> {
        self.series.as_ref().filter(|series| series.namespace == self.namespace)
    }

    /// A hint for what it stands on.
    pub(crate) fn hint(&self, given: &Hint) -> Hint {
        self.series.as_ref().map_or_else(|| given.clone(), |series| time_series::hint(series, given))
    }
}

/// The view of a name, if there is one; whoever asks knows that there is no such collection.
///
/// # Errors
/// ViewDepthLimitExceeded (165); OptionNotSupportedOnView (167) with another collation than its own; those of reading.
pub(crate) fn resolve(queries: Queries<'_>, namespace: &Namespace) -> Result<Option<View>> {
    let Some(mut definition) = definition(queries, namespace)? else {
        let series = time_series::of(queries, namespace);
        return Ok(series.map(|series| View::of_series(namespace.clone(), series, std::iter::empty())));
    };
    let (own, asked) = (definition.collator()?, collation::in_force());
    let same =
        |one: &Arc<Collator>, other: &Arc<Collator>| one.definition().as_bytes() == other.definition().as_bytes();
    let is_own = match (&own, &asked) {
        (Some(own), Some(asked)) => same(own, asked),
        (own, asked) => own.is_none() && asked.is_none(),
    };
    if !is_own {
        let message = format!("Cannot override the default collation of the view {namespace}");
        return Err(CommandError::named("OptionNotSupportedOnView", message));
    }
    let mut pipelines: Vec<Vec<RawDocumentBuf>> = Vec::new();
    for _ in 0..DEPTH_MAX {
        pipelines.push(definition.stages().map(ToOwned::to_owned).collect());
        let base = Namespace::new(namespace.database(), definition.on())?;
        let is_collection = queries.store.catalog().lookup(base.as_str()).is_some();
        let next = if is_collection { None } else { self::definition(queries, &base)? };
        match next {
            Some(next) => definition = next,
            None => {
                let stages: Vec<RawDocumentBuf> = pipelines.into_iter().rev().flatten().collect();
                check_bytes(stages.iter().map(|stage| stage.as_bytes().len()).sum())?;
                let series = if is_collection { None } else { time_series::of(queries, &base) };
                return Ok(Some(match series {
                    Some(series) => View::of_series(namespace.clone(), series, stages.into_iter()),
                    None => View { namespace: namespace.clone(), base, stages, series: None },
                }));
            }
        }
    }
    Err(too_deep())
}

fn check_bytes(bytes: usize) -> Result<()> {
    if bytes <= PIPELINE_BYTES_MAX {
        return Ok(());
    }
    let message = format!("View pipeline exceeds maximum size; maximum size is {PIPELINE_BYTES_MAX}");
    Err(CommandError::named("ViewPipelineMaxSizeExceeded", message))
}

pub(crate) fn too_deep() -> CommandError {
    let message = format!("View depth too deep or view cycle detected; maximum depth is {DEPTH_MAX}");
    CommandError::named("ViewDepthLimitExceeded", message)
}

/// The definition of a name.
///
/// # Errors
/// Those of reading.
pub(crate) fn definition(queries: Queries<'_>, namespace: &Namespace) -> Result<Option<Definition>> {
    let Some(stored) = stored_in(queries, namespace.database())? else { return Ok(None) };
    let _simple = collation::enter(None);
    let mut found = executor_of(queries, &stored, Some(namespace.as_str()))?;
    let row = found.next(&Uninterrupted)?;
    Ok(row.map(|row| Definition { document: row.document.to_owned() }))
}

/// The views of a database, sorted by name.
///
/// # Errors
/// Those of reading.
pub(crate) fn all(queries: Queries<'_>, database: &str) -> Result<Vec<Definition>> {
    let Some(stored) = stored_in(queries, database)? else { return Ok(Vec::new()) };
    let _simple = collation::enter(None);
    let mut found = executor_of(queries, &stored, None)?;
    let mut definitions = Vec::new();
    while let Some(row) = found.next(&Uninterrupted)? {
        definitions.push(Definition { document: row.document.to_owned() });
    }
    definitions.sort_by(|left, right| left.name().cmp(right.name()));
    Ok(definitions)
}

fn stored_in(queries: Queries<'_>, database: &str) -> Result<Option<Arc<Collection>>> {
    let namespace = Namespace::new(database, COLLECTION)?;
    Ok(queries.store.catalog().lookup(namespace.as_str()))
}

fn executor_of(queries: Queries<'_>, stored: &Arc<Collection>, id: Option<&str>) -> Result<QueryExecutor> {
    let mut filter = RawDocumentBuf::new();
    if let Some(id) = id {
        filter.append(cstr!("_id"), id);
    }
    let query = CanonicalQuery::new(Filter::parse(&filter, &FilterOptions::default())?);
    let view = queries.store.newest_view();
    Ok(QueryExecutor::new(&queries.services(), view, Target::of(stored), Arc::new(query), &Uninterrupted)?)
}

/// Whether a name is a view's.
///
/// # Errors
/// Those of reading.
pub(crate) fn is_view(queries: Queries<'_>, namespace: &Namespace) -> Result<bool> {
    // The most of commands are on collections.
    if queries.store.catalog().lookup(namespace.as_str()).is_some() {
        return Ok(false);
    }
    Ok(definition(queries, namespace)?.is_some())
}

/// Refuses what can be done with collections only.
///
/// # Errors
/// CommandNotSupportedOnView (166).
pub(crate) fn refuse(queries: Queries<'_>, namespace: &Namespace) -> Result<()> {
    if is_view(queries, namespace)? { Err(not_on_view(namespace)) } else { Ok(()) }
}

pub(crate) fn not_on_view(namespace: &Namespace) -> CommandError {
    CommandError::named("CommandNotSupportedOnView", format!("Namespace {namespace} is a view, not a collection"))
}

/// What of a view's documents matches, as a stage.
pub(crate) fn matching(filter: &RawDocument) -> RawDocumentBuf {
    stage(cstr!("$match"), filter)
}

/// A stage of one argument.
fn stage(name: &bson::raw::CStr, argument: impl bson::raw::BindRawBsonRef) -> RawDocumentBuf {
    let mut document = RawDocumentBuf::new();
    document.append(name, argument);
    document
}

/// The names that stages read from in their own database, at any depth.
fn names_in<'a>(stages: impl Iterator<Item = &'a RawDocument>, found: &mut Vec<&'a str>) {
    for stage in stages {
        let Some(operator) = elements(stage).next() else { continue };
        let (name, argument) = (operator.name(), operator.value());
        let field = match name {
            "$lookup" | "$graphLookup" => "from",
            "$unionWith" => "coll",
            "$facet" => {
                for facet in argument.as_document().into_iter().flat_map(elements) {
                    names_in(documents_of(facet.value()), found);
                }
                continue;
            }
            _ => continue,
        };
        match argument {
            RawBsonRef::String(name) => found.push(name),
            RawBsonRef::Document(options) => {
                found.extend(get_field(options, field).and_then(|name| name.as_str()));
                if let Some(pipeline) = get_field(options, "pipeline") {
                    names_in(documents_of(pipeline), found);
                }
            }
            _ => {}
        }
    }
}

fn documents_of<'a>(pipeline: RawBsonRef<'a>) -> Box<dyn Iterator<Item = &'a RawDocument> + 'a> {
    let array = pipeline.as_array();
    Box::new(array.into_iter().flat_map(array_elements).filter_map(|stage| stage.value().as_document()))
}
