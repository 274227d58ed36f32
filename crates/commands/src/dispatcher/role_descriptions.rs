//! Which commands each built-in role allows, for `docs/privileges.md`.
//!
//! Called by the test that holds the page in step. Each command is asked about with the fields that it has at least.

use authentication::{builtin_privileges, builtin_role_names};
use bson::rawdoc;

use super::authorization::tell_needs;
use crate::registry;
use crate::request::command_request::{Attempt, CommandRequest, NoSequences};
use crate::request::declaration::{Authentication, Declaration};

/// What the documentation says of a role, or of who has none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RoleDescription {
    /// Its name; or who it is that needs none.
    pub name: &'static str,
    /// Whether it is of any database; else it is of `admin`, for the whole deployment.
    pub is_of_database: bool,
    /// The commands that it allows: on collections of its database, of any, or about the server.
    pub commands: Vec<&'static str>,
}

/// Who needs no login, who needs no role, then every built-in role.
pub fn role_descriptions() -> Vec<RoleDescription> {
    let names = |is: &dyn Fn(&Declaration) -> bool| {
        registry::declarations().filter(|command| is(command)).map(|command| command.name).collect()
    };
    let is_open = |command: &Declaration| command.authentication == Authentication::NotNeeded;
    let asks = |command: &Declaration| !is_open(command) && has_needs(command);
    let everybody = RoleDescription { name: "nobody", is_of_database: false, commands: names(&is_open) };
    let users = names(&|command| !is_open(command) && !has_needs(command));
    let users = RoleDescription { name: "any user", is_of_database: false, commands: users };
    let of_databases = builtin_role_names("test");
    let roles = builtin_role_names("admin").into_iter().map(|name| {
        let is_of_database = of_databases.contains(&name);
        let home = if is_of_database { "test" } else { "admin" };
        let privileges = builtin_privileges(home, name).unwrap_or_default();
        let allows = |command: &Declaration| {
            let mut allowed = true;
            with_request(command, &mut |request| {
                let told =
                    tell_needs(command, request, &mut |target, action| allowed &= privileges.allows(target, action));
                allowed &= told.is_ok();
            });
            allowed
        };
        RoleDescription { name, is_of_database, commands: names(&|command| asks(command) && allows(command)) }
    });
    [everybody, users].into_iter().chain(roles).collect()
}

fn has_needs(command: &Declaration) -> bool {
    let mut has_any = false;
    with_request(command, &mut |request| {
        has_any = tell_needs(command, request, &mut |_, _| has_any = true).is_err() || has_any;
    });
    has_any
}

/// The least that the command is sent with, on a collection.
fn with_request(command: &Declaration, use_it: &mut dyn FnMut(&CommandRequest<'_>)) {
    let database = if command.is_admin_only { "admin" } else { "test" };
    let body = match command.name {
        "dataSize" => rawdoc! { "dataSize": "test.c" },
        "explain" => rawdoc! { "explain": { "find": "c" } },
        "renameCollection" => rawdoc! { "renameCollection": "test.c", "to": "test.d" },
        "cloneCollectionAsCapped" => rawdoc! { "cloneCollectionAsCapped": "c", "toCollection": "d" },
        // Only the value of the first field is looked at.
        _ => rawdoc! { "_": "c" },
    };
    use_it(&CommandRequest {
        name: command.name,
        database,
        body: &body,
        sequences: &NoSequences,
        attempt: Attempt::First,
        is_legacy: false,
    });
}
