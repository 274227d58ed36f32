//! `dropRole` and `dropAllRolesFromDatabase`: remove roles, also from who has them.

use super::{changed, changing, existing_role, target_name};
use crate::DocumentWriter;
use crate::handlers::command::Command;
use crate::request::arguments::Arguments;
use crate::request::audit_events;
use crate::request::declaration::Declaration;
use crate::request::error::Result;
use crate::request::privileges::{Action, on_database};
use crate::state::access_control::names::RoleName;
use crate::state::access_control::stored_role::StoredRole;
use crate::state::access_control::stored_user::StoredUser;
use crate::state::accounts::Accounts;

pub(crate) static ONE: Command = Command::new(
    |context, arguments, reply| {
        changed(context.accounts(), context.acknowledging(), arguments, reply, |accounts, arguments, _| {
            run_one(accounts, arguments)
        })
    },
    Declaration {
        audit: Some(audit_events::of_role),
        privileges: &[on_database(Action::DropRole)],
        ..changing("dropRole", "Removes a role.")
    },
);

pub(crate) static ALL: Command = Command::new(
    |context, arguments, reply| changed(context.accounts(), context.acknowledging(), arguments, reply, run_all),
    Declaration {
        audit: Some(audit_events::of_database),
        privileges: &[on_database(Action::DropRole)],
        ..changing("dropAllRolesFromDatabase", "Removes all roles that were made in a database.")
    },
);

/// Runs `dropRole`.
pub(crate) fn run_one(accounts: Accounts<'_>, arguments: &mut Arguments<'_>) -> Result<()> {
    let name = target_name(accounts, arguments)?;
    arguments.fields().try_for_each(|field| arguments.generic(field))?;
    {
        let _one_at_a_time = accounts.access.changing.lock();
        existing_role(accounts, &name)?;
        remove(accounts, std::slice::from_ref(&name))?;
    }
    tracing::info!(target: "access", role = %name, "a role was removed");
    Ok(())
}

/// Runs `dropAllRolesFromDatabase`.
pub(crate) fn run_all(
    accounts: Accounts<'_>,
    arguments: &mut Arguments<'_>,
    reply: &mut DocumentWriter<'_>,
) -> Result<()> {
    arguments.fields().try_for_each(|field| arguments.generic(field))?;
    let database = accounts.database;
    let removed = {
        let _one_at_a_time = accounts.access.changing.lock();
        let mut names: Vec<RoleName> = Vec::new();
        StoredRole::all(accounts.writing, |role| {
            accounts.operation.check_interrupt()?;
            if role.name.database == database {
                names.push(role.name);
            }
            Ok(())
        })?;
        remove(accounts, &names)?;
        names.len() as u64
    };
    tracing::info!(target: "access", database, removed, "all roles of a database were removed");
    reply.count("n", removed);
    Ok(())
}

/// Takes roles away from everybody, then removes them. What a crash leaves in between is as if they were still there, with fewer who have them.
fn remove(accounts: Accounts<'_>, names: &[RoleName]) -> Result<()> {
    let writing = accounts.writing;
    let has_any = |roles: &[RoleName]| roles.iter().any(|role| names.contains(role));
    let (mut users, mut roles) = (Vec::new(), Vec::new());
    StoredUser::all(writing, |user| {
        accounts.operation.check_interrupt()?;
        if has_any(&user.roles) {
            users.push(user);
        }
        Ok(())
    })?;
    StoredRole::all(writing, |role| {
        accounts.operation.check_interrupt()?;
        if has_any(&role.roles) {
            roles.push(role);
        }
        Ok(())
    })?;
    for mut user in users {
        user.roles.retain(|role| !names.contains(role));
        user.put(writing)?;
    }
    for mut role in roles {
        role.roles.retain(|other| !names.contains(other));
        role.put(writing)?;
    }
    names.iter().try_for_each(|name| StoredRole::remove(writing, name).map(drop))
}
