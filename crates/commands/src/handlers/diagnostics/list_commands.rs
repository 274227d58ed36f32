//! `listCommands`: the commands of the server.

use crate::DocumentWriter;
use crate::handlers::command::Command;
use crate::request::arguments::Arguments;
use crate::request::declaration::{Authentication, Declaration, Needs, StableApi};
use crate::request::error::Result;
use crate::state::command_table::CommandTable;

pub(crate) static COMMAND: Command = Command::new(
    |context, arguments, reply| run(context.commands, arguments, reply),
    Declaration {
        authentication: Authentication::NotNeeded,
        ..Declaration::new("listCommands", "Lists the commands of the server.", Needs::Nothing, &[])
    },
);

/// Runs the command.
pub(crate) fn run(
    commands: &dyn CommandTable,
    mut arguments: Arguments<'_>,
    reply: &mut DocumentWriter<'_>,
) -> Result<()> {
    super::only_generic(&mut arguments)?;
    reply.document("commands", |list| {
        for command in commands.declarations() {
            let versions = if command.stable_api == StableApi::Version1 { Some("1") } else { None };
            list.document(command.name, |entry| {
                entry.string("help", command.help);
                entry.boolean("requiresAuth", command.authentication == Authentication::Needed);
                entry.boolean("secondaryOk", command.needs == Needs::Nothing);
                entry.boolean("adminOnly", command.is_admin_only);
                entry.boolean("secondaryOverrideOk", command.needs == Needs::Data);
                entry.array("apiVersions", |list| versions.iter().for_each(|version| list.push_string(version)));
                // Nothing of version 1 is deprecated.
                entry.array("deprecatedApiVersions", |_| {});
            });
        }
    });
    Ok(())
}
