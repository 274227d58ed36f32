//! `shutdown`: stops the server in an orderly way. The client gets no reply: its connection is closed.

use crate::DocumentWriter;
use crate::handlers::command::Command;
use crate::request::arguments::Arguments;
use crate::request::audit_events;
use crate::request::declaration::{Declaration, Needs, WithoutClient};
use crate::request::error::Result;
use crate::request::outcome::Outcome;
use crate::request::privileges::{Action, on_cluster};
use crate::state::server_hooks::ServerHooks;

pub(crate) static COMMAND: Command = Command::waiting(
    |context, arguments, reply| run(&*context.server.hooks, context.connection, arguments, reply),
    Declaration {
        audit: Some(audit_events::as_named),
        is_admin_only: true,
        without_client: WithoutClient::GoesOn,
        ..Declaration::new(
            "shutdown",
            "Stops the server in an orderly way.",
            Needs::Nothing,
            &[on_cluster(Action::Shutdown)],
        )
    },
);

/// Runs the command.
pub(crate) fn run(
    hooks: &dyn ServerHooks,
    connection: u64,
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
    tracing::info!(connection = connection, "shutting down as a client asked for");
    hooks.shut_down();
    Ok(Outcome::CloseConnection)
}
