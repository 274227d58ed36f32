//! The end of logical sessions: how long they live unused, and what ends with them.
//!
//! The sessions themselves are in `transaction::SessionTable`: a session lives from its first use until it is ended or has not been used
//! for [`TIMEOUT`]. Its cursors are closed with it. Called by `sessions` for those that clients end, by the server for those that are forgotten.

use std::time::Duration;

use bson::Uuid;
use transaction::Store;

use crate::state::client_cursors::ClientCursors;

/// How long a session lives without being used, in minutes, as `hello` says it.
pub(crate) const TIMEOUT_MINUTES: i32 = 30;
/// The same.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(TIMEOUT_MINUTES as u64 * 60);

/// Ends a session and closes its cursors. It need not be known.
pub(crate) fn end(store: &Store, cursors: &ClientCursors, session: Uuid) {
    if let Some(ended) = store.sessions().end(session) {
        store.abort_open_transaction(&ended);
    }
    cursors.close_of_session(session);
}

/// Ends the sessions that have not been used for so long; called now and then.
pub(crate) fn end_expired(store: &Store, cursors: &ClientCursors, unused: Duration) {
    store.sessions().expired(unused).into_iter().for_each(|session| end(store, cursors, session));
}
