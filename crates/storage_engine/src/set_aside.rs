//! Trees that lack changes because a page of them is damaged.
//!
//! A commit that is logged must be applied, and what is damaged cannot be changed. Stopping all writes for one page would cost the whole database, so the tree is
//! *set aside*: it takes no more changes, and whoever keeps definitions (`transaction`) is told and must let nobody read it. `engine` adds to the list when it applies
//! a batch; `transaction` adds what it knows from earlier lives. The catalog's tree is no exception: what follows from that is `transaction`'s to decide.
//!
//! The list is in memory. Changes from behind a checkpoint's mark are replayed, so a tree must be noted on disk only before the next mark.

use std::collections::BTreeMap;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::RwLock;

use crate::TreeId;
use crate::engine::Engine;

/// See the module's head.
#[derive(Debug, Default)]
pub(crate) struct SetAsideTrees {
    /// How many were ever added: asked before each change.
    added: AtomicUsize,
    /// With what is damaged.
    trees: RwLock<BTreeMap<TreeId, String>>,
    /// Why changes that a checkpoint had saved beside their leaves could not be restored.
    lost_changes: OnceLock<String>,
}

impl SetAsideTrees {
    /// When the engine is opened, once.
    pub(crate) fn note_lost_changes(&self, reason: String) {
        let _ = self.lost_changes.set(reason);
    }

    #[inline]
    pub(crate) fn contains(&self, tree: TreeId) -> bool {
        self.added.load(Ordering::Acquire) != 0 && self.trees.read().contains_key(&tree)
    }

    /// A tree that is dropped lacks nothing any more.
    pub(crate) fn forget(&self, tree: TreeId) {
        if self.contains(tree) {
            self.trees.write().remove(&tree);
        }
    }
}

impl Engine {
    /// From now on the tree takes no changes.
    pub fn set_tree_aside(&self, tree: TreeId, reason: &str) {
        let mut trees = self.set_aside.trees.write();
        if let std::collections::btree_map::Entry::Vacant(entry) = trees.entry(tree) {
            entry.insert(reason.to_owned());
            self.set_aside.added.fetch_add(1, Ordering::Release);
        }
    }

    /// How many trees were ever set aside in this life: more than before means that there is something to look at.
    #[inline]
    pub fn trees_set_aside_count(&self) -> usize {
        self.set_aside.added.load(Ordering::Acquire)
    }

    /// Why every tree that is changed blindly may lack changes: those that the last checkpoint had saved beside their leaves are damaged.
    pub fn lost_saved_changes(&self) -> Option<&str> {
        self.set_aside.lost_changes.get().map(String::as_str)
    }

    /// The trees that are set aside, with what is damaged.
    pub fn trees_set_aside(&self) -> Vec<(TreeId, String)> {
        self.set_aside.trees.read().iter().map(|(tree, reason)| (*tree, reason.clone())).collect()
    }
}
