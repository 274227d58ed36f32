//! Applying changes of definitions. Every one may be applied again, or to a later state: replay does both.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use bson::Uuid;
use storage_engine::{Batch, Timestamp, TreeId};

use super::stored::{self, COLLECTION_KEY, COUNTS_KEY, DROPPED_TREE_KEY};
use super::{Catalog, CatalogChange, Dropped, IndexChange, IndexModification, Modification};
use crate::collection::Collection;
use crate::error::Result;
use crate::index::{Index, IndexState};
use crate::index_specification::IndexSpecification;
use crate::namespace::Namespace;
use crate::options::CollectionOptions;
use crate::record_id::RecordId;

impl Catalog {
    /// Applies a change. Index builds have their own functions below, since building takes time.
    ///
    /// The caller holds the definition lock, and the gate of the collection exclusively if there is one.
    ///
    /// # Errors
    /// `Engine`.
    pub fn apply(&self, change: &CatalogChange) -> Result<()> {
        match change {
            CatalogChange::Create { namespace, uuid, options } => self.create(namespace, *uuid, options),
            CatalogChange::Drop { uuid, .. } => self.drop_collection(*uuid),
            CatalogChange::Rename { to, uuid, drop_target, .. } => {
                if let Some(target) = drop_target {
                    self.drop_collection(*target)?;
                }
                self.rename(*uuid, to)
            }
            CatalogChange::DropIndex(change) => self.drop_index(change),
            CatalogChange::Modify { uuid, modification, .. } => self.modify(*uuid, modification),
            CatalogChange::DropDatabase { .. }
            | CatalogChange::StartIndexBuild(_)
            | CatalogChange::CommitIndexBuild(_)
            | CatalogChange::AbortIndexBuild(_) => Ok(()),
        }
    }

    fn create(&self, namespace: &Namespace, uuid: Uuid, options: &CollectionOptions) -> Result<()> {
        if self.lookup_uuid(uuid).is_some() {
            return Ok(());
        }
        let create_tree = || Ok(self.engine.create_tree()?);
        self.enter(self.make_collection(namespace, uuid, options.clone(), create_tree)?)
    }

    /// A new collection with its trees and its index on `_id`, which nobody can find yet.
    pub(super) fn make_collection(
        &self,
        namespace: &Namespace,
        uuid: Uuid,
        options: CollectionOptions,
        create_tree: impl Fn() -> Result<TreeId>,
    ) -> Result<Arc<Collection>> {
        let ident = self.next_ident.fetch_add(1, Ordering::Relaxed);
        let (record_tree, id_tree) = (create_tree()?, create_tree()?);
        let ring = match options.capped {
            Some(capped) => Some(self.engine.create_ring(ident, record_tree, capped.size)?),
            None => None,
        };
        let now = self.clock.wall_millis();
        let specification = options.id_index()?;
        let mut shapes = self.shapes.lock();
        let id_index = Index::of_shape(shapes.shape_of(specification), id_tree, IndexState::Ready, &[], now);
        let indexes = shapes.list(vec![Arc::new(id_index)]);
        drop(shapes);
        let (namespace, memory) = (namespace.clone(), self.reservation());
        let collection = Collection::new(ident, uuid, record_tree, ring, namespace, options, indexes, memory);
        collection.count_memory();
        Ok(Arc::new(collection))
    }

    /// Gives a collection an index that is empty as yet.
    pub(super) fn add_index(
        &self,
        collection: &Collection,
        specification: IndexSpecification,
        tree: TreeId,
        state: IndexState,
    ) -> Arc<Index> {
        let shape = self.shapes.lock().shape_of(specification);
        let index = Arc::new(Index::of_shape(shape, tree, state, &[], self.clock.wall_millis()));
        self.replace_indexes(collection, collection.indexes().with(index.clone()));
        index
    }

    pub(super) fn replace_indexes(&self, collection: &Collection, indexes: Vec<Arc<Index>>) {
        let list = self.shapes.lock().list(indexes);
        collection.replace_indexes(list);
    }

    /// From now on the collection can be found.
    pub(super) fn enter(&self, collection: Arc<Collection>) -> Result<()> {
        self.persist(&collection)?;
        let namespace = collection.namespace();
        self.by_uuid.insert(collection.uuid(), collection.clone());
        self.name(&namespace, collection);
        Ok(())
    }

    fn name(&self, namespace: &Namespace, collection: Arc<Collection>) {
        self.by_name.insert(namespace.as_str().to_owned(), collection);
        *self.databases.write().entry(namespace.database().to_owned()).or_default() += 1;
    }

    fn drop_collection(&self, uuid: Uuid) -> Result<()> {
        let Some(collection) = self.by_uuid.remove(&uuid) else { return Ok(()) };
        self.forget_name(&collection);
        let _newest_wins = collection.persisting.lock();
        collection.mark_dropped();
        let mut batch = Batch::new();
        batch.delete(TreeId::CATALOG, &stored::key(COLLECTION_KEY, collection.ident()));
        batch.delete(TreeId::CATALOG, &stored::key(COUNTS_KEY, collection.ident()));
        for tree in collection.trees() {
            batch.put(TreeId::CATALOG, &stored::key(DROPPED_TREE_KEY, tree.0), &[]);
        }
        self.engine.apply_settled(&batch)?;
        self.dropped.lock().push(Dropped::Collection(collection.clone()));
        Ok(())
    }

    fn forget_name(&self, collection: &Arc<Collection>) {
        let namespace = collection.namespace();
        let is_its_name = self.lookup(namespace.as_str()).is_some_and(|named| Arc::ptr_eq(&named, collection));
        if is_its_name {
            self.by_name.remove(namespace.as_str());
        }
        let mut databases = self.databases.write();
        if let Some(count) = databases.get_mut(namespace.database()) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                databases.remove(namespace.database());
            }
        }
    }

    fn rename(&self, uuid: Uuid, to: &Namespace) -> Result<()> {
        let Some(collection) = self.lookup_uuid(uuid) else { return Ok(()) };
        let options = collection.definition().options.clone();
        // The new name is there before the old one goes: at no moment is the collection without a name.
        self.name(to, collection.clone());
        if collection.namespace() != *to {
            self.forget_name(&collection);
        }
        collection.replace_definition(to.clone(), options);
        self.persist(&collection)
    }

    fn modify(&self, uuid: Uuid, modification: &Modification) -> Result<()> {
        let Some(collection) = self.lookup_uuid(uuid) else { return Ok(()) };
        if let Some(options) = &modification.options {
            collection.replace_definition(collection.namespace(), options.clone());
            if let (Some(ring), Some(capped)) = (collection.ring(), options.capped) {
                ring.set_size(capped.size);
            }
        }
        if let Some(index) = &modification.index {
            self.modify_index(&collection, index);
        }
        self.persist(&collection)
    }

    fn drop_index(&self, change: &IndexChange) -> Result<()> {
        let Some(collection) = self.lookup_uuid(change.uuid) else { return Ok(()) };
        let Some(index) = collection.indexes().find(&change.specification.name).cloned() else { return Ok(()) };
        self.remove_index(&collection, &index)
    }

    /// Takes an index out of a collection: dropped, or its build given up. What was to take its place goes with it.
    ///
    /// # Errors
    /// `Engine`.
    pub fn remove_index(&self, collection: &Collection, index: &Arc<Index>) -> Result<()> {
        let is_its_double = |double: &&Arc<Index>| double.name() == index.name() && !Arc::ptr_eq(double, index);
        let double = collection.indexes().replacing().find(is_its_double).cloned();
        if let Some(double) = double {
            self.remove_index(collection, &double)?;
        }
        index.mark_dropped();
        self.replace_indexes(collection, collection.indexes().without(index.tree()));
        let mut batch = Batch::new();
        batch.put(TreeId::CATALOG, &stored::key(DROPPED_TREE_KEY, index.tree().0), &[]);
        self.engine.apply_settled(&batch)?;
        self.dropped.lock().push(Dropped::Index(index.clone()));
        self.persist(collection)
    }

    /// Adds an empty index in state `Building`: from now on writers maintain it.
    ///
    /// # Errors
    /// `Engine`.
    pub fn add_building_index(&self, collection: &Collection, specification: IndexSpecification) -> Result<Arc<Index>> {
        let index = self.add_index(collection, specification, self.engine.create_tree()?, IndexState::Building);
        self.persist(collection)?;
        Ok(index)
    }

    /// Keeps how far the build of an index has come. What it has put into the tree was applied before.
    ///
    /// # Errors
    /// `Engine`.
    pub fn save_build(&self, collection: &Collection, index: &Index, filled: RecordId) -> Result<()> {
        index.set_filled(filled);
        self.persist(collection)
    }

    /// Puts an index that has all its entries into use, for snapshots from `since` on.
    ///
    /// # Errors
    /// `Engine`.
    pub fn make_index_ready(&self, collection: &Collection, index: &Index, since: Timestamp) -> Result<()> {
        index.set_ready_since(since);
        index.forget_build();
        let ready = index.with(index.shape().clone(), IndexState::Ready);
        self.replace_indexes(collection, collection.indexes().with(Arc::new(ready)));
        self.persist(collection)
    }

    fn modify_index(&self, collection: &Collection, modification: &IndexModification) {
        let Some(index) = collection.indexes().find(&modification.name).cloned() else { return };
        let mut specification = index.specification().clone();
        if let Some(hidden) = modification.hidden {
            specification.hidden = hidden;
        }
        if let Some(prepares) = modification.prepare_unique {
            specification.prepare_unique = prepares;
        }
        if modification.unique {
            (specification.unique, specification.prepare_unique) = (true, false);
        }
        if let Some(seconds) = modification.expire_after_seconds {
            specification.expire_after_seconds = Some(seconds);
        }
        let changed = index.with(self.shapes.lock().shape_of(specification), index.state());
        self.replace_indexes(collection, collection.indexes().with(Arc::new(changed)));
    }
}
