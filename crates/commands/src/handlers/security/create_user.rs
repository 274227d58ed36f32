//! `createUser`: makes a user.

use authentication::Target;
use bson::RawArrayBuf;

use super::passwords::Password;
use super::role_checks::{check_exist, check_may_give};
use super::{changed, changing, target_name};
use crate::handlers::command::Command;
use crate::request::arguments::{Arguments, Field, required};
use crate::request::audit_events;
use crate::request::declaration::Declaration;
use crate::request::error::{CommandError, Result};
use crate::request::privileges::{Action, on_database};
use crate::state::access_control::names::{UserName, read_roles};
use crate::state::access_control::restrictions::checked;
use crate::state::access_control::stored_user::StoredUser;
use crate::state::accounts::Accounts;

/// Users of this database are vouched for by somebody else.
pub(super) const EXTERNAL: &str = "$external";

pub(crate) static COMMAND: Command = Command::new(
    |context, arguments, reply| {
        changed(context.accounts(), context.acknowledging(), arguments, reply, |accounts, arguments, _| {
            run(accounts, arguments)
        })
    },
    Declaration {
        audit: Some(audit_events::of_user),
        privileges: &[on_database(Action::CreateUser)],
        secrets: &["pwd"],
        ..changing("createUser", "Makes a user.")
    },
);

/// Runs the command.
pub(crate) fn run(accounts: Accounts<'_>, arguments: &mut Arguments<'_>) -> Result<()> {
    let name = target_name(accounts, arguments)?;
    let (mut password, mut roles, mut custom_data) = (Password::default(), None, None);
    let mut restrictions: Option<RawArrayBuf> = None;
    for field in arguments.fields() {
        match field.name() {
            _ if password.take(field)? => {}
            "roles" => {
                roles = field.array()?.map(|array| read_roles("createUser.roles", array, &name.database)).transpose()?
            }
            "customData" => custom_data = field.document()?.map(ToOwned::to_owned),
            "authenticationRestrictions" => restrictions = field.array()?.map(checked).transpose()?,
            _ => arguments.generic(field)?,
        }
    }
    let roles = required(roles, "createUser.roles")?;
    check_password(&name, &password)?;
    check_exist(accounts, &roles)?;
    check_may_give(accounts, &roles, Action::GrantRole)?;
    if restrictions.is_some() {
        accounts.rights.require(Target::Database(&name.database), Action::SetAuthenticationRestriction)?;
    }
    let credentials = password.credentials(accounts, &name.name)?;
    let user_id = bson::Uuid::from_bytes(random_uuid(&accounts.access.unguessable(16)));
    let is_external = name.database == EXTERNAL;
    let user = StoredUser { user_id: Some(user_id), credentials, is_external, custom_data, roles, restrictions, name };
    {
        let _one_at_a_time = accounts.access.changing.lock();
        if StoredUser::find(accounts.writing, &user.name)?.is_some() {
            let message = format!("User \"{}\" already exists", user.name);
            return Err(CommandError::numbered(51003, message));
        }
        user.put(accounts.writing)?;
    }
    tracing::info!(target: "access", user = %user.name, "a user was made");
    Ok(())
}

fn check_password(name: &UserName, password: &Password<'_>) -> Result<()> {
    match (name.database.as_str(), password.text) {
        ("local", _) => Err(CommandError::bad_value("Cannot create users in the local database")),
        (EXTERNAL, Some(_)) => {
            Err(CommandError::bad_value("Cannot set the password for users defined on the '$external' database"))
        }
        (EXTERNAL, None) if password.mechanisms.is_some() => {
            Err(CommandError::bad_value("Users of the '$external' database have no mechanisms of their own"))
        }
        (EXTERNAL, None) => Ok(()),
        (_, Some(_)) => Ok(()),
        (_, None) => Err(CommandError::bad_value(
            "Must provide a 'pwd' field for all user documents, except those with '$external' as the user's source db",
        )),
    }
}

/// Random bytes as an id of the fourth kind.
fn random_uuid(random: &[u8]) -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes.iter_mut().zip(random).for_each(|(byte, random)| *byte = *random);
    bytes[6] = (bytes[6] & 0x0f) | 0x40;
    bytes[8] = (bytes[8] & 0x3f) | 0x80;
    bytes
}

/// Reads `roles` of a command about a name.
pub(super) fn roles_of(field: Field<'_>, database: &str) -> Result<Vec<UserName>> {
    read_roles(field.owner, field.required(Field::array)?, database)
}
