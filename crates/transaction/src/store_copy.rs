//! What a copy of a store is made of while the store goes on: its last checkpoint and the oplog from there on.
//!
//! Called by `backup`. Begins with a checkpoint of its own, so that little is to be replayed. Nothing waits for the copy:
//! checkpoints go on, and of what they replace only what the copy has yet to read is kept.

use std::sync::Arc;

use oplog::OplogPosition;
use storage_engine::EngineCopy;

use crate::error::{Result, TransactionError};
use crate::retention::OplogHold;
use crate::store::Store;

/// See the module's head. Dropping it gives everything back.
pub struct StoreCopy {
    /// Pages and rings.
    pub engine: EngineCopy,
    /// The copy needs the oplog from here on.
    pub oplog_from: OplogPosition,
    /// Keeps that.
    pub hold: OplogHold,
}

impl Store {
    /// Makes a checkpoint and begins a copy of it. `is_stopped` ends the waiting for it.
    ///
    /// # Errors
    /// As `requested_checkpoint_unless`; `Engine` while another copy is being made.
    pub fn begin_copy(self: &Arc<Self>, is_stopped: &dyn Fn() -> bool) -> Result<StoreCopy> {
        self.requested_checkpoint_unless(is_stopped)?;
        self.at_last_checkpoint(|oplog_from| {
            let oplog_from = oplog_from.ok_or(TransactionError::Stopped)?;
            let engine = self.engine().begin_copy()?;
            Ok(StoreCopy { engine, oplog_from, hold: self.hold_oplog(oplog_from) })
        })
    }
}
