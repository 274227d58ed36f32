//! The common end of `insert`, `update` and `delete`: what could not be written, and whether it is durable.

use transaction::CommitInfo;

use crate::DocumentWriter;
use crate::request::error::{CommandError, Result};
use crate::request::write_concern::WriteConcern;
use crate::state::context::Context;

/// Errors of single operations of a write command, by their position in the request.
#[derive(Debug, Default)]
pub(crate) struct WriteErrors(Vec<(usize, CommandError)>);

impl WriteErrors {
    pub(crate) fn push(&mut self, position: usize, error: CommandError) {
        self.0.push((position, error));
    }

    /// Writes `writeErrors`, if there are any.
    pub(crate) fn write(&self, reply: &mut DocumentWriter<'_>) {
        if self.0.is_empty() {
            return;
        }
        reply.array("writeErrors", |list| {
            for (position, error) in &self.0 {
                list.push_document(|item| {
                    item.count("index", *position as u64);
                    item.int32("code", error.code);
                    error.write_details(item);
                    item.string("errmsg", &error.message);
                });
            }
        });
    }
}

/// The statements of a retryable write that an earlier try has executed.
#[derive(Debug, Default)]
pub(crate) struct RetriedStatements(Vec<i32>);

impl RetriedStatements {
    pub(crate) fn push(&mut self, statement: i32) {
        self.0.push(statement);
    }

    pub(crate) fn count(&self) -> u64 {
        self.0.len() as u64
    }

    /// Writes `retriedStmtIds`, if there are any.
    pub(crate) fn write(&self, reply: &mut DocumentWriter<'_>) {
        if !self.0.is_empty() {
            reply.array("retriedStmtIds", |list| self.0.iter().for_each(|statement| list.push_int32(*statement)));
        }
    }

    /// Waits for the write concern: after a retry for everything committed so far, because nobody knows which commit it was.
    pub(crate) fn wait(
        &self,
        concern: &WriteConcern,
        context: &mut Context<'_>,
        commit: Option<&CommitInfo>,
    ) -> Result<()> {
        concern.wait(context, commit)?;
        if self.0.is_empty() {
            Ok(())
        } else {
            concern.wait_for_all(&context.server.store, &context.server.replica_set)
        }
    }
}

/// `WriteConcernFailed`: its time was over.
const WRITE_CONCERN_FAILED: i32 = 64;

/// Writes `writeConcernError` when waiting for durability failed: the writes themselves are there.
pub(crate) fn write_concern_error(result: Result<()>, reply: &mut DocumentWriter<'_>) {
    if let Err(error) = result {
        reply.document("writeConcernError", |fields| {
            fields.int32("code", error.code);
            fields.string("codeName", &error.code_name);
            fields.string("errmsg", &error.message);
            if error.code == WRITE_CONCERN_FAILED {
                fields.document("errInfo", |info| info.boolean("wtimeout", true));
            }
        });
    }
}
