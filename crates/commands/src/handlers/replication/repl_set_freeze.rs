//! `replSetFreeze`: keeps a secondary from being elected for a while. A primary cannot be frozen.

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
    let target = arguments.target().ok_or_else(|| CommandError::bad_value("an empty command"))?;
    target.integer()?;
    for field in arguments.fields() {
        arguments.generic(field)?;
    }
    context.server.replica_set.initiated()?;
    Err(CommandError::named("NotSecondary", "cannot freeze node when primary or running for election. state: Primary"))
}
