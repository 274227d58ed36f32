//! `whatsmyuri`: the client's address.

use crate::DocumentWriter;
use crate::handlers::command::Command;
use crate::request::arguments::Arguments;
use crate::request::declaration::{Authentication, Declaration, Needs};
use crate::request::error::Result;
use crate::state::operations::OperationSlot;

pub(crate) static COMMAND: Command = Command::new(
    |context, arguments, reply| run(context.slot, arguments, reply),
    Declaration {
        authentication: Authentication::NotNeeded,
        ..Declaration::new("whatsmyuri", "The client's address.", Needs::Nothing, &[])
    },
);

/// Runs the command.
pub(crate) fn run(slot: &OperationSlot, mut arguments: Arguments<'_>, reply: &mut DocumentWriter<'_>) -> Result<()> {
    super::only_generic(&mut arguments)?;
    reply.string("you", &slot.client);
    Ok(())
}
