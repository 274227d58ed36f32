//! `replSetGetConfig`: the configuration of the set.

use crate::DocumentWriter;
use crate::handlers::command::Command;
use crate::request::arguments::Arguments;
use crate::request::declaration::{Declaration, Needs};
use crate::request::error::Result;
use crate::request::privileges::{Action, on_cluster};
use crate::state::replica_set::ReplicaSet;

pub(crate) static COMMAND: Command = Command::new(
    |context, arguments, reply| run(&context.server.replica_set, arguments, reply),
    Declaration {
        is_admin_only: true,
        ..Declaration::new(
            "replSetGetConfig",
            "The configuration of the replica set.",
            Needs::Nothing,
            &[on_cluster(Action::ReplSetGetConfig)],
        )
    },
);

/// Runs the command.
pub(crate) fn run(
    replica_set: &ReplicaSet,
    mut arguments: Arguments<'_>,
    reply: &mut DocumentWriter<'_>,
) -> Result<()> {
    let mut tells_commitment = false;
    for field in arguments.fields() {
        match field.name() {
            "commitmentStatus" => tells_commitment = field.boolean()?,
            _ => arguments.generic(field)?,
        }
    }
    let membership = replica_set.initiated()?;
    reply.embed("config", &membership.configuration.with_members(replica_set.members())?);
    if tells_commitment {
        // It was durable before anybody was told, and this member is all of the set.
        reply.boolean("commitmentStatus", true);
    }
    Ok(())
}
