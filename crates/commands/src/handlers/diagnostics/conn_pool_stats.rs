//! `connPoolStats`: connections of this server to others. It has none, so there are no pools.

use super::only_generic;
use crate::DocumentWriter;
use crate::handlers::command::Command;
use crate::request::arguments::Arguments;
use crate::request::declaration::{Declaration, Needs};
use crate::request::error::Result;
use crate::request::privileges::{Action, on_cluster};

pub(crate) static COMMAND: Command = Command::new(
    |_, arguments, reply| run(arguments, reply),
    Declaration {
        is_admin_only: true,
        ..Declaration::new(
            "connPoolStats",
            "Connections of the server to others: none.",
            Needs::Nothing,
            &[on_cluster(Action::ConnPoolStats)],
        )
    },
);

/// Runs the command.
pub(crate) fn run(mut arguments: Arguments<'_>, reply: &mut DocumentWriter<'_>) -> Result<()> {
    only_generic(&mut arguments)?;
    let totals = [
        "numClientConnections",
        "numAScopedConnections",
        "totalInUse",
        "totalAvailable",
        "totalLeased",
        "totalCreated",
        "totalRefreshing",
    ];
    totals.iter().for_each(|name| reply.int32(name, 0));
    reply.document("pools", |_| {});
    reply.document("hosts", |_| {});
    Ok(())
}
