//! Comparison, equality and hashing of values as expressions see them: BSON order with a place for missing.

use std::cmp::Ordering;
use std::hash::{Hash, Hasher};

use bson::raw::{RawBson, RawBsonRef};
use document::compare_values;

/// Orders two values; `None` is missing, which comes before null and after MinKey, and equals undefined.
pub fn compare(left: Option<RawBsonRef<'_>>, right: Option<RawBsonRef<'_>>) -> Ordering {
    match (left, right) {
        (Some(left), Some(right)) => compare_values(left, right),
        (None, None) => Ordering::Equal,
        (None, Some(right)) => compare_missing(right),
        (Some(left), None) => compare_missing(left).reverse(),
    }
}

/// Orders missing against a present value.
fn compare_missing(value: RawBsonRef<'_>) -> Ordering {
    match value {
        RawBsonRef::MinKey => Ordering::Greater,
        RawBsonRef::Undefined => Ordering::Equal,
        _ => Ordering::Less,
    }
}

/// A value as the key of a hash table or a sorted set: equal when `compare` says so, `None` is missing.
#[derive(Debug, Clone)]
pub struct ValueKey(pub Option<RawBson>);

impl ValueKey {
    /// The value of the key.
    pub fn get(&self) -> Option<RawBsonRef<'_>> {
        self.0.as_ref().map(RawBson::as_raw_bson_ref)
    }
}

impl PartialEq for ValueKey {
    fn eq(&self, other: &Self) -> bool {
        compare(self.get(), other.get()).is_eq()
    }
}

impl Eq for ValueKey {}

impl PartialOrd for ValueKey {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for ValueKey {
    fn cmp(&self, other: &Self) -> Ordering {
        compare(self.get(), other.get())
    }
}

impl Hash for ValueKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        match self.get() {
            // Missing equals undefined.
            None => document::hash_value(RawBsonRef::Undefined, state),
            Some(value) => document::hash_value(value, state),
        }
    }
}
