//! `connectionStatus`: who the client is to the server. There is no access control yet: nobody.

use crate::DocumentWriter;
use crate::handlers::command::Command;
use crate::request::arguments::Arguments;
use crate::request::declaration::{Authentication, Declaration, Needs};
use crate::request::error::Result;
use crate::state::context::Context;

pub(crate) static COMMAND: Command = Command::new(
    run,
    Declaration {
        authentication: Authentication::NotNeeded,
        ..Declaration::new("connectionStatus", "Who the client is to the server.", Needs::Nothing, &[])
    },
);

/// Runs the command.
pub(crate) fn run(
    _context: &mut Context<'_>,
    mut arguments: Arguments<'_>,
    reply: &mut DocumentWriter<'_>,
) -> Result<()> {
    let mut shows_privileges = false;
    for field in arguments.fields() {
        match field.name() {
            "showPrivileges" => shows_privileges = field.boolean()?,
            _ => arguments.generic(field)?,
        }
    }
    reply.document("authInfo", |info| {
        info.array("authenticatedUsers", |_| {});
        info.array("authenticatedUserRoles", |_| {});
        if shows_privileges {
            info.array("authenticatedUserPrivileges", |_| {});
        }
    });
    Ok(())
}
