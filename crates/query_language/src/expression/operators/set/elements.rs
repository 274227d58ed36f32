//! An array as a set: sorted, without duplicates.

use crate::expression::operators::prelude::*;

/// The distinct elements in BSON order.
pub(super) fn distinct(array: &RawArray) -> Result<Vec<RawBsonRef<'_>>> {
    let mut elements = array.into_iter().collect::<std::result::Result<Vec<_>, _>>()?;
    elements.sort_by(|left, right| compare(Some(*left), Some(*right)));
    elements.dedup_by(|left, right| compare(Some(*left), Some(*right)).is_eq());
    Ok(elements)
}

/// Whether a set made by `distinct` holds a value.
pub(super) fn contains(set: &[RawBsonRef<'_>], value: RawBsonRef<'_>) -> bool {
    set.binary_search_by(|element| compare(Some(*element), Some(value))).is_ok()
}
