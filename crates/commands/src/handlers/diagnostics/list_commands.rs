//! `listCommands`: the commands of the server.

use crate::DocumentWriter;
use crate::registry;
use crate::request::arguments::Arguments;
use crate::request::error::Result;
use crate::state::context::Context;

/// Runs the command.
pub(crate) fn run(
    _context: &mut Context<'_>,
    mut arguments: Arguments<'_>,
    reply: &mut DocumentWriter<'_>,
) -> Result<()> {
    super::only_generic(&mut arguments)?;
    reply.document("commands", |commands| {
        for command in registry::all() {
            commands.document(command.name, |entry| {
                entry.string("help", command.help);
                entry.boolean("requiresAuth", false);
                entry.boolean("adminOnly", command.is_admin_only);
            });
        }
    });
    Ok(())
}
