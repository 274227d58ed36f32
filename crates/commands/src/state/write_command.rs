//! What a command that is a list of writes works with: what changes documents, where its statements are counted and recorded, and what waits
//! until all of them are safe.
//!
//! Made by `Context` for `insert`, `update`, `delete` and `bulkWrite`. A statement by itself has [`Changing`].

use crate::request::command_request::SequenceSource;
use crate::state::acknowledgement::Acknowledging;
use crate::state::changing::Changing;
use crate::state::context::Context;
use crate::state::operation_counts::OperationCounts;
use crate::state::recording::Recording;

/// See the module's head.
pub(crate) struct WriteCommand<'a> {
    pub(crate) changing: Changing<'a>,
    pub(crate) acknowledging: Acknowledging<'a>,
    pub(crate) recording: Recording<'a>,
    pub(crate) counts: &'a OperationCounts,
    /// The documents that came beside the command.
    pub(crate) sequences: &'a dyn SequenceSource,
}

impl Context<'_> {
    /// What it works with as a list of writes.
    pub(crate) fn write_command(&self) -> WriteCommand<'_> {
        WriteCommand {
            changing: self.changing(),
            acknowledging: self.acknowledging(),
            recording: self.recording(),
            counts: &self.server.counts,
            sequences: self.request.sequences,
        }
    }
}
