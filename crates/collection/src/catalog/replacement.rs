//! Replacing the trees of all indexes of a collection by new ones (`reIndex`).
//!
//! Called by `transaction::index_build::rebuild`, under the definition lock and the gate. Beside each index stands its double, in state
//! `Replacing`: writers maintain both, readers know only the first. The catalog tree has nothing of a double but the note that its tree is
//! to be dropped, so whatever ends the process in the midst leaves the indexes as they were. One batch then gives the
//! doubles their places: the notes go, the old trees are noted instead, and the entry of the collection names the new trees.

use std::sync::Arc;

use storage_engine::{Batch, Timestamp, TreeId};

use super::stored::{self, COLLECTION_KEY, DROPPED_TREE_KEY};
use super::{Catalog, Dropped};
use crate::collection::Collection;
use crate::error::{CollectionError, Result};
use crate::index::{Index, IndexState};

impl Catalog {
    /// Gives each index an empty double, and returns their trees.
    ///
    /// # Errors
    /// `Engine`.
    pub fn begin_replacement(&self, collection: &Collection) -> Result<Vec<TreeId>> {
        let mut trees = Vec::new();
        for index in collection.indexes().listed() {
            let tree = self.engine.create_tree()?;
            let mut note = Batch::new();
            note.put(TreeId::CATALOG, &stored::key(DROPPED_TREE_KEY, tree.0), &[]);
            self.engine.apply_settled(&note)?;
            self.add_index(collection, index.specification().clone(), tree, IndexState::Replacing);
            trees.push(tree);
        }
        Ok(trees)
    }

    /// Puts the doubles, which have all entries, in the place of the indexes. Snapshots from `since` on may read them.
    ///
    /// Those from before read the old ones, whose trees stay as long as there are such snapshots, or somebody reads through them.
    ///
    /// # Errors
    /// `IndexBuildAborted`: one of them has gone meanwhile; `Engine`.
    pub fn finish_replacement(&self, collection: &Collection, trees: &[TreeId], since: Timestamp) -> Result<()> {
        let before = collection.indexes().clone();
        let mut replaced = Vec::with_capacity(trees.len());
        let mut indexes: Vec<Arc<Index>> = before.listed().cloned().collect();
        for tree in trees {
            let double = before.position(*tree).and_then(|position| before.all().get(position));
            let place = double.and_then(|double| indexes.iter_mut().find(|index| index.name() == double.name()));
            let (Some(double), Some(place)) = (double, place) else {
                let message = format!("an index of {} was dropped while it was being rebuilt", collection.namespace());
                return Err(CollectionError::IndexBuildAborted(message));
            };
            // Its options may have been changed meanwhile.
            let ready = Arc::new(double.with(place.shape().clone(), IndexState::Ready));
            ready.forget_build();
            let old = std::mem::replace(place, ready);
            replaced.push((place.succeed(&old, since), old));
        }
        let _newest_wins = collection.persisting.lock();
        self.replace_indexes(collection, indexes);
        let mut batch = Batch::new();
        for tree in trees {
            batch.delete(TreeId::CATALOG, &stored::key(DROPPED_TREE_KEY, tree.0));
        }
        for (_, index) in &replaced {
            batch.put(TreeId::CATALOG, &stored::key(DROPPED_TREE_KEY, index.tree().0), &[]);
        }
        let key = stored::key(COLLECTION_KEY, collection.ident());
        let stored = stored::encode_collection(collection);
        collection.count_memory();
        batch.put(TreeId::CATALOG, &key, stored.as_bytes());
        self.engine.apply_settled(&batch)?;
        self.dropped
            .lock()
            .extend(replaced.into_iter().map(|(succession, index)| Dropped::Replaced(index, succession)));
        Ok(())
    }

    /// Takes the doubles away again.
    ///
    /// # Errors
    /// `Engine`.
    pub fn abandon_replacement(&self, collection: &Collection) -> Result<()> {
        let doubles: Vec<_> = collection.indexes().replacing().cloned().collect();
        doubles.iter().try_for_each(|double| self.remove_index(collection, double))
    }
}
