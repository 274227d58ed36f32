//! Roles are given to users and to other roles, and taken away: `grantRolesToUser`, `revokeRolesFromUser`,
//! `grantRolesToRole`, `revokeRolesFromRole`.

use super::create_user::roles_of;
use super::role_checks::{check_exist, check_may_give, check_no_cycle, check_within_database};
use super::{changed, changing, existing_role, existing_user, target_name};
use crate::handlers::command::Command;
use crate::request::arguments::{Arguments, required};
use crate::request::audit_events;
use crate::request::declaration::Declaration;
use crate::request::error::{CommandError, Result};
use crate::request::privileges::Action;
use crate::state::access_control::names::{QualifiedName, RoleName};
use crate::state::accounts::Accounts;

pub(crate) static GRANT_TO_USER: Command = Command::new(
    |context, arguments, reply| {
        changed(context.accounts(), context.acknowledging(), arguments, reply, |accounts, arguments, _| {
            run(accounts, arguments, Holder::User, Change::Grant)
        })
    },
    Declaration { audit: Some(audit_events::of_user), ..changing("grantRolesToUser", "Gives roles to a user.") },
);

pub(crate) static REVOKE_FROM_USER: Command = Command::new(
    |context, arguments, reply| {
        changed(context.accounts(), context.acknowledging(), arguments, reply, |accounts, arguments, _| {
            run(accounts, arguments, Holder::User, Change::Revoke)
        })
    },
    Declaration {
        audit: Some(audit_events::of_user),
        ..changing("revokeRolesFromUser", "Takes roles away from a user.")
    },
);

pub(crate) static GRANT_TO_ROLE: Command = Command::new(
    |context, arguments, reply| {
        changed(context.accounts(), context.acknowledging(), arguments, reply, |accounts, arguments, _| {
            run(accounts, arguments, Holder::Role, Change::Grant)
        })
    },
    Declaration { audit: Some(audit_events::of_role), ..changing("grantRolesToRole", "Gives roles to a role.") },
);

pub(crate) static REVOKE_FROM_ROLE: Command = Command::new(
    |context, arguments, reply| {
        changed(context.accounts(), context.acknowledging(), arguments, reply, |accounts, arguments, _| {
            run(accounts, arguments, Holder::Role, Change::Revoke)
        })
    },
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

fn run(accounts: Accounts<'_>, arguments: &mut Arguments<'_>, holder: Holder, change: Change) -> Result<()> {
    let name = target_name(accounts, arguments)?;
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
    check_may_give(accounts, &roles, change.action())?;
    check_exist(accounts, &roles)?;
    {
        let _one_at_a_time = accounts.access.changing.lock();
        match holder {
            Holder::User => {
                let mut user = existing_user(accounts, &name)?;
                change.apply(&mut user.roles, &roles);
                user.put(accounts.writing)?;
            }
            Holder::Role => change_role(accounts, &name, change, &roles)?,
        }
    }
    tracing::info!(target: "access", command = arguments.command, %name, "roles were given or taken away");
    Ok(())
}

fn change_role(accounts: Accounts<'_>, name: &QualifiedName, change: Change, roles: &[RoleName]) -> Result<()> {
    let mut role = existing_role(accounts, name)?;
    change.apply(&mut role.roles, roles);
    check_within_database(&role)?;
    check_no_cycle(accounts, &role)?;
    role.put(accounts.writing)
}
