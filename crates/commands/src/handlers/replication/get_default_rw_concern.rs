//! `getDefaultRWConcern`: the read and write concerns of commands that name none.

use bson::DateTime;

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
            "getDefaultRWConcern",
            "The read and write concerns of commands that name none.",
            Needs::Nothing,
            &[on_cluster(Action::GetDefaultRwConcern)],
        )
    },
);

/// Runs the command.
pub(crate) fn run(
    context: &mut Context<'_>,
    mut arguments: Arguments<'_>,
    reply: &mut DocumentWriter<'_>,
) -> Result<()> {
    let mut is_in_memory = false;
    for field in arguments.fields() {
        match field.name() {
            // What is stored and what is in memory are the same.
            "inMemory" => is_in_memory = field.boolean()?,
            _ => arguments.generic(field)?,
        }
    }
    let now = DateTime::from_millis(context.server.clock.wall_millis());
    context.server.default_concerns.write(&context.server.replica_set, now, reply);
    if is_in_memory {
        reply.boolean("inMemory", true);
    }
    Ok(())
}
