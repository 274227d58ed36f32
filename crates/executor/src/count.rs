//! Counting: by the collection's counter, by keys where they decide, by documents otherwise.

use std::sync::Arc;

use bson::Document;
use planner::{CanonicalQuery, Hint, Purpose};
use transaction::ReadView;

use crate::error::Result;
use crate::explain::Verbosity;
use crate::interrupt::Interrupt;
use crate::query_executor::{QueryExecutor, QueryServices, Target};

/// How many documents a query yields, after skip and limit. `inspect` is shown what has counted them, if they had to be counted.
///
/// # Errors
/// As `QueryExecutor::new` and `next`.
pub fn count(
    services: &QueryServices,
    view: ReadView,
    target: Target,
    query: Arc<CanonicalQuery>,
    interrupt: &dyn Interrupt,
    inspect: impl FnOnce(&QueryExecutor),
) -> Result<u64> {
    if let (true, Hint::None, Some(collection)) = (query.filter.is_empty(), &query.hint, &target.collection)
        && query.min.is_none()
        && query.max.is_none()
    {
        let left = collection.counts().documents().saturating_sub(query.skip);
        return Ok(query.limit.map_or(left, |limit| left.min(limit)));
    }
    let mut executor = QueryExecutor::for_purpose(services, view, target, query, Purpose::Count, interrupt)?;
    let found = executor.count_all(interrupt)?;
    inspect(&executor);
    Ok(found)
}

/// Explains `count`.
///
/// # Errors
/// As `count`.
pub fn explain_count(
    services: &QueryServices,
    view: ReadView,
    target: Target,
    query: Arc<CanonicalQuery>,
    verbosity: Verbosity,
    interrupt: &dyn Interrupt,
) -> Result<Document> {
    QueryExecutor::for_purpose(services, view, target, query, Purpose::Count, interrupt)?
        .explain_as("COUNT", verbosity, interrupt)
}
