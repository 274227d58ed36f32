//! `replSetGetConfig`: the configuration of the set.

use crate::DocumentWriter;
use crate::handlers::command::Command;
use crate::request::arguments::Arguments;
use crate::request::declaration::{Declaration, Needs};
use crate::request::error::Result;
use crate::request::privileges::{Action, on_cluster};
use crate::state::context::Context;

pub(crate) static COMMAND: Command = Command::new(
    run,
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
    context: &mut Context<'_>,
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
    let membership = context.server.replica_set.initiated()?;
    reply.embed("config", &membership.configuration.to_document()?);
    if tells_commitment {
        // It was durable before anybody was told, and this member is all of the set.
        reply.boolean("commitmentStatus", true);
    }
    Ok(())
}
