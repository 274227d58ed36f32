//! `dropUser` and `dropAllUsersFromDatabase`: remove users. Their connections are logged out.

use super::{changing, finish, target_name, user_not_found};
use crate::DocumentWriter;
use crate::handlers::command::Command;
use crate::request::arguments::Arguments;
use crate::request::audit_events;
use crate::request::declaration::Declaration;
use crate::request::error::Result;
use crate::request::privileges::{Action, on_database};
use crate::state::access_control::names::UserName;
use crate::state::access_control::stored_user::StoredUser;
use crate::state::context::Context;

pub(crate) static ONE: Command = Command::new(
    run_one,
    Declaration {
        audit: Some(audit_events::of_user),
        privileges: &[on_database(Action::DropUser)],
        ..changing("dropUser", "Removes a user.")
    },
);

pub(crate) static ALL: Command = Command::new(
    run_all,
    Declaration {
        audit: Some(audit_events::of_database),
        privileges: &[on_database(Action::DropUser)],
        ..changing("dropAllUsersFromDatabase", "Removes all users of a database.")
    },
);

/// Runs `dropUser`.
pub(crate) fn run_one(
    context: &mut Context<'_>,
    mut arguments: Arguments<'_>,
    reply: &mut DocumentWriter<'_>,
) -> Result<()> {
    let name = target_name(context, &arguments)?;
    arguments.fields().try_for_each(|field| arguments.generic(field))?;
    let server = context.server;
    {
        let _one_at_a_time = server.access.changing.lock();
        if !StoredUser::remove(&server.writing, &name)? {
            return Err(user_not_found(&name));
        }
    }
    tracing::info!(target: "access", user = %name, "a user was removed");
    finish(context, &arguments, reply);
    Ok(())
}

/// Runs `dropAllUsersFromDatabase`.
pub(crate) fn run_all(
    context: &mut Context<'_>,
    mut arguments: Arguments<'_>,
    reply: &mut DocumentWriter<'_>,
) -> Result<()> {
    arguments.fields().try_for_each(|field| arguments.generic(field))?;
    let (server, database) = (context.server, context.request.database);
    let mut removed = 0;
    {
        let _one_at_a_time = server.access.changing.lock();
        let mut names: Vec<UserName> = Vec::new();
        StoredUser::all(&server.writing, |user| {
            context.operation.check_interrupt()?;
            if user.name.database == database {
                names.push(user.name);
            }
            Ok(())
        })?;
        for name in names {
            removed += u64::from(StoredUser::remove(&server.writing, &name)?);
        }
    }
    tracing::info!(target: "access", database, removed, "all users of a database were removed");
    reply.count("n", removed);
    finish(context, &arguments, reply);
    Ok(())
}
