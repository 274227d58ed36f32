//! `logRotate`: starts a new file of the diagnostics log, of the audit log, or of both.

use bson::RawBsonRef;

use super::only_generic;
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
            "logRotate",
            "Starts a new diagnostics log file.",
            Needs::Nothing,
            &[on_cluster(Action::LogRotate)],
        )
    },
);

/// Runs the command.
pub(crate) fn run(
    hooks: &dyn ServerHooks,
    mut arguments: Arguments<'_>,
    _reply: &mut DocumentWriter<'_>,
) -> Result<()> {
    only_generic(&mut arguments)?;
    let failed = |problem| CommandError::named("OperationFailed", problem);
    match arguments.target().map(|field| field.value()) {
        Some(RawBsonRef::String("server")) => {}
        Some(RawBsonRef::String("audit")) => {
            let Some(sink) = hooks.audit() else { return Err(failed("there is no audit log (--audit)".to_owned())) };
            return sink.rotate().map_err(failed);
        }
        Some(RawBsonRef::String(other)) => {
            return Err(CommandError::bad_value(format!("Unknown log type '{other}'")));
        }
        // All logs; the diagnostics log need not be a file then.
        _ if hooks.audit().is_some_and(|sink| sink.rotate().is_ok()) => {
            let _ = hooks.rotate_log();
            return Ok(());
        }
        _ => {}
    }
    hooks.rotate_log().map_err(failed)
}
