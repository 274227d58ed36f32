//! `dropRole` and `dropAllRolesFromDatabase`: remove roles, also from who has them.

use super::{changing, existing_role, finish, target_name};
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
use crate::state::context::Context;

pub(crate) static ONE: Command = Command::new(
    run_one,
    Declaration {
        audit: Some(audit_events::of_role),
        privileges: &[on_database(Action::DropRole)],
        ..changing("dropRole", "Removes a role.")
    },
);

pub(crate) static ALL: Command = Command::new(
    run_all,
    Declaration {
        audit: Some(audit_events::of_database),
        privileges: &[on_database(Action::DropRole)],
        ..changing("dropAllRolesFromDatabase", "Removes all roles that were made in a database.")
    },
);

/// Runs `dropRole`.
pub(crate) fn run_one(
    context: &mut Context<'_>,
    mut arguments: Arguments<'_>,
    reply: &mut DocumentWriter<'_>,
) -> Result<()> {
    let name = target_name(context, &arguments)?;
    arguments.fields().try_for_each(|field| arguments.generic(field))?;
    {
        let server = context.server;
        let _one_at_a_time = server.access.changing.lock();
        existing_role(context, &name)?;
        remove(context, std::slice::from_ref(&name))?;
    }
    tracing::info!(target: "access", role = %name, "a role was removed");
    finish(context, &arguments, reply);
    Ok(())
}

/// Runs `dropAllRolesFromDatabase`.
pub(crate) fn run_all(
    context: &mut Context<'_>,
    mut arguments: Arguments<'_>,
    reply: &mut DocumentWriter<'_>,
) -> Result<()> {
    arguments.fields().try_for_each(|field| arguments.generic(field))?;
    let (server, database) = (context.server, context.request.database);
    let removed = {
        let _one_at_a_time = server.access.changing.lock();
        let mut names: Vec<RoleName> = Vec::new();
        StoredRole::all(&server.writing, |role| {
            context.operation.check_interrupt()?;
            if role.name.database == database {
                names.push(role.name);
            }
            Ok(())
        })?;
        remove(context, &names)?;
        names.len() as u64
    };
    tracing::info!(target: "access", database, removed, "all roles of a database were removed");
    reply.count("n", removed);
    finish(context, &arguments, reply);
    Ok(())
}

/// Takes roles away from everybody, then removes them. What a crash leaves in between is as if they were still there, with fewer who have them.
fn remove(context: &Context<'_>, names: &[RoleName]) -> Result<()> {
    let writing = &context.server.writing;
    let has_any = |roles: &[RoleName]| roles.iter().any(|role| names.contains(role));
    let (mut users, mut roles) = (Vec::new(), Vec::new());
    StoredUser::all(writing, |user| {
        context.operation.check_interrupt()?;
        if has_any(&user.roles) {
            users.push(user);
        }
        Ok(())
    })?;
    StoredRole::all(writing, |role| {
        context.operation.check_interrupt()?;
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
