//! `ping`: answers.

use crate::DocumentWriter;
use crate::handlers::command::Command;
use crate::request::arguments::Arguments;
use crate::request::declaration::{Authentication, Declaration, Needs, StableApi};
use crate::request::error::Result;

pub(crate) static COMMAND: Command = Command::new(
    |_, arguments, reply| run(arguments, reply),
    Declaration {
        authentication: Authentication::NotNeeded,
        stable_api: StableApi::Version1,
        ..Declaration::new("ping", "Answers.", Needs::Nothing, &[])
    },
);

/// Runs the command.
pub(crate) fn run(mut arguments: Arguments<'_>, _reply: &mut DocumentWriter<'_>) -> Result<()> {
    super::only_generic(&mut arguments)
}
