//! `min` and `max`: the ends of an index scan given as keys.

use std::sync::Arc;

use bson::RawDocument;
use collection::Index;
use index_key::{append_after_prefix, encode_prefix};

use crate::canonical_query::CanonicalQuery;
use crate::collation_agreement::Agreement;
use crate::error::{PlanError, Result};
use crate::key_ranges::{KeyRange, KeyRanges};

/// The keys from `min`, included, to `max`, excluded.
pub(crate) fn key_ranges(query: &CanonicalQuery, index: &Arc<Index>) -> Result<KeyRanges> {
    let pattern = index.pattern();
    let mut low = Vec::new();
    if let Some(min) = &query.min {
        check_fields(index, min)?;
        encode_prefix(&mut low, pattern, document::elements(min).map(|element| element.value()));
    }
    let mut high = Vec::new();
    match &query.max {
        Some(max) => {
            check_fields(index, max)?;
            encode_prefix(&mut high, pattern, document::elements(max).map(|element| element.value()));
        }
        None => append_after_prefix(&mut high),
    }
    if query.min.is_some() && query.max.is_some() && low >= high {
        return Err(PlanError::Location(51175, "max must be greater than min".to_owned()));
    }
    Ok(KeyRanges::one(KeyRange { low, high }))
}

fn check_fields(index: &Index, given: &RawDocument) -> Result<()> {
    let names = document::elements(given).map(|element| element.name().to_owned());
    let is_of_index = names.eq(index.pattern().fields().iter().map(|field| field.path.as_str().to_owned()));
    let agreement = Agreement::of(index);
    if is_of_index && document::elements(given).all(|element| agreement.can_find(element.element_type)) {
        return Ok(());
    }
    Err(PlanError::Location(51174, "The index chosen is not compatible with min/max".to_owned()))
}
