//! `refreshSessions`: counts as a use of the sessions that it names.

use crate::DocumentWriter;
use crate::handlers::command::Command;
use crate::request::arguments::Arguments;
use crate::request::declaration::{Declaration, Needs, StableApi, WithoutClient};
use crate::request::error::Result;
use crate::state::session_control::SessionControl;

pub(crate) static COMMAND: Command = Command::new(
    |context, arguments, reply| run(&context.session_control(), arguments, reply),
    Declaration {
        without_client: WithoutClient::GoesOn,
        stable_api: StableApi::Version1,
        ..Declaration::new("refreshSessions", "Keeps sessions alive.", Needs::Nothing, &[])
    },
);

/// Runs the command.
pub(crate) fn run(
    control: &SessionControl<'_>,
    mut arguments: Arguments<'_>,
    _reply: &mut DocumentWriter<'_>,
) -> Result<()> {
    for session in control.named(&mut arguments)? {
        control.operation.check_interrupt()?;
        let refreshed = control.store.sessions().refresh(session)?;
        control.claim(&refreshed);
    }
    Ok(())
}
