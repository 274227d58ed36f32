//! `whatsmyuri`: the client's address.

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
    super::only_generic(&mut arguments)?;
    reply.string("you", &context.slot.client);
    Ok(())
}
