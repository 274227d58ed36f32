//! The distinct values of a field among the documents of a query.
//!
//! A plan may read one index entry for each value (DISTINCT_SCAN): that this is enough is what the query is told.

use std::sync::Arc;

use bson::Document;
use document::FieldPath;
use planner::{CanonicalQuery, DistinctField, Missing, ProjectionUse};
use transaction::ReadView;

use crate::distinct_values::{DistinctValues, ValueList};
use crate::error::Result;
use crate::explain::Verbosity;
use crate::interrupt::Interrupt;
use crate::query_executor::{QueryExecutor, QueryServices, Target};

/// The values of `field`: elements of arrays one by one, equal values once, in the order in which the documents are found, and
/// in the order of values within a document, as the manual's examples have it. `inspect` is shown what has read the documents.
///
/// # Errors
/// As `QueryExecutor::new` and `next`; `DistinctTooBig`.
pub fn distinct(
    services: &QueryServices,
    view: ReadView,
    target: Target,
    query: CanonicalQuery,
    field: &str,
    interrupt: &dyn Interrupt,
    inspect: impl FnOnce(&QueryExecutor),
) -> Result<ValueList> {
    let path = FieldPath::new(field);
    let mut found = DistinctValues::default();
    let query = Arc::new(for_values_of(query, &path));
    let mut executor = QueryExecutor::new(services, view, target, query, interrupt)?;
    while let Some(row) = executor.next(interrupt)? {
        found.add_document(row.document, &path)?;
    }
    inspect(&executor);
    found.into_values()
}

/// Explains `distinct`.
///
/// # Errors
/// As `distinct`.
pub fn explain_distinct(
    services: &QueryServices,
    view: ReadView,
    target: Target,
    query: CanonicalQuery,
    field: &str,
    verbosity: Verbosity,
    interrupt: &dyn Interrupt,
) -> Result<Document> {
    let query = Arc::new(for_values_of(query, &FieldPath::new(field)));
    QueryExecutor::new(services, view, target, query, interrupt)?.explain(verbosity, interrupt)
}

/// The query with what `distinct` needs of its documents.
fn for_values_of(mut query: CanonicalQuery, path: &FieldPath) -> CanonicalQuery {
    // What no projection can name is read from whole documents.
    query.projection = planner::needed_projection([path.as_str()]);
    query.projection_use = ProjectionUse::Needed;
    if query.projection.is_some() {
        query.distinct = Some(DistinctField { path: path.clone(), missing: Missing::Nothing, which: None });
    }
    query
}
