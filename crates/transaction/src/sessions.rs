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
//!                    ├─ check out ─ statements ─ return      (commands with a txnNumber, one at a time)
//!                    └─ set aside ─ read again               (memory is short, and a checkpoint has stored it)
//! ```

mod record;
mod session;
mod shard;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bson::Uuid;
use collection::{Catalog, LoggedStatement, SessionReplay};
use parking_lot::Mutex;
use platform::{Clock, MemoryBudget, MemoryUse, OverBudget};
use storage_engine::{Batch, Engine, EngineError, TreeId};

pub use record::ExecutedStatement;
pub use session::{CheckedOutSession, KnownSession, Owner, Session};

use crate::error::{Result, TransactionError};
use crate::set_aside_work::SetAsideWork;
use crate::store::Store;
pub(crate) use record::NumberUse;
use record::SessionRecord;
use session::Aside;
use shard::Shard;

/// Most sessions at once, as in MongoDB (`maxSessions`).
const SESSIONS_MAX: usize = 1_000_000;
const SHARDS: usize = 64;
/// What a session takes: itself, its places in the maps, what allocations cost.
const SESSION_BYTES: u64 = size_of::<Session>() as u64 + 128;
/// Sessions stored in one batch.
const BATCH_SESSIONS: usize = 64;

/// Sessions may take such a part of the memory budget, whatever else takes: without one nearly nothing can be asked. Beyond it those that have written nothing,
/// or whose record is stored, make room for others.
const MANY_SHARE: u64 = 16;

/// All sessions.
pub struct SessionTable {
    shards: Vec<Mutex<Shard>>,
    sessions_max: usize,
    count: AtomicUsize,
    /// Those whose record is not in the tree as it is; each once.
    changed: Mutex<Vec<Arc<Session>>>,
    /// Where records are that are not here; empty where nothing is stored.
    stored: OnceLock<(Arc<Engine>, Arc<Catalog>)>,
    clock: Arc<dyn Clock>,
    memory: Arc<MemoryBudget>,
}

impl SessionTable {
    pub(crate) fn new(clock: Arc<dyn Clock>, memory: Arc<MemoryBudget>) -> SessionTable {
        let shards = (0..SHARDS).map(|_| Mutex::new(Shard::new(memory.reservation(MemoryUse::Sessions)))).collect();
        let (count, changed, stored) = Default::default();
        SessionTable { shards, sessions_max: SESSIONS_MAX, count, changed, stored, clock, memory }
    }

    fn shard(&self, id: Uuid) -> &Mutex<Shard> {
        // Drivers make them at random; the last byte is.
        &self.shards[usize::from(id.bytes()[15]) % SHARDS]
    }

    /// Notes a use of a session; the first one begins it.
    ///
    /// # Errors
    /// `TooManySessions`; `Engine`, also `NoMemory`: its record cannot be read; nobody makes room.
    pub fn refresh(&self, id: Uuid) -> Result<Arc<Session>> {
        self.used(id, |shard| {
            if !shard.is_aside(id) && self.count.load(Ordering::Relaxed) >= self.sessions_max {
                return Err(TransactionError::TooManySessions);
            }
            let makes_room = self.are_many() && self.make_room(shard);
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

    /// Has sessions of a shard make room that nobody uses: those that have written nothing, then those whose record is stored.
    fn make_room(&self, shard: &mut Shard) -> bool {
        let forgotten = shard.forget_unwritten();
        self.count.fetch_sub(forgotten, Ordering::Relaxed);
        forgotten > 0 || (self.stored.get().is_some() && shard.set_stored_aside() > 0)
    }

    /// The session of this id, used now; begun if there is none and it may be.
    fn used(&self, id: Uuid, may_begin: impl Fn(&mut Shard) -> Result<()>) -> Result<Arc<Session>> {
        let now = self.clock.monotonic();
        let mut stored = None;
        loop {
            let mut shard = self.shard(id).lock();
            if let Some(session) = shard.get(id) {
                session.touch(now);
                return Ok(session.clone());
            }
            let turn = shard.turn();
            let record = stored.take_if(|(read_in, _)| *read_in == turn);
            if shard.is_aside(id) && record.is_none() {
                // The others of the shard need not wait for the disk; who was faster may have changed and stored it anew.
                drop(shard);
                stored = Some((turn, self.read_stored(id)?));
                continue;
            }
            may_begin(&mut shard)?;
            let session = self.begun(id, now);
            match (shard.take_aside(id), record) {
                (Some(aside), Some((_, record))) => go_on(&session, aside, record),
                _ => drop(self.count.fetch_add(1, Ordering::Relaxed)),
            }
            shard.insert(session.clone());
            return Ok(session);
        }
    }

    /// A session without a record.
    fn begun(&self, id: Uuid, last_use: Duration) -> Arc<Session> {
        Arc::new(Session::new(id, last_use, self.memory.reserve_fixed(MemoryUse::Sessions, SESSION_BYTES)))
    }

    /// What the tree has of a session that is set aside; nothing if that was lost.
    fn read_stored(&self, id: Uuid) -> Result<SessionRecord> {
        let Some((engine, catalog)) = self.stored.get() else { return Ok(SessionRecord::default()) };
        let Some(tree) = catalog.session_tree() else { return Ok(SessionRecord::default()) };
        let mut value = Vec::new();
        let found = engine.get_latest(tree, &id.bytes(), &mut value)?;
        found.map_or_else(|| Ok(SessionRecord::default()), |_| SessionRecord::decode(&value))
    }

    /// The session of this id, which there was when the server stopped: it is there again, whatever memory there is now.
    fn restored(&self, id: Uuid) -> Result<Arc<Session>> {
        self.used(id, |shard| {
            let _is_there = self.are_many() && self.make_room(shard);
            Ok(())
        })
    }

    /// Begins, or goes on with, the retryable write of this number.
    ///
    /// # Errors
    /// As `SessionRecord::begin_retryable_write`; `Engine(NoMemory)` when sessions hold so much that nothing may be remembered of another write.
    pub(crate) fn begin_retryable_write(&self, session: &Session, txn_number: i64) -> Result<()> {
        // No lock is taken as long as there is room.
        if !self.has_room() && !self.make_room(&mut self.shard(session.id()).lock()) {
            return Err(self.no_memory());
        }
        session.change_record(|record| record.begin_retryable_write(session.id(), txn_number))
    }

    /// The session of this id, if it was used before and is not set aside.
    pub fn find(&self, id: Uuid) -> Option<Arc<Session>> {
        self.shard(id).lock().get(id).cloned()
    }

    /// Whether there is a session of this id.
    pub fn knows(&self, id: Uuid) -> bool {
        let shard = self.shard(id).lock();
        shard.get(id).is_some() || shard.is_aside(id)
    }

    /// All sessions, in no order.
    pub fn all(&self) -> Vec<KnownSession> {
        self.shards.iter().flat_map(|shard| shard.lock().known().collect::<Vec<_>>()).collect()
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }

    /// Ends a session: what it has written is forgotten. The caller ends what belongs to it.
    pub fn end(&self, id: Uuid) -> Option<Arc<Session>> {
        let removed = {
            let mut shard = self.shard(id).lock();
            // In the place of one that is set aside, so that the next checkpoint takes it out of the tree.
            let of_aside = shard.take_aside(id).map(|aside| self.begun(id, aside.last_use));
            shard.remove(id).or(of_aside)?
        };
        self.count.fetch_sub(1, Ordering::Relaxed);
        removed.end();
        self.changed(&removed);
        Some(removed)
    }

    /// The sessions that have not been used for `timeout`.
    pub fn expired(&self, timeout: Duration) -> Vec<Uuid> {
        let now = self.clock.monotonic();
        let is_expired = |last_use| now.saturating_sub(last_use) > timeout;
        let expired = self.shards.iter().flat_map(|shard| shard.lock().unused(is_expired));
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
    pub(crate) fn load_or_lose(&self, engine: &Arc<Engine>, catalog: &Arc<Catalog>) -> Result<Option<SetAsideWork>> {
        let Err(error) = self.load(engine, catalog) else { return Ok(None) };
        if !error.is_damage() {
            return Err(error);
        }
        catalog.drop_session_tree()?;
        self.all_changed();
        Ok(Some(damaged_sessions(error.to_string())))
    }

    /// Has the next checkpoint store all sessions whose records are here.
    pub(crate) fn all_changed(&self) {
        for shard in &self.shards {
            let here: Vec<_> = shard.lock().here().cloned().collect();
            here.iter().for_each(|session| self.changed(session));
        }
    }

    /// Reads what the last checkpoint has stored.
    ///
    /// # Errors
    /// `Engine`; `Collection(Damaged)`.
    fn load(&self, engine: &Arc<Engine>, catalog: &Arc<Catalog>) -> Result<()> {
        self.stored.get_or_init(|| (engine.clone(), catalog.clone()));
        let Some(tree) = catalog.session_tree() else { return Ok(()) };
        let mut cursor = engine.cursor(&engine.begin_snapshot(), tree);
        cursor.seek_first()?;
        while cursor.next()? {
            let id = Uuid::from_bytes(<[u8; 16]>::try_from(cursor.key()).map_err(|_| record::damaged())?);
            let record = SessionRecord::decode(cursor.value()?)?;
            if self.are_many() {
                self.shard(id).lock().set_aside(id, Aside { last_use: self.clock.monotonic(), owner: None });
                self.count.fetch_add(1, Ordering::Relaxed);
            } else {
                self.restored(id)?.change_record(|old| *old = record);
            }
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

/// What was set aside goes on.
fn go_on(session: &Session, aside: Aside, record: SessionRecord) {
    if let Some(owner) = aside.owner {
        session.claim(|| owner);
    }
    session.change_record(|empty| *empty = record);
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
        sessions.all().iter().for_each(|session| drop(sessions.end(session.id())));
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
