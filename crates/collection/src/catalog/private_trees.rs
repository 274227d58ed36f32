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
        *self.session_tree.lock()
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
        *self.session_tree.lock() = Some(tree);
        Ok(tree)
    }

    /// Gives up the tree of sessions, which is damaged: the next one that is wanted is a new one. Under the definition lock.
    ///
    /// # Errors
    /// `Engine`.
    pub fn drop_session_tree(&self) -> Result<()> {
        let Some(tree) = self.session_tree.lock().take() else { return Ok(()) };
        let mut batch = Batch::new();
        batch.delete(TreeId::CATALOG, &stored::key(SESSION_TREE_KEY, tree.0));
        batch.put(TreeId::CATALOG, &stored::key(DROPPED_TREE_KEY, tree.0), &[]);
        self.engine.apply_settled(&batch)?;
        self.dropped.lock().push(Dropped::PrivateTree(tree));
        Ok(())
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
