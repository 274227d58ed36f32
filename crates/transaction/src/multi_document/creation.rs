//! Collections and indexes that a transaction creates: its own until it commits, gone when it does not.
//!
//! Called by `commands`, and by the commit. The commit logs the creations and makes them everybody's before it logs the changes; should it fail then,
//! they are dropped again. A crash between the two leaves an empty collection, which is what a create without its transaction would have left.

use std::sync::Arc;

use collection::catalog::{CatalogChange, IndexChange};
use collection::{Collection, CollectionError, CollectionOptions, IndexSpecification, Namespace};

use super::Transaction;
use crate::commit_order::CommitInfo;
use crate::error::{Result, TransactionError};
use crate::index_build::check_definitions;
use crate::index_definitions::{IndexesCreated, missing_indexes};
use crate::store::Store;

impl Transaction {
    /// The collection of this name that the transaction has created.
    pub fn created_collection(&self, namespace: &Namespace) -> Option<Arc<Collection>> {
        let owned = self.owned.lock();
        owned.created.iter().find(|collection| collection.namespace() == *namespace).cloned()
    }
}

impl Store {
    /// Creates a collection in a transaction.
    ///
    /// # Errors
    /// `Collection` with `NamespaceExists` or `DatabaseDifferCase`; `NotInTransaction` for a capped one; `NoSuchTransaction` when it has ended;
    /// `Engine`, `Stopped`.
    pub fn create_in_transaction(
        &self,
        transaction: &Transaction,
        namespace: &Namespace,
        options: CollectionOptions,
    ) -> Result<Arc<Collection>> {
        if options.capped.is_some() {
            let message = format!("Cannot create the capped collection {namespace} in a transaction.");
            return Err(TransactionError::NotInTransaction(message));
        }
        self.check_space()?;
        let _definitions = self.definition_lock.lock();
        if transaction.created_collection(namespace).is_some() {
            let message = format!("Collection {namespace} already exists.");
            return Err(CollectionError::NamespaceExists(message).into());
        }
        self.catalog.check_can_create(namespace)?;
        self.catalog.check_definitions(namespace, None, [&*options.to_document()])?;
        self.catalog.check_room(options.to_document().as_bytes().len())?;
        let collection = self.catalog.create_private_collection(namespace, options)?;
        let mut owned = transaction.owned.lock();
        if owned.has_ended {
            self.catalog.drop_private_collection(&collection);
            return Err(TransactionError::NoSuchTransaction("The transaction has been aborted.".to_owned()));
        }
        owned.created.push(collection.clone());
        Ok(collection)
    }

    /// Creates indexes in a transaction: of a collection that it has created and not written to, unless they are there already.
    ///
    /// # Errors
    /// `NotInTransaction` for another collection; `Collection` as for `create_indexes`; `Engine`, `Stopped`.
    pub fn create_indexes_in_transaction(
        &self,
        transaction: &Transaction,
        collection: &Arc<Collection>,
        specifications: &[IndexSpecification],
    ) -> Result<IndexesCreated> {
        self.check_space()?;
        let _definitions = self.definition_lock.lock();
        let namespace = collection.namespace();
        let before = collection.indexes().ready().count();
        let missing = missing_indexes(collection, specifications)?;
        if missing.as_ref().is_some_and(Vec::is_empty) {
            return Ok(IndexesCreated { before, after: before, commit: None });
        }
        let refused = |what: &str| {
            let message =
                format!("Cannot create new indexes on {what} collection {namespace} in a multi-document transaction.");
            Err(TransactionError::NotInTransaction(message))
        };
        if !transaction.created_collection(&namespace).is_some_and(|created| Arc::ptr_eq(&created, collection)) {
            return refused("existing");
        }
        let written = transaction.writes.collections();
        if written.iter().any(|written| Arc::ptr_eq(&written.collection, collection)) {
            return refused("non-empty");
        }
        let missing = missing.unwrap_or_default();
        check_definitions(self, collection, &missing)?;
        for specification in missing {
            self.catalog.add_private_index(collection, specification)?;
        }
        Ok(IndexesCreated { before, after: collection.indexes().ready().count(), commit: None })
    }

    /// Makes what a transaction has created everybody's. `WriteConflict`: somebody else has taken a name meanwhile.
    pub(super) fn publish_created(&self, created: &mut Published) -> Result<()> {
        if created.waiting.is_empty() {
            return Ok(());
        }
        let _definitions = self.definition_lock.lock();
        let is_taken = |collection: &Arc<Collection>| self.catalog.check_can_create(&collection.namespace()).is_err();
        if created.waiting.iter().any(is_taken) {
            return Err(TransactionError::WriteConflict);
        }
        while let Some(collection) = created.waiting.first().cloned() {
            let (namespace, uuid) = (collection.namespace(), collection.uuid());
            let options = collection.definition().options.clone();
            let create = CatalogChange::Create { namespace: namespace.clone(), uuid, options };
            created.last = Some(self.log_definition(&create, |_| Ok(self.catalog.publish(&collection)?))?);
            created.waiting.remove(0);
            created.done.push(collection.clone());
            for index in collection.indexes().all().iter().filter(|index| !index.specification().is_id_index()) {
                let change =
                    IndexChange { namespace: namespace.clone(), uuid, specification: index.specification().clone() };
                created.last = Some(self.log_definition(&CatalogChange::CommitIndexBuild(change), |_| Ok(()))?);
            }
        }
        Ok(())
    }

    /// The transaction has ended, and has failed unless `is_committed`.
    pub(super) fn end_created(&self, created: Published, is_committed: bool) {
        created.waiting.iter().for_each(|collection| self.catalog.drop_private_collection(collection));
        if is_committed {
            return;
        }
        for collection in created.done {
            let _definitions = self.lock_definitions(|| vec![collection.clone()]);
            if let Err(error) = self.drop_found(&collection) {
                let namespace = collection.namespace();
                tracing::warn!(%namespace, %error, "a collection that a failed transaction has created cannot be dropped");
            }
        }
    }
}

/// What a transaction that is being committed has created.
#[derive(Default)]
pub(super) struct Published {
    /// Not everybody's yet.
    waiting: Vec<Arc<Collection>>,
    done: Vec<Arc<Collection>>,
    /// The commit of the last creation.
    pub(super) last: Option<CommitInfo>,
}

impl Published {
    /// Nothing of what the transaction has created yet.
    pub(super) fn of(transaction: &Transaction) -> Self {
        Self { waiting: std::mem::take(&mut transaction.owned.lock().created), ..Self::default() }
    }
}
