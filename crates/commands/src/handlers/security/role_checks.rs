//! Which roles and privileges may be given to whom, and whether who gives them may do so.

use std::collections::HashSet;

use authentication::{ActionSet, Resource, Target};

use super::role_not_found;
use crate::request::error::{CommandError, Result};
use crate::request::privileges::Action;
use crate::state::access_control::names::RoleName;
use crate::state::access_control::resolve::exists;
use crate::state::access_control::stored_role::StoredRole;
use crate::state::accounts::Accounts;

/// Roles whose roles are followed at most.
pub(super) const ROLES_FOLLOWED_MAX: usize = 1000;

/// Fails unless the roles are there.
pub(super) fn check_exist(accounts: Accounts<'_>, roles: &[RoleName]) -> Result<()> {
    for role in roles {
        accounts.operation.check_interrupt()?;
        if !exists(accounts.writing, role)? {
            return Err(role_not_found(role));
        }
    }
    Ok(())
}

/// Fails unless the client may give, or take away, the roles.
pub(super) fn check_may_give(accounts: Accounts<'_>, roles: &[RoleName], action: Action) -> Result<()> {
    roles.iter().try_for_each(|role| accounts.rights.require(Target::Database(&role.database), action))
}

/// Fails unless the client may give, or take away, the privileges.
pub(super) fn check_may_give_privileges(
    accounts: Accounts<'_>,
    privileges: &[(Resource, ActionSet)],
    action: Action,
) -> Result<()> {
    privileges
        .iter()
        .try_for_each(|(resource, _)| accounts.rights.require(Target::Database(database_of(resource)), action))
}

/// Where it is decided who gets a privilege.
fn database_of(resource: &Resource) -> &str {
    match resource {
        Resource::Named { database, .. } if !database.is_empty() => database,
        _ => "admin",
    }
}

/// Fails if a role has what a role of its database may not have.
pub(super) fn check_within_database(role: &StoredRole) -> Result<()> {
    let own = role.name.database.as_str();
    if own == "admin" {
        return Ok(());
    }
    if let Some(other) = role.roles.iter().find(|other| other.database != own) {
        let message = format!("Roles on the '{own}' database cannot be granted roles from other databases: {other}");
        return Err(CommandError::named("InvalidRoleModification", message));
    }
    let is_foreign = |resource: &Resource| !matches!(resource, Resource::Named { database, .. } if database == own);
    if role.privileges.iter().any(|(resource, _)| is_foreign(resource)) {
        let message = format!(
            "Roles on the '{own}' database cannot be granted privileges that target other databases or the cluster"
        );
        return Err(CommandError::named("InvalidRoleModification", message));
    }
    Ok(())
}

/// Fails if a role would have itself.
pub(super) fn check_no_cycle(accounts: Accounts<'_>, role: &StoredRole) -> Result<()> {
    let mut seen = HashSet::new();
    let mut to_visit = role.roles.clone();
    while let Some(next) = to_visit.pop() {
        accounts.operation.check_interrupt()?;
        if next == role.name {
            let message = format!("Granting roles to {} would introduce a cycle in the role graph.", role.name);
            return Err(CommandError::named("InvalidRoleModification", message));
        }
        if !seen.insert(next.clone()) {
            continue;
        }
        if seen.len() > ROLES_FOLLOWED_MAX {
            return Err(CommandError::bad_value("a role has too many roles"));
        }
        if let Some(stored) = StoredRole::find(accounts.writing, &next)? {
            to_visit.extend(stored.roles);
        }
    }
    Ok(())
}
