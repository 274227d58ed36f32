//! Room on the stack for long chains of stages.
//!
//! Each stage asks the one before it for its documents, so a pipeline of a thousand stages, or many within one another, is a chain of as many calls. `pipeline`
//! puts a link of this kind between every few stages: where little of the thread's stack is left, the calls go on in another piece of memory, which is given back when they return.

use bson::raw::RawDocumentBuf;

use crate::error::Result;
use crate::host::{BoxSource, DocumentSource};
use query_language::expression::Metadata;
use query_language::rows::RowReader;

/// Stages between two links.
pub(crate) const STAGES_BETWEEN: usize = 32;
/// With less than this left, calls go on elsewhere. It is what the stages between two links and the deepest expression need.
const STACK_BYTES_LEFT_MIN: usize = 512 * 1024;
/// The piece of memory in which they go on.
const STACK_BYTES_MORE: usize = 1024 * 1024;

/// A source whose calls have room.
pub(crate) struct WithRoom(pub(crate) BoxSource);

impl DocumentSource for WithRoom {
    fn next(&mut self) -> Result<Option<RawDocumentBuf>> {
        stacker::maybe_grow(STACK_BYTES_LEFT_MIN, STACK_BYTES_MORE, || self.0.next())
    }

    fn fill(&mut self, rows: &mut RowReader) -> Result<bool> {
        stacker::maybe_grow(STACK_BYTES_LEFT_MIN, STACK_BYTES_MORE, || self.0.fill(rows))
    }

    fn metadata(&self) -> Metadata {
        self.0.metadata()
    }
}
