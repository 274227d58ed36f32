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
use platform::Clock;
use storage_engine::{Batch, Engine, TreeId};

pub use record::ExecutedStatement;
pub use session::{CheckedOutSession, Session};

use crate::error::{Result, TransactionError};
use crate::set_aside_work::SetAsideWork;
use crate::store::Store;
pub(crate) use record::NumberUse;
use record::SessionRecord;

/// Most sessions at once, as in MongoDB (`maxSessions`).
const SESSIONS_MAX: usize = 1_000_000;
const SHARDS: usize = 64;
/// Sessions stored in one batch.
const BATCH_SESSIONS: usize = 64;

type Shard = Mutex<HashMap<Uuid, Arc<Session>>>;

/// All sessions.
pub struct SessionTable {
    shards: Vec<Shard>,
    count: AtomicUsize,
    /// Those whose record is not in the tree as it is; each once.
    changed: Mutex<Vec<Arc<Session>>>,
    clock: Arc<dyn Clock>,
}

impl SessionTable {
    pub(crate) fn new(clock: Arc<dyn Clock>) -> SessionTable {
        let shards = (0..SHARDS).map(|_| Shard::default()).collect();
        SessionTable { shards, count: AtomicUsize::new(0), changed: Mutex::default(), clock }
    }

    fn shard(&self, id: Uuid) -> &Shard {
        // Drivers make them at random; the last byte is.
        &self.shards[usize::from(id.bytes()[15]) % SHARDS]
    }

    /// Notes a use of a session; the first one begins it.
    ///
    /// # Errors
    /// `TooManySessions`.
    pub fn refresh(&self, id: Uuid) -> Result<Arc<Session>> {
        let now = self.clock.monotonic();
        let mut shard = self.shard(id).lock();
        if let Some(session) = shard.get(&id) {
            session.touch(now);
            return Ok(session.clone());
        }
        if self.count.load(Ordering::Relaxed) >= SESSIONS_MAX {
            return Err(TransactionError::TooManySessions);
        }
        let session = Arc::new(Session::new(id, now));
        shard.insert(id, session.clone());
        self.count.fetch_add(1, Ordering::Relaxed);
        Ok(session)
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
        if session.record().lock().add_statement(txn_number, executed) {
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
        session.record().lock().set_transaction(txn_number, NumberUse::Committed);
        self.changed(session);
    }

    /// Adds a statement that replay has met.
    fn restore(&self, statement: &LoggedStatement) {
        let Ok(session) = self.refresh(statement.session) else { return };
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
            if let Ok(session) = self.refresh(Uuid::from_bytes(id)) {
                *session.record().lock() = record;
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
        if let Ok(session) = self.refresh(session) {
            self.record_commit(&session, txn_number);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_session_more_than_there_may_be_is_refused() {
        let sessions = SessionTable::new(Arc::new(platform::SimulatedClock::new(0)));
        let id = |number: u8| Uuid::from_bytes([number; 16]);
        sessions.refresh(id(1)).unwrap();
        // All others that there may be, but for one.
        sessions.count.store(SESSIONS_MAX - 1, Ordering::Relaxed);
        sessions.refresh(id(2)).unwrap();
        assert!(matches!(sessions.refresh(id(3)), Err(TransactionError::TooManySessions)));
        sessions.refresh(id(1)).unwrap();
        sessions.end(id(1)).unwrap();
        sessions.refresh(id(3)).unwrap();
    }
}
