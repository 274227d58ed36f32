//! `startSession`: begins a session and tells its id. Drivers make the ids themselves; this is for those who do not.

use crate::DocumentWriter;
use crate::handlers::command::Command;
use crate::request::arguments::Arguments;
use crate::request::declaration::{Declaration, Needs, WithoutClient};
use crate::request::error::Result;
use crate::state::session_control::SessionControl;

pub(crate) static COMMAND: Command = Command::new(
    |context, arguments, reply| run(&context.session_control(), arguments, reply),
    Declaration {
        without_client: WithoutClient::GoesOn,
        ..Declaration::new("startSession", "Starts a session.", Needs::Nothing, &[])
    },
);

/// Runs the command.
pub(crate) fn run(
    control: &SessionControl<'_>,
    mut arguments: Arguments<'_>,
    reply: &mut DocumentWriter<'_>,
) -> Result<()> {
    for field in arguments.fields() {
        arguments.generic(field)?;
    }
    let session = control.store.catalog().new_uuid();
    let begun = control.store.sessions().refresh(session)?;
    control.claim(&begun);
    reply.document("id", |id| id.uuid("id", session));
    reply.int32("timeoutMinutes", crate::state::session_end::TIMEOUT_MINUTES);
    Ok(())
}
