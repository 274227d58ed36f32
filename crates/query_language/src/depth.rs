//! How deep documents nest on their way through the stages of a pipeline, and where that is looked at.
//!
//! Used by pipeline updates here and by `aggregation`. A stage wraps what it reads in as many levels as it is written with, so a thousand in a row could
//! make a document on which every recursion ends the process. What a stage may add is known from how it is written: documents are looked at only behind
//! stages that together may have added much, and at the end. It relies on expressions to bound what they bind to variables (`expression::limits`).

use bson::raw::{RawBsonRef, RawDocument};
use document::{DEPTH_MAX, array_elements, elements};

use crate::error::{ErrorKind, QueryError, Result};

/// Levels that stages may add between two looks. With those that a document may have at first, and those of one stage, it bounds every document there is.
const LEVELS_BETWEEN_LOOKS: usize = 200;

/// What stages may have added since documents were last looked at.
#[derive(Debug, Clone, Copy, Default)]
pub struct DepthBudget {
    added: usize,
}

impl DepthBudget {
    /// Nothing added.
    pub fn new() -> Self {
        Self::default()
    }

    /// Counts a stage that adds so many levels at most. `true`: its documents are to be looked at, and nothing counts as added then.
    pub fn add(&mut self, levels: usize) -> bool {
        self.added += levels;
        let is_spent = self.added > LEVELS_BETWEEN_LOOKS;
        if is_spent {
            self.added = 0;
        }
        is_spent
    }

    /// Whether documents may nest deeper than when they were last looked at.
    pub fn may_exceed(&self) -> bool {
        self.added > 0
    }
}

/// Levels that something written like this adds at most to what it reads: its own, with a level for each dot of a path.
pub fn levels_added(written: RawBsonRef<'_>) -> usize {
    let dots = |text: &str| text.bytes().filter(|byte| *byte == b'.').count();
    match written {
        RawBsonRef::String(text) => dots(text),
        RawBsonRef::Document(document) => {
            1 + elements(document)
                .map(|element| dots(element.name()) + levels_added(element.value()))
                .max()
                .unwrap_or(0)
        }
        RawBsonRef::Array(array) => {
            1 + array_elements(array).map(|element| levels_added(element.value())).max().unwrap_or(0)
        }
        _ => 0,
    }
}

/// Refuses a document that nests deeper than documents may.
///
/// # Errors
/// `Overflow`.
pub fn check_document_depth(document: &RawDocument) -> Result<()> {
    check_depth(RawBsonRef::Document(document))
}

/// Refuses a value that nests deeper than documents may.
///
/// # Errors
/// `Overflow`.
pub(crate) fn check_depth(value: RawBsonRef<'_>) -> Result<()> {
    match exceeds(value, DEPTH_MAX) {
        false => Ok(()),
        true => {
            let message = format!("BSONObj exceeded maximum nested object depth: {DEPTH_MAX}");
            Err(QueryError::new(ErrorKind::Overflow, message))
        }
    }
}

/// Goes no deeper than `levels`, however deep the value is.
fn exceeds(value: RawBsonRef<'_>, levels: usize) -> bool {
    let mut inner = match value {
        RawBsonRef::Document(document) => elements(document),
        RawBsonRef::Array(array) => array_elements(array),
        _ => return false,
    };
    let Some(levels) = levels.checked_sub(1) else { return true };
    inner.any(|element| exceeds(element.value(), levels))
}

#[cfg(test)]
mod tests {
    use bson::raw::{RawDocumentBuf, cstr};
    use bson::rawdoc;

    use super::*;

    fn nested(levels: usize) -> RawDocumentBuf {
        (1..levels).fold(RawDocumentBuf::new(), |inner, _| {
            let mut outer = RawDocumentBuf::new();
            outer.append(cstr!("a"), inner);
            outer
        })
    }

    #[test]
    fn the_deepest_that_is_allowed() {
        assert!(check_document_depth(&nested(DEPTH_MAX)).is_ok());
        assert!(check_document_depth(&nested(DEPTH_MAX + 1)).is_err());
        assert!(check_document_depth(&nested(60_000)).is_err());
    }

    #[test]
    fn levels_are_those_as_written() {
        let levels = |document: RawDocumentBuf| levels_added(RawBsonRef::Document(&document));
        assert_eq!(levels(rawdoc! { "a": 1 }), 1);
        assert_eq!(levels(rawdoc! { "a": "$b.c", "d": [[1]] }), 3);
        assert_eq!(levels(rawdoc! { "a.b.c": { "d": "$$ROOT" } }), 4);
    }

    #[test]
    fn a_look_is_due_when_much_was_added() {
        let mut budget = DepthBudget::new();
        assert!(!budget.may_exceed());
        assert!(!budget.add(LEVELS_BETWEEN_LOOKS) && budget.may_exceed());
        assert!(budget.add(1) && !budget.may_exceed());
    }
}
