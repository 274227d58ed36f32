//! `isdbgrid`: whether this is a router, which a server outside of a replica set says it is ([`super::hello`] has the reason).

use super::{host_and_port, only_generic};
use crate::DocumentWriter;
use crate::handlers::command::Command;
use crate::request::arguments::Arguments;
use crate::request::declaration::{Authentication, Declaration, Needs};
use crate::request::error::Result;
use crate::state::command_table::CommandTable;
use crate::state::context::ServerFacts;
use crate::state::replica_set::{Identity, ReplicaSet};

pub(crate) static COMMAND: Command = Command::new(
    |context, arguments, reply| {
        run(&context.server.facts, &context.server.replica_set, context.commands, arguments, reply)
    },
    Declaration {
        authentication: Authentication::NotNeeded,
        ..Declaration::new("isdbgrid", "Whether this is a router, as a server by itself says.", Needs::Nothing, &[])
    },
);

/// Runs the command.
pub(crate) fn run(
    facts: &ServerFacts,
    replica_set: &ReplicaSet,
    commands: &dyn CommandTable,
    mut arguments: Arguments<'_>,
    reply: &mut DocumentWriter<'_>,
) -> Result<()> {
    only_generic(&mut arguments)?;
    // A member of a replica set does not know the command: that is how scripts tell the two apart.
    if !matches!(replica_set.identity(), Identity::Alone) {
        return Err(commands.refusal("isdbgrid"));
    }
    reply.int32("isdbgrid", 1);
    reply.string("hostname", &host_and_port(facts));
    Ok(())
}
