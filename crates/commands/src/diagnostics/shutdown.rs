//! `shutdown`: stops the server in an orderly way. The client gets no reply: its connection is closed.

use crate::DocumentWriter;
use crate::arguments::Arguments;
use crate::context::Context;
use crate::dispatcher::Outcome;
use crate::error::Result;

/// Runs the command.
pub(crate) fn run(
    context: &mut Context<'_>,
    mut arguments: Arguments<'_>,
    _reply: &mut DocumentWriter<'_>,
) -> Result<Outcome> {
    for field in arguments.fields() {
        match field.name() {
            // What `force` overrides are objections that only a member of a replica set has.
            "force" => drop(field.boolean()?),
            "timeoutSecs" if field.unsigned()? == 0 => {}
            "timeoutSecs" => return Err(field.not_implemented()),
            _ => arguments.generic(field)?,
        }
    }
    tracing::info!(connection = context.connection, "shutting down as a client asked for");
    context.server.hooks.shut_down();
    Ok(Outcome::CloseConnection)
}
