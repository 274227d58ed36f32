//! The one place where replies wait for what a shared log has confirmed (`docs/decisions/0023-confirmed-positions.md`).
//!
//! Called by the dispatcher once a command has run, whatever came of it: an error tells as much as a success. What the command may have seen is declared
//! (`Sees`), so no handler waits and none can forget. Without a shared log all of this is one comparison.

use std::time::Duration;

use bson::{RawBsonRef, RawDocument};
use oplog::OplogPosition;
use transaction::{Leadership, Store};

use crate::DocumentWriter;
use crate::handlers::crud::write_errors::write_concern_error;
use crate::request::declaration::{Declaration, Needs, Sees, WriteConcernUse};
use crate::request::error::{CommandError, Result};
use crate::request::outcome::Outcome;
use crate::request::write_concern::{Members, WriteConcern};
use crate::state::acknowledgement::log_is_silent;
use crate::state::context::Context;
use crate::state::operations::Operation;

/// Stages that look at the newest state: they write, or they count without reading.
const STAGES: [&str; 3] = ["$out", "$merge", "$collStats"];

/// The result of a command, once it may be told: as it is, or that the command was interrupted or the term lost before that.
pub(super) fn to_be_told(
    context: &mut Context<'_>,
    command: &Declaration,
    result: Result<Outcome>,
    reply: &mut DocumentWriter<'_>,
) -> Result<Outcome> {
    let (store, body) = (&context.server.store, context.request.body);
    if !store.is_confirming() {
        return result;
    }
    // What a statement of a transaction has read is confirmed or its own; what it could not do tells of others.
    if result.is_ok() && context.session.transaction().is_some() {
        return result;
    }
    let Some(end) = seen_end(store, command, body) else { return result };
    let concern = write_concern(context, command);
    if result.is_ok() && concern.is_unacknowledged() {
        return result;
    }
    context.place().give_up();
    // An error is told once it is certain, however long the client wants to wait for its writes.
    let longest = concern.time_limit.filter(|_| result.is_ok());
    if !wait(store, &context.operation, end, longest)? {
        write_concern_error(Err(CommandError::named("WriteConcernFailed", "waiting for replication timed out")), reply);
    }
    result
}

/// The same for an error of a command that has not begun: its session may have told it of something.
pub(super) fn error_to_be_told(store: &Store, operation: &Operation<'_>, error: CommandError) -> CommandError {
    match store.to_be_confirmed() {
        Some(end) => wait(store, operation, end, None).err().unwrap_or(error),
        None => error,
    }
}

/// `false`: it took longer than that.
///
/// # Errors
/// The command was ended, the term lost, or the log is silent (`Leadership::Stalled`): nobody knows then whether what it has done will be. It may be silent to this
/// member only, and another one lead soon, which can be asked.
fn wait(store: &Store, operation: &Operation<'_>, end: OplogPosition, longest: Option<Duration>) -> Result<bool> {
    let give_up = longest.map(|longest| operation.elapsed() + longest);
    let is_late = || give_up.is_some_and(|give_up| operation.elapsed() >= give_up);
    let is_silent = || store.leadership() == Leadership::Stalled;
    let is_over = || is_late() || is_silent() || operation.check_locked().is_err();
    let is_confirmed = store.wait_confirmed(end, &is_over)?;
    if !is_confirmed && !is_late() {
        operation.check_locked()?;
        return Err(log_is_silent());
    }
    Ok(is_confirmed)
}

/// Where what the command may have seen ends, if that is not confirmed.
fn seen_end(store: &Store, command: &Declaration, body: &RawDocument) -> Option<OplogPosition> {
    match command.sees() {
        Sees::Newest => store.to_be_confirmed(),
        Sees::NewestByStages if has_such_stage(body) => store.to_be_confirmed(),
        // It is about the server itself, and answers whatever the log does.
        Sees::Confirmed if command.needs == Needs::Nothing => None,
        Sees::Confirmed | Sees::NewestByStages => store.definitions_to_be_confirmed(),
    }
}

fn has_such_stage(body: &RawDocument) -> bool {
    let Some(RawBsonRef::Array(stages)) = document::get_field(body, "pipeline") else { return false };
    document::array_elements(stages).any(|stage| {
        let stage = stage.value().as_document();
        let named = stage.and_then(|stage| document::elements(stage).next());
        named.is_some_and(|named| STAGES.contains(&named.name()))
    })
}

/// That of the command, which has been read without an error where it is taken.
fn write_concern(context: &Context<'_>, command: &Declaration) -> WriteConcern {
    if command.write_concern == WriteConcernUse::Refused {
        return WriteConcern { members: Members::One, ..WriteConcern::default() };
    }
    let given = match document::get_field(context.request.body, "writeConcern") {
        Some(RawBsonRef::Document(given)) => WriteConcern::parse(given).ok(),
        _ => None,
    };
    given.unwrap_or_else(|| context.server.default_concerns.write_concern(&context.server.replica_set))
}

#[cfg(test)]
mod tests;
