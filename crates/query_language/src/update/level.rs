//! The named children that apply at one level of a document, with positional paths resolved.
//!
//! Mostly that is one node of the tree as it is. When `$` has been replaced by the matched position, or several
//! positional paths lead to the same item, children of the same name come together here.

use std::borrow::Cow;

use document::work;
use smallvec::{SmallVec, smallvec};

use super::UpdateContext;
use super::path::compare_names;
use super::tree::{FieldsNode, Node};
use crate::error::{ErrorKind, QueryError, Result};

/// The nodes that apply to one element.
pub(super) type Nodes<'a> = SmallVec<[&'a Node; 2]>;

/// Up to this many children are searched one by one.
const LINEAR_SEARCH_MAX: usize = 8;

/// Children in the order they are applied and appended.
pub(super) enum Level<'a> {
    /// Those of one node.
    Single(&'a FieldsNode),
    /// Those of several nodes, or with a name put for `$`.
    Merged(Vec<(Cow<'a, str>, Nodes<'a>)>),
}

impl<'a> Level<'a> {
    /// The children of all `nodes`. An error when `$` is used and the query matched no array item.
    pub(super) fn new(nodes: &[&'a FieldsNode], context: &UpdateContext<'_>) -> Result<Self> {
        if let [node] = nodes
            && node.matched.is_none()
        {
            return Ok(Level::Single(node));
        }
        let mut named = Vec::new();
        for node in nodes {
            work::done(node.fields.len())?;
            named.extend(node.fields.iter().map(|(name, child)| (Cow::Borrowed(name.as_str()), child)));
            if let Some(child) = &node.matched {
                let position = context.match_position.ok_or_else(no_match)?;
                named.push((Cow::Owned(position.to_string()), &**child));
            }
        }
        Ok(Level::Merged(together(named)))
    }

    pub(super) fn len(&self) -> usize {
        match self {
            Level::Single(node) => node.fields.len(),
            Level::Merged(children) => children.len(),
        }
    }

    /// The name of a child; `index` must be below `len`.
    pub(super) fn name(&self, index: usize) -> &str {
        match self {
            Level::Single(node) => &node.fields[index].0,
            Level::Merged(children) => &children[index].0,
        }
    }

    /// The nodes of a child; `index` must be below `len`.
    pub(super) fn nodes(&self, index: usize) -> Nodes<'a> {
        match self {
            Level::Single(node) => smallvec![&node.fields[index].1],
            Level::Merged(children) => children[index].1.clone(),
        }
    }

    /// The child of this name.
    #[inline]
    pub(super) fn find(&self, name: &[u8]) -> Option<usize> {
        match self {
            Level::Single(node) => find_name(&node.fields, |(child, _)| child, name),
            Level::Merged(children) => find_name(children, |(child, _)| child, name),
        }
    }
}

/// Finds a name among children in the order of `compare_names`.
#[inline]
fn find_name<T>(children: &[T], name_of: impl Fn(&T) -> &str, name: &[u8]) -> Option<usize> {
    if children.len() <= LINEAR_SEARCH_MAX {
        return children.iter().position(|child| name_of(child).as_bytes() == name);
    }
    let name = std::str::from_utf8(name).ok()?;
    children.binary_search_by(|child| compare_names(name_of(child), name)).ok()
}

/// The children in order, with those of the same name in one place.
fn together<'a>(mut named: Vec<(Cow<'a, str>, &'a Node)>) -> Vec<(Cow<'a, str>, Nodes<'a>)> {
    named.sort_by(|(left, _), (right, _)| compare_names(left, right));
    let mut children: Vec<(Cow<'a, str>, Nodes<'a>)> = Vec::with_capacity(named.len());
    for (name, node) in named {
        match children.last_mut() {
            Some((last, nodes)) if *last == name => nodes.push(node),
            _ => children.push((name, smallvec![node])),
        }
    }
    children
}

fn no_match() -> QueryError {
    QueryError::new(ErrorKind::BadValue, "The positional operator did not find the match needed from the query.")
}
