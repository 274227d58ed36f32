//! `abortTransaction`: gives up what a transaction has changed.

use crate::DocumentWriter;
use crate::handlers::command::Command;
use crate::request::arguments::Arguments;
use crate::request::declaration::{Declaration, Needs, SessionUse, StableApi, WithoutClient, WriteConcernUse};
use crate::request::error::Result;
use crate::state::context::Context;

pub(crate) static COMMAND: Command = Command::new(
    run,
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
    context: &mut Context<'_>,
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
    let (session, txn_number) = context.session.ending()?;
    super::close_cursors(context, session.id(), txn_number);
    Ok(context.server.store.abort_transaction(session, txn_number)?)
}
