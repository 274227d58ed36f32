//! Which paths an update changed, cheaply, so that indexes on other paths need no work.
//!
//! The paths of an update are known when it is parsed; an application reports which of them changed as one word of
//! bits. Whoever maintains indexes asks `Update::may_modify` with the outcome's report.

use super::path::{Component, UpdatePath, array_position};

/// The paths that one application of an update changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ModifiedPaths {
    /// Any path may have changed, except `_id`: a replacement or a pipeline.
    Any,
    /// Bit n is the n-th path of the update; the highest bit stands for all paths from it on.
    OfUpdate(u64),
}

/// The paths beyond this one share the last bit.
const LAST_BIT: usize = 63;

impl ModifiedPaths {
    /// Notes the change of the path with this number.
    pub(super) fn note(bits: &mut u64, number: usize) {
        *bits |= 1 << number.min(LAST_BIT);
    }

    pub(super) fn includes(self, number: usize) -> bool {
        match self {
            ModifiedPaths::Any => true,
            ModifiedPaths::OfUpdate(bits) => bits & (1 << number.min(LAST_BIT)) != 0,
        }
    }
}

/// A path of an update without positions in arrays, as index paths are.
#[derive(Debug, Clone)]
pub(super) struct TouchedPath {
    text: String,
    names: Vec<String>,
}

impl TouchedPath {
    pub(super) fn new(path: &UpdatePath) -> Self {
        let names = path.components.iter().filter_map(|component| match component {
            // A number may be a position or a field name; leaving it out covers both.
            Component::Field(name) if array_position(name).is_none() => Some(name.clone()),
            _ => None,
        });
        Self { names: names.collect(), text: path.text.clone() }
    }

    /// The path as the update has it.
    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// Whether a change here can change values at `path`: one leads to the other.
    pub(super) fn overlaps(&self, path: &str) -> bool {
        let other = path.split('.').filter(|name| array_position(name).is_none());
        self.names.iter().map(String::as_str).zip(other).all(|(left, right)| left == right)
    }
}
