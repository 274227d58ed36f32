//! `getCmdLineOpts`: how the server was started.

use crate::DocumentWriter;
use crate::handlers::command::Command;
use crate::request::arguments::Arguments;
use crate::request::declaration::{Declaration, Needs};
use crate::request::error::Result;
use crate::request::privileges::{Action, on_cluster};
use crate::state::context::Context;

pub(crate) static COMMAND: Command = Command::new(
    run,
    Declaration {
        is_admin_only: true,
        ..Declaration::new(
            "getCmdLineOpts",
            "How the server was started.",
            Needs::Nothing,
            &[on_cluster(Action::GetCmdLineOpts)],
        )
    },
);

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
