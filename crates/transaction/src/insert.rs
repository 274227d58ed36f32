//! Inserting documents.
//!
//! Called by the executor's insert and upsert. A new record needs no record lock: nobody can address it before it is
//! visible.

use std::sync::Arc;

use bson::RawDocument;
use collection::{Collection, Validation};
use platform::command_memory::{Patience, before_allocating};
use storage_engine::{EngineError, Ring};

use crate::commit_order::CommitInfo;
use crate::error::{Result, TransactionError};
use crate::lock_table::{LockName, OwnedByTransaction};
use crate::multi_document::is_large;
use crate::store::Store;
use crate::unique::{check_claims, lock_claims};
use crate::waiting::OwnedName;
use crate::write_context::WriteContext;

/// What happens after a document that could not be inserted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InsertOrder {
    /// The rest is not tried.
    Ordered,
    /// The rest is tried.
    Unordered,
}

/// What became of several documents.
#[derive(Debug, Default)]
pub struct InsertOutcome {
    /// How many were inserted.
    pub inserted: usize,
    /// Which were not (by position), and why.
    pub errors: Vec<(usize, TransactionError)>,
    /// The last commit; `None` when nothing was inserted.
    pub commit: Option<CommitInfo>,
}

impl InsertOutcome {
    /// Adds what became of more documents, the first of which is at position `first`; whether the rest is not to be tried.
    pub fn add(&mut self, more: InsertOutcome, first: usize, order: InsertOrder) -> bool {
        let ends_all =
            more.errors.iter().any(|(_, error)| order == InsertOrder::Ordered || !error.concerns_one_document());
        self.inserted += more.inserted;
        self.errors.extend(more.errors.into_iter().map(|(position, error)| (first + position, error)));
        self.commit = more.commit.or(self.commit.take());
        ends_all
    }
}

/// How far a try to insert a document has come.
enum Attempt {
    Done(CommitInfo),
    /// A transaction owns one of the unique keys.
    Owned(LockName),
    /// It must be announced first.
    IsLarge,
}

impl Store {
    /// Inserts documents one by one: each is a commit of its own. They must be in stored form (`document::prepare_for_storage`:
    /// `_id` first).
    pub fn insert_documents(
        &self,
        context: &mut WriteContext,
        collection: &Arc<Collection>,
        documents: &[&RawDocument],
        order: InsertOrder,
        validation: Validation,
    ) -> InsertOutcome {
        let mut outcome = InsertOutcome::default();
        for (position, document) in documents.iter().enumerate() {
            context.begin_document(position);
            match self.insert_document(context, collection, document, validation) {
                Ok(commit) => {
                    outcome.inserted += 1;
                    outcome.commit = Some(commit);
                }
                Err(error) => {
                    let ends_all = order == InsertOrder::Ordered || !error.concerns_one_document();
                    outcome.errors.push((position, error));
                    if ends_all {
                        break;
                    }
                }
            }
        }
        outcome
    }

    /// Inserts one document in stored form. It is visible once acknowledged.
    ///
    /// # Errors
    /// `Collection` with `DuplicateKey`, `CollectionDropped`, `ValidationFailed` and the others of `DocumentChange::prepare_insert`;
    /// `Oplog`, `Engine`, `Stopped`, `OutOfSpace`; `Interrupted`, `WriteConflict`. The `CommitInfo` of an insert in a transaction says nothing.
    pub fn insert_document(
        &self,
        context: &mut WriteContext,
        collection: &Arc<Collection>,
        document: &RawDocument,
        validation: Validation,
    ) -> Result<CommitInfo> {
        self.check_space_for(document.as_bytes().len())?;
        check_memory_for(document)?;
        self.pace();
        if let Some(transaction) = context.transaction.clone() {
            return self.insert_in_transaction(&transaction, context, collection, document, validation);
        }
        if let Some(ring) = collection.ring() {
            return self.insert_into_ring(context, collection, ring, document, validation);
        }
        let mut announced = None;
        loop {
            match self.try_insert(context, collection, document, validation, announced.is_some())? {
                Attempt::Done(commit) => return Ok(commit),
                Attempt::Owned(name) => self.wait_for_transaction(context, OwnedName::Unique(name))?,
                Attempt::IsLarge => announced = Some(self.announce_large_change(collection)),
            }
        }
    }

    fn try_insert(
        &self,
        context: &mut WriteContext,
        collection: &Arc<Collection>,
        document: &RawDocument,
        validation: Validation,
        is_announced: bool,
    ) -> Result<Attempt> {
        let access = collection.begin_write()?;
        let record_id = collection.allocate_record_id(&self.engine)?;
        let WriteContext { change, unique, statement, .. } = context;
        change.prepare_insert(&access, record_id, document, self.change_context(validation))?;
        if is_large(change) && !is_announced {
            return Ok(Attempt::IsLarge);
        }
        let _claimed = match lock_claims(&self.unique_locks, change.claims(), unique) {
            Ok(locks) => locks,
            Err(OwnedByTransaction(name)) => return Ok(Attempt::Owned(name)),
        };
        let namespace = access.definition.namespace.as_str();
        check_claims(&self.engine, namespace, &access.indexes, record_id, change.claims(), unique)?;
        Ok(Attempt::Done(self.commit(&access, change, statement.as_ref())?))
    }

    /// Inserts are one after the other, so that the order of places is the order of commits.
    fn insert_into_ring(
        &self,
        context: &mut WriteContext,
        collection: &Arc<Collection>,
        ring: &Arc<Ring>,
        document: &RawDocument,
        validation: Validation,
    ) -> Result<CommitInfo> {
        self.wait_for_ring_room(&context.waiting)?;
        let access = collection.begin_write()?;
        let mut writer = ring.lock();
        let WriteContext { change, unique, statement, .. } = context;
        let change_context = self.change_context(validation);
        let prepared = change.prepare_ring_insert(&access, &self.engine, &mut writer, document, change_context);
        let record_id = prepared.inspect_err(|error| self.tell_stuck_ring(collection, error))?;
        // No transaction writes into a capped collection; one that owns the same hash of a key elsewhere is a matter of chance.
        let claimed = lock_claims(&self.unique_locks, change.claims(), unique);
        let _claimed = claimed.map_err(|_| TransactionError::WriteConflict)?;
        let namespace = access.definition.namespace.as_str();
        check_claims(&self.engine, namespace, &access.indexes, record_id, change.claims(), unique)?;
        self.commit_to_ring(&access, &writer, change, document.as_bytes(), statement.as_ref())
    }
}

/// A document of this size is written only if there is memory for what that takes.
const LARGE_BYTES: usize = 64 << 10;

/// It is in the batch and in the oplog's entry until it is stored.
pub(crate) fn check_memory_for(document: &RawDocument) -> Result<()> {
    let bytes = document.as_bytes().len();
    if bytes <= LARGE_BYTES {
        return Ok(());
    }
    before_allocating(2 * bytes, Patience::Waits).map_err(|error| EngineError::NoMemory(error).into())
}

impl TransactionError {
    /// Whether the error is about one document, so that others may succeed.
    pub fn concerns_one_document(&self) -> bool {
        use collection::CollectionError::*;
        matches!(
            self,
            TransactionError::Collection(
                DuplicateKey(_)
                    | ValidationFailed { .. }
                    | DocumentTooLarge { .. }
                    | KeyTooLong { .. }
                    | IndexKey(_)
                    | Query(_)
                    | ImmutableField(_)
                    | InvalidIdField(_)
                    | InvalidBson(_)
                    | BadValue(_)
                    | TooManyIndexEntries
            )
        )
    }
}
