//! `getMore`: the next batch of a cursor; to a client that takes several replies to one request, all that follow.

use std::time::Duration;

use bson::RawBsonRef;
use executor::ExecutionTotals;

use crate::DocumentWriter;
use crate::handlers::command::Command;
use crate::request::arguments::{Arguments, max_time, required};
use crate::request::declaration::{Class, CursorUse, Declaration, Needs, SessionUse, StableApi};
use crate::request::error::{CommandError, Result};
use crate::request::outcome::{Next, Outcome};
use crate::request::read_concern::Level;
use crate::state::client_cursors::{BatchLimit, ClientCursor, CursorWork, Remaining};
use crate::state::execution_notes::Detail;
use crate::state::fail_points::{CursorFault, FailPoints, error_of};
use crate::state::operation_counts::{OperationCounts, count};
use crate::state::place::Place;
use crate::state::rights::Rights;

/// How long a getMore of an awaiting cursor waits when the client does not say.
const AWAIT_DEFAULT: Duration = Duration::from_secs(1);

/// The fields.
struct Wanted<'a> {
    id: i64,
    collection: &'a str,
    /// How long the client waits for something to come.
    longest: Option<Duration>,
    limit: BatchLimit,
}

/// What the command works with.
pub(crate) struct GoingOn<'a> {
    work: CursorWork<'a>,
    rights: Rights<'a>,
    place: Place<'a>,
    counts: &'a OperationCounts,
    fail_points: &'a FailPoints,
}

pub(crate) static COMMAND: Command = Command::waiting(
    |context, arguments, reply| {
        let going_on = GoingOn {
            work: context.cursor_work(),
            rights: context.rights(),
            place: context.place(),
            counts: &context.server.counts,
            fail_points: &context.server.fail_points,
        };
        run(&going_on, arguments, reply)
    },
    Declaration {
        counts_as_command: false,
        class: Class::Read,
        session_use: SessionUse::InTransaction,
        read_concerns: &[Level::Available, Level::Majority, Level::Snapshot],
        stable_api: StableApi::Version1,
        cursor: CursorUse::GoesOn,
        ..Declaration::new("getMore", "The next batch of a cursor.", Needs::Data, &[])
    },
);

/// Runs the command.
pub(crate) fn run(
    going_on: &GoingOn<'_>,
    mut arguments: Arguments<'_>,
    reply: &mut DocumentWriter<'_>,
) -> Result<Outcome> {
    let Wanted { id, collection, longest, limit } = parse(&mut arguments)?;
    let GoingOn { work, rights, place, counts, fail_points } = going_on;
    let CursorWork { cursors, operation, .. } = *work;
    count(&counts.get_more, 1);
    let namespace = format!("{}.{collection}", rights.database);
    let mut cursor = cursors.take(id, &namespace, arguments.generic.session, work.txn_number)?;
    if rights.is_enforced() && cursor.owner.as_ref() != work.user {
        cursors.give_back(id, cursor)?;
        let message = format!("cursor id {id} was not created by the authenticated user");
        return Err(CommandError::named("Unauthorized", message));
    }
    if let Err(mismatch) = cursor.check_api(operation.api()) {
        cursors.give_back(id, cursor)?;
        return Err(mismatch);
    }
    if let Some(fault) = fail_points.strike_get_more() {
        cursors.close(id);
        return fail(fault, &cursor);
    }
    if longest.is_some() && !cursor.awaits() {
        cursors.give_back(id, cursor)?;
        let message = "cannot set maxTimeMS on getMore command for a non-awaitData cursor";
        return Err(CommandError::bad_value(message));
    }
    // The time of an awaiting cursor is for waiting, not for working.
    if let Err(is_over) = operation.set_time_limit(cursor.max_time.filter(|_| !cursor.awaits())) {
        cursors.close(id);
        return Err(is_over);
    }
    let longest = longest.unwrap_or(AWAIT_DEFAULT);
    if cursor.awaits() {
        place.give_up();
    }
    operation.slot().set_originating(cursor.command.clone());
    let remaining = write_batch(work, id, &mut cursor, limit, longest, reply);
    match remaining {
        Ok(Remaining::Maybe) => cursors.give_back(id, cursor).map(|()| Outcome::ReplyAndMore(Next::AtOnce)),
        Ok(Remaining::Nothing) => {
            work.noting.notes.is_exhausted.set(true);
            cursors.close(id);
            Ok(Outcome::Reply)
        }
        Err(error) => {
            cursors.close(id);
            Err(labelled(error, &cursor))
        }
    }
}

fn parse<'a>(arguments: &mut Arguments<'a>) -> Result<Wanted<'a>> {
    let id = cursor_id(arguments)?;
    let mut longest = None;
    let (mut collection, mut limit) = (None, BatchLimit { documents: None });
    for field in arguments.fields() {
        match field.name() {
            "collection" => collection = field.string()?,
            "batchSize" => limit.documents = field.unsigned()?.filter(|size| *size > 0),
            "maxTimeMS" => longest = Some(max_time(field)?.unwrap_or_default()),
            "term" | "lastKnownCommittedOpTime" => field.refuse_unless_null()?,
            _ => arguments.generic(field)?,
        }
    }
    let collection = required(collection, "getMore.collection")?;
    Ok(Wanted { id, collection, longest, limit })
}

/// Does what a fail point says.
fn fail(fault: CursorFault, cursor: &ClientCursor) -> Result<Outcome> {
    if fault.closes_connection {
        return Ok(Outcome::CloseConnection);
    }
    Err(labelled(error_of(fault.error_code, "failGetMoreAfterCursorCheckout"), cursor))
}

/// Fills a batch, waiting for it if the cursor does, writes it and notes what it has taken.
fn write_batch(
    work: &CursorWork<'_>,
    id: i64,
    cursor: &mut ClientCursor,
    limit: BatchLimit,
    longest: Duration,
    reply: &mut DocumentWriter<'_>,
) -> Result<Remaining> {
    let CursorWork { cursors, operation, noting, .. } = *work;
    let before = cursor.execution(Detail::Counts).unwrap_or_default().totals;
    let began = operation.elapsed();
    let mut remaining = Ok(Remaining::Nothing);
    reply.document("cursor", |body| {
        body.array("nextBatch", |batch| {
            remaining = match cursor.awaits() {
                true => cursor.fill_or_wait(batch, limit, operation, longest, &|| cursors.is_killed(id)),
                false => cursor.fill(batch, limit, operation),
            };
            noting.notes.returned.add(batch.count().into());
        });
        body.int64("id", if matches!(remaining, Ok(Remaining::Maybe)) { id } else { 0 });
        body.string("ns", &cursor.namespace);
        if let Some(token) = cursor.resume_token() {
            body.embed("postBatchResumeToken", &token);
        }
    });
    note(work, id, cursor, &before, began);
    remaining
}

/// Adds the label by which drivers know that a change stream can be resumed.
fn labelled(mut error: CommandError, cursor: &ClientCursor) -> CommandError {
    if cursor.is_change_stream() && error.is_resumable_in_change_stream() {
        error.add_label("ResumableChangeStreamError");
    }
    error
}

/// Notes what a batch has taken since the cursor was taken up.
fn note(work: &CursorWork<'_>, id: i64, cursor: &mut ClientCursor, before: &ExecutionTotals, began: Duration) {
    let notes = work.noting.notes;
    if let Some(execution) = cursor.execution(work.noting.detail()) {
        notes.add_execution(execution, before);
    }
    if cursor.awaits() {
        notes.waited.set(work.operation.elapsed().saturating_sub(began));
    }
    notes.cursor.set(id);
    cursor.note_batch(notes.returned.get(), work.clock.wall_millis());
}

fn cursor_id(arguments: &Arguments<'_>) -> Result<i64> {
    let field = arguments.target().ok_or_else(|| CommandError::bad_value("an empty command"))?;
    match field.value() {
        RawBsonRef::Int64(id) => Ok(id),
        _ => Err(field.wrong_type("type 'long'")),
    }
}
