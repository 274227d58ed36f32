//! `killSessions`: ends sessions with what runs in them. Without any it ends all.
//!
//! Whose a session is, is not known: to name its id, which nobody can guess, is to show that it is one's own.

use authentication::Target;

use crate::handlers::command::Command;
use crate::request::arguments::Arguments;
use crate::request::declaration::{Declaration, Needs, WithoutClient};
use crate::request::error::Result;
use crate::request::privileges::Action;
use crate::state::rights::Rights;
use crate::state::session_control::SessionControl;

pub(crate) static COMMAND: Command = Command::new(
    |context, arguments, _| run(&context.session_control(), context.rights(), arguments),
    Declaration {
        without_client: WithoutClient::GoesOn,
        ..Declaration::new("killSessions", "Ends sessions and what runs in them.", Needs::Nothing, &[])
    },
);

/// Runs the command.
pub(crate) fn run(sessions: &SessionControl<'_>, rights: Rights<'_>, mut arguments: Arguments<'_>) -> Result<()> {
    let mut killed = sessions.named(&mut arguments)?;
    if killed.is_empty() {
        rights.require(Target::Cluster, Action::KillAnySession)?;
        killed = sessions.all();
    }
    sessions.kill(&killed)
}
