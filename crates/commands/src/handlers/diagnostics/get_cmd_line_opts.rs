//! `getCmdLineOpts`: how the server was started.

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
    let facts = &context.server.facts;
    reply.array("argv", |list| facts.arguments.iter().for_each(|argument| list.push_string(argument)));
    reply.embed("parsed", &facts.configuration);
    Ok(())
}
