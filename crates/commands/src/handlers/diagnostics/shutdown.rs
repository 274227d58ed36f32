//! `shutdown`: stops the server in an orderly way. The client gets no reply: its connection is closed.

use crate::DocumentWriter;
use crate::dispatcher::Outcome;
use crate::request::arguments::Arguments;
use crate::request::error::Result;
use crate::state::context::Context;

/// Runs the command.
pub(crate) fn run(
    context: &mut Context<'_>,
    mut arguments: Arguments<'_>,
    _reply: &mut DocumentWriter<'_>,
) -> Result<Outcome> {
    for field in arguments.fields() {
        match field.name() {
            // What `force` overrides, and `timeoutSecs` waits for, are other members that are behind: there are none.
            "force" => drop(field.boolean()?),
            "timeoutSecs" => drop(field.unsigned()?),
            _ => arguments.generic(field)?,
        }
    }
    tracing::info!(connection = context.connection, "shutting down as a client asked for");
    context.server.hooks.shut_down();
    Ok(Outcome::CloseConnection)
}
