//! `connectionStatus`: who the client is to the server, and what that allows.

use crate::DocumentWriter;
use crate::handlers::command::Command;
use crate::request::arguments::Arguments;
use crate::request::declaration::{Authentication, Declaration, Needs};
use crate::request::error::Result;
use crate::state::access_control::AccessControl;
use crate::state::access_control::login::Login;
use crate::state::access_control::names::write_roles;
use crate::state::access_control::stored_role::write_privileges;
use crate::state::writing::Writing;

pub(crate) static COMMAND: Command = Command::new(
    |context, arguments, reply| {
        let server = context.server;
        run(context.login, &server.access, &server.writing, arguments, reply)
    },
    Declaration {
        authentication: Authentication::NotNeeded,
        ..Declaration::new("connectionStatus", "Who the client is to the server.", Needs::Nothing, &[])
    },
);

/// Runs the command.
pub(crate) fn run(
    login: &mut Login,
    access: &AccessControl,
    writing: &Writing,
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
    let access = login.access(access, writing)?.cloned();
    reply.document("authInfo", |info| {
        info.array("authenticatedUsers", |users| {
            let user = access.iter().map(|access| &access.user);
            user.for_each(|user| users.push_document(|document| user.write("user", document)));
        });
        let roles = access.as_ref().map(|access| access.roles.as_slice()).unwrap_or_default();
        write_roles("authenticatedUserRoles", roles, info);
        if shows_privileges {
            let privileges = access.as_ref().map(|access| access.privileges.privileges()).unwrap_or_default();
            write_privileges("authenticatedUserPrivileges", &privileges, info);
        }
    });
    Ok(())
}
