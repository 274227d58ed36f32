//! Collections that transactions create: nobody else's until their transaction commits.
//!
//! Called by `transaction`, under the definition lock. Such a collection has trees, and no name and no entry in the catalog tree. Its trees are noted
//! as dropped from the start, as those of `private_trees` are, so a crash leaves nothing of it: replay makes it again when its creation was logged.

use std::sync::Arc;

use storage_engine::{Batch, TreeId};

use super::stored::{self, DROPPED_TREE_KEY};
use super::{Catalog, Dropped};
use crate::collection::Collection;
use crate::error::Result;
use crate::index::IndexState;
use crate::index_specification::IndexSpecification;
use crate::namespace::Namespace;
use crate::options::CollectionOptions;

impl Catalog {
    /// Makes a collection that only the caller knows. It is not capped.
    ///
    /// # Errors
    /// `Engine`.
    pub fn create_private_collection(
        &self,
        namespace: &Namespace,
        options: CollectionOptions,
    ) -> Result<Arc<Collection>> {
        let collection = self.make_collection(namespace, self.new_uuid(), options, || self.create_private_tree())?;
        collection.set_private(true);
        Ok(collection)
    }

    /// Gives such a collection, which has no documents, an index.
    ///
    /// # Errors
    /// `Engine`.
    pub fn add_private_index(&self, collection: &Collection, specification: IndexSpecification) -> Result<()> {
        self.add_index(collection, specification, self.create_private_tree()?, IndexState::Ready);
        collection.count_memory();
        Ok(())
    }

    /// Makes such a collection everybody's. Its creation has been logged.
    ///
    /// # Errors
    /// `Engine`.
    pub fn publish(&self, collection: &Arc<Collection>) -> Result<()> {
        let mut batch = Batch::new();
        for tree in self.disown_trees(collection) {
            batch.delete(TreeId::CATALOG, &stored::key(DROPPED_TREE_KEY, tree.0));
        }
        self.engine.apply_settled(&batch)?;
        collection.set_private(false);
        self.enter(collection.clone())
    }

    /// Has `reap` drop such a collection once nobody holds it. Waits for nothing.
    pub fn drop_private_collection(&self, collection: &Arc<Collection>) {
        self.disown_trees(collection);
        collection.mark_dropped();
        self.dropped.lock().push(Dropped::Collection(collection.clone()));
    }

    /// Its trees are no longer listed as private.
    fn disown_trees(&self, collection: &Collection) -> Vec<TreeId> {
        let trees = collection.trees();
        self.private_trees.lock().retain(|tree| !trees.contains(tree));
        trees
    }
}
