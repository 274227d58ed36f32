//! `killAllSessions`: ends the sessions of the users that it names, or all.
//!
//! A session is whose command was the first in it since the start of the server.

use std::collections::HashSet;

use bson::RawBsonRef;
use transaction::KnownSession;

use crate::DocumentWriter;
use crate::handlers::command::Command;
use crate::request::arguments::Arguments;
use crate::request::declaration::{Declaration, Needs, WithoutClient};
use crate::request::error::Result;
use crate::request::privileges::{Action, on_cluster};
use crate::state::access_control::names::UserName;
use crate::state::session_control::SessionControl;

pub(crate) static COMMAND: Command = Command::new(
    |context, arguments, reply| run(&context.session_control(), context.request.database, arguments, reply),
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
    control: &SessionControl<'_>,
    database: &str,
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
    let users = named.iter().map(|user| {
        control.operation.check_interrupt()?;
        UserName::read("killAllSessions", "user", RawBsonRef::Document(user), database)
    });
    let users: HashSet<UserName> = users.collect::<Result<_>>()?;
    let is_meant = |session: &KnownSession| {
        users.is_empty() || super::owner(session.owner()).is_some_and(|user| users.contains(user))
    };
    let sessions = control.store.sessions().all();
    let killed = sessions.iter().filter(|session| is_meant(session)).map(|session| session.id()).collect();
    control.kill(&killed)
}
