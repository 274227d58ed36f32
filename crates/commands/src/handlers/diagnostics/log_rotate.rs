//! `logRotate`: starts a new diagnostics log file.

use bson::RawBsonRef;

use super::only_generic;
use crate::DocumentWriter;
use crate::request::arguments::Arguments;
use crate::request::error::{CommandError, Result};
use crate::state::context::Context;

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
