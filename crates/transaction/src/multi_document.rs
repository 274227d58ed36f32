//! Transactions of several documents: snapshot isolation over private changes.
//!
//! Called by `commands`, one command of a session after the other. A transaction reads from the snapshot that was visible when it began, with its
//! own changes laid over it (`write_set`, `merge_cursor`). What it changes it owns until it ends: the first who writes a record wins, another transaction
//! that wants it fails with `WriteConflict`, a write outside of transactions waits. A record that was changed after the snapshot is in conflict, too.
//!
//! ```text
//! begin ─ open ─┬─ commit: log, apply, visible at once ─ committed      (multi_document/commit.rs, large_commit.rs)
//!               └─ abort: by command, by an error, by time, with its session ─ aborted
//! ```
//!
//! The state is the session's (`sessions::record`), so a commit can be asked for again. Pages never have anything of an open transaction.

mod change;
mod collection_use;
mod commit;
mod creation;
mod forgotten;
mod large_change;
mod large_commit;
mod progress;

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use collection::{Catalog, Collection, Namespace};
use parking_lot::Mutex;
use platform::{MemoryReservation, MemoryUse, WeakList, WorkBudget};
use storage_engine::{Engine, EngineError, Snapshot};

use crate::commit_order::CommitInfo;
use crate::error::{Result, TransactionError};
use crate::lock_table::{LockName, LockTable, OwnedNames, Ownership};
use crate::read_view::ReadView;
use crate::sessions::{NumberUse, Session};
use crate::store::Store;
use crate::write_set::WriteSet;
use collection_use::CollectionUses;
pub use collection_use::{DefinitionScope, Exclusion};
use creation::Published;
pub(crate) use large_change::is_large;
pub(crate) use large_commit::LargeCommits;

/// What a lock costs: an entry of 17 bytes in a hash table that is 7/16 to 7/8 full.
const LOCK_BYTES: usize = 32;

/// What an open transaction takes before it writes: its snapshot, its session, empty collections.
const TRANSACTION_BYTES: u64 = 3 << 10;

/// A transaction that is open. Shared as an `Arc` by its session and the command that runs in it.
pub struct Transaction {
    /// As owner of locks.
    number: u64,
    engine: Arc<Engine>,
    catalog: Arc<Catalog>,
    snapshot: Snapshot,
    writes: Arc<WriteSet>,
    record_locks: Arc<LockTable>,
    unique_locks: Arc<LockTable>,
    owned: Mutex<Owned>,
    uses: Arc<CollectionUses>,
    /// How it gives way once it is large.
    budget: Mutex<WorkBudget>,
    /// Counts it, beside what it has written.
    _memory: MemoryReservation,
}

#[derive(Default)]
struct Owned {
    records: OwnedNames,
    unique: OwnedNames,
    /// Collections that nobody else knows yet.
    created: Vec<Arc<Collection>>,
    /// Collections whose definitions stay until it ends.
    used: HashSet<Namespace>,
    has_ended: bool,
}

/// The transaction of a session.
#[derive(Clone)]
pub struct OpenTransaction {
    /// Its number in the session.
    pub txn_number: i64,
    /// The transaction.
    pub transaction: Arc<Transaction>,
    /// When it began, by the monotonic clock.
    pub began: Duration,
    /// How long its commands have run, those that have ended.
    pub active: Duration,
    /// The connection that began it.
    pub connection: u64,
}

impl std::fmt::Debug for OpenTransaction {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "OpenTransaction({})", self.txn_number)
    }
}

/// The sessions that have an open transaction: for those that are open for too long.
pub(crate) struct OpenTransactions {
    last_number: AtomicU64,
    committed: AtomicU64,
    aborted: AtomicU64,
    sessions: WeakList<Session>,
    uses: Arc<CollectionUses>,
    /// Held while forgotten ones are looked for.
    ending: Mutex<()>,
}

impl Default for OpenTransactions {
    fn default() -> Self {
        Self {
            last_number: AtomicU64::new(0),
            committed: AtomicU64::new(0),
            aborted: AtomicU64::new(0),
            sessions: WeakList::of_those_that(|session: &Session| session.transaction().lock().is_some()),
            uses: Arc::default(),
            ending: Mutex::default(),
        }
    }
}

/// What became of transactions since the start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TransactionTotals {
    /// Those that were begun.
    pub started: u64,
    /// Those that were committed, also without having written anything.
    pub committed: u64,
    /// Those that were aborted, by whomever.
    pub aborted: u64,
}

impl Transaction {
    /// What it sees: its snapshot with its changes.
    pub fn read_view(&self) -> ReadView {
        ReadView::of_transaction(self.engine.clone(), self.snapshot.clone(), self.writes.clone())
    }

    /// Becomes the owner of a record. `Taken`: it was not before.
    fn own_record(&self, name: LockName) -> Result<Ownership> {
        self.own(&self.record_locks, name, |owned| &mut owned.records)
    }

    /// Becomes the owner of a unique key.
    fn own_unique(&self, name: LockName) -> Result<()> {
        self.own(&self.unique_locks, name, |owned| &mut owned.unique).map(drop)
    }

    fn own(
        &self,
        table: &LockTable,
        name: LockName,
        names: impl FnOnce(&mut Owned) -> &mut OwnedNames,
    ) -> Result<Ownership> {
        let mut owned = self.owned.lock();
        if owned.has_ended {
            return Err(TransactionError::NoSuchTransaction("The transaction has been aborted.".to_owned()));
        }
        // Before it is taken, so that what does not fit is not owned; given back when it was owned before.
        self.writes.reserve(LOCK_BYTES)?;
        match table.own(self.number, name, names(&mut owned)) {
            Ownership::OfAnother => Err(TransactionError::WriteConflict),
            Ownership::Had => {
                self.writes.give_back(LOCK_BYTES);
                Ok(Ownership::Had)
            }
            Ownership::Taken => Ok(Ownership::Taken),
        }
    }

    /// Lets go of everything that it owns.
    fn release(&self) {
        let mut owned = self.owned.lock();
        owned.has_ended = true;
        self.record_locks.release(self.number, std::mem::take(&mut owned.records));
        self.unique_locks.release(self.number, std::mem::take(&mut owned.unique));
        owned.created.drain(..).for_each(|collection| self.catalog.drop_private_collection(&collection));
        self.uses.release(std::mem::take(&mut owned.used));
    }
}

impl Drop for Transaction {
    fn drop(&mut self) {
        self.release();
    }
}

impl Store {
    /// Begins a transaction, which the session then has; one that it had is aborted. `memory` is what its changes are counted in,
    /// `connection` who begins it.
    ///
    /// # Errors
    /// `TransactionTooOld`; `ConflictingOperation` when the number was used; `Engine(NoMemory)`: perhaps forgotten ones can make room.
    pub fn begin_transaction(
        &self,
        session: &Arc<Session>,
        txn_number: i64,
        memory: MemoryReservation,
        connection: u64,
    ) -> Result<Arc<Transaction>> {
        let (newest, _) = session.record().lock().newest();
        if txn_number < newest {
            return Err(too_old(session, txn_number, newest));
        }
        if txn_number == newest {
            return Err(TransactionError::ConflictingOperation(format!(
                "Cannot start a transaction at given transaction number {txn_number}: the number was used before"
            )));
        }
        self.abort_open_transaction(session);
        let mut own_memory = memory.budget().reservation(MemoryUse::WriteSets);
        own_memory.resize_leaving_much(TRANSACTION_BYTES).map_err(EngineError::NoMemory)?;
        session.change_record(|record| record.set_transaction(txn_number, NumberUse::Open));
        let transaction = Arc::new(Transaction {
            number: self.open_transactions.last_number.fetch_add(1, Ordering::Relaxed) + 1,
            engine: self.engine.clone(),
            catalog: self.catalog.clone(),
            snapshot: self.engine.begin_snapshot(),
            writes: Arc::new(WriteSet::new(memory, &self.engine, &self.catalog)),
            record_locks: self.record_locks.clone(),
            unique_locks: self.unique_locks.clone(),
            owned: Mutex::default(),
            uses: self.open_transactions.uses.clone(),
            budget: Mutex::new(self.work_budget()),
            _memory: own_memory,
        });
        let began = self.clock.monotonic();
        let active = Duration::ZERO;
        *session.transaction().lock() =
            Some(OpenTransaction { txn_number, transaction: transaction.clone(), began, active, connection });
        self.open_transactions.sessions.push(session);
        Ok(transaction)
    }

    /// The open transaction of this number, for another command in it.
    ///
    /// # Errors
    /// `TransactionTooOld`, `NoSuchTransaction`, `TransactionCommitted`.
    pub fn continue_transaction(&self, session: &Arc<Session>, txn_number: i64) -> Result<Arc<Transaction>> {
        let (newest, number_use) = session.record().lock().newest();
        if txn_number < newest {
            return Err(too_old(session, txn_number, newest));
        }
        if txn_number > newest {
            return Err(TransactionError::NoSuchTransaction(format!(
                "Given transaction number {txn_number} does not match any in-progress transactions. The active transaction number is {newest}"
            )));
        }
        let open = session.transaction().lock().clone().filter(|open| open.txn_number == txn_number);
        match (number_use, open) {
            (NumberUse::Open, Some(open)) => {
                open.transaction.budget.lock().note_own();
                Ok(open.transaction)
            }
            (NumberUse::Committed, _) => Err(TransactionError::TransactionCommitted(format!(
                "Transaction with {{ txnNumber: {txn_number} }} has been committed."
            ))),
            _ => Err(aborted(txn_number)),
        }
    }

    /// Commits the transaction of this number. `None`: it had written nothing, or is committed already.
    ///
    /// # Errors
    /// As `continue_transaction`, without `TransactionCommitted`; `WriteConflict`, `Collection`, `Oplog`, `OutOfSpace`: it is aborted then; `Engine`,
    /// `Stopped`.
    pub fn commit_transaction(&self, session: &Arc<Session>, txn_number: i64) -> Result<Option<CommitInfo>> {
        match self.continue_transaction(session, txn_number) {
            Err(TransactionError::TransactionCommitted(_)) => return Ok(None),
            found => drop(found?),
        }
        // From here on nobody else ends it; somebody may just have.
        let open = session.transaction().lock().take_if(|open| open.txn_number == txn_number);
        let Some(OpenTransaction { transaction, .. }) = open else { return Err(aborted(txn_number)) };
        let mut created = Published::of(&transaction);
        let committed = self
            .publish_created(&mut created)
            .and_then(|()| Ok(self.commit_writes(&transaction, session, txn_number)?.or(created.last)));
        self.end_created(created, committed.is_ok());
        transaction.release();
        let (state, counter) = match committed.is_ok() {
            true => (NumberUse::Committed, &self.open_transactions.committed),
            false => (NumberUse::Aborted, &self.open_transactions.aborted),
        };
        counter.fetch_add(1, Ordering::Relaxed);
        session.change_record(|record| record.set_transaction(txn_number, state));
        committed
    }

    /// Aborts the transaction of this number.
    ///
    /// # Errors
    /// As `continue_transaction`.
    pub fn abort_transaction(&self, session: &Arc<Session>, txn_number: i64) -> Result<()> {
        self.continue_transaction(session, txn_number)?;
        self.abort_open_transaction(session);
        Ok(())
    }

    /// Aborts the transaction that a session has, if it has one; gives its number.
    pub fn abort_open_transaction(&self, session: &Arc<Session>) -> Option<i64> {
        let open = session.transaction().lock().take()?;
        self.open_transactions.aborted.fetch_add(1, Ordering::Relaxed);
        session.change_record(|record| record.set_transaction(open.txn_number, NumberUse::Aborted));
        open.transaction.release();
        Some(open.txn_number)
    }

    /// Begins, or goes on with, a retryable write; an older transaction of the session is aborted.
    ///
    /// # Errors
    /// As `SessionTable::begin_retryable_write`.
    pub fn begin_retryable_write(&self, session: &Arc<Session>, txn_number: i64) -> Result<()> {
        self.sessions.begin_retryable_write(session, txn_number)?;
        let is_older = session.transaction().lock().as_ref().is_some_and(|open| open.txn_number < txn_number);
        if is_older {
            self.abort_open_transaction(session);
        }
        Ok(())
    }

    /// Aborts transactions that are open for longer than `limit`; gives their sessions and numbers. Background work.
    pub fn expire_transactions(&self, limit: Duration) -> Vec<(bson::Uuid, i64)> {
        let now = self.clock.monotonic();
        let sessions = self.sessions_with_transactions();
        let is_expired = |session: &&Arc<Session>| {
            session.transaction().lock().as_ref().is_some_and(|open| now.saturating_sub(open.began) > limit)
        };
        let expired = sessions.iter().filter(is_expired);
        expired.filter_map(|session| Some((session.id(), self.abort_open_transaction(session)?))).collect()
    }

    /// The sessions that have one. Some stand there more than once.
    fn sessions_with_transactions(&self) -> Vec<Arc<Session>> {
        self.open_transactions.sessions.all()
    }

    /// How many transactions are open, and the oldest with its session.
    pub fn open_transactions(&self) -> (usize, Option<(bson::Uuid, OpenTransaction)>) {
        let open = self.listed_transactions();
        (open.len(), open.into_iter().next())
    }

    /// The open transactions with their sessions, the oldest first.
    pub fn listed_transactions(&self) -> Vec<(bson::Uuid, OpenTransaction)> {
        let sessions = self.sessions_with_transactions();
        let mut open: Vec<(bson::Uuid, OpenTransaction)> =
            sessions.iter().filter_map(|session| Some((session.id(), session.transaction().lock().clone()?))).collect();
        // A session is listed once for each transaction that it has begun.
        open.sort_by_key(|(session, open)| (open.began, session.bytes()));
        open.dedup_by_key(|(session, _)| *session);
        open
    }

    /// How many transactions were begun, committed and aborted since the start.
    pub fn transaction_totals(&self) -> TransactionTotals {
        let open = &self.open_transactions;
        TransactionTotals {
            started: open.last_number.load(Ordering::Relaxed),
            committed: open.committed.load(Ordering::Relaxed),
            aborted: open.aborted.load(Ordering::Relaxed),
        }
    }
}

fn aborted(txn_number: i64) -> TransactionError {
    TransactionError::NoSuchTransaction(format!("Transaction with {{ txnNumber: {txn_number} }} has been aborted."))
}

fn too_old(session: &Session, txn_number: i64, newest: i64) -> TransactionError {
    TransactionError::TransactionTooOld(format!(
        "Cannot start transaction {txn_number} on session {} because a newer transaction {newest} has already started on this session.",
        session.id()
    ))
}
