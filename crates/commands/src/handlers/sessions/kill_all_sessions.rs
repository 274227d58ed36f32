//! `killAllSessions`: ends the sessions of the users that it names, or all. There are no users yet, so naming one ends nothing.

use crate::DocumentWriter;
use crate::handlers::command::Command;
use crate::request::arguments::Arguments;
use crate::request::declaration::{Declaration, Needs, WithoutClient};
use crate::request::error::Result;
use crate::request::privileges::{Action, on_cluster};
use crate::state::context::Context;

pub(crate) static COMMAND: Command = Command::new(
    run,
    Declaration {
        without_client: WithoutClient::GoesOn,
        ..Declaration::new(
            "killAllSessions",
            "Ends all sessions of users.",
            Needs::Nothing,
            &[on_cluster(Action::KillAnySession)],
        )
    },
);

/// Runs the command.
pub(crate) fn run(
    context: &mut Context<'_>,
    mut arguments: Arguments<'_>,
    _reply: &mut DocumentWriter<'_>,
) -> Result<()> {
    let names_users = match arguments.target() {
        Some(users) => !users.documents()?.unwrap_or_default().is_empty(),
        None => false,
    };
    for field in arguments.fields() {
        arguments.generic(field)?;
    }
    if names_users { Ok(()) } else { super::kill(context, &super::all(context)) }
}
