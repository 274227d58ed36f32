//! `compact`: gives back the space that a collection does not need any more.
//!
//! The engine compacts what it writes all the time; what the documents that were deleted took comes back with the next checkpoint, so one is made.

use super::{existing_collection, target_namespace};
use crate::DocumentWriter;
use crate::request::arguments::Arguments;
use crate::request::error::Result;
use crate::state::context::Context;

/// Runs the command.
pub(crate) fn run(
    context: &mut Context<'_>,
    mut arguments: Arguments<'_>,
    reply: &mut DocumentWriter<'_>,
) -> Result<()> {
    let namespace = target_namespace(context, &arguments)?;
    for field in arguments.fields() {
        match field.name() {
            // It disturbs nobody, so it need not be forced.
            "force" => drop(field.boolean()?),
            "dryRun" | "freeSpaceTargetMB" => return Err(field.not_implemented()),
            _ => arguments.generic(field)?,
        }
    }
    let missing = || format!("collection does not exist: {namespace}");
    existing_collection(context.server, namespace.as_str(), missing)?;
    let store = &context.server.store;
    let taken = || Ok::<_, crate::CommandError>(store.engine().statistics()?.store.backed_bytes);
    let before = taken()?;
    store.requested_checkpoint()?;
    reply.size("bytesFreed", before.saturating_sub(taken()?));
    Ok(())
}
