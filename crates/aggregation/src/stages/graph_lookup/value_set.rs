//! A set of values that are equal as filters compare them.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hasher, RandomState};

use bson::raw::{RawBson, RawBsonRef};
use document::{hash_value, values_equal};
use query_language::accumulator::value_bytes;
use smallvec::SmallVec;

/// What a value costs beside its bytes.
const VALUE_BYTES: usize = 3 * size_of::<(u64, SmallVec<[RawBson; 1]>)>();

/// Values, found by their hash.
#[derive(Default)]
pub(super) struct ValueSet {
    values: HashMap<u64, SmallVec<[RawBson; 1]>>,
    hasher: RandomState,
}

impl ValueSet {
    /// All of them.
    pub(super) fn values(&self) -> impl Iterator<Item = RawBsonRef<'_>> {
        self.values.values().flatten().map(RawBson::as_raw_bson_ref)
    }

    /// Adds a value, and says what it costs; `None` when it is there already.
    pub(super) fn insert(&mut self, value: RawBsonRef<'_>) -> Option<usize> {
        let mut state = self.hasher.build_hasher();
        hash_value(value, &mut state);
        let same = self.values.entry(state.finish()).or_default();
        if same.iter().any(|known| values_equal(known.as_raw_bson_ref(), value)) {
            return None;
        }
        let value = RawBson::from(value);
        let bytes = VALUE_BYTES + value_bytes(&value);
        same.push(value);
        Some(bytes)
    }
}
