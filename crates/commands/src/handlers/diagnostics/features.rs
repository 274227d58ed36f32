//! `features`: what the build can do beside MongoDB's commands. There is no JavaScript, so all that is told is by which number ObjectIds are of this process.

use super::only_generic;
use crate::DocumentWriter;
use crate::handlers::command::Command;
use crate::request::arguments::Arguments;
use crate::request::declaration::{Authentication, Declaration, Needs};
use crate::request::error::Result;
use crate::state::topology::Topology;

pub(crate) static COMMAND: Command = Command::new(
    |context, arguments, reply| run(&context.server.topology, arguments, reply),
    Declaration {
        authentication: Authentication::NotNeeded,
        ..Declaration::new("features", "The number by which ObjectIds are of this process.", Needs::Nothing, &[])
    },
);

/// Runs the command.
pub(crate) fn run(topology: &Topology, mut arguments: Arguments<'_>, reply: &mut DocumentWriter<'_>) -> Result<()> {
    if let Some(field) = arguments.fields().find(|field| field.name() == "oidReset") {
        return Err(field.not_implemented());
    }
    only_generic(&mut arguments)?;
    let bytes = topology.process_id().bytes();
    let machine = bytes.iter().skip(4).take(3).fold(0, |number, byte| number << 8 | i32::from(*byte));
    reply.int32("oidMachine", machine);
    Ok(())
}
