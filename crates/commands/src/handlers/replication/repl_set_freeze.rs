//! `replSetFreeze`: keeps a secondary from being elected for a while. A primary cannot be frozen.

use std::time::Duration;

use crate::DocumentWriter;
use crate::handlers::command::Command;
use crate::request::arguments::Arguments;
use crate::request::declaration::{Declaration, Needs};
use crate::request::error::{CommandError, Result};
use crate::request::privileges::{Action, on_cluster};
use crate::state::replica_set::ReplicaSet;

pub(crate) static COMMAND: Command = Command::new(
    |context, arguments, reply| run(&context.server.replica_set, arguments, reply),
    Declaration {
        is_admin_only: true,
        ..Declaration::new(
            "replSetFreeze",
            "Keeps a secondary from claiming the lead for some seconds. A primary cannot be frozen.",
            Needs::Nothing,
            &[on_cluster(Action::ReplSetStateChange)],
        )
    },
);

/// Runs the command.
pub(crate) fn run(
    replica_set: &ReplicaSet,
    mut arguments: Arguments<'_>,
    reply: &mut DocumentWriter<'_>,
) -> Result<()> {
    let target = arguments.target().ok_or_else(|| CommandError::bad_value("an empty command"))?;
    let seconds = target.integer()?.unwrap_or_default();
    for field in arguments.fields() {
        arguments.generic(field)?;
    }
    replica_set.initiated()?;
    if replica_set.is_secondary()
        && let Some(members) = replica_set.members()
    {
        if seconds < 0 {
            return Err(CommandError::bad_value("the time to freeze for must not be negative"));
        }
        members.freeze(Duration::from_secs(seconds.unsigned_abs()));
        if seconds == 0 {
            reply.string("info", "unfreezing");
        }
        return Ok(());
    }
    Err(CommandError::named("NotSecondary", "cannot freeze node when primary or running for election. state: Primary"))
}
