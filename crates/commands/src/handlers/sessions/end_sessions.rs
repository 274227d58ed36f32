//! `endSessions`: ends sessions and closes their cursors. Clients send it when they close; unknown sessions are fine.

use crate::DocumentWriter;
use crate::request::arguments::Arguments;
use crate::request::error::Result;
use crate::state::context::Context;

/// Runs the command.
pub(crate) fn run(
    context: &mut Context<'_>,
    mut arguments: Arguments<'_>,
    _reply: &mut DocumentWriter<'_>,
) -> Result<()> {
    for session in super::session_list(&mut arguments)? {
        super::end(context.server, session);
    }
    Ok(())
}
