//! Replay of the oplog at start: from the checkpoint's mark to the end.
//!
//! Called by `transaction` when it opens a store. Every entry may already be contained in the checkpoint, or be followed by
//! later entries that are: the index entries in it are never older than the records, so the index changes are derived from
//! what is stored and what the entry makes of it, and whatever an early entry brings back a later one takes away again.
//! What makes this right is in the head of `oplog_entry` and in decision 0007.
//!
//! Counts are the exception: they are logged changes added to the counts as of the mark, whatever is stored.
//!
//! Entries of one record are applied in order by one worker; definition changes wait until every worker is done with
//! what came before.

mod apply;
mod progress;
mod ring;
mod workers;

use std::sync::Arc;

use bson::Uuid;
use oplog::{Oplog, OplogError, OplogPosition};
use platform::Timestamp;
use storage_engine::Engine;

use crate::catalog::{Catalog, CatalogChange};
use crate::collection::Collection;
use crate::error::{CollectionError, Result};
use crate::index::IndexState;
use crate::index_fill::build_alone;
use crate::index_specification::IndexSpecification;
use crate::oplog_entry::{
    DocumentEntry, DocumentOperation, Entry, TransactionCommit, TransactionEntry, TransactionStep,
};
pub(crate) use apply::EntryApplier;
use progress::Progress;
use workers::Workers;

/// What a replay did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReplaySummary {
    /// Entries read.
    pub entries: u64,
    /// Bytes of their payloads.
    pub bytes: u64,
    /// Timestamp of the last one; 0 when there was none.
    pub last_timestamp: Timestamp,
    /// Transactions that were decided and are applied now, and whose commits are still to be logged.
    pub decided: Vec<TransactionCommit>,
    /// Indexes that could not be built again and are gone.
    pub lost_indexes: Vec<LostIndex>,
}

/// An index that could not be built again because the collection is damaged. It can be made from what can be read; the documents are untouched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LostIndex {
    /// `database.collection`.
    pub namespace: String,
    /// Its name.
    pub index: String,
    /// What is damaged.
    pub reason: String,
}

/// A statement that can be retried, as its entry tells of it.
#[derive(Clone, Copy, Debug)]
pub struct LoggedStatement {
    /// The logical session.
    pub session: Uuid,
    /// The number of the retryable write in the session.
    pub txn_number: i64,
    /// The number of the statement in it.
    pub statement: i32,
    /// By how many documents the collection grew: 1 for an insert, 0 for an update, -1 for a delete.
    pub count_change: i64,
    /// Where the entry is, if a retry's reply needs it.
    pub details: Option<OplogPosition>,
}

impl LoggedStatement {
    fn of(entry: &DocumentEntry<'_>, position: OplogPosition) -> Option<LoggedStatement> {
        let origin = entry.origin?;
        Some(LoggedStatement {
            session: origin.session,
            txn_number: origin.txn_number,
            statement: origin.statement,
            count_change: DocumentOperation::count_change(&entry.operation),
            details: origin.has_details.then_some(position),
        })
    }
}

/// Who is told what sessions have written, in the order of the oplog.
pub trait SessionReplay {
    /// A statement that can be retried was executed.
    fn statement(&mut self, statement: LoggedStatement);
    /// A transaction of several documents was committed.
    fn commit(&mut self, session: Uuid, txn_number: i64);
}

/// Replays all entries from `from` on.
///
/// # Errors
/// `Oplog`, `Engine`, `Damaged`.
pub fn replay(
    catalog: &Arc<Catalog>,
    engine: &Arc<Engine>,
    oplog: &dyn Oplog,
    from: OplogPosition,
    threads: usize,
    sessions: &mut dyn SessionReplay,
) -> Result<ReplaySummary> {
    let mut summary = ReplaySummary::default();
    let mut reader = oplog.read_from(from)?;
    let mut progress = Progress::new(from, oplog.end_position());
    let mut workers = Workers::start(catalog, engine, threads)?;
    while let Some(entry) = reader.next_entry().map_err(|error| damaged_start(error, from))? {
        summary.entries += 1;
        summary.bytes += entry.payload.len() as u64;
        summary.last_timestamp = entry.timestamp;
        progress.at(entry.position);
        match Entry::decode(entry.payload)? {
            Entry::Document(change) => {
                LoggedStatement::of(&change, entry.position).into_iter().for_each(|logged| sessions.statement(logged));
                workers.dispatch(&change, entry.timestamp, entry.payload)?;
            }
            Entry::Transaction(transaction) => match &transaction.step {
                TransactionStep::Part => {}
                TransactionStep::Decision(decision) => summary.decided.push(decision.clone()),
                TransactionStep::Commit(commit) => {
                    summary.decided.retain(|decided| decided.parts != commit.parts);
                    replay_parts(oplog, &commit.parts, entry.timestamp, &mut workers, &mut progress)?;
                    dispatch_operations(&transaction, entry.timestamp, &mut workers)?;
                    sessions.commit(commit.session, commit.txn_number);
                }
            },
            Entry::Command { database, uuid, command, second } => {
                workers.finish_dispatched()?;
                let change = CatalogChange::decode(database, uuid, command, second)?;
                summary.lost_indexes.extend(apply_change(catalog, engine, change)?);
            }
            Entry::Nothing => {}
        }
    }
    // What they changed was theirs alone until they were committed, so nothing since the decision is in their way.
    for decided in &summary.decided {
        replay_parts(oplog, &decided.parts, summary.last_timestamp, &mut workers, &mut progress)?;
        sessions.commit(decided.session, decided.txn_number);
    }
    for uuid in workers.stop()? {
        if let Some(collection) = catalog.lookup_uuid(uuid) {
            ring::sweep(engine, &collection)?;
        }
    }
    catalog.rebuild_names();
    Ok(summary)
}

/// Has the documents of a transaction's entry applied.
fn dispatch_operations(transaction: &TransactionEntry<'_>, timestamp: Timestamp, workers: &mut Workers) -> Result<()> {
    for payload in transaction.operations() {
        match Entry::decode(payload)? {
            Entry::Document(change) => workers.dispatch(&change, timestamp, payload)?,
            _ => return Err(CollectionError::Damaged("a transaction with something else than documents".to_owned())),
        }
    }
    Ok(())
}

/// Has the parts of a transaction applied.
fn replay_parts(
    oplog: &dyn Oplog,
    parts: &[OplogPosition],
    timestamp: Timestamp,
    workers: &mut Workers,
    progress: &mut Progress,
) -> Result<()> {
    for part in parts {
        progress.read_part(replay_part(oplog, *part, timestamp, workers)?);
    }
    Ok(())
}

/// Has a part of a transaction applied, which is somewhere before its commit, and maybe before where replay began. Gives its bytes.
fn replay_part(
    oplog: &dyn Oplog,
    position: OplogPosition,
    timestamp: Timestamp,
    workers: &mut Workers,
) -> Result<usize> {
    let mut reader = oplog.read_from(position).map_err(|error| damaged_start(error, position))?;
    let missing = || CollectionError::Damaged(format!("the part of a transaction at {position} is not there"));
    let entry = reader.next_entry().map_err(|error| damaged_start(error, position))?.ok_or_else(missing)?;
    match Entry::decode(entry.payload)? {
        Entry::Transaction(part) if part.step == TransactionStep::Part => {
            dispatch_operations(&part, timestamp, workers)?;
            Ok(entry.payload.len())
        }
        _ => Err(missing()),
    }
}

/// The position of a checkpoint, or of a part of a transaction, is the start of an entry: when there is none, it is damaged.
fn damaged_start(error: OplogError, from: OplogPosition) -> CollectionError {
    match error {
        OplogError::InvalidPosition { position, .. } if position == from => CollectionError::Damaged(format!(
            "the oplog entry at {from}, from where it has to be replayed, cannot be read"
        )),
        error => error.into(),
    }
}

/// Gives the index that is lost with it, if one is.
fn apply_change(catalog: &Catalog, engine: &Arc<Engine>, change: CatalogChange) -> Result<Option<LostIndex>> {
    let (CatalogChange::StartIndexBuild(build)
    | CatalogChange::CommitIndexBuild(build)
    | CatalogChange::AbortIndexBuild(build)) = &change
    else {
        return catalog.apply(&change).map(|()| None);
    };
    let Some(collection) = catalog.lookup_uuid(build.uuid) else { return Ok(None) };
    let found = collection.indexes().find(&build.specification.name).cloned();
    let specification = build.specification.clone();
    match (change, found) {
        (CatalogChange::StartIndexBuild(_), None) => {
            catalog.add_building_index(&collection, specification)?;
        }
        (CatalogChange::AbortIndexBuild(_), Some(index)) if index.state() == IndexState::Building => {
            catalog.remove_index(&collection, &index)?;
        }
        // It was complete: what of it the checkpoint has may not be.
        (CatalogChange::CommitIndexBuild(_), found) if found.as_ref().is_none_or(|index| !index.is_ready()) => {
            if let Some(index) = found {
                catalog.remove_index(&collection, &index)?;
            }
            return build_or_lose(catalog, engine, &collection, specification);
        }
        // The checkpoint has it.
        _ => {}
    }
    Ok(None)
}

/// Builds an index again. Where the collection is damaged, the index goes, and the rest of the database is served.
fn build_or_lose(
    catalog: &Catalog,
    engine: &Arc<Engine>,
    collection: &Arc<Collection>,
    specification: IndexSpecification,
) -> Result<Option<LostIndex>> {
    let name = specification.name.clone();
    match build_alone(catalog, engine, collection, specification) {
        Err(error) if error.is_damage() => {
            if let Some(index) = collection.indexes().find(&name).cloned() {
                catalog.remove_index(collection, &index)?;
            }
            let namespace = collection.namespace().as_str().to_owned();
            Ok(Some(LostIndex { namespace, index: name, reason: error.to_string() }))
        }
        built => built.map(|()| None),
    }
}
