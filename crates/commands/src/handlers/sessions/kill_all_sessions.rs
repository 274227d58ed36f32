//! `killAllSessions`: ends the sessions of the users that it names, or all. Whose a session is, is not known,
//! so that users who are there are refused; who is not has none.

use bson::RawBsonRef;

use crate::DocumentWriter;
use crate::handlers::command::Command;
use crate::request::arguments::Arguments;
use crate::request::declaration::{Declaration, Needs, WithoutClient};
use crate::request::error::{CommandError, Result};
use crate::request::privileges::{Action, on_cluster};
use crate::state::access_control::names::UserName;
use crate::state::access_control::stored_user::StoredUser;
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
    let named = match arguments.target() {
        Some(users) => users.documents()?.unwrap_or_default(),
        None => Vec::new(),
    };
    for field in arguments.fields() {
        arguments.generic(field)?;
    }
    for user in &named {
        let name = UserName::read("killAllSessions", "user", RawBsonRef::Document(user), context.request.database)?;
        if StoredUser::find(&context.server.writing, &name)?.is_some() {
            return Err(CommandError::not_implemented("killAllSessions of named users"));
        }
    }
    if named.is_empty() { super::kill(context, &super::all(context)) } else { Ok(()) }
}
