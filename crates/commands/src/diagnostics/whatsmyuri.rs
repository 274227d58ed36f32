//! `whatsmyuri`: the client's address.

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
    super::only_generic(&mut arguments)?;
    let own = context.operation.id();
    let running = context.server.operations.running();
    let slot = running.into_iter().find(|(operation, _, _)| operation.id == own).map(|(_, slot, _)| slot);
    reply.string("you", slot.as_ref().map_or("", |slot| &slot.client));
    Ok(())
}
