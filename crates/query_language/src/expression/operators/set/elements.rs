//! An array as a set: sorted, without duplicates.

use std::hash::{Hash, Hasher};

use crate::expression::operators::prelude::*;

/// The distinct elements in BSON order.
pub(super) fn distinct(array: &RawArray) -> Result<Vec<RawBsonRef<'_>>> {
    let mut elements = elements_of(array)?;
    work::sort_by(&mut elements, |left, right| compare(Some(*left), Some(*right)))?;
    elements.dedup_by(|left, right| compare(Some(*left), Some(*right)).is_eq());
    Ok(elements)
}

/// Whether a set made by `distinct` holds a value.
pub(super) fn contains(set: &[RawBsonRef<'_>], value: RawBsonRef<'_>) -> bool {
    set.binary_search_by(|element| compare(Some(*element), Some(value))).is_ok()
}

/// An element as the key of a hash table: equal when it compares equal.
pub(super) struct ElementKey<'a>(pub(super) RawBsonRef<'a>);

impl PartialEq for ElementKey<'_> {
    fn eq(&self, other: &Self) -> bool {
        compare(Some(self.0), Some(other.0)).is_eq()
    }
}

impl Eq for ElementKey<'_> {}

impl Hash for ElementKey<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        document::hash_value(self.0, state);
    }
}
