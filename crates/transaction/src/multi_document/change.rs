//! Changes inside a transaction: decided on what it sees, checked against everybody else, kept in its write set.
//!
//! Called by `change` and `insert` when the writer has a transaction. Any error but those about one document's content leaves the transaction to be
//! aborted by its command.

use std::sync::Arc;

use bson::RawDocument;
use collection::{
    ChangeContext, Collection, DocumentChange, Index, IndexState, RecordId, UniqueClaim, UpdateStyle, Validation,
    WriteAccess, duplicate_key_error,
};
use oplog::OplogPosition;
use platform::LongWork;

use super::Transaction;
use crate::change::{ChangeOutcome, Decision, stored_document};
use crate::change_order::{RecordChange, RecordNote};
use crate::commit_order::CommitInfo;
use crate::error::{Result, TransactionError};
use crate::lock_table::Ownership;
use crate::store::Store;
use crate::write_context::WriteContext;

impl Store {
    /// `change_document` in a transaction.
    pub(crate) fn change_in_transaction<E: From<TransactionError>>(
        &self,
        transaction: &Transaction,
        context: &mut WriteContext,
        collection: &Arc<Collection>,
        record_id: RecordId,
        validation: Validation,
        decide: &mut impl FnMut(&RawDocument, &mut Vec<u8>) -> std::result::Result<Decision, E>,
    ) -> std::result::Result<ChangeOutcome, E> {
        let _gives_way = self.make_room(transaction)?;
        let access = collection.begin_write().map_err(TransactionError::from)?;
        refuse_capped(collection)?;
        if !transaction.read_view().get_record(collection, record_id, &mut context.old)? {
            return Ok(ChangeOutcome::Gone);
        }
        context.new.clear();
        match decide(stored_document(&context.old)?, &mut context.new)? {
            Decision::Keep => Ok(ChangeOutcome::Kept),
            decision => {
                Ok(self.write_in_transaction(transaction, context, &access, record_id, validation, decision)?)
            }
        }
    }

    fn write_in_transaction(
        &self,
        transaction: &Transaction,
        context: &mut WriteContext,
        access: &WriteAccess<'_>,
        record_id: RecordId,
        validation: Validation,
        decision: Decision,
    ) -> Result<ChangeOutcome> {
        let WriteContext { change, old, new, .. } = &mut *context;
        let old = stored_document(old)?;
        let is_deleted = decision == Decision::Delete;
        let style = if decision == Decision::ReplaceWhole { UpdateStyle::Whole } else { UpdateStyle::Fields };
        if is_deleted {
            access.collection.settle_record_ids(&self.engine)?;
            change.prepare_delete(access, record_id, old, self.clock.wall_millis())?;
        } else if !change.prepare_update(
            access,
            record_id,
            old,
            stored_document(new)?,
            ChangeContext { update_style: style, ..self.change_context(validation) },
        )? {
            return Ok(ChangeOutcome::Unchanged);
        }
        self.own_record(transaction, access.collection, record_id)?;
        let note = transaction.writes.note(access.collection.record_tree(), record_id)?;
        self.keep(transaction, context, access, (record_id, style, note))?;
        let commit = in_transaction(transaction);
        Ok(if is_deleted { ChangeOutcome::Deleted(commit) } else { ChangeOutcome::Replaced(commit) })
    }

    /// `insert_document` in a transaction.
    pub(crate) fn insert_in_transaction(
        &self,
        transaction: &Transaction,
        context: &mut WriteContext,
        collection: &Arc<Collection>,
        document: &RawDocument,
        validation: Validation,
    ) -> Result<CommitInfo> {
        let _gives_way = self.make_room(transaction)?;
        let access = collection.begin_write()?;
        refuse_capped(collection)?;
        let record_id = collection.allocate_record_id(&self.engine)?;
        context.change.prepare_insert(&access, record_id, document, self.change_context(validation))?;
        self.keep(transaction, context, &access, (record_id, UpdateStyle::Fields, None))?;
        Ok(in_transaction(transaction))
    }

    /// Spills changes when there are many in memory. What a large transaction does then is long work: others go first until the scope ends, as long as
    /// they do not wait for what it owns. Nothing is locked yet: making trees takes the definition lock.
    fn make_room(&self, transaction: &Transaction) -> Result<Option<LongWork>> {
        let wants_spill = transaction.writes.wants_spill();
        if !wants_spill && !transaction.writes.is_large(self.options.large_transaction_bytes) {
            return Ok(None);
        }
        let gives_way = LongWork::begin(&self.foreground);
        let mut budget = transaction.budget.lock();
        self.give_way(&mut budget);
        if !wants_spill {
            return Ok(Some(gives_way));
        }
        self.check_space()?;
        let mut prepared = Vec::new();
        for tree in transaction.writes.trees_to_prepare() {
            let _definitions = self.definition_lock.lock();
            prepared.push((tree, self.catalog.create_private_tree()?));
        }
        let order_tree = match transaction.writes.needs_order_tree() {
            true => {
                let _definitions = self.definition_lock.lock();
                Some(self.catalog.create_private_tree()?)
            }
            false => None,
        };
        transaction.writes.spill(prepared, order_tree, &mut || {
            self.pace();
            self.give_way(&mut budget);
        })?;
        Ok(Some(gives_way))
    }

    /// The first who writes a record wins, and nobody may have written it since the snapshot.
    fn own_record(&self, transaction: &Transaction, collection: &Collection, record_id: RecordId) -> Result<()> {
        if transaction.own_record((collection.ident(), record_id.0 as u64))? == Ownership::Had {
            return Ok(());
        }
        let latest = self.engine.latest_timestamp(collection.record_tree(), &record_id.record_key())?;
        // One that was given up may have been in the way of telling when the record was last written.
        transaction.snapshot.check()?;
        if transaction.snapshot.sees(latest) { Ok(()) } else { Err(TransactionError::WriteConflict) }
    }

    /// Claims the unique keys of the prepared change and takes it into the write set.
    fn keep(
        &self,
        transaction: &Transaction,
        context: &mut WriteContext,
        access: &WriteAccess<'_>,
        (record_id, style, note): (RecordId, UpdateStyle, Option<RecordNote>),
    ) -> Result<()> {
        self.check_space()?;
        let change = &context.change;
        for claim in change.claims() {
            transaction.own_unique((0, claim.hash))?;
            self.check_claim(transaction, access, record_id, &claim)?;
        }
        if !change.newly_multikey().is_empty() {
            // Early, so that the transaction's own queries know of it.
            self.catalog.add_multikey(access.collection, change.newly_multikey())?;
        }
        let first = match note {
            Some(note) if !note.is_repeated => self.net_operation(transaction, access, record_id, note.style)?,
            _ => None,
        };
        // Wanted only when the record was changed before.
        let operation = if note.is_some() { change.oplog_entry().to_vec() } else { Vec::new() };
        let taken = RecordChange { record_id, style, note, first, operation };
        transaction.writes.absorb(access, taken, change.batch())
    }

    /// The operation that tells what the transaction has done to a record until now.
    fn net_operation(
        &self,
        transaction: &Transaction,
        access: &WriteAccess<'_>,
        record_id: RecordId,
        style: UpdateStyle,
    ) -> Result<Option<Vec<u8>>> {
        let mut new = Vec::new();
        let key = record_id.record_key();
        let Some(exists) = transaction.writes.read(access.collection.record_tree(), &key, &mut new)? else {
            return Ok(None);
        };
        let (mut change, mut old) = (DocumentChange::default(), Vec::new());
        let new = exists.then_some(new.as_slice());
        let is_changed = self.prepare_net(access, record_id, new, style, (&mut change, &mut old))?;
        Ok(is_changed.then(|| change.oplog_entry().to_vec()))
    }

    /// A key that the transaction sees is a duplicate; one that only others see, or that only it still sees, is a conflict.
    fn check_claim(
        &self,
        transaction: &Transaction,
        access: &WriteAccess<'_>,
        record_id: RecordId,
        claim: &UniqueClaim<'_>,
    ) -> Result<()> {
        let Some(index) = access.indexes.all().get(claim.index) else { return Ok(()) };
        let is_seen = self.sees_key(transaction, access.collection, index, claim.key, record_id)?;
        let is_latest = self.is_taken_by_others(transaction, index, claim.key, record_id)?;
        match (is_seen, is_latest) {
            (false, false) => Ok(()),
            (true, true) if index.state() == IndexState::Ready => {
                let namespace = access.definition.namespace.as_str();
                Err(duplicate_key_error(namespace, index, claim.key, claim.value).into())
            }
            _ => Err(TransactionError::WriteConflict),
        }
    }

    fn sees_key(
        &self,
        transaction: &Transaction,
        collection: &Arc<Collection>,
        index: &Arc<Index>,
        key: &[u8],
        own: RecordId,
    ) -> Result<bool> {
        let mut cursor = transaction.read_view().index_cursor(collection, index);
        cursor.seek(key)?;
        while cursor.next()? && cursor.key() == key {
            if cursor.record_id() != own {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Whether another record has the key by what is applied and by what the transaction has written.
    fn is_taken_by_others(&self, transaction: &Transaction, index: &Index, key: &[u8], own: RecordId) -> Result<bool> {
        let mut lower = key.to_vec();
        let mut found = Vec::new();
        loop {
            if !self.engine.first_key_latest(index.tree(), &lower, &mut found)? || !found.starts_with(key) {
                break;
            }
            let (found_key, record_id) = RecordId::split(&found)?;
            let is_removed = transaction.writes.get(index.tree(), &found, |written| written.is_none())? == Some(true);
            if found_key == key && record_id != own && !is_removed {
                return Ok(true);
            }
            lower.clear();
            lower.extend_from_slice(&found);
            lower.push(0);
        }
        // What it has inserted itself.
        let mut from = crate::write_set::From::At(key);
        let mut last;
        while let Some((entry_key, written)) = transaction.writes.next(index.tree(), from)? {
            if !entry_key.starts_with(key) {
                break;
            }
            let (found_key, record_id) = RecordId::split(&entry_key)?;
            if found_key == key && record_id != own && written.is_some() {
                return Ok(true);
            }
            last = entry_key.clone();
            from = crate::write_set::From::Beyond(&last);
        }
        Ok(false)
    }
}

/// What a capped collection overtakes could not be given back.
fn refuse_capped(collection: &Collection) -> Result<()> {
    if collection.ring().is_none() {
        return Ok(());
    }
    let message = format!(
        "Collection '{}' is a capped collection. Writes in transactions are not allowed on capped collections.",
        collection.namespace()
    );
    Err(TransactionError::NotInTransaction(message))
}

/// In place of a commit that has not happened yet: nothing is to be waited for.
fn in_transaction(transaction: &Transaction) -> CommitInfo {
    CommitInfo { timestamp: transaction.snapshot.timestamp(), end: OplogPosition(0) }
}
