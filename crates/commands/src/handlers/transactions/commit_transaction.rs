//! `commitTransaction`: makes what a transaction has changed visible, at once. It may be asked for again: then it says what the first time would have.

use crate::DocumentWriter;
use crate::handlers::command::Command;
use crate::handlers::crud::write_errors::write_concern_error;
use crate::request::arguments::Arguments;
use crate::request::declaration::{Changes, Declaration, Needs, SessionUse, StableApi, WithoutClient, WriteConcernUse};
use crate::request::error::Result;
use crate::state::acknowledgement::Acknowledging;
use crate::state::client_cursors::ClientCursors;
use crate::state::operation_session::OperationSession;

pub(crate) static COMMAND: Command = Command::new(
    |context, arguments, reply| {
        run(&context.session, &context.server.cursors, &context.acknowledging(), arguments, reply)
    },
    Declaration {
        is_admin_only: true,
        changes: Changes::Stored,
        session_use: SessionUse::EndsTransaction,
        without_client: WithoutClient::GoesOn,
        write_concern: WriteConcernUse::Taken,
        stable_api: StableApi::Version1,
        ..Declaration::new("commitTransaction", "Commits a transaction.", Needs::Primary, &[])
    },
);

/// Runs the command.
pub(crate) fn run(
    session: &OperationSession,
    cursors: &ClientCursors,
    acknowledging: &Acknowledging<'_>,
    mut arguments: Arguments<'_>,
    reply: &mut DocumentWriter<'_>,
) -> Result<()> {
    for field in arguments.fields() {
        match field.name() {
            "recoveryToken" => drop(field.document()?),
            _ => arguments.generic(field)?,
        }
    }
    acknowledging.operation.set_time_limit(arguments.generic.max_time)?;
    let (session, txn_number) = session.ending()?;
    let committed = acknowledging.store.commit_transaction(session, txn_number);
    super::close_cursors(cursors, session.id(), txn_number);
    let concern = &arguments.generic.write_concern;
    let waited = match committed? {
        Some(commit) => concern.wait(acknowledging, Some(&commit)),
        // Whatever it was, it is before the end of the oplog.
        None => concern.wait_for_all_of(acknowledging),
    };
    write_concern_error(waited, reply);
    Ok(())
}
