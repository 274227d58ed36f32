//! `endSessions`: ends sessions and closes their cursors. Clients send it when they close; unknown sessions are fine.

use crate::DocumentWriter;
use crate::handlers::command::Command;
use crate::request::arguments::Arguments;
use crate::request::declaration::{Authentication, Declaration, Needs, StableApi, WithoutClient};
use crate::request::error::Result;
use crate::state::session_control::SessionControl;

pub(crate) static COMMAND: Command = Command::new(
    |context, arguments, reply| run(&context.session_control(), arguments, reply),
    Declaration {
        authentication: Authentication::NotNeeded,
        without_client: WithoutClient::GoesOn,
        stable_api: StableApi::Version1,
        ..Declaration::new("endSessions", "Ends sessions.", Needs::Nothing, &[])
    },
);

/// Runs the command.
pub(crate) fn run(
    control: &SessionControl<'_>,
    mut arguments: Arguments<'_>,
    _reply: &mut DocumentWriter<'_>,
) -> Result<()> {
    let sessions = control.named(&mut arguments)?;
    control.end(&sessions)
}
