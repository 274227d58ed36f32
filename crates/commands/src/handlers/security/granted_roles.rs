//! Roles are given to users and to other roles, and taken away: `grantRolesToUser`, `revokeRolesFromUser`,
//! `grantRolesToRole`, `revokeRolesFromRole`.

use super::create_user::roles_of;
use super::role_checks::{check_exist, check_may_give, check_no_cycle, check_within_database};
use super::{changing, existing_role, existing_user, finish, target_name};
use crate::DocumentWriter;
use crate::handlers::command::Command;
use crate::request::arguments::{Arguments, required};
use crate::request::audit_events;
use crate::request::declaration::Declaration;
use crate::request::error::{CommandError, Result};
use crate::request::privileges::Action;
use crate::state::access_control::names::{QualifiedName, RoleName};
use crate::state::context::Context;

pub(crate) static GRANT_TO_USER: Command = Command::new(
    |context, arguments, reply| run(context, arguments, reply, Holder::User, Change::Grant),
    Declaration { audit: Some(audit_events::of_user), ..changing("grantRolesToUser", "Gives roles to a user.") },
);

pub(crate) static REVOKE_FROM_USER: Command = Command::new(
    |context, arguments, reply| run(context, arguments, reply, Holder::User, Change::Revoke),
    Declaration {
        audit: Some(audit_events::of_user),
        ..changing("revokeRolesFromUser", "Takes roles away from a user.")
    },
);

pub(crate) static GRANT_TO_ROLE: Command = Command::new(
    |context, arguments, reply| run(context, arguments, reply, Holder::Role, Change::Grant),
    Declaration { audit: Some(audit_events::of_role), ..changing("grantRolesToRole", "Gives roles to a role.") },
);

pub(crate) static REVOKE_FROM_ROLE: Command = Command::new(
    |context, arguments, reply| run(context, arguments, reply, Holder::Role, Change::Revoke),
    Declaration {
        audit: Some(audit_events::of_role),
        ..changing("revokeRolesFromRole", "Takes roles away from a role.")
    },
);

/// Who has the roles.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Holder {
    User,
    Role,
}

/// What is done with them.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Change {
    Grant,
    Revoke,
}

impl Change {
    fn action(self) -> Action {
        match self {
            Self::Grant => Action::GrantRole,
            Self::Revoke => Action::RevokeRole,
        }
    }

    fn apply(self, held: &mut Vec<RoleName>, roles: &[RoleName]) {
        match self {
            Self::Revoke => held.retain(|role| !roles.contains(role)),
            Self::Grant => {
                let missing: Vec<_> = roles.iter().filter(|role| !held.contains(role)).cloned().collect();
                held.extend(missing);
            }
        }
    }
}

fn run(
    context: &mut Context<'_>,
    mut arguments: Arguments<'_>,
    reply: &mut DocumentWriter<'_>,
    holder: Holder,
    change: Change,
) -> Result<()> {
    let name = target_name(context, &arguments)?;
    let mut roles = None;
    for field in arguments.fields() {
        match field.name() {
            "roles" => roles = Some(roles_of(field, &name.database)?),
            _ => arguments.generic(field)?,
        }
    }
    let roles = required(roles, &format!("{}.roles", arguments.command))?;
    if roles.is_empty() {
        return Err(CommandError::bad_value(format!("{} needs at least one role", arguments.command)));
    }
    check_may_give(context, &roles, change.action())?;
    check_exist(context, &roles)?;
    {
        let server = context.server;
        let _one_at_a_time = server.access.changing.lock();
        match holder {
            Holder::User => {
                let mut user = existing_user(context, &name)?;
                change.apply(&mut user.roles, &roles);
                user.put(&server.writing)?;
            }
            Holder::Role => change_role(context, &name, change, &roles)?,
        }
    }
    tracing::info!(target: "access", command = arguments.command, %name, "roles were given or taken away");
    finish(context, &arguments, reply);
    Ok(())
}

fn change_role(context: &Context<'_>, name: &QualifiedName, change: Change, roles: &[RoleName]) -> Result<()> {
    let mut role = existing_role(context, name)?;
    change.apply(&mut role.roles, roles);
    check_within_database(&role)?;
    check_no_cycle(context, &role)?;
    role.put(&context.server.writing)
}
