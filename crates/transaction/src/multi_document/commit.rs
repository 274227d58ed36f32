//! The commit of a transaction: its changes as one unit in the oplog, then in the trees, visible at once.
//!
//! For each record the change from what is stored to what the transaction has left is prepared as for a single write; the record is the
//! transaction's own, so what is stored has not changed since its snapshot. All go into one oplog entry; then they are applied with the commit's
//! timestamp, a chunk at a time under the checkpoint barrier, and become visible together. What is large goes another way (`large_commit`).
//!
//! Crashes: without the commit's entry nothing has happened. With it, replay applies all of it, however much was applied.

use std::collections::HashMap;
use std::sync::Arc;

use collection::{
    ChangeContext, Collection, DocumentChange, IndexState, LoggedEntry, RecordId, Telling, TransactionEncoder,
    UpdateStyle, Validation, WriteAccess,
};
use oplog::Oplog;
use storage_engine::{Batch, Timestamp};

use super::Transaction;
use crate::change::stored_document;
use crate::change_order::{Listed, RecordNote};
use crate::commit_order::{CommitInfo, Effect, tell_why_stopped};
use crate::error::{Result, TransactionError};
use crate::interleaving::Moment;
use crate::sessions::Session;
use crate::store::Store;
use crate::write_set::WrittenCollection;

/// Bytes of changes that are applied in one go.
const CHUNK_BYTES: usize = 64 << 10;

impl Store {
    /// `None`: there was nothing to be committed.
    pub(super) fn commit_writes(
        &self,
        transaction: &Transaction,
        session: &Arc<Session>,
        txn_number: i64,
    ) -> Result<Option<CommitInfo>> {
        if transaction.writes.is_empty() {
            return Ok(None);
        }
        // A commit goes on to its end, whoever wants the command to stop.
        let _unwatched = document::work::unwatched();
        self.pace();
        self.check_space_for_delete()?;
        let mut written = transaction.writes.collections();
        // Gates are taken in this order wherever several are.
        written.sort_by_key(|written| written.collection.ident());
        let is_large = transaction.writes.is_large(self.options.large_transaction_bytes);
        let _large =
            is_large.then(|| self.begin_large_commit(written.iter().map(|written| written.collection.ident())));
        let accesses =
            written.iter().map(|written| Ok(written.collection.begin_write()?)).collect::<Result<Vec<_>>>()?;
        for (written, access) in written.iter().zip(&accesses) {
            check_indexes(written, access)?;
        }
        let _may_write = self.may_write()?;
        self.check_commits()?;
        if is_large {
            return self.commit_large(transaction, &accesses, session, txn_number);
        }
        let (mut nets, mut batches, mut effects) = (HashMap::new(), Vec::new(), Vec::new());
        for access in &accesses {
            let tree = access.collection.record_tree();
            let effect = self.for_each_change(transaction, access, |change, record_id| {
                nets.insert((tree, record_id.0), change.oplog_entry().to_vec());
                put_into_chunks(&mut batches, change.batch());
                Ok(())
            });
            effects.push(effect?);
        }
        let mut entry = TransactionEncoder::new();
        let mut in_order = transaction.writes.in_order();
        while let Some(listed) = in_order.next()? {
            match listed {
                Listed::Step(operation) => entry.push(LoggedEntry::whole(&operation), Telling::Step),
                Listed::Record(tree, record_id) => {
                    let telling = telling_of(transaction.writes.note_in_memory(tree, record_id));
                    nets.get(&(tree, record_id.0))
                        .into_iter()
                        .for_each(|net: &Vec<u8>| entry.push(LoggedEntry::whole(net), telling));
                }
            }
        }
        if entry.is_empty() {
            return Ok(None);
        }
        // Reading what is stored may have found the disk failed.
        self.check_commits()?;
        let payload = entry.finish_commit(&[], Some((session.id(), txn_number)), self.clock.wall_millis());
        self.check_space_for_commit(payload.len())?;
        let mut in_flight = self.commits.prepare();
        let appended =
            self.oplog.append(&mut |_, bytes| bytes.extend_from_slice(payload), &mut |timestamp, position| {
                in_flight.register(timestamp, position);
            })?;
        self.options.interleaving.at(Moment::Logged { timestamp: appended.timestamp, entry: payload });
        self.apply_batches(&batches, appended.timestamp)?;
        self.sessions.record_commit(session, txn_number);
        in_flight.complete_all(appended.end, effects);
        Ok(Some(CommitInfo { timestamp: appended.timestamp, end: appended.end }))
    }

    fn apply_batches(&self, batches: &[Batch], timestamp: Timestamp) -> Result<()> {
        let applied = batches.iter().try_for_each(|batch| Ok(self.engine.apply(batch, timestamp)?));
        applied.inspect_err(tell_why_stopped)?;
        self.note_set_aside();
        Ok(())
    }

    /// Prepares every change in a collection. Returns what they do to its counts.
    pub(super) fn for_each_change(
        &self,
        transaction: &Transaction,
        access: &WriteAccess<'_>,
        mut visit: impl FnMut(&DocumentChange, RecordId) -> Result<()>,
    ) -> Result<Effect> {
        let mut effect = Effect::of(access.collection);
        let (tree, writes) = (access.collection.record_tree(), &transaction.writes);
        let (mut change, mut old) = (DocumentChange::default(), Vec::new());
        let mut changes = writes.changes(tree);
        while let Some((key, new)) = changes.next()? {
            let record_id = RecordId::from_record_key(&key)?;
            let style = writes.note_in_memory(tree, record_id).map_or(UpdateStyle::Fields, |note| note.style);
            if self.prepare_net(access, record_id, new.as_deref(), style, (&mut change, &mut old))? {
                self.note_multikey(access, &change)?;
                effect.count(&change);
                visit(&change, record_id)?;
            }
        }
        Ok(effect)
    }

    /// Prepares what the transaction has made of a record; `false`: nothing.
    pub(super) fn prepare_net(
        &self,
        access: &WriteAccess<'_>,
        record_id: RecordId,
        new: Option<&[u8]>,
        update_style: UpdateStyle,
        (change, old): (&mut DocumentChange, &mut Vec<u8>),
    ) -> Result<bool> {
        let is_stored = access.collection.read_latest(&self.engine, record_id, old)?;
        let old = if is_stored { Some(stored_document(old)?) } else { None };
        let new = new.map(stored_document).transpose()?;
        let context = ChangeContext { update_style, ..self.change_context(Validation::Bypass) };
        Ok(match (old, new) {
            (None, None) => false,
            (None, Some(new)) => change.prepare_insert(access, record_id, new, context).map(|()| true)?,
            (Some(old), Some(new)) => change.prepare_update(access, record_id, old, new, context)?,
            (Some(old), None) => change.prepare_delete(access, record_id, old, context.wall_millis).map(|()| true)?,
        })
    }

    /// Before a change is applied that makes an index multikey.
    pub(super) fn note_multikey(&self, access: &WriteAccess<'_>, change: &DocumentChange) -> Result<()> {
        if !change.newly_multikey().is_empty() {
            self.catalog.add_multikey(access.collection, change.newly_multikey())?;
        }
        Ok(())
    }
}

impl Effect {
    pub(super) fn of(collection: &Arc<Collection>) -> Effect {
        Effect { collection: collection.clone(), documents: 0, bytes: 0 }
    }

    pub(super) fn count(&mut self, change: &DocumentChange) {
        let (documents, bytes) = change.count_changes();
        self.documents += documents;
        self.bytes += bytes;
    }
}

/// What is told of what the commit does to a record: nothing, when its single steps are.
pub(super) fn telling_of(note: Option<RecordNote>) -> Telling {
    if note.is_some_and(|note| note.is_repeated) { Telling::Net } else { Telling::Whole }
}

/// The keys of a unique index that the transaction did not know, or that is being built, were not claimed.
fn check_indexes(written: &WrittenCollection, access: &WriteAccess<'_>) -> Result<()> {
    let has_changed = access.indexes.version() != written.indexes_version;
    let is_in_the_way = access.indexes.all().iter().any(|index| {
        let specification = index.specification();
        let is_unclaimed = has_changed || index.state() == IndexState::Building;
        is_unclaimed && specification.enforces_uniqueness() && !specification.is_id_index()
    });
    if is_in_the_way { Err(TransactionError::WriteConflict) } else { Ok(()) }
}

/// Documents are not divided: a record and its index entries are applied together.
fn put_into_chunks(batches: &mut Vec<Batch>, batch: &Batch) {
    match batches.last_mut() {
        Some(last) if last.memory_bytes() < CHUNK_BYTES => last.append(batch),
        _ => batches.push(batch.clone()),
    }
}
