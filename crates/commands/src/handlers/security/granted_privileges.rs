//! `grantPrivilegesToRole` and `revokePrivilegesFromRole`: change what a role allows.

use authentication::{ActionSet, Resource};

use super::role_checks::{check_may_give_privileges, check_within_database};
use super::{changed, changing, existing_role, target_name};
use crate::handlers::command::Command;
use crate::request::arguments::{Arguments, Field, required};
use crate::request::audit_events;
use crate::request::declaration::Declaration;
use crate::request::error::{CommandError, Result};
use crate::request::privileges::Action;
use crate::state::access_control::stored_role::{StoredRole, read_privileges};
use crate::state::accounts::Accounts;

pub(crate) static GRANT: Command = Command::new(
    |context, arguments, reply| {
        changed(context.accounts(), context.acknowledging(), arguments, reply, |accounts, arguments, _| {
            run(accounts, arguments, Action::GrantRole, StoredRole::grant)
        })
    },
    Declaration {
        audit: Some(audit_events::of_role),
        ..changing("grantPrivilegesToRole", "Adds privileges to a role.")
    },
);

pub(crate) static REVOKE: Command = Command::new(
    |context, arguments, reply| {
        changed(context.accounts(), context.acknowledging(), arguments, reply, |accounts, arguments, _| {
            run(accounts, arguments, Action::RevokeRole, |role, resource, actions| role.revoke(&resource, &actions))
        })
    },
    Declaration {
        audit: Some(audit_events::of_role),
        ..changing("revokePrivilegesFromRole", "Takes privileges out of a role.")
    },
);

fn run(
    accounts: Accounts<'_>,
    arguments: &mut Arguments<'_>,
    action: Action,
    change: fn(&mut StoredRole, Resource, ActionSet),
) -> Result<()> {
    let name = target_name(accounts, arguments)?;
    let mut privileges = None;
    for field in arguments.fields() {
        match field.name() {
            "privileges" => privileges = Some(read_privileges(field.required(Field::array)?)?),
            _ => arguments.generic(field)?,
        }
    }
    let privileges = required(privileges, &format!("{}.privileges", arguments.command))?;
    if privileges.is_empty() {
        return Err(CommandError::bad_value(format!("{} needs at least one privilege", arguments.command)));
    }
    check_may_give_privileges(accounts, &privileges, action)?;
    {
        let _one_at_a_time = accounts.access.changing.lock();
        let mut role = existing_role(accounts, &name)?;
        privileges.into_iter().for_each(|(resource, actions)| change(&mut role, resource, actions));
        check_within_database(&role)?;
        role.put(accounts.writing)?;
    }
    tracing::info!(target: "access", command = arguments.command, role = %name, "the privileges of a role were changed");
    Ok(())
}
