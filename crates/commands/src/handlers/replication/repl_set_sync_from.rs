//! `replSetSyncFrom`: from whom a secondary reads the oplog. A primary reads it from nobody, and the others read the shared log, so it is refused.

use crate::DocumentWriter;
use crate::handlers::command::Command;
use crate::request::arguments::{Arguments, Field};
use crate::request::declaration::{Declaration, Needs};
use crate::request::error::{CommandError, Result};
use crate::request::privileges::{Action, on_cluster};
use crate::state::replica_set::ReplicaSet;
use crate::state::replica_set::configuration::host_with_port;

pub(crate) static COMMAND: Command = Command::new(
    |context, arguments, reply| run(&context.server.replica_set, arguments, reply),
    Declaration {
        is_admin_only: true,
        ..Declaration::new(
            "replSetSyncFrom",
            "Refused: a primary syncs from nobody, and the other members read the shared log.",
            Needs::Nothing,
            &[on_cluster(Action::ReplSetStateChange)],
        )
    },
);

/// Runs the command.
pub(crate) fn run(
    replica_set: &ReplicaSet,
    mut arguments: Arguments<'_>,
    _reply: &mut DocumentWriter<'_>,
) -> Result<()> {
    let target = arguments.target().ok_or_else(|| CommandError::bad_value("an empty command"))?;
    host_with_port(target.required(Field::string)?)?;
    for field in arguments.fields() {
        arguments.generic(field)?;
    }
    replica_set.initiated()?;
    if replica_set.is_secondary() {
        let message = "replSetSyncFrom: all members read one shared log, and none syncs from another. The command";
        return Err(CommandError::not_implemented(message));
    }
    Err(CommandError::named("NotSecondary", "primaries don't sync"))
}
