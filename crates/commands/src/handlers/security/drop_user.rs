//! `dropUser` and `dropAllUsersFromDatabase`: remove users. Their connections are logged out.

use super::{changed, changing, target_name, user_not_found};
use crate::DocumentWriter;
use crate::handlers::command::Command;
use crate::request::arguments::Arguments;
use crate::request::audit_events;
use crate::request::declaration::Declaration;
use crate::request::error::Result;
use crate::request::privileges::{Action, on_database};
use crate::state::access_control::names::UserName;
use crate::state::access_control::stored_user::StoredUser;
use crate::state::accounts::Accounts;

pub(crate) static ONE: Command = Command::new(
    |context, arguments, reply| {
        changed(context.accounts(), context.acknowledging(), arguments, reply, |accounts, arguments, _| {
            run_one(accounts, arguments)
        })
    },
    Declaration {
        audit: Some(audit_events::of_user),
        privileges: &[on_database(Action::DropUser)],
        ..changing("dropUser", "Removes a user.")
    },
);

pub(crate) static ALL: Command = Command::new(
    |context, arguments, reply| changed(context.accounts(), context.acknowledging(), arguments, reply, run_all),
    Declaration {
        audit: Some(audit_events::of_database),
        privileges: &[on_database(Action::DropUser)],
        ..changing("dropAllUsersFromDatabase", "Removes all users of a database.")
    },
);

/// Runs `dropUser`.
pub(crate) fn run_one(accounts: Accounts<'_>, arguments: &mut Arguments<'_>) -> Result<()> {
    let name = target_name(accounts, arguments)?;
    arguments.fields().try_for_each(|field| arguments.generic(field))?;
    {
        let _one_at_a_time = accounts.access.changing.lock();
        if !StoredUser::remove(accounts.writing, &name)? {
            return Err(user_not_found(&name));
        }
    }
    tracing::info!(target: "access", user = %name, "a user was removed");
    Ok(())
}

/// Runs `dropAllUsersFromDatabase`.
pub(crate) fn run_all(
    accounts: Accounts<'_>,
    arguments: &mut Arguments<'_>,
    reply: &mut DocumentWriter<'_>,
) -> Result<()> {
    arguments.fields().try_for_each(|field| arguments.generic(field))?;
    let database = accounts.database;
    let mut removed = 0;
    {
        let _one_at_a_time = accounts.access.changing.lock();
        let mut names: Vec<UserName> = Vec::new();
        StoredUser::all(accounts.writing, |user| {
            accounts.operation.check_interrupt()?;
            if user.name.database == database {
                names.push(user.name);
            }
            Ok(())
        })?;
        for name in names {
            removed += u64::from(StoredUser::remove(accounts.writing, &name)?);
        }
    }
    tracing::info!(target: "access", database, removed, "all users of a database were removed");
    reply.count("n", removed);
    Ok(())
}
