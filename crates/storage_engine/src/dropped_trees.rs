//! Trees that were dropped and whose pages are not freed yet.
//!
//! `engine` adds to them, `background` frees them, oldest first, and a checkpoint keeps them, so that the next life goes on. There can be hundreds of thousands: tests of
//! applications create and drop collections faster than their pages are found again.

use std::collections::{HashSet, VecDeque};

use crate::TreeId;

/// Dropped trees, in the order in which they are freed.
#[derive(Debug, Default)]
pub(crate) struct DroppedTrees {
    queue: VecDeque<TreeId>,
    all: HashSet<TreeId>,
}

impl DroppedTrees {
    /// Adds one behind the others; one that is there already stays where it is.
    pub(crate) fn push(&mut self, tree: TreeId) {
        if self.all.insert(tree) {
            self.queue.push_back(tree);
        }
    }

    /// The one to be freed next.
    pub(crate) fn first(&self) -> Option<TreeId> {
        self.queue.front().copied()
    }

    /// Takes out the one that is first, once it is freed.
    pub(crate) fn remove_first(&mut self) {
        if let Some(tree) = self.queue.pop_front() {
            self.all.remove(&tree);
        }
    }

    pub(crate) fn contains(&self, tree: TreeId) -> bool {
        self.all.contains(&tree)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = TreeId> {
        self.queue.iter().copied()
    }
}

impl Extend<TreeId> for DroppedTrees {
    fn extend<I: IntoIterator<Item = TreeId>>(&mut self, trees: I) {
        trees.into_iter().for_each(|tree| self.push(tree));
    }
}
