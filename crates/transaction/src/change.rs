//! Changing one document that exists: update, replace, delete.
//!
//! Called by the executor's update and delete stages, findAndModify and the TTL pass. The caller found the record in a snapshot; here its
//! newest version is read under the record's lock, and the caller decides again what is to be done with it.

use std::sync::Arc;

use bson::RawDocument;
use collection::{Collection, CollectionError, DocumentChange, RecordId, Validation, WriteAccess};
use storage_engine::RingWriter;

use crate::commit_order::CommitInfo;
use crate::error::{Result, TransactionError};
use crate::store::Store;
use crate::unique::{check_claims, lock_claims};
use crate::write_context::WriteContext;

/// What the caller wants done with a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Nothing: it does not match any more.
    Keep,
    /// It is replaced by what the caller wrote into the buffer.
    Replace,
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

impl Store {
    /// Changes the newest version of a record as `decide` says, which gets the document and an empty buffer for the new
    /// one (in stored form). What was done is visible once acknowledged. `decide` is called at most once, under the record's lock:
    /// it must be quick and must not use the store.
    ///
    /// # Errors
    /// Those of `decide`; `Collection` with `DuplicateKey`, `CollectionDropped`, `ValidationFailed` and the others of
    /// `DocumentChange::prepare_update`; `Oplog`, `Engine`, `Stopped`, `OutOfSpace`. Nothing was changed then.
    pub fn change_document<E: From<TransactionError>>(
        &self,
        context: &mut WriteContext,
        collection: &Arc<Collection>,
        record_id: RecordId,
        validation: Validation,
        decide: impl FnOnce(&RawDocument, &mut Vec<u8>) -> std::result::Result<Decision, E>,
    ) -> std::result::Result<ChangeOutcome, E> {
        self.pace();
        let access = collection.begin_write().map_err(TransactionError::from)?;
        let ring = collection.ring().map(|ring| ring.lock());
        let _record_lock = self.record_locks.lock((collection.ident(), record_id.0 as u64));
        let found = collection.read_latest(&self.engine, record_id, &mut context.old);
        if !found.map_err(TransactionError::from)? {
            return Ok(ChangeOutcome::Gone);
        }
        context.new.clear();
        match decide(stored_document(&context.old)?, &mut context.new)? {
            Decision::Keep => Ok(ChangeOutcome::Kept),
            Decision::Delete => Ok(self.delete(context, &access, ring.as_ref(), record_id)?),
            Decision::Replace => Ok(self.replace(context, &access, ring.as_ref(), record_id, validation)?),
        }
    }

    fn replace(
        &self,
        context: &mut WriteContext,
        access: &WriteAccess<'_>,
        ring: Option<&RingWriter<'_>>,
        record_id: RecordId,
        validation: Validation,
    ) -> Result<ChangeOutcome> {
        self.check_space()?;
        let WriteContext { change, old, new, unique } = context;
        let (old, new) = (stored_document(old)?, stored_document(new)?);
        if !change.prepare_update(access, record_id, old, new, self.change_context(validation))? {
            return Ok(ChangeOutcome::Unchanged);
        }
        let _claimed = lock_claims(&self.unique_locks, change.claims(), unique);
        let namespace = access.definition.namespace.as_str();
        check_claims(&self.engine, namespace, &access.indexes, record_id, change.claims(), unique)?;
        Ok(ChangeOutcome::Replaced(self.commit_change(access, ring, record_id, change)?))
    }

    fn delete(
        &self,
        context: &mut WriteContext,
        access: &WriteAccess<'_>,
        ring: Option<&RingWriter<'_>>,
        record_id: RecordId,
    ) -> Result<ChangeOutcome> {
        self.check_space_for_delete()?;
        let WriteContext { change, old, .. } = context;
        change.prepare_delete(access, record_id, stored_document(old)?, self.clock.wall_millis())?;
        Ok(ChangeOutcome::Deleted(self.commit_change(access, ring, record_id, change)?))
    }

    fn commit_change(
        &self,
        access: &WriteAccess<'_>,
        ring: Option<&RingWriter<'_>>,
        record_id: RecordId,
        change: &mut DocumentChange,
    ) -> Result<CommitInfo> {
        let Some(writer) = ring else { return self.commit(access, change) };
        change.override_in_ring(access, &self.engine, record_id)?;
        self.commit_to_ring(access, writer, change, &[])
    }
}

fn stored_document(bytes: &[u8]) -> Result<&RawDocument> {
    RawDocument::from_bytes(bytes).map_err(|error| CollectionError::Damaged(format!("record: {error}")).into())
}
