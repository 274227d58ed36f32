//! `killOp`: asks a running command to end. It ends at the next step at which it looks.

use authentication::Target;

use crate::DocumentWriter;
use crate::handlers::command::Command;
use crate::request::arguments::Arguments;
use crate::request::declaration::{Declaration, Needs, WithoutClient};
use crate::request::error::{CommandError, Result};
use crate::request::privileges::Action;
use crate::state::operations::Operations;
use crate::state::rights::Rights;

pub(crate) static COMMAND: Command = Command::new(
    |context, arguments, reply| run(&context.server.operations, context.rights(), arguments, reply),
    Declaration {
        is_admin_only: true,
        without_client: WithoutClient::GoesOn,
        ..Declaration::new("killOp", "Ends a running command.", Needs::Nothing, &[])
    },
);

/// Runs the command.
pub(crate) fn run(
    operations: &Operations,
    rights: Rights<'_>,
    mut arguments: Arguments<'_>,
    reply: &mut DocumentWriter<'_>,
) -> Result<()> {
    let mut id = None;
    for field in arguments.fields() {
        match field.name() {
            "op" => id = field.integer()?,
            _ => arguments.generic(field)?,
        }
    }
    let id = id.ok_or_else(|| CommandError::named("NoSuchKey", "Missing expected field \"op\""))?;
    // Numbers above 2^31 come back from clients as negative ones.
    let unsigned = if id >= 0 { u32::try_from(id).ok() } else { i32::try_from(id).ok().map(|id| id as u32) };
    let Some(id) = unsigned else {
        return Err(CommandError::bad_value(format!("invalid op : {id}. Op ID cannot be represented with 32 bits")));
    };
    // Everybody may end what is his own.
    let owner = operations.owner(id);
    if owner.is_none_or(|owner| owner.as_ref() != rights.login.user()) {
        rights.require(Target::Cluster, Action::Killop)?;
    }
    operations.kill(id);
    reply.string("info", "attempting to kill op");
    Ok(())
}
