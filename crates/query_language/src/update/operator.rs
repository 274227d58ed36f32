//! What an update operator is to the rest of `update`: a function from a field's value to what becomes of it.
//!
//! One file an operator in `operators/` implements it; `apply` walks documents and calls it.

use std::fmt;

use bson::raw::RawDocument;

use super::UpdateContext;
use super::display;
use super::element::{Element, find};
use super::tree::Leaf;
use super::value::Change;
use crate::error::Result;

/// An operator with its operand, as it applies to one path.
pub(super) trait FieldOperator: fmt::Debug + Send + Sync {
    /// What becomes of the field. `existing` is its value, `None` when the path leads nowhere yet; a `Write` then
    /// creates the field and the documents that lead to it.
    fn apply<'a>(&'a self, existing: Option<Element<'a>>, scope: &Scope<'a>) -> Result<Change<'a>>;

    /// What happens when a value in the middle of the path cannot hold the rest of it.
    fn when_blocked(&self, _scope: &Scope<'_>) -> WhenBlocked {
        WhenBlocked::CannotCreate
    }

    /// How many levels of documents and arrays a written value has at most.
    fn written_depth(&self) -> usize {
        0
    }
}

/// The reaction to a path that leads through a scalar, or by name through an array.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WhenBlocked {
    /// Nothing to do: there is nothing to remove.
    Ignore,
    /// Refused, because the field cannot be created there.
    CannotCreate,
    /// Refused, because the field cannot be looked up there.
    CannotTraverse,
}

/// What an operator may look at besides the field.
#[derive(Debug, Clone, Copy)]
pub(super) struct Scope<'a> {
    /// The document before the update.
    pub(super) root: &'a RawDocument,
    pub(super) context: &'a UpdateContext<'a>,
    /// The operator's own place in the update.
    pub(super) leaf: &'a Leaf,
    /// The values that the update's renames move, in the order of the renames.
    pub(super) renamed: &'a [Option<Element<'a>>],
}

impl Scope<'_> {
    /// The document's `_id` as error messages show it.
    pub(super) fn identity(&self) -> String {
        identity(self.root)
    }

    /// The field's own name, the last part of the path.
    pub(super) fn field_name(&self) -> &str {
        self.leaf.path.last_part()
    }
}

/// `{_id: 1}` of a document, for error messages.
pub(super) fn identity(document: &RawDocument) -> String {
    match find(document, "_id") {
        Some(id) => format!("{{{}}}", display::field(&id)),
        None => "{no id}".to_owned(),
    }
}
