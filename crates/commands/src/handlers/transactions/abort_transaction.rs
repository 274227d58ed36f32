//! `abortTransaction`: gives up what a transaction has changed.

use transaction::Store;

use crate::DocumentWriter;
use crate::handlers::command::Command;
use crate::request::arguments::Arguments;
use crate::request::declaration::{Declaration, Needs, SessionUse, StableApi, WithoutClient, WriteConcernUse};
use crate::request::error::Result;
use crate::state::client_cursors::ClientCursors;
use crate::state::operation_session::OperationSession;

pub(crate) static COMMAND: Command = Command::new(
    |context, arguments, reply| {
        let server = context.server;
        run(&server.store, &server.cursors, &context.session, arguments, reply)
    },
    Declaration {
        is_admin_only: true,
        session_use: SessionUse::EndsTransaction,
        without_client: WithoutClient::GoesOn,
        write_concern: WriteConcernUse::Taken,
        stable_api: StableApi::Version1,
        ..Declaration::new("abortTransaction", "Gives up a transaction's changes.", Needs::Primary, &[])
    },
);

/// Runs the command.
pub(crate) fn run(
    store: &Store,
    cursors: &ClientCursors,
    session: &OperationSession,
    mut arguments: Arguments<'_>,
    _reply: &mut DocumentWriter<'_>,
) -> Result<()> {
    for field in arguments.fields() {
        match field.name() {
            // What a router needs to find the members of a transaction.
            "recoveryToken" => drop(field.document()?),
            _ => arguments.generic(field)?,
        }
    }
    let (session, txn_number) = session.ending()?;
    super::close_cursors(cursors, session.id(), txn_number);
    Ok(store.abort_transaction(session, txn_number)?)
}
