//! The paths of an update as a tree, so that one walk over a document applies all operators.
//!
//! Built by the parser, walked by `apply`. Inserting a path that another operator's path covers, or that covers
//! another's, is a conflict: the outcome would depend on the order of the operators. Once all paths are in it, children are put into order, at once: a
//! message can name hundreds of thousands.

use std::collections::HashMap;

use super::operator::FieldOperator;
use super::path::{Component, UpdatePath, compare_names};
use crate::error::{ErrorKind, QueryError, Result};

/// A place in a document that the update reaches.
#[derive(Debug)]
pub(super) enum Node {
    /// An operator acts here.
    Leaf(Leaf),
    /// Paths go on to named fields (or positions of an array).
    Fields(FieldsNode),
    /// Paths go on to items of an array by `$[]` or `$[identifier]`.
    Items(ItemsNode),
}

/// One operator on one path.
#[derive(Debug)]
pub(super) struct Leaf {
    pub(super) path: UpdatePath,
    pub(super) operator: Box<dyn FieldOperator>,
    /// Which of the update's paths this is, counted from 0 in the order of the update document.
    pub(super) number: usize,
}

/// Names beyond which those that are there are found through a table while paths are added.
const LINEAR_NAMES_MAX: usize = 8;

/// Children by name, after `put_in_order` in the order they are applied.
#[derive(Debug, Default)]
pub(super) struct FieldsNode {
    pub(super) fields: Vec<(String, Node)>,
    /// Where names are, while paths are added and there are many.
    positions: HashMap<String, usize>,
    /// The child under `$`, whose name is known when a document has been matched.
    pub(super) matched: Option<Box<Node>>,
}

/// Children for the items of an array.
#[derive(Debug, Default)]
pub(super) struct ItemsNode {
    pub(super) every: Option<Box<Node>>,
    /// By index of the array filter.
    pub(super) filtered: Vec<(usize, Node)>,
    /// Their positions by the same index.
    filtered_positions: HashMap<usize, usize>,
}

impl FieldsNode {
    /// Adds `leaf` at its path; this node is the root.
    pub(super) fn insert(&mut self, leaf: Leaf) -> Result<()> {
        self.insert_at(leaf, 0)
    }

    fn insert_at(&mut self, leaf: Leaf, depth: usize) -> Result<()> {
        match leaf.path.components.get(depth) {
            Some(Component::Field(name)) => match self.position(name).and_then(|found| self.fields.get_mut(found)) {
                Some((_, node)) => node.insert_below(leaf, depth + 1),
                None => {
                    let name = name.clone();
                    self.fields.push((name, Node::chain(leaf, depth + 1)?));
                    self.note_last();
                    Ok(())
                }
            },
            Some(Component::Matched) => match &mut self.matched {
                Some(node) => node.insert_below(leaf, depth + 1),
                None => {
                    self.matched = Some(Box::new(Node::chain(leaf, depth + 1)?));
                    Ok(())
                }
            },
            _ => Err(conflict(&leaf.path, depth)),
        }
    }
}

impl FieldsNode {
    fn position(&self, name: &str) -> Option<usize> {
        match self.positions.is_empty() {
            true => self.fields.iter().position(|(known, _)| known == name),
            false => self.positions.get(name).copied(),
        }
    }

    /// Keeps the table in step once there are enough names to have one.
    fn note_last(&mut self) {
        if self.fields.len() <= LINEAR_NAMES_MAX {
            return;
        }
        let first = if self.positions.is_empty() { 0 } else { self.fields.len() - 1 };
        let named = self.fields.iter().enumerate().skip(first);
        self.positions.extend(named.map(|(position, (name, _))| (name.clone(), position)));
    }

    /// Puts all children below into the order in which they are applied. Called once, when all paths are in the tree.
    pub(super) fn put_in_order(&mut self) {
        self.positions = HashMap::new();
        self.fields.sort_by(|(left, _), (right, _)| compare_names(left, right));
        let named = self.fields.iter_mut().map(|(_, child)| child);
        named.chain(self.matched.as_deref_mut()).for_each(Node::put_in_order);
    }
}

impl ItemsNode {
    fn insert_at(&mut self, leaf: Leaf, depth: usize) -> Result<()> {
        match leaf.path.components.get(depth) {
            Some(Component::Every) => match &mut self.every {
                Some(node) => node.insert_below(leaf, depth + 1),
                None => {
                    self.every = Some(Box::new(Node::chain(leaf, depth + 1)?));
                    Ok(())
                }
            },
            Some(Component::Filtered(filter)) => {
                let filter = *filter;
                let known = self.filtered_positions.get(&filter).copied();
                match known.and_then(|position| self.filtered.get_mut(position)) {
                    Some((_, node)) => node.insert_below(leaf, depth + 1),
                    None => {
                        self.filtered_positions.insert(filter, self.filtered.len());
                        self.filtered.push((filter, Node::chain(leaf, depth + 1)?));
                        Ok(())
                    }
                }
            }
            _ => Err(conflict(&leaf.path, depth)),
        }
    }
}

impl Node {
    /// The nodes for the parts of the leaf's path from `depth` on, down to the leaf.
    fn chain(leaf: Leaf, depth: usize) -> Result<Self> {
        match leaf.path.components.get(depth) {
            None => Ok(Node::Leaf(leaf)),
            Some(Component::Field(_) | Component::Matched) => {
                let mut node = FieldsNode::default();
                node.insert_at(leaf, depth)?;
                Ok(Node::Fields(node))
            }
            Some(Component::Every | Component::Filtered(_)) => {
                let mut node = ItemsNode::default();
                node.insert_at(leaf, depth)?;
                Ok(Node::Items(node))
            }
        }
    }

    fn insert_below(&mut self, leaf: Leaf, depth: usize) -> Result<()> {
        if depth == leaf.path.components.len() {
            return Err(conflict(&leaf.path, depth));
        }
        match self {
            Node::Leaf(_) => Err(conflict(&leaf.path, depth)),
            Node::Fields(node) => node.insert_at(leaf, depth),
            Node::Items(node) => node.insert_at(leaf, depth),
        }
    }

    fn put_in_order(&mut self) {
        match self {
            Node::Leaf(_) => {}
            Node::Fields(node) => node.put_in_order(),
            Node::Items(node) => {
                let filtered = node.filtered.iter_mut().map(|(_, child)| child);
                filtered.chain(node.every.as_deref_mut()).for_each(Node::put_in_order);
            }
        }
    }

    /// The first leaf at or below this node for which `accept` holds, in the order of application.
    pub(super) fn find_leaf<'a>(&'a self, accept: &dyn Fn(&Leaf) -> bool) -> Option<&'a Leaf> {
        match self {
            Node::Leaf(leaf) => accept(leaf).then_some(leaf),
            Node::Fields(node) => {
                let named = node.fields.iter().map(|(_, child)| child);
                named.chain(node.matched.as_deref()).find_map(|child| child.find_leaf(accept))
            }
            Node::Items(node) => {
                let filtered = node.filtered.iter().map(|(_, child)| child);
                node.every.as_deref().into_iter().chain(filtered).find_map(|child| child.find_leaf(accept))
            }
        }
    }
}

/// Two operators on one path, or on a path and one inside it.
fn conflict(path: &UpdatePath, depth: usize) -> QueryError {
    let message = format!("Updating the path '{}' would create a conflict at '{}'", path.text, path.prefix(depth));
    QueryError::new(ErrorKind::ConflictingUpdateOperators, message)
}
