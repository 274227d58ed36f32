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
mod live;
mod progress;
mod ring;
mod unread;
mod workers;

use std::sync::Arc;

use bson::{RawBsonRef, RawDocument, Uuid};
use oplog::{Oplog, OplogEntry, OplogError, OplogPosition};
use platform::Timestamp;
use storage_engine::{Engine, EngineError};

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
pub use apply::Stored;
pub use live::LiveApplier;
use progress::Progress;
pub use unread::{UnreadEntries, UnreadEntry};
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
    /// Transactions that were decided and whose commits are still to be logged; they are applied, unless they were to be left.
    pub decided: Vec<TransactionCommit>,
    /// Indexes that could not be built again and are gone.
    pub lost_indexes: Vec<LostIndex>,
    /// Entries that make no sense and do not say whom they are about.
    pub unread: UnreadEntries,
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
    /// That of an entry at a position, if it has one.
    pub fn of(entry: &DocumentEntry<'_>, position: OplogPosition) -> Option<LoggedStatement> {
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

/// What is done about transactions that are decided and not committed at the end of the oplog.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DecidedAre {
    /// They are applied, and whoever replays logs their commits.
    Applied,
    /// Somebody else does.
    Left,
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
    (threads, decided): (usize, DecidedAre),
    sessions: &mut dyn SessionReplay,
) -> Result<ReplaySummary> {
    let mut reader = oplog.read_from(from)?;
    let mut replay = Replay {
        catalog,
        engine,
        oplog,
        sessions,
        progress: Progress::new(from, oplog.end_position()),
        workers: Workers::start(catalog, engine, threads)?,
        summary: ReplaySummary::default(),
    };
    while let Some(entry) = reader.next_entry().map_err(|error| damaged_start(error, from))? {
        replay.replay_entry(&entry)?;
    }
    replay.finish(decided)
}

/// A replay that is under way.
struct Replay<'a> {
    catalog: &'a Arc<Catalog>,
    engine: &'a Arc<Engine>,
    oplog: &'a dyn Oplog,
    sessions: &'a mut dyn SessionReplay,
    progress: Progress,
    workers: Workers,
    summary: ReplaySummary,
}

impl Replay<'_> {
    fn replay_entry(&mut self, entry: &OplogEntry<'_>) -> Result<()> {
        self.summary.entries += 1;
        self.summary.bytes += entry.payload.len() as u64;
        self.summary.last_timestamp = entry.timestamp;
        self.progress.at(entry.position);
        match Entry::decode(entry.payload) {
            Ok(Entry::Document(change)) => {
                self.tell_sessions(&change, entry.position);
                self.workers.dispatch(&change, entry.timestamp, entry.payload)
            }
            Ok(Entry::Transaction(transaction)) => self.replay_transaction(&transaction, entry),
            Ok(Entry::Command { database, uuid, command, second }) => {
                self.workers.finish_dispatched()?;
                match CatalogChange::decode(database, uuid, command, second) {
                    Ok(change) => self.apply_or_set_aside(change),
                    Err(error) => self.lose_command((database, uuid, command), &error, entry.position),
                }
            }
            Ok(Entry::Nothing) => Ok(()),
            Err(error) => self.summary.unread.lose(self.catalog, entry.payload, entry.position, &error),
        }
    }

    fn replay_transaction(&mut self, transaction: &TransactionEntry<'_>, entry: &OplogEntry<'_>) -> Result<()> {
        match &transaction.step {
            TransactionStep::Part => Ok(()),
            TransactionStep::Decision(decision) => {
                self.summary.decided.push(decision.clone());
                Ok(())
            }
            TransactionStep::Commit(commit) => {
                self.summary.decided.retain(|decided| decided.parts != commit.parts);
                self.replay_parts(commit, entry.timestamp)?;
                self.dispatch_operations(transaction, entry.position, entry.timestamp)
            }
        }
    }

    fn tell_sessions(&mut self, change: &DocumentEntry<'_>, position: OplogPosition) {
        LoggedStatement::of(change, position).into_iter().for_each(|logged| self.sessions.statement(logged));
    }

    /// Has the documents of a transaction's entry applied.
    fn dispatch_operations(
        &mut self,
        transaction: &TransactionEntry<'_>,
        position: OplogPosition,
        timestamp: Timestamp,
    ) -> Result<()> {
        for payload in transaction.operations() {
            let lost = match Entry::decode(payload) {
                Ok(Entry::Document(change)) => {
                    self.workers.dispatch(&change, timestamp, payload)?;
                    continue;
                }
                Ok(_) => CollectionError::Damaged("a transaction with something else than documents".to_owned()),
                Err(error) => error,
            };
            self.summary.unread.lose(self.catalog, payload, position, &lost)?;
        }
        Ok(())
    }

    /// Has the parts of a transaction applied, and tells what sessions have written with it.
    fn replay_parts(&mut self, commit: &TransactionCommit, timestamp: Timestamp) -> Result<()> {
        for part in &commit.parts {
            self.replay_part(*part, timestamp, commit.transaction.is_none())?;
        }
        if let Some((session, txn_number)) = commit.transaction {
            self.sessions.commit(session, txn_number);
        }
        Ok(())
    }

    /// Has a part of a transaction applied, which is somewhere before its commit, and maybe before where replay began.
    fn replay_part(&mut self, position: OplogPosition, timestamp: Timestamp, has_statements: bool) -> Result<()> {
        let mut reader = self.oplog.read_from(position).map_err(|error| damaged_start(error, position))?;
        let missing = || CollectionError::Damaged(format!("the part of a transaction at {position} is not there"));
        let entry = reader.next_entry().map_err(|error| damaged_start(error, position))?.ok_or_else(missing)?;
        self.progress.read_part(entry.payload.len());
        let part = match Entry::decode(entry.payload) {
            Ok(Entry::Transaction(part)) if part.step == TransactionStep::Part => part,
            Ok(_) => {
                self.summary.unread.lose_whole(position, &missing());
                return Ok(());
            }
            Err(error) => return self.summary.unread.lose(self.catalog, entry.payload, position, &error),
        };
        self.dispatch_operations(&part, position, timestamp)?;
        for payload in part.operations().filter(|_| has_statements) {
            if let Ok(Entry::Document(change)) = Entry::decode(payload) {
                self.tell_sessions(&change, position);
            }
        }
        Ok(())
    }

    /// Applies what was decided, and waits for everything.
    fn finish(mut self, decided_are: DecidedAre) -> Result<ReplaySummary> {
        let left = if decided_are == DecidedAre::Left { std::mem::take(&mut self.summary.decided) } else { Vec::new() };
        // What they changed was theirs alone until they were committed, so nothing since the decision is in their way.
        for decided in &std::mem::take(&mut self.summary.decided) {
            self.replay_parts(decided, self.summary.last_timestamp)?;
            self.summary.decided.push(decided.clone());
        }
        self.summary.decided.extend(left);
        for uuid in self.workers.stop()? {
            let found = self.catalog.lookup_uuid(uuid).filter(|collection| collection.aside().is_none());
            let Some(collection) = found else { continue };
            match ring::sweep(self.engine, &collection) {
                Err(error) if is_of_what_is_stored(&error) => collection.set_aside(&error.to_string()),
                swept => swept?,
            }
        }
        self.catalog.rebuild_names();
        Ok(self.summary)
    }

    /// A change of a definition that fails because of what is stored costs its collection, not the start.
    fn apply_or_set_aside(&mut self, change: CatalogChange) -> Result<()> {
        let uuid = change.uuid();
        match apply_change(self.catalog, self.engine, change) {
            Err(error) if is_of_what_is_stored(&error) => {
                if let Some(collection) = uuid.and_then(|uuid| self.catalog.lookup_uuid(uuid)) {
                    collection.set_aside(&format!("a change of its definition could not be applied: {error}"));
                }
            }
            applied => self.summary.lost_indexes.extend(applied?),
        }
        Ok(())
    }

    /// A change of a definition that this build cannot read. Of an index: it is lost. Otherwise the collection is there, and set aside.
    fn lose_command(
        &mut self,
        (database, uuid, command): (&str, Option<Uuid>, &RawDocument),
        error: &CollectionError,
        position: OplogPosition,
    ) -> Result<()> {
        let (Some(uuid), Some(first)) = (uuid, document::elements(command).next()) else {
            self.summary.unread.lose_whole(position, error);
            return Ok(());
        };
        if first.name() == "create" && self.catalog.lookup_uuid(uuid).is_none() {
            let namespace = text(Some(first.value())).and_then(|name| Namespace::new(database, name).ok());
            let Some(namespace) = namespace else {
                self.summary.unread.lose_whole(position, error);
                return Ok(());
            };
            let options = CollectionOptions::default();
            self.catalog.apply(&CatalogChange::Create { namespace, uuid, options })?;
        }
        // One that is not there was dropped later.
        let Some(collection) = self.catalog.lookup_uuid(uuid) else { return Ok(()) };
        if ["startIndexBuild", "commitIndexBuild", "abortIndexBuild", "dropIndexes"].contains(&first.name()) {
            let index = match document::get_field(command, "index") {
                Some(RawBsonRef::Document(index)) => text(document::get_field(index, "name")),
                value => text(value),
            };
            let index = index.unwrap_or_default().to_owned();
            if let Some(found) = collection.indexes().find(&index).cloned() {
                self.catalog.remove_index(&collection, &found)?;
            }
            if first.name() == "commitIndexBuild" {
                let reason = format!("its definition cannot be read: {error}");
                let namespace = collection.namespace().as_str().to_owned();
                self.summary.lost_indexes.push(LostIndex { namespace, index, reason });
            }
            return Ok(());
        }
        let reason = format!("a change of its definition cannot be read: {error}");
        unread::set_aside(self.catalog, &collection, &reason)
    }
}

fn text(value: Option<RawBsonRef<'_>>) -> Option<&str> {
    match value {
        Some(RawBsonRef::String(text)) => Some(text),
        _ => None,
    }
}

/// Whether something fails because of what is stored of a collection: the next start would fail of it, too. Not because of the disk or for want of memory.
fn is_of_what_is_stored(error: &CollectionError) -> bool {
    match error {
        CollectionError::Engine(
            EngineError::KeyTooLong { .. } | EngineError::ValueTooLong { .. } | EngineError::NoSuchTree(_),
        ) => true,
        CollectionError::Engine(error) => error.is_damage(),
        CollectionError::Oplog(_) => false,
        error => !error.is_interruption(),
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
        Err(error) if is_of_what_is_stored(&error) => {
            if let Some(index) = collection.indexes().find(&name).cloned() {
                catalog.remove_index(collection, &index)?;
            }
            let namespace = collection.namespace().as_str().to_owned();
            Ok(Some(LostIndex { namespace, index: name, reason: error.to_string() }))
        }
        built => built.map(|()| None),
    }
}
