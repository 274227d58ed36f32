//! `invalidateUserCache`: has what users may do found anew. Changes are seen without it; it is there for scripts.

use crate::DocumentWriter;
use crate::handlers::command::Command;
use crate::request::arguments::Arguments;
use crate::request::audit_events;
use crate::request::declaration::{Declaration, Needs};
use crate::request::error::Result;
use crate::request::privileges::{Action, on_cluster};
use crate::state::access_control::AccessControl;

pub(crate) static COMMAND: Command = Command::new(
    |context, arguments, reply| run(&context.server.access, arguments, reply),
    Declaration {
        audit: Some(audit_events::as_named),
        is_admin_only: true,
        ..Declaration::new(
            "invalidateUserCache",
            "Has what users may do found anew.",
            Needs::Nothing,
            &[on_cluster(Action::InvalidateUserCache)],
        )
    },
);

/// Runs the command.
pub(crate) fn run(access: &AccessControl, mut arguments: Arguments<'_>, _reply: &mut DocumentWriter<'_>) -> Result<()> {
    arguments.fields().try_for_each(|field| arguments.generic(field))?;
    access.begin_generation();
    Ok(())
}
