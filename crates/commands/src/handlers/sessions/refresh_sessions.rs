//! `refreshSessions`: counts as a use of the sessions that it names.

use crate::DocumentWriter;
use crate::handlers::command::Command;
use crate::request::arguments::Arguments;
use crate::request::declaration::{Declaration, Needs, StableApi, WithoutClient};
use crate::request::error::Result;
use crate::state::context::Context;

pub(crate) static COMMAND: Command = Command::new(
    run,
    Declaration {
        without_client: WithoutClient::GoesOn,
        stable_api: StableApi::Version1,
        ..Declaration::new("refreshSessions", "Keeps sessions alive.", Needs::Nothing, &[])
    },
);

/// Runs the command.
pub(crate) fn run(
    context: &mut Context<'_>,
    mut arguments: Arguments<'_>,
    _reply: &mut DocumentWriter<'_>,
) -> Result<()> {
    for session in super::session_list(context, &mut arguments)? {
        context.operation.check_interrupt()?;
        context.server.store.sessions().refresh(session)?;
    }
    Ok(())
}
