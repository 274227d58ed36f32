//! `isdbgrid`: whether this is a router, which a server outside of a replica set says it is ([`super::hello`] has the reason).

use super::{host_and_port, only_generic};
use crate::DocumentWriter;
use crate::registry::refusal;
use crate::request::arguments::Arguments;
use crate::request::error::Result;
use crate::state::context::Context;
use crate::state::replica_set::Identity;

/// Runs the command.
pub(crate) fn run(
    context: &mut Context<'_>,
    mut arguments: Arguments<'_>,
    reply: &mut DocumentWriter<'_>,
) -> Result<()> {
    only_generic(&mut arguments)?;
    // A member of a replica set does not know the command: that is how scripts tell the two apart.
    if !matches!(context.server.replica_set.identity(), Identity::Alone) {
        return Err(refusal("isdbgrid"));
    }
    reply.int32("isdbgrid", 1);
    reply.string("hostname", &host_and_port(&context.server.facts));
    Ok(())
}
