//! `getCmdLineOpts`: how the server was started.

use crate::DocumentWriter;
use crate::handlers::command::Command;
use crate::request::arguments::Arguments;
use crate::request::declaration::{Declaration, Needs};
use crate::request::error::Result;
use crate::request::privileges::{Action, on_cluster};
use crate::state::context::ServerFacts;

pub(crate) static COMMAND: Command = Command::new(
    |context, arguments, reply| run(&context.server.facts, arguments, reply),
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
pub(crate) fn run(facts: &ServerFacts, mut arguments: Arguments<'_>, reply: &mut DocumentWriter<'_>) -> Result<()> {
    super::only_generic(&mut arguments)?;
    reply.array("argv", |list| facts.arguments.iter().for_each(|argument| list.push_string(argument)));
    reply.embed("parsed", &facts.configuration);
    Ok(())
}
