//! What filters and pipelines take once they are parsed and planned, so that it is asked for before they are. Called by `query_arguments` and `aggregate`.
//!
//! A value of a filter is kept as itself, and as the bounds of intervals in each plan that is tried, so that a list of small numbers takes many times
//! what it has as BSON.

use bson::{RawBsonRef, RawDocument};

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
