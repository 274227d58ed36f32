//! `replSetSyncFrom`: from whom a secondary reads the oplog. A primary reads it from nobody.

use crate::DocumentWriter;
use crate::request::arguments::{Arguments, Field};
use crate::request::error::{CommandError, Result};
use crate::state::context::Context;
use crate::state::replica_set::configuration::host_with_port;

/// Runs the command.
pub(crate) fn run(
    context: &mut Context<'_>,
    mut arguments: Arguments<'_>,
    _reply: &mut DocumentWriter<'_>,
) -> Result<()> {
    let target = arguments.target().ok_or_else(|| CommandError::bad_value("an empty command"))?;
    host_with_port(target.required(Field::string)?)?;
    for field in arguments.fields() {
        arguments.generic(field)?;
    }
    context.server.replica_set.initiated()?;
    Err(CommandError::named("NotSecondary", "primaries don't sync"))
}
