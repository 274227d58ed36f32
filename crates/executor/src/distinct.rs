//! The distinct values of a field among the documents of a query.
//!
//! An index that begins with the field, for a query without a filter, is skipped through key by key (DISTINCT_SCAN); otherwise
//! the query is run.

use std::sync::Arc;

use bson::{Document, RawBsonRef, RawDocument};
use collection::{Collection, Index};
use document::{FieldPath, elements};
use index_key::{Direction, KeyReader, append_after_prefix, decode_key};
use planner::{CanonicalQuery, Hint};
use transaction::ReadView;

use crate::distinct_values::{DistinctValues, ValueList};
use crate::error::{ExecutorError, Result};
use crate::explain::Verbosity;
use crate::interrupt::Interrupt;
use crate::query_executor::{QueryExecutor, QueryServices, Target};

/// The values of `field`: elements of arrays one by one, equal values once, in the order in which the documents are found, and
/// in the order of values within a document, as the manual's examples have it. `inspect` is shown what has read the documents, if any were read.
///
/// # Errors
/// As `QueryExecutor::new` and `next`; `DistinctTooBig`.
pub fn distinct(
    services: &QueryServices,
    view: ReadView,
    target: Target,
    query: Arc<CanonicalQuery>,
    field: &str,
    interrupt: &dyn Interrupt,
    inspect: impl FnOnce(&QueryExecutor),
) -> Result<ValueList> {
    let path = FieldPath::new(field);
    if let Some(collection) = &target.collection
        && let Some(index) = skippable_index(services, collection, &view, &query, &path)
    {
        index.count_access();
        return Ok(scan(&view, collection, &index, &path, interrupt)?.values);
    }
    let mut found = DistinctValues::default();
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
    query: Arc<CanonicalQuery>,
    field: &str,
    verbosity: Verbosity,
    interrupt: &dyn Interrupt,
) -> Result<Document> {
    let path = FieldPath::new(field);
    let skippable =
        target.collection.as_ref().and_then(|collection| skippable_index(services, collection, &view, &query, &path));
    let collection = target.collection.clone();
    let mut executor = QueryExecutor::new(services, view.clone(), target, query, interrupt)?;
    let (Some(index), Some(collection)) = (skippable, collection) else {
        return executor.explain(verbosity, interrupt);
    };
    let scanned = match verbosity {
        Verbosity::QueryPlanner => None,
        _ => Some(scan(&view, &collection, &index, &path, interrupt)?),
    };
    executor.explain_distinct_scan(&index, scanned.as_ref())
}

/// An index whose keys begin with the values of the field.
fn skippable_index(
    services: &QueryServices,
    collection: &Arc<Collection>,
    view: &ReadView,
    query: &CanonicalQuery,
    path: &FieldPath,
) -> Option<Arc<Index>> {
    let filter = services.index_filters.find(collection, query);
    let is_hinted = query.hint != Hint::None && filter.is_none();
    let is_plain = query.filter.is_empty() && !is_hinted && query.skip == 0 && query.limit.is_none();
    let has_position = (0..path.len()).any(|component| path.position(component).is_some());
    if !is_plain || has_position {
        return None;
    }
    let list = collection.indexes();
    let serves = |index: &Arc<Index>| {
        let first = index.pattern().fields().first();
        first.is_some_and(|first| first.path == *path)
            && index.multikey_components(0) == 0
            && index.specification().partial_filter.is_none()
            && !index.is_hidden()
            && filter.as_ref().is_none_or(|filter| filter.allows(index))
    };
    list.ready_at(view.timestamp()).filter(serves).min_by_key(|index| index.pattern().fields().len())
}

fn scan(
    view: &ReadView,
    collection: &Arc<Collection>,
    index: &Arc<Index>,
    path: &FieldPath,
    interrupt: &dyn Interrupt,
) -> Result<DistinctScan> {
    let mut cursor = view.index_cursor(collection, index);
    cursor.seek_first()?;
    let mut found = DistinctScan::default();
    let (mut position, mut document) = (Vec::new(), Vec::new());
    while cursor.next()? {
        found.keys_examined += 1;
        interrupt.check().map_err(ExecutorError::Interrupted)?;
        let key = cursor.key().to_vec();
        let mut reader = KeyReader::new(index.pattern(), &key);
        reader.skip_component();
        let component = key.get(..key.len() - reader.rest().len()).unwrap_or_default();
        let decoded = decode_key(index.pattern(), &key, cursor.type_bits()?)?;
        let Some(value) = elements(&decoded).next().map(|element| element.value()) else { continue };
        if matches!(value, RawBsonRef::Null) {
            // Null, or missing: only a document that has the field counts.
            found.docs_examined += 1;
            let is_there = view.get_record(collection, cursor.record_id(), &mut document)?
                && document::get_path(RawDocument::from_bytes(&document)?, path).is_some();
            if !is_there {
                continue;
            }
        }
        found.values.push(&[], value)?;
        position.clear();
        position.extend_from_slice(component);
        append_after_prefix(&mut position);
        cursor.seek(&position)?;
    }
    if index.pattern().fields().first().is_some_and(|field| field.direction == Direction::Descending) {
        found.values.reverse();
    }
    Ok(found)
}

/// What skipping through an index has found.
#[derive(Default)]
pub(crate) struct DistinctScan {
    pub(crate) values: ValueList,
    pub(crate) keys_examined: u64,
    pub(crate) docs_examined: u64,
}
