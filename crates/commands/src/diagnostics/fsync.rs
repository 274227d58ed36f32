//! `fsync`: makes everything durable with a checkpoint. Acknowledged writes do not need it.

use crate::DocumentWriter;
use crate::arguments::Arguments;
use crate::context::Context;
use crate::error::Result;

/// Runs the command.
pub(crate) fn run(
    context: &mut Context<'_>,
    mut arguments: Arguments<'_>,
    reply: &mut DocumentWriter<'_>,
) -> Result<()> {
    for field in arguments.fields() {
        match field.name() {
            "lock" if !field.boolean()? => {}
            "lock" | "fsyncLockAcquisitionTimeoutMillis" => return Err(field.not_implemented()),
            _ => arguments.generic(field)?,
        }
    }
    // The oplog is durable up to the checkpoint's end, and the checkpoint holds everything before its mark.
    context.server.store.requested_checkpoint()?;
    reply.int32("numFiles", 1);
    Ok(())
}
