//! The common end of `insert`, `update` and `delete`: what could not be written, and whether it is durable.

use crate::DocumentWriter;
use crate::error::CommandError;

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

/// Writes `writeConcernError` when waiting for durability failed: the writes themselves are there.
pub(crate) fn write_concern_error(result: Result<(), CommandError>, reply: &mut DocumentWriter<'_>) {
    if let Err(error) = result {
        reply.document("writeConcernError", |fields| {
            fields.int32("code", error.code);
            fields.string("codeName", &error.code_name);
            fields.string("errmsg", &error.message);
        });
    }
}
