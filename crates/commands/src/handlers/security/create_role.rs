//! `createRole` and `updateRole`: make a role, or change what one has.

use authentication::{ActionSet, Resource, Target, is_builtin};
use bson::RawArrayBuf;

use super::create_user::{EXTERNAL, roles_of};
use super::role_checks::{
    check_exist, check_may_give, check_may_give_privileges, check_no_cycle, check_within_database,
};
use super::{changed, changing, existing_role, target_name};
use crate::handlers::command::Command;
use crate::request::arguments::{Arguments, Field, required};
use crate::request::audit_events;
use crate::request::declaration::Declaration;
use crate::request::error::{CommandError, Result};
use crate::request::privileges::{Action, on_database};
use crate::state::access_control::names::RoleName;
use crate::state::access_control::restrictions::checked;
use crate::state::access_control::stored_role::{StoredRole, read_privileges};
use crate::state::accounts::Accounts;

pub(crate) static CREATE: Command = Command::new(
    |context, arguments, reply| {
        changed(context.accounts(), context.acknowledging(), arguments, reply, |accounts, arguments, _| {
            run_create(accounts, arguments)
        })
    },
    Declaration {
        audit: Some(audit_events::of_role),
        privileges: &[on_database(Action::CreateRole)],
        ..changing("createRole", "Makes a role.")
    },
);

pub(crate) static UPDATE: Command = Command::new(
    |context, arguments, reply| {
        changed(context.accounts(), context.acknowledging(), arguments, reply, |accounts, arguments, _| {
            run_update(accounts, arguments)
        })
    },
    Declaration { audit: Some(audit_events::of_role), ..changing("updateRole", "Changes what a role has.") },
);

/// What a command says of a role.
struct Given {
    name: RoleName,
    privileges: Option<Vec<(Resource, ActionSet)>>,
    roles: Option<Vec<RoleName>>,
    restrictions: Option<RawArrayBuf>,
}

impl Given {
    /// Reads it, and checks that the client may give all of it.
    fn read(accounts: Accounts<'_>, arguments: &mut Arguments<'_>) -> Result<Self> {
        let name = target_name(accounts, arguments)?;
        let mut given = Self { name, privileges: None, roles: None, restrictions: None };
        for field in arguments.fields() {
            match field.name() {
                "privileges" | "roles" | "authenticationRestrictions" if field.is_null() => {}
                "privileges" => given.privileges = Some(read_privileges(field.required(Field::array)?)?),
                "roles" => given.roles = Some(roles_of(field, &given.name.database)?),
                "authenticationRestrictions" => {
                    given.restrictions = Some(checked(field.required(Field::array)?)?);
                }
                _ => arguments.generic(field)?,
            }
        }
        let roles = given.roles.as_deref().unwrap_or_default();
        check_may_give(accounts, roles, Action::GrantRole)?;
        check_may_give_privileges(accounts, given.privileges.as_deref().unwrap_or_default(), Action::GrantRole)?;
        if given.restrictions.is_some() {
            accounts.rights.require(Target::Database(&given.name.database), Action::SetAuthenticationRestriction)?;
        }
        check_exist(accounts, roles)?;
        Ok(given)
    }
}

/// Runs `createRole`.
pub(crate) fn run_create(accounts: Accounts<'_>, arguments: &mut Arguments<'_>) -> Result<()> {
    let Given { name, privileges, roles, restrictions } = Given::read(accounts, arguments)?;
    let mut role =
        StoredRole { name, privileges: Vec::new(), roles: required(roles, "createRole.roles")?, restrictions };
    let privileges = required(privileges, "createRole.privileges")?;
    privileges.into_iter().for_each(|(resource, actions)| role.grant(resource, actions));
    if ["local", EXTERNAL].contains(&role.name.database.as_str()) {
        let message = format!("Cannot create roles in the {} database", role.name.database);
        return Err(CommandError::bad_value(message));
    }
    if is_builtin(&role.name.database, &role.name.name) {
        let message = format!("Cannot create roles with the same name as a built-in role: {}", role.name);
        return Err(CommandError::bad_value(message));
    }
    check_within_database(&role)?;
    check_no_cycle(accounts, &role)?;
    {
        let _one_at_a_time = accounts.access.changing.lock();
        if StoredRole::find(accounts.writing, &role.name)?.is_some() {
            return Err(CommandError::numbered(51002, format!("Role \"{}\" already exists", role.name)));
        }
        role.put(accounts.writing)?;
    }
    tracing::info!(target: "access", role = %role.name, "a role was made");
    Ok(())
}

/// Runs `updateRole`.
pub(crate) fn run_update(accounts: Accounts<'_>, arguments: &mut Arguments<'_>) -> Result<()> {
    let Given { name, privileges, roles, restrictions } = Given::read(accounts, arguments)?;
    if privileges.is_none() && roles.is_none() && restrictions.is_none() {
        return Err(CommandError::bad_value("Must specify at least one field to update in updateRole"));
    }
    // What it has is replaced: something may be taken away.
    accounts.rights.require(Target::Database(&name.database), Action::RevokeRole)?;
    {
        let _one_at_a_time = accounts.access.changing.lock();
        let mut role = existing_role(accounts, &name)?;
        if let Some(privileges) = privileges {
            role.privileges.clear();
            privileges.into_iter().for_each(|(resource, actions)| role.grant(resource, actions));
        }
        role.roles = roles.unwrap_or(role.roles);
        role.restrictions = restrictions.or(role.restrictions);
        check_within_database(&role)?;
        check_no_cycle(accounts, &role)?;
        role.put(accounts.writing)?;
    }
    tracing::info!(target: "access", role = %name, "a role was changed");
    Ok(())
}
