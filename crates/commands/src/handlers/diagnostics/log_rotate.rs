//! `logRotate`: starts a new diagnostics log file.

use bson::RawBsonRef;

use super::only_generic;
use crate::DocumentWriter;
use crate::handlers::command::Command;
use crate::request::arguments::Arguments;
use crate::request::declaration::{Declaration, Needs, WithoutClient};
use crate::request::error::{CommandError, Result};
use crate::request::privileges::{Action, on_cluster};
use crate::state::context::Context;

pub(crate) static COMMAND: Command = Command::new(
    run,
    Declaration {
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
    context: &mut Context<'_>,
    mut arguments: Arguments<'_>,
    _reply: &mut DocumentWriter<'_>,
) -> Result<()> {
    only_generic(&mut arguments)?;
    match arguments.target().map(|field| field.value()) {
        Some(RawBsonRef::String("server")) => {}
        Some(RawBsonRef::String("audit")) => return Err(CommandError::not_implemented("the audit log")),
        Some(RawBsonRef::String(other)) => {
            return Err(CommandError::bad_value(format!("Unknown log type '{other}'")));
        }
        _ => {}
    }
    context.server.hooks.rotate_log().map_err(|problem| CommandError::named("OperationFailed", problem))
}
