//! What a follower has read of the shared log and not applied yet: whole entries whose turn comes, and the beginning of one that is not whole.
//!
//! Filled record by record by `member`, which has it applied. What of it was applied is known by the oplog's end, so a disk that fails in the midst costs nothing.

use oplog::{Oplog, OplogPosition};
use transaction::Store;

use crate::error::Result;

/// Memory that is kept when all was applied.
const BYTES_KEPT: usize = 1 << 20;

/// See the module's head.
#[derive(Default)]
pub(crate) struct HalfEntries {
    bytes: Vec<u8>,
    /// Where they begin.
    start: u64,
    /// Entries are whole before this.
    whole: u64,
}

impl HalfEntries {
    /// Nothing, behind an oplog that ends there.
    pub(crate) fn at(position: u64) -> HalfEntries {
        HalfEntries { bytes: Vec::new(), start: position, whole: position }
    }

    /// More bytes that count.
    pub(crate) fn push(&mut self, bytes: &[u8], whole: u64) {
        self.bytes.extend_from_slice(bytes);
        self.whole = whole;
    }

    /// What lies behind this is forgotten.
    pub(crate) fn cut(&mut self, at: u64) {
        self.bytes.truncate(at.saturating_sub(self.start) as usize);
        self.whole = at;
    }

    /// Whether all that is whole was applied.
    pub(crate) fn is_applied(&self) -> bool {
        self.start == self.whole
    }

    /// Applies what is whole. Readers see each entry as soon as it is applied: it is confirmed, since the log has it.
    pub(crate) fn apply(&mut self, store: &Store) -> Result<()> {
        if self.is_applied() {
            return Ok(());
        }
        store.confirm(OplogPosition(self.whole));
        let length = (self.whole - self.start) as usize;
        let applied = store.apply_received(self.bytes.get(..length).unwrap_or_default());
        let end = store.oplog().end_position().0;
        let done = (end.saturating_sub(self.start) as usize).min(self.bytes.len());
        self.bytes.drain(..done);
        self.start += done as u64;
        if self.bytes.is_empty() {
            self.bytes.shrink_to(BYTES_KEPT);
        }
        Ok(applied?)
    }
}
