//! `killCursors`: closes cursors.

use bson::RawBsonRef;
use document::{Element, array_elements};

use authentication::Target;

use crate::DocumentWriter;
use crate::handlers::command::Command;
use crate::request::arguments::{Arguments, Field, required};
use crate::request::declaration::{Declaration, Needs, SessionUse, StableApi, WithoutClient};
use crate::request::error::{CommandError, Result};
use crate::request::privileges::Action;
use crate::state::client_cursors::ClientCursors;
use crate::state::operations::Operation;
use crate::state::rights::Rights;

pub(crate) static COMMAND: Command = Command::new(
    |context, arguments, reply| run(&context.server.cursors, context.rights(), &context.operation, arguments, reply),
    Declaration {
        session_use: SessionUse::InTransaction,
        without_client: WithoutClient::GoesOn,
        stable_api: StableApi::Version1,
        ..Declaration::new("killCursors", "Closes cursors.", Needs::Nothing, &[])
    },
);

/// Runs the command.
pub(crate) fn run(
    cursors: &ClientCursors,
    rights: Rights<'_>,
    operation: &Operation<'_>,
    mut arguments: Arguments<'_>,
    reply: &mut DocumentWriter<'_>,
) -> Result<()> {
    let collection = arguments.collection_name()?;
    let mut ids = None;
    for field in arguments.fields() {
        match field.name() {
            "cursors" => {
                let Some(items) = field.array()? else { continue };
                let id = |item| operation.check_interrupt().and_then(|()| cursor_id(item));
                ids = Some(array_elements(items).map(id).collect::<Result<Vec<i64>>>()?);
            }
            _ => arguments.generic(field)?,
        }
    }
    let ids = required(ids, "killCursors.cursors")?;
    if ids.is_empty() {
        return Err(CommandError::bad_value("Must specify at least one cursor id in: { cursors: [] }"));
    }
    // Everybody may kill his own.
    let own = rights.login.user();
    let is_others = |id| cursors.owner(id).is_some_and(|owner| owner.as_ref() != own);
    if rights.is_enforced() && ids.iter().any(|id| is_others(*id)) {
        let of_collection = Target::Collection(rights.database, collection);
        if !rights.allows(Target::Cluster, Action::KillAnyCursor) {
            rights.require(of_collection, Action::KillCursors)?;
        }
    }
    let (mut killed, mut missing) = (Vec::new(), Vec::new());
    for id in ids {
        operation.check_interrupt()?;
        if cursors.kill(id) { &mut killed } else { &mut missing }.push(id);
    }
    reply.array("cursorsKilled", |list| killed.iter().for_each(|id| list.push_int64(*id)));
    reply.array("cursorsNotFound", |list| missing.iter().for_each(|id| list.push_int64(*id)));
    reply.array("cursorsAlive", |_| {});
    reply.array("cursorsUnknown", |_| {});
    Ok(())
}

fn cursor_id(element: Element<'_>) -> Result<i64> {
    let field = Field::of("killCursors.cursors", element);
    match field.value() {
        RawBsonRef::Int64(id) => Ok(id),
        _ => Err(field.wrong_type("type 'long'")),
    }
}
