//! The end of logical sessions: how long they live unused, and what ends with them.
//!
//! The sessions themselves are in `transaction::SessionTable`: a session lives from its first use until it is ended or
//! has not been used for [`TIMEOUT`]. Its cursors are closed with it. Called by `sessions` for those that clients end,
//! by the server for those that are forgotten.

use std::collections::HashSet;
use std::time::Duration;

use bson::Uuid;
use transaction::Store;

use crate::request::error::Result;
use crate::state::client_cursors::ClientCursors;

/// How long a session lives without being used, in minutes, as `hello` says it.
pub(crate) const TIMEOUT_MINUTES: i32 = 30;
/// The same.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(TIMEOUT_MINUTES as u64 * 60);

/// Ends sessions and closes their cursors. They need not be known. Asks before each whether to stop: then those before it have ended.
///
/// # Errors
/// Those of `check`.
pub(crate) fn end(
    store: &Store,
    cursors: &ClientCursors,
    sessions: &HashSet<Uuid>,
    check: &dyn Fn() -> Result<()>,
) -> Result<()> {
    let ended = sessions.iter().try_for_each(|session| {
        check()?;
        if let Some(ended) = store.sessions().end(*session) {
            store.abort_open_transaction(&ended);
        }
        Ok(())
    });
    // One pass over the cursors for all of them.
    if !sessions.is_empty() {
        cursors.close_of_sessions(sessions);
    }
    ended
}

/// Ends the sessions that have not been used for too long; called now and then.
pub(crate) fn end_expired(store: &Store, cursors: &ClientCursors, unused: Duration) {
    let expired = store.sessions().expired(unused).into_iter().collect();
    // Nothing ends it in its midst.
    end(store, cursors, &expired, &|| Ok(())).unwrap_or_default();
}
