//! `replSetSyncFrom`: from whom a secondary reads the oplog. A primary reads it from nobody.

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
            "Refused: the only member of a replica set is its primary, which syncs from nobody.",
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
    Err(CommandError::named("NotSecondary", "primaries don't sync"))
}
