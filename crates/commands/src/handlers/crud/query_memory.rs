//! What filters and pipelines take once they are parsed and planned, so that it is asked for before they are. Called by `query_arguments`,
//! `aggregate`, and the commands that take updates.
//!
//! A value of a filter is kept as itself, and as the bounds of intervals in each plan that is tried, so that a list of small numbers takes many times
//! what it has as BSON.

use bson::{RawBsonRef, RawDocument};
use query_language::update::UpdateSource;

use crate::request::error::Result;
use crate::state::operations::before_allocating;

/// Smaller ones are within what every command may hold.
const LARGE_BYTES: usize = 64 << 10;
/// What a value takes beside its bytes.
const VALUE_BYTES: usize = 400;
/// How often its bytes are copied.
const COPIES: usize = 4;

/// Fails when there is no memory for what this becomes.
///
/// # Errors
/// ExceededMemoryLimit.
pub(super) fn check_memory_for<'a>(parts: impl Iterator<Item = &'a RawDocument> + Clone) -> Result<()> {
    let bytes: usize = parts.clone().map(|part| part.as_bytes().len()).sum();
    if bytes <= LARGE_BYTES {
        return Ok(());
    }
    let values: usize = parts.map(values_of).sum();
    before_allocating(values.saturating_mul(VALUE_BYTES).saturating_add(bytes.saturating_mul(COPIES)))
}

/// The same for an update with its array filters. Values that it sets are kept as they are; each field that it changes becomes a modification.
///
/// # Errors
/// ExceededMemoryLimit.
pub(super) fn check_memory_for_update(source: UpdateSource<'_>, array_filters: &[&RawDocument]) -> Result<()> {
    check_memory_for(array_filters.iter().copied())?;
    match source {
        UpdateSource::Document(update) if update.as_bytes().len() > LARGE_BYTES => {
            let modifications: usize = document::elements(update).map(fields_of).sum();
            before_allocating(modifications.saturating_mul(VALUE_BYTES).saturating_add(update.as_bytes().len()))
        }
        UpdateSource::Document(_) => Ok(()),
        UpdateSource::Pipeline(pipeline) => {
            check_memory_for(document::array_elements(pipeline).filter_map(|stage| stage.value().as_document()))
        }
    }
}

/// Fields that an operator is given; none of one that is a field of a whole document.
fn fields_of(operator: document::Element<'_>) -> usize {
    match operator.value() {
        RawBsonRef::Document(fields) if operator.name().starts_with('$') => document::elements(fields).count(),
        _ => 0,
    }
}

/// Values at all levels. Commands are validated before they are parsed, so levels are few.
fn values_of(document: &RawDocument) -> usize {
    values_in(document::elements(document))
}

fn values_in(elements: document::Elements<'_>) -> usize {
    elements
        .map(|element| match element.value() {
            RawBsonRef::Document(inner) => 1 + values_of(inner),
            RawBsonRef::Array(inner) => 1 + values_in(document::array_elements(inner)),
            _ => 1,
        })
        .sum()
}
