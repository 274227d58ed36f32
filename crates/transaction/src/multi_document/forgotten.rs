//! Transactions that are aborted so that others can begin: the oldest idle ones of the client that holds most.
//!
//! Called when there is no memory for another transaction. Clients forget transactions, and those stay open for a minute; whoever goes on
//! with one that was aborted is told NoSuchTransaction, and tries it again, as after that minute.

use std::sync::Arc;

use bson::Uuid;
use platform::greediest::{Idle, choose};

use super::{OpenTransaction, TRANSACTION_BYTES};
use crate::sessions::Session;
use crate::store::Store;

impl Store {
    /// Aborts idle transactions to make room for another, of clients that hold no less than the one that needs it, if there are any. Gives their
    /// sessions and numbers.
    pub fn end_forgotten_transactions(&self, connection: u64) -> Vec<(Uuid, i64)> {
        // One at a time: what one has made free is enough for others, who would end as many again.
        let _one_at_a_time = self.open_transactions.ending.lock();
        if self.engine.memory().fits_leaving_much(TRANSACTION_BYTES) {
            return Vec::new();
        }
        let mut open = self.sessions_with_transactions();
        open.sort_unstable_by_key(|session| session.id().bytes());
        open.dedup_by_key(|session| session.id());
        let idle = open.iter().enumerate().filter_map(|(position, session)| idle(position, session));
        let chosen = choose(idle.collect(), self.clock.monotonic(), TRANSACTION_BYTES, connection);
        let is_forgotten = |session: &&Arc<Session>| !session.is_in_use();
        let sessions = chosen.iter().filter_map(|idle| open.get(idle.id)).filter(is_forgotten);
        let ended: Vec<_> =
            sessions.filter_map(|session| Some((session.id(), self.abort_open_transaction(session)?))).collect();
        if !ended.is_empty() {
            tracing::warn!(ended = ended.len(), "idle transactions were aborted: there was no memory for others");
        }
        ended
    }
}

/// The transaction of a session that no command is using.
fn idle(position: usize, session: &Session) -> Option<Idle<usize>> {
    if session.is_in_use() {
        return None;
    }
    let open = session.transaction().lock();
    let OpenTransaction { transaction, connection, .. } = open.as_ref()?;
    let bytes = TRANSACTION_BYTES + transaction.writes.memory_bytes();
    Some(Idle { id: position, connection: *connection, bytes, since: session.last_use() })
}
