//! From the roles that somebody has been granted to all that follow, and to what they allow.

use std::collections::HashSet;

use authentication::{PrivilegeSet, builtin_privileges, is_builtin};

use super::names::{RoleName, UserName};
use super::restrictions::Restrictions;
use super::stored_role::{StoredRole, set_of};
use super::stored_user::StoredUser;
use crate::request::error::Result;
use crate::state::writing::Writing;

/// What follows from some roles.
#[derive(Debug, Clone, Default)]
pub(crate) struct ResolvedRoles {
    /// Those roles that exist, and all that they have.
    pub(crate) roles: Vec<RoleName>,
    pub(crate) privileges: PrivilegeSet,
    pub(crate) restrictions: Vec<Restrictions>,
}

/// What a user may do.
#[derive(Debug, Clone)]
pub(crate) struct Access {
    pub(crate) user: UserName,
    pub(crate) roles: Vec<RoleName>,
    pub(crate) privileges: PrivilegeSet,
    /// Of himself and of his roles, each of which must be satisfied.
    pub(crate) restrictions: Vec<Restrictions>,
}

/// Follows roles. One that is there twice, or that has itself, counts once.
pub(crate) fn resolve(writing: &Writing, granted: &[RoleName]) -> Result<ResolvedRoles> {
    let mut resolved = ResolvedRoles::default();
    let mut seen = HashSet::new();
    let mut to_visit: Vec<RoleName> = granted.iter().rev().cloned().collect();
    while let Some(role) = to_visit.pop() {
        if !seen.insert(role.clone()) {
            continue;
        }
        if let Some(privileges) = builtin_privileges(&role.database, &role.name) {
            resolved.privileges.add_all(&privileges);
        } else if let Some(stored) = StoredRole::find(writing, &role)? {
            resolved.privileges.add_all(&set_of(&stored.privileges));
            resolved.restrictions.push(stored.restrictions()?);
            to_visit.extend(stored.roles.into_iter().rev());
        } else {
            continue;
        }
        resolved.roles.push(role);
    }
    Ok(resolved)
}

/// Whether there is such a role.
pub(crate) fn exists(writing: &Writing, role: &RoleName) -> Result<bool> {
    Ok(is_builtin(&role.database, &role.name) || StoredRole::find(writing, role)?.is_some())
}

/// What a stored user may do.
pub(super) fn access_of(writing: &Writing, user: &StoredUser) -> Result<Access> {
    let resolved = resolve(writing, &user.roles)?;
    let mut restrictions = resolved.restrictions;
    restrictions.push(user.restrictions()?);
    Ok(Access { user: user.name.clone(), roles: resolved.roles, privileges: resolved.privileges, restrictions })
}
