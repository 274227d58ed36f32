//! `dropDatabase`: drops all collections of a database. `dropped` is in the reply only when there was something to drop.

use collection::check_database_name;
use transaction::DefinitionScope;

use super::acknowledge;
use super::list_databases::OWN_DATABASES;
use crate::DocumentWriter;
use crate::handlers::command::Command;
use crate::request::arguments::Arguments;
use crate::request::audit_events;
use crate::request::command_request::CommandRequest;
use crate::request::declaration::{Changes, Declaration, Needs, StableApi, WithoutClient, WriteConcernUse};
use crate::request::error::{CommandError, Result};
use crate::request::privileges::{Action, on_database};
use crate::request::requirements::Requirements;
use crate::state::defining::Defining;

pub(crate) static COMMAND: Command = Command::new(
    |context, arguments, reply| run(&context.defining(), arguments, reply),
    Declaration {
        audit: Some(audit_events::database_dropped),
        changes: Changes::Stored,
        without_client: WithoutClient::GoesOn,
        write_concern: WriteConcernUse::Taken,
        stable_api: StableApi::Version1,
        computed: Some(needs),
        ..Declaration::new("dropDatabase", "Drops a database.", Needs::Primary, &[on_database(Action::DropDatabase)])
    },
);

/// With `admin` go the users.
fn needs(request: &CommandRequest<'_>, needs: &mut Requirements<'_>) -> Result<()> {
    if request.database == "admin" {
        needs.need_on("admin", "system.users", Action::DropCollection);
        needs.need_on("admin", "system.roles", Action::DropCollection);
    }
    Ok(())
}

/// Runs the command.
pub(crate) fn run(defining: &Defining<'_>, mut arguments: Arguments<'_>, reply: &mut DocumentWriter<'_>) -> Result<()> {
    let database = defining.database();
    check_database_name(database)?;
    check_target(&arguments)?;
    for field in arguments.fields() {
        arguments.generic(field)?;
    }
    if OWN_DATABASES.contains(&database) {
        let message = format!("Dropping the '{database}' database is prohibited.");
        return Err(CommandError::named("IllegalOperation", message));
    }
    defining.operation().set_time_limit(arguments.generic.max_time)?;
    let excluded = defining.exclude_transactions(&DefinitionScope::Database(database.to_owned()))?;
    let commit = defining.queries().store.drop_database(database, || defining.operation().check_locked())?;
    if commit.is_some() {
        defining.forget_database(database);
        reply.string("dropped", database);
    }
    drop(excluded);
    acknowledge(defining, arguments.generic.write_concern, commit.as_ref(), reply)
}

fn check_target(arguments: &Arguments<'_>) -> Result<()> {
    match arguments.target().map(|field| field.integer()) {
        Some(Ok(Some(1))) => Ok(()),
        _ => Err(CommandError::numbered(5255100, "Have to pass 1 as 'dropDatabase' parameter")),
    }
}
