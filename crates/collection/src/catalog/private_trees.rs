//! Trees that belong to no collection: the one that has what sessions have written.
//!
//! Called by `transaction`. The catalog only knows where such a tree is; what is in it is its user's.

use storage_engine::{Batch, TreeId};

use super::Catalog;
use super::stored::{self, SESSION_TREE_KEY};
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
}
