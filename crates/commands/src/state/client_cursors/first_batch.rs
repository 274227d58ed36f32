//! The first batch of a new cursor, as its command replies it.
//!
//! Called by the commands that open cursors.

use std::sync::Arc;

use bson::{RawDocument, RawDocumentBuf};
use executor::ExecutionTotals;

use super::{BatchLimit, ClientCursor, Remaining};
use crate::DocumentWriter;
use crate::request::error::Result;
use crate::state::context::Context;
use crate::state::operations::COMMAND_BYTES_MAX;

/// Fills the first batch of a new cursor, registers it if there may be more, and writes the reply's `cursor`. Notes what was done.
pub(crate) fn write_first_batch(
    context: &Context<'_>,
    mut cursor: ClientCursor,
    limit: BatchLimit,
    is_single_batch: bool,
    reply: &mut DocumentWriter<'_>,
) -> Result<()> {
    let (server, notes) = (context.server, &context.notes);
    cursor.api = context.operation.api();
    cursor.is_single_batch = is_single_batch;
    cursor.connection = context.connection;
    cursor.owner = context.login.user().cloned();
    let namespace = cursor.namespace.clone();
    let at_cluster_time = cursor.at_cluster_time;
    let mut result = Ok(0);
    let mut token = None;
    reply.document("cursor", |body| {
        let filled = body.try_array("firstBatch", |batch| {
            let remaining = cursor.fill(batch, limit, &context.operation);
            let count = u64::from(batch.count());
            notes.returned.add(count);
            if let Some(execution) = cursor.execution(context.detail()) {
                notes.add_execution(execution, &ExecutionTotals::default());
            }
            token = cursor.resume_token();
            remaining.map(|remaining| {
                if remaining == Remaining::Nothing || is_single_batch {
                    notes.is_exhausted.set(true);
                } else {
                    cursor.note_batch(count, server.clock.wall_millis());
                    cursor.command = kept_command(context.request.body);
                    result = server.cursors.register(cursor);
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
