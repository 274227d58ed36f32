//! `startSession`: begins a session and tells its id. Drivers make the ids themselves; this is for those who do not.

use crate::DocumentWriter;
use crate::handlers::command::Command;
use crate::request::arguments::Arguments;
use crate::request::declaration::{Declaration, Needs, WithoutClient};
use crate::request::error::Result;
use crate::state::context::Context;

pub(crate) static COMMAND: Command = Command::new(
    run,
    Declaration {
        without_client: WithoutClient::GoesOn,
        ..Declaration::new("startSession", "Starts a session.", Needs::Nothing, &[])
    },
);

/// Runs the command.
pub(crate) fn run(
    context: &mut Context<'_>,
    mut arguments: Arguments<'_>,
    reply: &mut DocumentWriter<'_>,
) -> Result<()> {
    for field in arguments.fields() {
        arguments.generic(field)?;
    }
    let session = context.server.store.catalog().new_uuid();
    context.server.store.sessions().refresh(session)?;
    reply.document("id", |id| id.uuid("id", session));
    reply.int32("timeoutMinutes", crate::state::session_end::TIMEOUT_MINUTES);
    Ok(())
}
