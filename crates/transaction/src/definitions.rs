//! Creating, dropping, renaming and modifying collections.
//!
//! Called by `commands`, and by the executor for implicit creation. Everything here holds the definition lock; a change of an existing
//! collection also holds its gate exclusively, for one oplog append and the swap of pointers.

use std::sync::Arc;

use bson::Uuid;
use collection::catalog::{CatalogChange, Modification};
use collection::{Collection, CollectionError, CollectionOptions, IndexSpecification, LoggedEntry, Namespace};
use oplog::Appended;

use crate::commit_order::CommitInfo;
use crate::error::{Result, TransactionError};
use crate::store::Store;

/// What happens to a collection that has the new name already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RenameTarget {
    /// The rename fails.
    MustNotExist,
    /// It is dropped (`dropTarget: true`).
    Drop,
}

impl Store {
    /// Creates a collection.
    ///
    /// # Errors
    /// `Collection` with `NamespaceExists` or `DatabaseDifferCase`; `Oplog`, `Engine`, `Stopped`.
    pub fn create_collection(
        &self,
        namespace: &Namespace,
        options: CollectionOptions,
    ) -> Result<(Arc<Collection>, CommitInfo)> {
        self.create_collection_as(namespace, self.catalog.new_uuid(), options)
    }

    /// Creates a collection with an identity that it has elsewhere.
    ///
    /// # Errors
    /// As `create_collection`; `NamespaceExists` also for another collection of this identity.
    pub fn create_collection_as(
        &self,
        namespace: &Namespace,
        uuid: Uuid,
        options: CollectionOptions,
    ) -> Result<(Arc<Collection>, CommitInfo)> {
        self.check_space()?;
        let _definitions = self.definition_lock.lock();
        self.catalog.check_can_create(namespace)?;
        if let Some(other) = self.catalog.lookup_uuid(uuid) {
            let message = format!("the collection {} has the UUID {uuid} already", other.namespace());
            return Err(CollectionError::NamespaceExists(message).into());
        }
        self.catalog.check_definitions(namespace, None, [&*options.to_document()])?;
        self.catalog.check_room(options.to_document().as_bytes().len())?;
        let create = CatalogChange::Create { namespace: namespace.clone(), uuid, options };
        let commit = self.change_definition(&create)?;
        let created = self.catalog.lookup_uuid(uuid);
        let created = created.ok_or_else(|| CollectionError::Damaged("a new collection is missing".to_owned()))?;
        Ok((created, commit))
    }

    /// The collection of this name, created without options if there is none: what a write into nothing does.
    ///
    /// # Errors
    /// As `create_collection`, without `NamespaceExists`.
    pub fn collection_or_create(&self, namespace: &Namespace) -> Result<Arc<Collection>> {
        loop {
            if let Some(collection) = self.catalog.lookup(namespace.as_str()) {
                return Ok(collection);
            }
            match self.create_collection(namespace, CollectionOptions::default()) {
                Ok((collection, _)) => return Ok(collection),
                Err(error) if error.is_namespace_exists() => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Drops a collection. Returns how many indexes it had; `None` when it does not exist.
    ///
    /// # Errors
    /// `Oplog`, `Engine`, `Stopped`.
    pub fn drop_collection(&self, namespace: &Namespace) -> Result<Option<(usize, CommitInfo)>> {
        let _definitions = self.lock_definitions(|| self.catalog.lookup(namespace.as_str()).into_iter().collect());
        match self.catalog.lookup(namespace.as_str()) {
            Some(collection) => self.drop_found(&collection).map(Some),
            None => Ok(None),
        }
    }

    pub(crate) fn drop_found(&self, collection: &Arc<Collection>) -> Result<(usize, CommitInfo)> {
        let _gate = collection.begin_definition_change();
        let indexes = collection.indexes().listed().count();
        let namespace = collection.namespace();
        let change = CatalogChange::Drop { namespace: namespace.clone(), uuid: collection.uuid() };
        Ok((indexes, self.change_names(&[&namespace], &change)?))
    }

    /// Drops every collection of a database, and asks before each whether it may go on; `None` when it does not exist.
    ///
    /// # Errors
    /// `Oplog`, `Engine`, `Stopped`; what the question fails with: the collections that are left are whole.
    pub fn drop_database<E: From<TransactionError>>(
        &self,
        database: &str,
        may_go_on: impl Fn() -> std::result::Result<(), E>,
    ) -> std::result::Result<Option<CommitInfo>, E> {
        let _definitions = self.lock_definitions(|| self.catalog.collections_of(database));
        let collections = self.catalog.collections_of(database);
        if collections.is_empty() {
            return Ok(None);
        }
        for collection in &collections {
            may_go_on()?;
            self.drop_found(collection)?;
        }
        Ok(Some(self.change_definition(&CatalogChange::DropDatabase { database: database.to_owned() })?))
    }

    /// Renames a collection, also into another database.
    ///
    /// # Errors
    /// `Collection` with `NamespaceNotFound`, `NamespaceExists`, `IllegalOperation`, `DatabaseDifferCase`; `Oplog`, `Engine`, `Stopped`.
    pub fn rename_collection(&self, from: &Namespace, to: &Namespace, target: RenameTarget) -> Result<CommitInfo> {
        let both = || [from, to].iter().filter_map(|name| self.catalog.lookup(name.as_str())).collect();
        let _definitions = self.lock_definitions(both);
        let Some(collection) = self.catalog.lookup(from.as_str()) else {
            let message = format!("Source collection {from} does not exist");
            return Err(CollectionError::NamespaceNotFound(message).into());
        };
        if from == to {
            let message = "Can't rename a collection to itself";
            return Err(CollectionError::IllegalOperation(message.to_owned()).into());
        }
        let replaced = self.catalog.lookup(to.as_str());
        match (&replaced, target) {
            (Some(_), RenameTarget::MustNotExist) => {
                return Err(CollectionError::NamespaceExists("target namespace exists".to_owned()).into());
            }
            (Some(_), RenameTarget::Drop) => {}
            (None, _) => self.catalog.check_can_create(to)?,
        }
        // In the order in which commits of transactions take gates.
        let mut gated: Vec<&Arc<Collection>> = [&collection].into_iter().chain(&replaced).collect();
        gated.sort_by_key(|collection| collection.ident());
        let _gates: Vec<_> = gated.into_iter().map(|collection| collection.begin_definition_change()).collect();
        let change = CatalogChange::Rename {
            from: from.clone(),
            to: to.clone(),
            uuid: collection.uuid(),
            drop_target: replaced.as_ref().map(|replaced| replaced.uuid()),
        };
        self.change_names(&[from, to], &change)
    }

    /// Changes options of a collection or of one of its indexes.
    ///
    /// # Errors
    /// `Collection` with `CollectionDropped`, `IndexNotFound`, `InvalidOptions`, `BadValue`; `Oplog`, `Engine`, `Stopped`.
    pub fn modify_collection(&self, collection: &Arc<Collection>, modification: Modification) -> Result<CommitInfo> {
        let _definitions = self.lock_definitions(|| vec![collection.clone()]);
        let _gate = collection.begin_definition_change();
        collection.check_alive()?;
        if modification.as_of.is_some_and(|version| version != collection.indexes().version()) {
            let message = "the indexes of the collection have changed meanwhile: run collMod again";
            return Err(CollectionError::IndexBuildInProgress(message.to_owned()).into());
        }
        check_index_modification(collection, &modification)?;
        if let Some(options) = &modification.options {
            // Those of before are counted, too: who is near the bound takes them away first.
            self.catalog.check_definitions(&collection.namespace(), Some(collection), [&*options.to_document()])?;
        }
        let (namespace, uuid) = (collection.namespace(), collection.uuid());
        let indexes = collection.indexes();
        let indexes: Vec<&IndexSpecification> = indexes.all().iter().map(|index| index.specification()).collect();
        let before = Some(modification.state_before(uuid, &collection.definition().options, &indexes));
        let change = CatalogChange::Modify { namespace, uuid, modification, before };
        self.catalog.check_room(change.encode(0).len())?;
        self.change_definition(&change)
    }

    /// The same as `change_definition` where names come to mean something else.
    pub(crate) fn change_names(&self, names: &[&Namespace], change: &CatalogChange) -> Result<CommitInfo> {
        self.note_renaming(names);
        let changed = self.change_definition(change);
        self.note_renamed(names, changed.as_ref().ok().map(|commit| commit.timestamp));
        changed
    }

    /// Logs and applies a change. The definition lock and the gate are held.
    pub(crate) fn change_definition(&self, change: &CatalogChange) -> Result<CommitInfo> {
        self.log_definition(change, |_| Ok(self.catalog.apply(change)?))
    }

    /// The same, with another way to apply it.
    pub(crate) fn log_definition(
        &self,
        change: &CatalogChange,
        apply: impl FnOnce(&Appended) -> Result<()>,
    ) -> Result<CommitInfo> {
        let entry = change.encode(self.clock.wall_millis());
        self.log_and_apply(&LoggedEntry::whole(&entry), None, apply)
    }
}

fn check_index_modification(collection: &Collection, modification: &Modification) -> Result<()> {
    let Some(index) = &modification.index else { return Ok(()) };
    let indexes = collection.indexes();
    let Some(found) = indexes.find(&index.name) else {
        let namespace = collection.namespace();
        let message = format!("cannot find index {} for ns {namespace}", index.name);
        return Err(CollectionError::IndexNotFound(message).into());
    };
    let mut changed: IndexSpecification = found.specification().clone();
    if (index.prepare_unique.is_some() || index.unique) && changed.is_id_index() {
        let message = "can't change the uniqueness of the _id index, which is unique";
        return Err(CollectionError::InvalidOptions(message.to_owned()).into());
    }
    if index.prepare_unique == Some(true) || index.unique {
        changed.check_may_be_unique()?;
    }
    // Nobody has put in what others have while it was, so that what the caller has seen holds.
    if index.unique && !changed.prepare_unique && !changed.unique {
        let message = "Cannot make index unique with 'unique=true' before 'prepareUnique=true' has been set";
        return Err(CollectionError::InvalidOptions(message.to_owned()).into());
    }
    if index.hidden.is_some() && changed.is_id_index() {
        return Err(CollectionError::BadValue("can't hide _id index".to_owned()).into());
    }
    if index.expire_after_seconds.is_some() {
        changed.expire_after_seconds = index.expire_after_seconds;
        if changed.is_id_index() || changed.pattern.fields().len() > 1 {
            let message = "TTL indexes are single-field indexes, compound indexes do not support TTL";
            return Err(CollectionError::InvalidOptions(message.to_owned()).into());
        }
    }
    Ok(())
}
