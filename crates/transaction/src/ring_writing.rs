//! Writing the rings of capped collections to their files, behind the oplog.
//!
//! Called in a loop by the background thread, by the simulator, and by inserts only when nobody else does it. A ring's file is written to only once
//! the oplog is durable, and confirmed, up to everything that the ring has: see the head of `storage_engine`'s `ring`.

use std::time::Duration;

use oplog::Oplog;
use storage_engine::EngineError;

use crate::error::{Result, TransactionError};
use crate::store::Store;
use crate::waiting::Waiting;

/// How long an insert waits at a time before it looks whether writing still works.
const ROOM_WAIT: Duration = Duration::from_millis(100);

impl Store {
    /// Writes what of the rings is only in memory.
    ///
    /// # Errors
    /// `Oplog`, `Engine`.
    pub fn write_rings(&self) -> Result<u64> {
        let mut failed = None;
        let written = self.engine.write_rings(|| {
            // Everything applied was appended before.
            self.wait_secured(self.oplog.end_position()).map_err(|error| {
                let message = error.to_string();
                failed = Some(error);
                EngineError::Setup(message)
            })
        });
        match failed {
            Some(error) => Err(error),
            None => Ok(written?),
        }
    }

    /// Waits until there is room for more of the rings in memory, which a slow disk makes for slowly.
    ///
    /// # Errors
    /// `Interrupted` when `waiting` is over; `Stopped`, `Engine`, `Oplog`, `OutOfSpace`.
    pub(crate) fn wait_for_ring_room(&self, waiting: &Waiting) -> Result<()> {
        while self.engine.rings_are_full() {
            if waiting.is_over(&*self.clock) {
                return Err(TransactionError::Interrupted);
            }
            if self.background.lock().is_none() {
                self.write_rings()?;
                continue;
            }
            if self.engine.wait_for_ring_room(ROOM_WAIT) {
                self.check_writable()?;
                self.check_space()?;
            }
        }
        Ok(())
    }
}
