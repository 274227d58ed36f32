//! The commands that end transactions. They begin with the first command that says `startTransaction` (`operation_session`).

use crate::state::client_cursors::ClientCursors;

pub(crate) mod abort_transaction;
pub(crate) mod commit_transaction;

/// Closes what a transaction has left open.
pub(crate) fn close_cursors(cursors: &ClientCursors, session: bson::Uuid, txn_number: i64) {
    cursors.close_of_transaction(session, txn_number);
}
