//! `getDefaultRWConcern`: the read and write concerns of commands that name none.

use bson::DateTime;
use platform::Clock;

use crate::DocumentWriter;
use crate::handlers::command::Command;
use crate::request::arguments::Arguments;
use crate::request::declaration::{Declaration, Needs};
use crate::request::error::Result;
use crate::request::privileges::{Action, on_cluster};
use crate::state::default_concerns::DefaultConcerns;
use crate::state::replica_set::ReplicaSet;

pub(crate) static COMMAND: Command = Command::new(
    |context, arguments, reply| {
        run(&*context.server.clock, &context.server.default_concerns, &context.server.replica_set, arguments, reply)
    },
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
    clock: &dyn Clock,
    concerns: &DefaultConcerns,
    replica_set: &ReplicaSet,
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
    let now = DateTime::from_millis(clock.wall_millis());
    concerns.write(replica_set, now, reply);
    if is_in_memory {
        reply.boolean("inMemory", true);
    }
    Ok(())
}
