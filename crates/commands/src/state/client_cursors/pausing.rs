//! A cursor that is put down until its next command, and taken up again: what its source then holds is counted.
//!
//! Called by `ClientCursors` around each batch, and by a cursor that waits for news.

use platform::command_memory::measure_unreserved;

use super::ClientCursor;
use crate::request::error::Result;

impl ClientCursor {
    /// The source gives up what should not be held meanwhile.
    pub(super) fn suspend(&mut self) -> Result<()> {
        let (suspended, more) = measure_unreserved(|| self.source.suspend());
        self.allocated += more;
        suspended
    }

    /// The source is used again; its buffers may be others then.
    pub(super) fn resume(&mut self) -> Result<()> {
        let (resumed, more) = measure_unreserved(|| self.source.resume());
        self.allocated += more;
        resumed
    }
}
