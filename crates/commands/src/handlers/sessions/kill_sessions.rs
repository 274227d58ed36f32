//! `killSessions`: ends sessions with what runs in them. Without any it ends all.
//!
//! Whose a session is, is not known: to name its id, which nobody can guess, is to show that it is one's own.

use authentication::Target;

use super::SessionControl;
use crate::DocumentWriter;
use crate::handlers::command::Command;
use crate::request::arguments::Arguments;
use crate::request::declaration::{Declaration, Needs, WithoutClient};
use crate::request::error::Result;
use crate::request::privileges::Action;
use crate::state::context::Context;

pub(crate) static COMMAND: Command = Command::new(
    run,
    Declaration {
        without_client: WithoutClient::GoesOn,
        ..Declaration::new("killSessions", "Ends sessions and what runs in them.", Needs::Nothing, &[])
    },
);

/// Runs the command.
pub(crate) fn run(
    context: &mut Context<'_>,
    mut arguments: Arguments<'_>,
    _reply: &mut DocumentWriter<'_>,
) -> Result<()> {
    let mut killed = SessionControl::of(context).named(&mut arguments)?;
    if killed.is_empty() {
        context.rights().require(Target::Cluster, Action::KillAnySession)?;
        killed = SessionControl::of(context).all();
    }
    SessionControl::of(context).kill(&killed)
}
