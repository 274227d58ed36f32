//! Notes in the oplog: entries that change nothing.
//!
//! Used by `commands`: for the beginning of a replica set's terms, and for `appendOplogNote`.

use bson::RawDocument;
use collection::{LoggedEntry, encode_note};
use oplog::Oplog;
use storage_engine::Timestamp;

use crate::commit_order::CommitInfo;
use crate::error::Result;
use crate::store::Store;

impl Store {
    /// Logs a note. It is visible once acknowledged.
    ///
    /// # Errors
    /// `Oplog`, `Engine`, `Stopped`, `OutOfSpace`.
    pub fn log_note(&self, note: &RawDocument) -> Result<CommitInfo> {
        self.check_space()?;
        let entry = encode_note(note, self.clock.wall_millis());
        self.log_and_apply(&LoggedEntry::whole(&entry), None, |_| Ok(()))
    }

    /// The timestamp of the oldest entry that the oplog still has.
    ///
    /// # Errors
    /// `Oplog`.
    pub fn oldest_logged(&self) -> Result<Option<Timestamp>> {
        let mut reader = self.oplog.read_from(self.oplog.first_position())?;
        Ok(reader.next_entry()?.map(|entry| entry.timestamp))
    }
}
