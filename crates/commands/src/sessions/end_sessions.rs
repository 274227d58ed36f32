//! `endSessions`: ends sessions and closes their cursors. Clients send it when they close; unknown sessions are fine.

use crate::DocumentWriter;
use crate::arguments::Arguments;
use crate::context::Context;
use crate::error::Result;

/// Runs the command.
pub(crate) fn run(
    context: &mut Context<'_>,
    mut arguments: Arguments<'_>,
    _reply: &mut DocumentWriter<'_>,
) -> Result<()> {
    let server = context.server;
    for session in super::session_list(&mut arguments)? {
        server.sessions.end(session, &server.cursors);
    }
    Ok(())
}
