//! Logical sessions: which ones there are, when each was last used, and what each has written.
//!
//! Called by `commands` for every command that names a session, by `store` when a statement that can be retried is committed, by checkpoints
//! (`flush`) and by replay (`restore`). The table is split into shards, so that clients do not meet here; what a session has
//! written is in the session itself.
//!
//! What was written is durable without a write of its own: the statement is named in its oplog entry. A checkpoint stores the sessions that
//! have changed since the last one in a tree, and replay adds what the oplog has beyond.
//!
//! ```text
//! begin ─ use ─ ... ─┬─ end (by its client, or idle for too long, or killed)
//!                    └─ check out ─ statements ─ return      (commands with a txnNumber, one at a time)
//! ```

mod record;
mod session;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bson::Uuid;
use collection::{Catalog, LoggedStatement, SessionReplay};
use parking_lot::Mutex;
use platform::{Clock, MemoryBudget, MemoryUse, OverBudget};
use storage_engine::{Batch, Engine, EngineError, TreeId};

pub use record::ExecutedStatement;
pub use session::{CheckedOutSession, Owner, Session};

use crate::error::{Result, TransactionError};
use crate::set_aside_work::SetAsideWork;
use crate::store::Store;
pub(crate) use record::NumberUse;
use record::SessionRecord;

/// Most sessions at once, as in MongoDB (`maxSessions`).
const SESSIONS_MAX: usize = 1_000_000;
const SHARDS: usize = 64;
/// What a session takes: itself, its places in the maps, what allocations cost.
const SESSION_BYTES: u64 = size_of::<Session>() as u64 + 128;
/// Sessions stored in one batch.
const BATCH_SESSIONS: usize = 64;

type Sessions = HashMap<Uuid, Arc<Session>>;
/// Sessions may take such a part of the memory budget, whatever else takes: without one nearly nothing can be asked. Beyond it those that have written nothing
/// make room for others.
const MANY_SHARE: u64 = 16;
/// Of the sessions of a shard that have written nothing, such a part is forgotten when there is no memory for another.
const FORGOTTEN_SHARE: usize = 8;

/// All sessions.
pub struct SessionTable {
    shards: Vec<Mutex<Sessions>>,
    sessions_max: usize,
    count: AtomicUsize,
    /// Those whose record is not in the tree as it is; each once.
    changed: Mutex<Vec<Arc<Session>>>,
    clock: Arc<dyn Clock>,
    memory: Arc<MemoryBudget>,
}

impl SessionTable {
    pub(crate) fn new(clock: Arc<dyn Clock>, memory: Arc<MemoryBudget>) -> SessionTable {
        let shards = (0..SHARDS).map(|_| Mutex::default()).collect();
        let (count, changed) = Default::default();
        SessionTable { shards, sessions_max: SESSIONS_MAX, count, changed, clock, memory }
    }

    fn shard(&self, id: Uuid) -> &Mutex<Sessions> {
        // Drivers make them at random; the last byte is.
        &self.shards[usize::from(id.bytes()[15]) % SHARDS]
    }

    /// Notes a use of a session; the first one begins it.
    ///
    /// # Errors
    /// `TooManySessions`; `Engine(NoMemory)`.
    pub fn refresh(&self, id: Uuid) -> Result<Arc<Session>> {
        self.used(id, |shard| {
            if self.count.load(Ordering::Relaxed) >= self.sessions_max {
                return Err(TransactionError::TooManySessions);
            }
            let makes_room = self.are_many() && self.forget_unwritten(shard);
            if makes_room || self.has_room() { Ok(()) } else { Err(self.no_memory()) }
        })
    }

    fn are_many(&self) -> bool {
        self.memory.used_for(MemoryUse::Sessions) > self.memory.limit() / MANY_SHARE
    }

    /// Whether sessions may take a little more memory.
    fn has_room(&self) -> bool {
        !self.are_many() || self.memory.fits_leaving_much(SESSION_BYTES)
    }

    fn no_memory(&self) -> TransactionError {
        EngineError::NoMemory(OverBudget { wanted: SESSION_BYTES, free: self.memory.free() }).into()
    }

    /// Forgets the oldest sessions that nobody uses and that have written nothing: whoever goes on with one begins it again and misses nothing.
    fn forget_unwritten(&self, shard: &mut Sessions) -> bool {
        let unwritten =
            shard.values().filter(|session| Arc::strong_count(session) == 1 && session.has_written_nothing());
        let mut oldest: Vec<_> = unwritten.map(|session| (session.last_use(), session.id().bytes())).collect();
        oldest.sort_unstable();
        oldest.truncate(oldest.len().div_ceil(FORGOTTEN_SHARE));
        let forgotten = oldest.iter().filter_map(|(_, id)| shard.remove(&Uuid::from_bytes(*id))).count();
        self.count.fetch_sub(forgotten, Ordering::Relaxed);
        forgotten > 0
    }

    /// The session of this id, used now; begun if there is none and it may be.
    fn used(&self, id: Uuid, may_begin: impl FnOnce(&mut Sessions) -> Result<()>) -> Result<Arc<Session>> {
        let now = self.clock.monotonic();
        let mut shard = self.shard(id).lock();
        if let Some(session) = shard.get(&id) {
            session.touch(now);
            return Ok(session.clone());
        }
        may_begin(&mut shard)?;
        let session = Arc::new(Session::new(id, now, self.memory.reserve_fixed(MemoryUse::Sessions, SESSION_BYTES)));
        shard.insert(id, session.clone());
        self.count.fetch_add(1, Ordering::Relaxed);
        Ok(session)
    }

    /// The session of this id, which there was when the server stopped: it is there again, whatever memory there is now.
    fn restored(&self, id: Uuid) -> Result<Arc<Session>> {
        self.used(id, |_| Ok(()))
    }

    /// Begins, or goes on with, the retryable write of this number.
    ///
    /// # Errors
    /// As `SessionRecord::begin_retryable_write`; `Engine(NoMemory)` when sessions hold so much that nothing may be remembered of another write.
    pub(crate) fn begin_retryable_write(&self, session: &Session, txn_number: i64) -> Result<()> {
        // No lock is taken as long as there is room.
        if !self.has_room() && !self.forget_unwritten(&mut self.shard(session.id()).lock()) {
            return Err(self.no_memory());
        }
        session.change_record(|record| record.begin_retryable_write(session.id(), txn_number))
    }

    /// The session of this id, if it was used before.
    pub fn find(&self, id: Uuid) -> Option<Arc<Session>> {
        self.shard(id).lock().get(&id).cloned()
    }

    /// All sessions, in no order.
    pub fn all(&self) -> Vec<Arc<Session>> {
        self.shards.iter().flat_map(|shard| shard.lock().values().cloned().collect::<Vec<_>>()).collect()
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }

    /// Ends a session: what it has written is forgotten. The caller ends what belongs to it.
    pub fn end(&self, id: Uuid) -> Option<Arc<Session>> {
        let removed = self.shard(id).lock().remove(&id)?;
        self.count.fetch_sub(1, Ordering::Relaxed);
        removed.end();
        self.changed(&removed);
        Some(removed)
    }

    /// The sessions that have not been used for `timeout`.
    pub fn expired(&self, timeout: Duration) -> Vec<Uuid> {
        let now = self.clock.monotonic();
        let is_expired =
            |session: &Arc<Session>| now.saturating_sub(session.last_use()) > timeout && !session.is_in_use();
        let expired = self.shards.iter().flat_map(|shard| {
            let shard = shard.lock();
            shard.values().filter(|session| is_expired(session)).map(|session| session.id()).collect::<Vec<_>>()
        });
        expired.collect()
    }

    /// Notes that a statement was executed. Called between the commit's place in the oplog and its becoming visible.
    pub(crate) fn record_statement(&self, session: &Arc<Session>, txn_number: i64, executed: ExecutedStatement) {
        if session.change_record(|record| record.add_statement(txn_number, executed)) {
            self.changed(session);
        }
    }

    /// Has the next checkpoint store the session.
    fn changed(&self, session: &Arc<Session>) {
        if session.mark_changed() {
            self.changed.lock().push(session.clone());
        }
    }

    /// Notes that a transaction was committed. As `record_statement`.
    pub(crate) fn record_commit(&self, session: &Arc<Session>, txn_number: i64) {
        session.change_record(|record| record.set_transaction(txn_number, NumberUse::Committed));
        self.changed(session);
    }

    /// Adds a statement that replay has met.
    fn restore(&self, statement: &LoggedStatement) {
        let Ok(session) = self.restored(statement.session) else { return };
        let executed = ExecutedStatement {
            id: statement.statement,
            count_change: statement.count_change as i8,
            details: statement.details,
        };
        self.record_statement(&session, statement.txn_number, executed);
    }

    /// Reads what the last checkpoint has stored. Where that is damaged, a new tree takes the place of the old one, and it is told what is lost.
    ///
    /// # Errors
    /// `Engine`.
    pub(crate) fn load_or_lose(&self, engine: &Arc<Engine>, catalog: &Catalog) -> Result<Option<SetAsideWork>> {
        let Err(error) = self.load(engine, catalog) else { return Ok(None) };
        if !error.is_damage() {
            return Err(error);
        }
        catalog.drop_session_tree()?;
        self.all_changed();
        Ok(Some(damaged_sessions(error.to_string())))
    }

    /// Has the next checkpoint store all sessions.
    pub(crate) fn all_changed(&self) {
        self.all().iter().for_each(|session| self.changed(session));
    }

    /// Reads what the last checkpoint has stored.
    ///
    /// # Errors
    /// `Engine`; `Collection(Damaged)`.
    fn load(&self, engine: &Arc<Engine>, catalog: &Catalog) -> Result<()> {
        let Some(tree) = catalog.session_tree() else { return Ok(()) };
        let mut cursor = engine.cursor(&engine.begin_snapshot(), tree);
        cursor.seek_first()?;
        while cursor.next()? {
            let id = <[u8; 16]>::try_from(cursor.key()).map_err(|_| record::damaged())?;
            let record = SessionRecord::decode(cursor.value()?)?;
            self.restored(Uuid::from_bytes(id))?.change_record(|old| *old = record);
        }
        Ok(())
    }

    /// Stores the sessions that have changed. Once it has been called with the mark of a checkpoint fixed, the tree has everything that
    /// was committed before the mark.
    ///
    /// # Errors
    /// `Engine`. The sessions count as changed again.
    pub(crate) fn flush(&self, engine: &Engine, tree: TreeId) -> Result<()> {
        let changed = std::mem::take(&mut *self.changed.lock());
        let mut batch = Batch::new();
        for (number, sessions) in changed.chunks(BATCH_SESSIONS).enumerate() {
            batch.clear();
            sessions.iter().for_each(|session| session.put_into(tree, &mut batch));
            if let Err(error) = engine.apply_settled(&batch) {
                changed[number * BATCH_SESSIONS..].iter().for_each(|session| self.changed(session));
                return Err(error.into());
            }
        }
        Ok(())
    }

    /// Whether anything is to be flushed.
    pub(crate) fn has_changed(&self) -> bool {
        !self.changed.lock().is_empty()
    }
}

/// What is told of a tree of sessions that cannot be read.
fn damaged_sessions(reason: String) -> SetAsideWork {
    SetAsideWork {
        what: "what sessions have written",
        namespace: String::new(),
        index: String::new(),
        reason,
        advice: "a new record of it has been begun: a retry of a write from before the last checkpoint may be executed a second time",
    }
}

impl Store {
    /// A tree of sessions that turns out to be damaged is given up: all sessions are stored anew. Before the mark of a checkpoint is taken.
    ///
    /// # Errors
    /// `Engine`.
    pub(crate) fn renew_damaged_sessions(&self) -> Result<()> {
        if self.engine.trees_set_aside_count() == 0 {
            return Ok(());
        }
        let Some(tree) = self.catalog.session_tree() else { return Ok(()) };
        let found = self.engine.trees_set_aside().into_iter().find(|(aside, _)| *aside == tree);
        if let Some((_, reason)) = found {
            let _definitions = self.definition_lock.lock();
            self.catalog.drop_session_tree()?;
            self.sessions.all_changed();
            self.set_aside(None, damaged_sessions(reason));
        }
        Ok(())
    }
}

/// What replay tells.
impl SessionReplay for &SessionTable {
    fn statement(&mut self, statement: LoggedStatement) {
        self.restore(&statement);
    }

    fn commit(&mut self, session: Uuid, txn_number: i64) {
        if let Ok(session) = self.restored(session) {
            self.record_commit(&session, txn_number);
        }
    }
}

#[cfg(test)]
mod tests {
    use platform::SimulatedClock;

    use super::*;

    fn table(budget: &Arc<MemoryBudget>) -> SessionTable {
        SessionTable::new(Arc::new(SimulatedClock::new(0)), budget.clone())
    }

    fn id(number: u32) -> Uuid {
        let mut bytes = [7; 16];
        bytes[12..].copy_from_slice(&number.to_le_bytes());
        Uuid::from_bytes(bytes)
    }

    fn write(sessions: &SessionTable, number: u32, statements: i32) -> Result<()> {
        let session = sessions.refresh(id(number))?;
        sessions.begin_retryable_write(&session, 1)?;
        for id in 0..statements {
            let details = Some(oplog::OplogPosition(9));
            sessions.record_statement(&session, 1, ExecutedStatement { id, count_change: 0, details });
        }
        Ok(())
    }

    #[test]
    fn more_than_there_may_be_are_refused() {
        let sessions = SessionTable { sessions_max: 3, ..table(&MemoryBudget::unlimited()) };
        (0..3).for_each(|number| drop(sessions.refresh(id(number)).unwrap()));
        assert!(matches!(sessions.refresh(id(3)), Err(TransactionError::TooManySessions)));
        sessions.refresh(id(1)).unwrap();
        sessions.end(id(1)).unwrap();
        sessions.refresh(id(3)).unwrap();
    }

    #[test]
    fn when_memory_is_short_those_that_have_written_nothing_make_room() {
        let budget = MemoryBudget::new(200_000);
        let sessions = table(&budget);
        write(&sessions, 0, 1).unwrap();
        let held = sessions.refresh(id(1)).unwrap();
        // All in one shard, whose last byte is the number's highest.
        (2..2_000).for_each(|number| drop(sessions.refresh(id(number)).unwrap()));
        assert!(budget.used() <= 200_000 && sessions.count() < 600, "{}", sessions.count());
        assert!(sessions.find(id(0)).is_some_and(|session| session.executed(0).is_some()), "it has written");
        assert!(sessions.find(id(1)).is_some_and(|found| Arc::ptr_eq(&found, &held)), "it is in use");
        assert!(sessions.find(id(1_999)).is_some() && sessions.find(id(2)).is_none());
        sessions.all().into_iter().for_each(|session| drop(sessions.end(session.id())));
        drop((held, sessions));
        assert_eq!(budget.used(), 0);
    }

    #[test]
    fn a_retryable_write_goes_on_beside_what_takes_much_for_a_moment() {
        let budget = MemoryBudget::new(200_000);
        let sessions = table(&budget);
        // All in one shard; none has written.
        let all: Vec<_> = (0..100).map(|number| sessions.refresh(id(number)).unwrap()).collect();
        assert!(budget.used() > budget.limit() / MANY_SHARE);
        let session = all.into_iter().next().unwrap();
        let _message = budget.reserve_fixed(MemoryUse::Connections, budget.free() - 10_000);
        sessions.begin_retryable_write(&session, 1).unwrap();
        assert!(sessions.count() < 100 && sessions.find(id(0)).is_some());
    }

    #[test]
    fn what_they_have_written_is_counted_and_bounded() {
        let budget = MemoryBudget::new(400_000);
        let sessions = table(&budget);
        let written = (0..1_000).take_while(|number| write(&sessions, *number, 100).is_ok()).count();
        assert!((10..200).contains(&written), "{written}");
        assert!(budget.used() <= 400_000);
        // An older one may go on once others have ended.
        assert!(matches!(write(&sessions, 0, 1), Err(TransactionError::Engine(EngineError::NoMemory(_)))));
        (1..written as u32).for_each(|number| drop(sessions.end(id(number)).unwrap()));
        sessions.changed.lock().clear();
        write(&sessions, 0, 1).unwrap();
    }
}
