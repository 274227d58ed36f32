//! A set of values equal by comparison, for `$addToSet` and `$pullAll`: 1, 1.0 and NumberLong(1) are one value.
//!
//! Small sets are searched; large ones are hashed, so that large operands on large arrays stay linear.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hasher};

use document::work;

use super::super::element::Element;
use crate::error::Result;

/// Up to this many values are compared one by one.
const LINEAR_SEARCH_MAX: usize = 16;

/// The values, borrowed from a document or an operand.
#[derive(Default)]
pub(super) struct ValueSet<'a> {
    values: Vec<Element<'a>>,
    /// Positions in `values` by hash, once there are many.
    by_hash: HashMap<u64, Vec<usize>>,
}

impl<'a> ValueSet<'a> {
    ///
    /// # Errors
    /// The command is to stop.
    pub(super) fn of(values: impl IntoIterator<Item = Element<'a>>) -> Result<Self> {
        let mut set = Self::default();
        for value in values {
            work::step()?;
            set.insert(value);
        }
        Ok(set)
    }

    pub(super) fn contains(&self, value: &Element<'_>) -> bool {
        let equal = |other: &Element<'_>| document::compare_views(other.view(), value.view()).is_eq();
        match self.by_hash.is_empty() {
            true => self.values.iter().any(equal),
            false => self
                .by_hash
                .get(&hash(value))
                .is_some_and(|positions| positions.iter().filter_map(|position| self.values.get(*position)).any(equal)),
        }
    }

    /// Adds a value; false when it was there.
    pub(super) fn insert(&mut self, value: Element<'a>) -> bool {
        if self.contains(&value) {
            return false;
        }
        self.values.push(value);
        match self.values.len() {
            0..=LINEAR_SEARCH_MAX => {}
            length if self.by_hash.is_empty() => (0..length).for_each(|position| self.index(position)),
            length => self.index(length - 1),
        }
        true
    }

    fn index(&mut self, position: usize) {
        if let Some(value) = self.values.get(position) {
            self.by_hash.entry(hash(value)).or_default().push(position);
        }
    }
}

fn hash(value: &Element<'_>) -> u64 {
    let mut hasher = DefaultHasher::new();
    document::hash_view(value.view(), &mut hasher);
    hasher.finish()
}
