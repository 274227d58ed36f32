//! The end of logical sessions: how long they live unused, and what ends with them.
//!
//! The sessions themselves are in `transaction::SessionTable`: a session lives from its first use until it is ended or has not been used
//! for [`TIMEOUT`]. Its cursors are closed with it. Called by `sessions` for those that clients end, by the server for those that are forgotten.

use std::time::Duration;

use bson::Uuid;

use crate::state::context::ServerContext;

/// How long a session lives without being used, in minutes, as `hello` says it.
pub(crate) const TIMEOUT_MINUTES: i32 = 30;
/// The same.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(TIMEOUT_MINUTES as u64 * 60);

/// Ends a session and closes its cursors. It need not be known.
pub(crate) fn end(server: &ServerContext, session: Uuid) {
    if let Some(ended) = server.store.sessions().end(session) {
        server.store.abort_open_transaction(&ended);
    }
    server.cursors.close_of_session(session);
}

/// Ends the sessions that have not been used for too long; called now and then.
pub(crate) fn end_expired(server: &ServerContext) {
    server.store.sessions().expired(server.session_timeout).into_iter().for_each(|session| end(server, session));
}
