//! Trees that belong to no collection: the one that has what sessions have written, and those in which large transactions keep their changes.
//!
//! Called by `transaction`. The catalog only knows where such a tree is; what is in it is its user's.

use storage_engine::{Batch, TreeId};

use super::stored::{self, DROPPED_TREE_KEY, SESSION_TREE_KEY};
use super::{Catalog, Dropped};
use crate::error::Result;

impl Catalog {
    /// The tree of sessions, if there is one yet.
    pub fn session_tree(&self) -> Option<TreeId> {
        self.session_tree.get().copied()
    }

    /// The tree of sessions, made if there is none. A change of definitions: under the definition lock.
    ///
    /// # Errors
    /// `Engine`.
    pub fn session_tree_or_create(&self) -> Result<TreeId> {
        if let Some(tree) = self.session_tree() {
            return Ok(tree);
        }
        let tree = self.engine.create_tree()?;
        let mut batch = Batch::new();
        batch.put(TreeId::CATALOG, &stored::key(SESSION_TREE_KEY, tree.0), &[]);
        self.engine.apply_settled(&batch)?;
        Ok(*self.session_tree.get_or_init(|| tree))
    }

    /// A tree that does not outlive the process: it is noted as dropped from the start, so a crash leaves nothing of it. Under the definition lock.
    ///
    /// # Errors
    /// `Engine`.
    pub fn create_private_tree(&self) -> Result<TreeId> {
        let tree = self.engine.create_tree()?;
        let mut batch = Batch::new();
        batch.put(TreeId::CATALOG, &stored::key(DROPPED_TREE_KEY, tree.0), &[]);
        self.engine.apply_settled(&batch)?;
        self.private_trees.lock().push(tree);
        Ok(tree)
    }

    /// Has the next `reap` drop such a tree. Waits for nothing.
    pub fn drop_private_tree(&self, tree: TreeId) {
        self.private_trees.lock().retain(|known| *known != tree);
        self.dropped.lock().push(Dropped::PrivateTree(tree));
    }
}
