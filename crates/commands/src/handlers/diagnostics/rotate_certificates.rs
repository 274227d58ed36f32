//! `rotateCertificates`: reads the server's certificates, authorities and lists of what is revoked again, for connections that come from now on.

use crate::DocumentWriter;
use crate::handlers::command::Command;
use crate::request::arguments::Arguments;
use crate::request::audit_events;
use crate::request::declaration::{Declaration, Needs, WithoutClient};
use crate::request::error::{CommandError, Result};
use crate::request::privileges::{Action, on_cluster};
use crate::state::server_hooks::ServerHooks;

pub(crate) static COMMAND: Command = Command::new(
    |context, arguments, reply| run(&*context.server.hooks, arguments, reply),
    Declaration {
        audit: Some(audit_events::as_named),
        is_admin_only: true,
        without_client: WithoutClient::GoesOn,
        ..Declaration::new(
            "rotateCertificates",
            "Reads the server's certificates again, for connections that come from now on.",
            Needs::Nothing,
            &[on_cluster(Action::RotateCertificates)],
        )
    },
);

/// Runs the command.
pub(crate) fn run(
    hooks: &dyn ServerHooks,
    mut arguments: Arguments<'_>,
    _reply: &mut DocumentWriter<'_>,
) -> Result<()> {
    let mut message = None;
    for field in arguments.fields() {
        match field.name() {
            "message" => message = Some(field.string()?),
            _ => arguments.generic(field)?,
        }
    }
    if let Some(message) = message {
        tracing::info!(message, "certificates are rotated");
    }
    let rotated = hooks.rotate_certificates();
    rotated.map_err(|problem| CommandError::named("OperationFailed", format!("Certificate rotation failed: {problem}")))
}
