//! `isdbgrid`: whether this is a router, which a server outside of a replica set says it is ([`super::hello`] has the reason).

use super::{host_and_port, only_generic};
use crate::DocumentWriter;
use crate::handlers::command::Command;
use crate::request::arguments::Arguments;
use crate::request::declaration::{Authentication, Declaration, Needs};
use crate::request::error::Result;
use crate::state::context::Context;
use crate::state::replica_set::Identity;

pub(crate) static COMMAND: Command = Command::new(
    run,
    Declaration {
        authentication: Authentication::NotNeeded,
        ..Declaration::new("isdbgrid", "Whether this is a router, as a server by itself says.", Needs::Nothing, &[])
    },
);

/// Runs the command.
pub(crate) fn run(
    context: &mut Context<'_>,
    mut arguments: Arguments<'_>,
    reply: &mut DocumentWriter<'_>,
) -> Result<()> {
    only_generic(&mut arguments)?;
    // A member of a replica set does not know the command: that is how scripts tell the two apart.
    if !matches!(context.server.replica_set.identity(), Identity::Alone) {
        return Err(context.commands.refusal("isdbgrid"));
    }
    reply.int32("isdbgrid", 1);
    reply.string("hostname", &host_and_port(&context.server.facts));
    Ok(())
}
