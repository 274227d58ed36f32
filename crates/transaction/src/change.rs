//! Changing one document that exists: update, replace, delete.
//!
//! Called by the executor's update and delete stages, findAndModify and the TTL pass. The caller found the record in a snapshot; here its
//! newest version is read under the record's lock, and the caller decides again what is to be done with it.

use std::sync::Arc;

use bson::RawDocument;
use collection::{
    ChangeContext, Collection, CollectionError, DocumentChange, RecordId, UpdateStyle, Validation, WriteAccess,
};
use storage_engine::RingWriter;

use crate::commit_order::CommitInfo;
use crate::error::{Result, TransactionError};
use crate::lock_table::OwnedByTransaction;
use crate::multi_document::is_large;
use crate::store::Store;
use crate::unique::{check_claims, lock_claims};
use crate::waiting::OwnedName;
use crate::write_context::{Statement, WriteContext};

/// What the caller wants done with a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Nothing: it does not match any more.
    Keep,
    /// Fields of it change: it becomes what the caller wrote into the buffer.
    Replace,
    /// The same, and followers of the oplog are told that it was replaced as a whole.
    ReplaceWhole,
    /// It is deleted.
    Delete,
}

/// What became of a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangeOutcome {
    /// The record is not there any more; the caller was not asked.
    Gone,
    /// As the caller decided.
    Kept,
    /// The new document is the same as the old: nothing was logged.
    Unchanged,
    /// It was replaced.
    Replaced(CommitInfo),
    /// It was deleted.
    Deleted(CommitInfo),
}

impl ChangeOutcome {
    /// The commit, if there was one.
    pub fn commit(&self) -> Option<CommitInfo> {
        match self {
            ChangeOutcome::Replaced(commit) | ChangeOutcome::Deleted(commit) => Some(*commit),
            ChangeOutcome::Gone | ChangeOutcome::Kept | ChangeOutcome::Unchanged => None,
        }
    }
}

/// How far a try to change a document has come.
enum Attempt {
    Done(ChangeOutcome),
    /// A transaction owns what it needs.
    Owned(OwnedName),
    /// It must be announced first.
    IsLarge,
}

impl Store {
    /// Changes the newest version of a record as `decide` says, which gets the document and an empty buffer for the new
    /// one (in stored form). What was done is visible once acknowledged. `decide` is called under the record's lock:
    /// it must be quick and must not use the store. It is called again when a transaction was in the way.
    ///
    /// # Errors
    /// Those of `decide`; `Collection` with `DuplicateKey`, `CollectionDropped`, `ValidationFailed` and the others of
    /// `DocumentChange::prepare_update`; `Oplog`, `Engine`, `Stopped`, `OutOfSpace`; `Interrupted`, `WriteConflict`. Nothing was changed then.
    pub fn change_document<E: From<TransactionError>>(
        &self,
        context: &mut WriteContext,
        collection: &Arc<Collection>,
        record_id: RecordId,
        validation: Validation,
        mut decide: impl FnMut(&RawDocument, &mut Vec<u8>) -> std::result::Result<Decision, E>,
    ) -> std::result::Result<ChangeOutcome, E> {
        self.pace();
        if let Some(transaction) = context.transaction.clone() {
            return self.change_in_transaction(&transaction, context, collection, record_id, validation, &mut decide);
        }
        let mut announced = None;
        loop {
            let is_announced = announced.is_some();
            match self.try_change(context, collection, record_id, (validation, is_announced), &mut decide)? {
                Attempt::Done(outcome) => return Ok(outcome),
                Attempt::Owned(owned) => self.wait_for_transaction(context, owned)?,
                Attempt::IsLarge => announced = Some(self.announce_large_change(collection)),
            }
        }
    }

    fn try_change<E: From<TransactionError>>(
        &self,
        context: &mut WriteContext,
        collection: &Arc<Collection>,
        record_id: RecordId,
        (validation, is_announced): (Validation, bool),
        decide: &mut impl FnMut(&RawDocument, &mut Vec<u8>) -> std::result::Result<Decision, E>,
    ) -> std::result::Result<Attempt, E> {
        let access = collection.begin_write().map_err(TransactionError::from)?;
        let ring = collection.ring().map(|ring| ring.lock());
        let _record_lock = match self.record_locks.lock((collection.ident(), record_id.0 as u64)) {
            Ok(lock) => lock,
            Err(OwnedByTransaction(name)) => return Ok(Attempt::Owned(OwnedName::Record(name))),
        };
        let found = collection.read_latest(&self.engine, record_id, &mut context.old);
        if !found.map_err(TransactionError::from)? {
            return Ok(Attempt::Done(ChangeOutcome::Gone));
        }
        context.new.clear();
        match decide(stored_document(&context.old)?, &mut context.new)? {
            Decision::Keep => Ok(Attempt::Done(ChangeOutcome::Kept)),
            Decision::Delete => Ok(self.delete(context, &access, ring.as_ref(), record_id, is_announced)?),
            Decision::Replace => {
                let style = (validation, UpdateStyle::Fields, is_announced);
                Ok(self.replace(context, &access, ring.as_ref(), record_id, style)?)
            }
            Decision::ReplaceWhole => {
                let style = (validation, UpdateStyle::Whole, is_announced);
                Ok(self.replace(context, &access, ring.as_ref(), record_id, style)?)
            }
        }
    }

    fn replace(
        &self,
        context: &mut WriteContext,
        access: &WriteAccess<'_>,
        ring: Option<&RingWriter<'_>>,
        record_id: RecordId,
        (validation, update_style, is_announced): (Validation, UpdateStyle, bool),
    ) -> Result<Attempt> {
        let WriteContext { change, old, new, unique, statement, .. } = context;
        self.check_space_for(new.len())?;
        let (old, new) = (stored_document(old)?, stored_document(new)?);
        let change_context = ChangeContext { update_style, ..self.change_context(validation) };
        if !change.prepare_update(access, record_id, old, new, change_context)? {
            return Ok(Attempt::Done(ChangeOutcome::Unchanged));
        }
        if is_large(change) && ring.is_none() && !is_announced {
            return Ok(Attempt::IsLarge);
        }
        let _claimed = match lock_claims(&self.unique_locks, change.claims(), unique) {
            Ok(locks) => locks,
            Err(OwnedByTransaction(name)) => return Ok(Attempt::Owned(OwnedName::Unique(name))),
        };
        let namespace = access.definition.namespace.as_str();
        check_claims(&self.engine, namespace, &access.indexes, record_id, change.claims(), unique)?;
        let commit = self.commit_change(access, ring, record_id, change, statement.as_ref())?;
        Ok(Attempt::Done(ChangeOutcome::Replaced(commit)))
    }

    fn delete(
        &self,
        context: &mut WriteContext,
        access: &WriteAccess<'_>,
        ring: Option<&RingWriter<'_>>,
        record_id: RecordId,
        is_announced: bool,
    ) -> Result<Attempt> {
        self.check_space_for_delete()?;
        access.collection.settle_record_ids(&self.engine)?;
        let WriteContext { change, old, statement, .. } = context;
        change.prepare_delete(access, record_id, stored_document(old)?, self.clock.wall_millis())?;
        if is_large(change) && ring.is_none() && !is_announced {
            return Ok(Attempt::IsLarge);
        }
        let commit = self.commit_change(access, ring, record_id, change, statement.as_ref())?;
        Ok(Attempt::Done(ChangeOutcome::Deleted(commit)))
    }

    fn commit_change(
        &self,
        access: &WriteAccess<'_>,
        ring: Option<&RingWriter<'_>>,
        record_id: RecordId,
        change: &mut DocumentChange,
        statement: Option<&Statement>,
    ) -> Result<CommitInfo> {
        let Some(writer) = ring else { return self.commit(access, change, statement) };
        change.override_in_ring(access, &self.engine, record_id)?;
        self.commit_to_ring(access, writer, change, &[], statement)
    }
}

pub(crate) fn stored_document(bytes: &[u8]) -> Result<&RawDocument> {
    RawDocument::from_bytes(bytes).map_err(|error| CollectionError::Damaged(format!("record: {error}")).into())
}
