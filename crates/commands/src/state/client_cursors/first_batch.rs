//! The first batch of a new cursor, as its command replies it.
//!
//! Called by the commands that open cursors. [`CursorWork`] is what they, and `getMore`, work with.

use std::sync::Arc;

use bson::{RawDocument, RawDocumentBuf};
use executor::ExecutionTotals;
use platform::Clock;

use super::{BatchLimit, ClientCursor, ClientCursors, Remaining};
use crate::DocumentWriter;
use crate::request::error::Result;
use crate::state::access_control::names::UserName;
use crate::state::context::Context;
use crate::state::noting::Noting;
use crate::state::operations::{COMMAND_BYTES_MAX, Operation};

/// What a command opens cursors with, and goes on with them.
#[derive(Clone, Copy)]
pub(crate) struct CursorWork<'a> {
    pub(crate) cursors: &'a ClientCursors,
    pub(crate) clock: &'a dyn Clock,
    pub(crate) operation: &'a Operation<'a>,
    pub(crate) noting: Noting<'a>,
    /// Who has logged in.
    pub(crate) user: Option<&'a Arc<UserName>>,
    /// Of the transaction that the command is a part of.
    pub(crate) txn_number: Option<i64>,
    /// The command, as it is kept with its cursor.
    body: &'a RawDocument,
}

impl Context<'_> {
    /// What it opens cursors with, or goes on with one.
    pub(crate) fn cursor_work(&self) -> CursorWork<'_> {
        CursorWork {
            cursors: &self.server.cursors,
            clock: &*self.server.clock,
            operation: &self.operation,
            noting: self.noting(),
            user: self.login.user(),
            txn_number: self.session.txn_number(),
            body: self.request.body,
        }
    }
}

/// Fills the first batch of a new cursor, registers it if there may be more, and writes the reply's `cursor`. Notes what was done.
pub(crate) fn write_first_batch(
    work: &CursorWork<'_>,
    mut cursor: ClientCursor,
    limit: BatchLimit,
    is_single_batch: bool,
    reply: &mut DocumentWriter<'_>,
) -> Result<()> {
    let CursorWork { cursors, clock, operation, noting, .. } = *work;
    let notes = noting.notes;
    cursor.api = operation.api();
    cursor.is_single_batch = is_single_batch;
    cursor.connection = operation.connection();
    cursor.owner = work.user.cloned();
    let namespace = cursor.namespace.clone();
    let at_cluster_time = cursor.at_cluster_time;
    let mut result = Ok(0);
    let mut token = None;
    reply.document("cursor", |body| {
        let filled = body.try_array("firstBatch", |batch| {
            let remaining = cursor.fill(batch, limit, operation);
            let count = u64::from(batch.count());
            notes.returned.add(count);
            if let Some(execution) = cursor.execution(noting.detail()) {
                notes.add_execution(execution, &ExecutionTotals::default());
            }
            token = cursor.resume_token();
            remaining.map(|remaining| {
                if remaining == Remaining::Nothing || is_single_batch {
                    notes.is_exhausted.set(true);
                } else {
                    cursor.note_batch(count, clock.wall_millis());
                    cursor.command = kept_command(work.body);
                    result = cursors.register(cursor);
                }
            })
        });
        if let Err(error) = filled {
            result = Err(error);
        }
        body.int64("id", *result.as_ref().unwrap_or(&0));
        body.string("ns", &namespace);
        if let Some(token) = &token {
            body.embed("postBatchResumeToken", token);
        }
        if let Some(time) = at_cluster_time {
            body.timestamp("atClusterTime", crate::request::cluster_time::bson_timestamp(time));
        }
    });
    notes.cursor.set(result?);
    Ok(())
}

/// A command as it is kept with its cursor.
fn kept_command(body: &RawDocument) -> Option<Arc<RawDocumentBuf>> {
    (body.as_bytes().len() <= COMMAND_BYTES_MAX).then(|| Arc::new(body.to_owned()))
}
