//! `updateUser`: changes a user: his password, roles, data, restrictions. What is not named stays.
//!
//! A user may change his own password and data with `changeOwnPassword` and `changeOwnCustomData`.

use authentication::{ScramCredentials, Target};

use super::create_user::{EXTERNAL, roles_of};
use super::passwords::Password;
use super::role_checks::{check_exist, check_may_give};
use super::{changed, changing, existing_user, target_name};
use crate::handlers::command::Command;
use crate::request::arguments::Arguments;
use crate::request::audit_events;
use crate::request::declaration::Declaration;
use crate::request::error::{CommandError, Result};
use crate::request::privileges::Action;
use crate::state::access_control::names::UserName;
use crate::state::access_control::restrictions::checked;
use crate::state::access_control::stored_user::StoredUser;
use crate::state::accounts::Accounts;

pub(crate) static COMMAND: Command = Command::new(
    |context, arguments, reply| {
        changed(context.accounts(), context.acknowledging(), arguments, reply, |accounts, arguments, _| {
            run(accounts, arguments)
        })
    },
    Declaration { audit: Some(audit_events::of_user), secrets: &["pwd"], ..changing("updateUser", "Changes a user.") },
);

/// Runs the command.
pub(crate) fn run(accounts: Accounts<'_>, arguments: &mut Arguments<'_>) -> Result<()> {
    let name = target_name(accounts, arguments)?;
    let (mut password, mut roles, mut custom_data) = (Password::default(), None, None);
    let mut restrictions = None;
    for field in arguments.fields() {
        match field.name() {
            _ if password.take(field)? => {}
            "roles" if field.is_null() => {}
            "roles" => roles = Some(roles_of(field, &name.database)?),
            "customData" => custom_data = field.document()?.map(ToOwned::to_owned),
            "authenticationRestrictions" => restrictions = field.array()?.map(checked).transpose()?,
            _ => arguments.generic(field)?,
        }
    }
    let is_password = password.text.is_some() || password.mechanisms.is_some();
    let database = name.database.as_str();
    if !is_password && custom_data.is_none() && roles.is_none() && restrictions.is_none() {
        return Err(CommandError::bad_value("Must specify at least one field to update in updateUser"));
    }
    if is_password {
        require_own_or(accounts, &name, Action::ChangeOwnPassword, Action::ChangePassword)?;
    }
    if custom_data.is_some() {
        require_own_or(accounts, &name, Action::ChangeOwnCustomData, Action::ChangeCustomData)?;
    }
    if restrictions.is_some() {
        accounts.rights.require(Target::Database(database), Action::SetAuthenticationRestriction)?;
    }
    if let Some(roles) = &roles {
        // Other roles than before: some are given, some taken away.
        accounts.rights.require(Target::Database(database), Action::RevokeRole)?;
        check_may_give(accounts, roles, Action::GrantRole)?;
        check_exist(accounts, roles)?;
    }
    let credentials = password.credentials(accounts, &name.name)?;
    {
        let _one_at_a_time = accounts.access.changing.lock();
        let mut user = existing_user(accounts, &name)?;
        set_password(&mut user, &password, credentials)?;
        user.custom_data = custom_data.or(user.custom_data);
        user.roles = roles.unwrap_or(user.roles);
        user.restrictions = restrictions.or(user.restrictions);
        user.put(accounts.writing)?;
    }
    tracing::info!(target: "access", user = %name, "a user was changed");
    Ok(())
}

/// Fails unless it is the user himself and he may, or the client may for all users of the database.
fn require_own_or(accounts: Accounts<'_>, name: &UserName, own: Action, any: Action) -> Result<()> {
    let target = Target::Database(&name.database);
    let is_own = accounts.rights.login.user().is_some_and(|user| **user == *name);
    if is_own && accounts.rights.allows(target, own) { Ok(()) } else { accounts.rights.require(target, any) }
}

fn set_password(user: &mut StoredUser, password: &Password<'_>, credentials: Vec<ScramCredentials>) -> Result<()> {
    if password.text.is_some() {
        if user.name.database == EXTERNAL {
            let message = "Cannot set the password for users defined on the '$external' database";
            return Err(CommandError::bad_value(message));
        }
        user.credentials = credentials;
    } else if let Some(mechanisms) = &password.mechanisms {
        // Without the password there can only be fewer.
        let has = |wanted| user.credentials.iter().any(|known| known.mechanism == wanted);
        if !mechanisms.iter().all(|wanted| has(*wanted)) {
            let message = "mechanisms field must be a subset of previously set mechanisms";
            return Err(CommandError::bad_value(message));
        }
        user.credentials.retain(|known| mechanisms.contains(&known.mechanism));
    }
    Ok(())
}
