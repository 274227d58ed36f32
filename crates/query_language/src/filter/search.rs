//! The search of a filter's path for a value that a predicate accepts.
//!
//! - a field that is missing, or below something that has no fields, offers "missing" (which null equals);
//! - an array on the way offers what its documents offer; scalars and arrays in it offer nothing, except to a numeric
//!   component, which also goes on with the element at that position;
//! - an array at the end offers its elements, then itself, unless it was reached by position or the operator wants
//!   arrays whole (`LeafArrays::Whole`);
//! - an array that only an empty component follows, as in `a.`, is at the end.
//!
//! The position of a match, for `$`, is that in the outermost array that was searched element by element. An element that
//! the path names by its position is not found by searching, so it tells none.
//!
//! This is `document::walk_path` with a start in the middle of the path, for values that are not in a document, and
//! with the last rule's exception. Like it, it allocates nothing.

use bson::spec::ElementType;
use document::{Element, FieldPath, LeafArrays, ValueView, elements_of_bytes, work};

use super::evaluate::{MatchDetails, Outcome};
use crate::watch;

/// One search: the path, what it does with arrays, and the predicate, which gets `None` for missing.
pub(crate) struct Search<'p, F> {
    pub(crate) path: &'p FieldPath,
    pub(crate) leaf_arrays: LeafArrays,
    pub(crate) accepts: F,
}

impl<F> Search<'_, F>
where
    F: FnMut(Option<ValueView<'_>>, &mut MatchDetails) -> Outcome,
{
    #[inline]
    fn is_last(&self, ordinal: usize) -> bool {
        ordinal + 1 >= self.path.len()
    }

    /// Whether any value at the path, from the component `ordinal` on, below this document is accepted.
    #[inline]
    pub(crate) fn in_document(&mut self, document: &[u8], ordinal: usize, details: &mut MatchDetails) -> Outcome {
        let name = self.path.name(ordinal).as_bytes();
        work::search(document)?;
        match elements_of_bytes(document).find(|element| element.name_bytes() == name) {
            None => (self.accepts)(None, details),
            Some(element) => self.at_element(&element, ordinal, details),
        }
    }

    /// The component `ordinal` led to this element.
    #[inline]
    fn at_element(&mut self, element: &Element<'_>, ordinal: usize, details: &mut MatchDetails) -> Outcome {
        if self.is_last(ordinal) {
            return self.at_leaf(element.view(), details);
        }
        match element.element_type {
            ElementType::EmbeddedDocument => self.in_document(element.value_bytes(), ordinal + 1, details),
            ElementType::Array => self.in_array(element.value_bytes(), ordinal + 1, details),
            _ => (self.accepts)(None, details),
        }
    }

    /// Whether the path from `ordinal` on leads from some element of this array to an accepted value.
    pub(crate) fn in_array(&mut self, array: &[u8], ordinal: usize, details: &mut MatchDetails) -> Outcome {
        if self.is_last(ordinal) && self.path.name(ordinal).is_empty() {
            return self.at_leaf(ValueView::Array(array), details);
        }
        let wanted = self.path.position(ordinal);
        for (position, element) in elements_of_bytes(array).enumerate() {
            watch::step()?;
            if element.element_type == ElementType::EmbeddedDocument
                && self.in_document(element.value_bytes(), ordinal, details)?
            {
                // The outermost array writes last, so it is its position that remains.
                details.record(position);
                return Ok(true);
            }
            if wanted == Some(position) && self.at_position(&element, ordinal, details)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The component `ordinal`, read as a position, led to this element.
    fn at_position(&mut self, element: &Element<'_>, ordinal: usize, details: &mut MatchDetails) -> Outcome {
        if self.is_last(ordinal) {
            return (self.accepts)(Some(element.view()), details);
        }
        match element.element_type {
            ElementType::EmbeddedDocument => self.in_document(element.value_bytes(), ordinal + 1, details),
            ElementType::Array => self.in_array(element.value_bytes(), ordinal + 1, details),
            _ => Ok(false),
        }
    }

    /// The path ends at this value.
    #[inline]
    pub(crate) fn at_leaf(&mut self, value: ValueView<'_>, details: &mut MatchDetails) -> Outcome {
        match value {
            ValueView::Array(array) if self.leaf_arrays == LeafArrays::Expand => self.at_leaf_array(array, details),
            _ => (self.accepts)(Some(value), details),
        }
    }

    fn at_leaf_array(&mut self, array: &[u8], details: &mut MatchDetails) -> Outcome {
        for (position, element) in elements_of_bytes(array).enumerate() {
            watch::step()?;
            if (self.accepts)(Some(element.view()), details)? {
                details.record(position);
                return Ok(true);
            }
        }
        (self.accepts)(Some(ValueView::Array(array)), details)
    }

    /// The document `{name: value}`.
    pub(crate) fn in_field(&mut self, name: &str, value: ValueView<'_>, details: &mut MatchDetails) -> Outcome {
        if self.path.first() != name {
            return (self.accepts)(None, details);
        }
        self.at_first(value, details)
    }

    /// The first component led to this value.
    pub(crate) fn at_first(&mut self, value: ValueView<'_>, details: &mut MatchDetails) -> Outcome {
        if self.is_last(0) {
            return self.at_leaf(value, details);
        }
        match value {
            ValueView::Document(document) => self.in_document(document, 1, details),
            ValueView::Array(array) => self.in_array(array, 1, details),
            _ => (self.accepts)(None, details),
        }
    }
}
