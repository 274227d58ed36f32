//! `compact`: gives back the space that a collection does not need any more.
//!
//! The engine compacts what it writes all the time; what the documents that were deleted took comes back with the next checkpoint, so one is made.

use super::{existing_collection, target_namespace};
use crate::DocumentWriter;
use crate::handlers::command::Command;
use crate::request::arguments::Arguments;
use crate::request::declaration::{Changes, Declaration, Needs, WithoutClient};
use crate::request::error::Result;
use crate::request::privileges::{Action, on_collection};
use crate::state::operations::Operation;
use crate::state::queries::Queries;

pub(crate) static COMMAND: Command = Command::new(
    |context, arguments, reply| {
        run(context.server.queries(), &context.operation, context.request.database, arguments, reply)
    },
    Declaration {
        changes: Changes::Stored,
        without_client: WithoutClient::GoesOn,
        ..Declaration::new(
            "compact",
            "Gives back the space that a collection does not need.",
            Needs::Primary,
            &[on_collection(Action::Compact)],
        )
    },
);

/// Runs the command.
pub(crate) fn run(
    queries: Queries<'_>,
    operation: &Operation<'_>,
    database: &str,
    mut arguments: Arguments<'_>,
    reply: &mut DocumentWriter<'_>,
) -> Result<()> {
    let namespace = target_namespace(database, &arguments)?;
    for field in arguments.fields() {
        match field.name() {
            // It disturbs nobody, so it need not be forced.
            "force" => drop(field.boolean()?),
            "dryRun" | "freeSpaceTargetMB" => return Err(field.not_implemented()),
            _ => arguments.generic(field)?,
        }
    }
    let missing = || format!("collection does not exist: {namespace}");
    existing_collection(queries, namespace.as_str(), missing)?;
    let store = queries.store;
    let taken = || Ok::<_, crate::CommandError>(store.engine().statistics()?.store.backed_bytes);
    let before = taken()?;
    store.requested_checkpoint_unless(&|| operation.check_interrupt().is_err())?;
    reply.size("bytesFreed", before.saturating_sub(taken()?));
    Ok(())
}
