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

use bson::{RawBsonRef, RawDocument, Uuid};
use oplog::{Oplog, OplogError, OplogPosition};
use platform::Timestamp;
use storage_engine::Engine;

use crate::catalog::{Catalog, CatalogChange};
use crate::collection::Collection;
use crate::error::{CollectionError, Result};
use crate::index::IndexState;
use crate::index_fill::build_alone;
use crate::index_specification::IndexSpecification;
use crate::namespace::Namespace;
use crate::oplog_entry::{
    DocumentEntry, DocumentOperation, Entry, TransactionCommit, TransactionEntry, TransactionStep,
};
use crate::options::CollectionOptions;
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
                    replay_parts(oplog, commit, entry.timestamp, (&mut workers, sessions), &mut progress)?;
                    dispatch_operations(&transaction, entry.timestamp, &mut workers)?;
                }
            },
            Entry::Command { database, uuid, command, second } => {
                workers.finish_dispatched()?;
                match CatalogChange::decode(database, uuid, command, second) {
                    Ok(change) => summary.lost_indexes.extend(apply_or_set_aside(catalog, engine, change)?),
                    Err(error) => {
                        summary.lost_indexes.extend(lose_unread(catalog, (database, uuid, command), &error)?);
                    }
                }
            }
            Entry::Nothing => {}
        }
    }
    // What they changed was theirs alone until they were committed, so nothing since the decision is in their way.
    for decided in &summary.decided {
        replay_parts(oplog, decided, summary.last_timestamp, (&mut workers, sessions), &mut progress)?;
    }
    for uuid in workers.stop()? {
        let Some(collection) = catalog.lookup_uuid(uuid).filter(|collection| collection.aside().is_none()) else {
            continue;
        };
        match ring::sweep(engine, &collection) {
            Err(error) if error.is_damage() => collection.set_aside(&error.to_string()),
            swept => swept?,
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

/// Has the parts of a transaction applied, and tells what sessions have written with it.
fn replay_parts(
    oplog: &dyn Oplog,
    commit: &TransactionCommit,
    timestamp: Timestamp,
    (workers, sessions): (&mut Workers, &mut dyn SessionReplay),
    progress: &mut Progress,
) -> Result<()> {
    for part in &commit.parts {
        let statements: Option<&mut dyn SessionReplay> = match commit.transaction {
            Some(_) => None,
            None => Some(&mut *sessions),
        };
        progress.read_part(replay_part(oplog, *part, timestamp, workers, statements)?);
    }
    if let Some((session, txn_number)) = commit.transaction {
        sessions.commit(session, txn_number);
    }
    Ok(())
}

/// Has a part of a transaction applied, which is somewhere before its commit, and maybe before where replay began. Gives its bytes.
fn replay_part(
    oplog: &dyn Oplog,
    position: OplogPosition,
    timestamp: Timestamp,
    workers: &mut Workers,
    statements: Option<&mut dyn SessionReplay>,
) -> Result<usize> {
    let mut reader = oplog.read_from(position).map_err(|error| damaged_start(error, position))?;
    let missing = || CollectionError::Damaged(format!("the part of a transaction at {position} is not there"));
    let entry = reader.next_entry().map_err(|error| damaged_start(error, position))?.ok_or_else(missing)?;
    match Entry::decode(entry.payload)? {
        Entry::Transaction(part) if part.step == TransactionStep::Part => {
            dispatch_operations(&part, timestamp, workers)?;
            if let Some(sessions) = statements {
                for payload in part.operations() {
                    if let Entry::Document(change) = Entry::decode(payload)? {
                        LoggedStatement::of(&change, position)
                            .into_iter()
                            .for_each(|logged| sessions.statement(logged));
                    }
                }
            }
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

/// A change of a definition that fails because of what is damaged costs its collection, not the start.
fn apply_or_set_aside(catalog: &Catalog, engine: &Arc<Engine>, change: CatalogChange) -> Result<Option<LostIndex>> {
    let uuid = change.uuid();
    match apply_change(catalog, engine, change) {
        Err(error) if error.is_damage() => {
            if let Some(collection) = uuid.and_then(|uuid| catalog.lookup_uuid(uuid)) {
                collection.set_aside(&format!("a change of its definition could not be applied: {error}"));
            }
            Ok(None)
        }
        applied => applied,
    }
}

/// A change of a definition that this build cannot read. Of an index: it is lost. Otherwise the collection is there, and set aside.
fn lose_unread(
    catalog: &Catalog,
    (database, uuid, command): (&str, Option<Uuid>, &RawDocument),
    error: &CollectionError,
) -> Result<Option<LostIndex>> {
    let (Some(uuid), Some(first)) = (uuid, document::elements(command).next()) else { return Ok(None) };
    let text = |value| match value {
        Some(RawBsonRef::String(text)) => Some(text),
        _ => None,
    };
    if first.name() == "create"
        && catalog.lookup_uuid(uuid).is_none()
        && let Some(Ok(namespace)) = text(Some(first.value())).map(|name| Namespace::new(database, name))
    {
        catalog.apply(&CatalogChange::Create { namespace, uuid, options: CollectionOptions::default() })?;
    }
    let Some(collection) = catalog.lookup_uuid(uuid) else { return Ok(None) };
    let index = match document::get_field(command, "index") {
        Some(RawBsonRef::Document(index)) => text(document::get_field(index, "name")),
        value => text(value),
    };
    match first.name() {
        "startIndexBuild" | "commitIndexBuild" | "abortIndexBuild" | "dropIndexes" => {
            let index = index.unwrap_or_default().to_owned();
            if let Some(found) = collection.indexes().find(&index).cloned() {
                catalog.remove_index(&collection, &found)?;
            }
            let reason = format!("its definition cannot be read: {error}");
            let namespace = collection.namespace().as_str().to_owned();
            Ok((first.name() == "commitIndexBuild").then_some(LostIndex { namespace, index, reason }))
        }
        _ => {
            collection.set_aside(&format!("a change of its definition cannot be read: {error}"));
            catalog.save_set_aside(&collection)?;
            Ok(None)
        }
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
