//! Commands about who may come in and what each may do.

pub(crate) mod authenticate;
pub(crate) mod create_role;
pub(crate) mod create_user;
pub(crate) mod drop_role;
pub(crate) mod drop_user;
pub(crate) mod granted_privileges;
pub(crate) mod granted_roles;
pub(crate) mod invalidate_user_cache;
pub(crate) mod log_in;
pub(crate) mod merge_authz_collections;
mod passwords;
mod role_checks;
pub(crate) mod roles_info;
#[cfg(test)]
mod tests;
pub(crate) mod update_user;
pub(crate) mod users_info;

use crate::DocumentWriter;
use crate::handlers::crud::write_errors::write_concern_error;
use crate::request::arguments::{Arguments, Field};
use crate::request::declaration::{Changes, Class, Declaration, Needs, WithoutClient, WriteConcernUse};
use crate::request::error::{CommandError, Result};
use crate::state::access_control::names::{QualifiedName, RoleName, UserName};
use crate::state::access_control::stored_role::StoredRole;
use crate::state::access_control::stored_user::StoredUser;
use crate::state::accounts::Accounts;
use crate::state::acknowledgement::Acknowledging;

/// What all commands that change users and roles declare.
const fn changing(name: &'static str, help: &'static str) -> Declaration {
    Declaration {
        class: Class::Write,
        changes: Changes::Stored,
        without_client: WithoutClient::GoesOn,
        write_concern: WriteConcernUse::Taken,
        ..Declaration::new(name, help, Needs::Primary, &[])
    }
}

/// The name that a command's first field gives, in the command's database.
fn target_name(accounts: Accounts<'_>, arguments: &Arguments<'_>) -> Result<QualifiedName> {
    let field = arguments.target().ok_or_else(|| CommandError::bad_value("an empty command"))?;
    let name = field.required(Field::string)?;
    if name.is_empty() || name.contains('\0') {
        return Err(CommandError::bad_value(format!(
            "{}: a name must not be empty, or have a null in it",
            field.owner
        )));
    }
    Ok(QualifiedName::new(name, accounts.database))
}

/// A command that changes something: when that is done, waits as its write concern asks.
fn changed(
    accounts: Accounts<'_>,
    acknowledging: Acknowledging<'_>,
    mut arguments: Arguments<'_>,
    reply: &mut DocumentWriter<'_>,
    change: impl FnOnce(Accounts<'_>, &mut Arguments<'_>, &mut DocumentWriter<'_>) -> Result<()>,
) -> Result<()> {
    change(accounts, &mut arguments, reply)?;
    write_concern_error(acknowledging.wait_for_all(&arguments.generic.write_concern), reply);
    Ok(())
}

/// The user who is to be changed.
fn existing_user(accounts: Accounts<'_>, name: &UserName) -> Result<StoredUser> {
    StoredUser::find(accounts.writing, name)?.ok_or_else(|| user_not_found(name))
}

fn user_not_found(name: &UserName) -> CommandError {
    CommandError::named("UserNotFound", format!("User '{name}' not found"))
}

/// The role that is to be changed.
fn existing_role(accounts: Accounts<'_>, name: &RoleName) -> Result<StoredRole> {
    if authentication::is_builtin(&name.database, &name.name) {
        let message = format!("{name} is a built-in role and cannot be modified");
        return Err(CommandError::named("InvalidRoleModification", message));
    }
    StoredRole::find(accounts.writing, name)?.ok_or_else(|| role_not_found(name))
}

fn role_not_found(name: &RoleName) -> CommandError {
    CommandError::named("RoleNotFound", format!("Could not find role: {name}"))
}
