//! How much of the oplog is kept for those who follow it, beyond what recovery needs.
//!
//! Set when the store is opened and by `replSetResizeOplog`; asked after each checkpoint. The newest bytes of the size are kept, and everything that is not
//! older than the hours, whatever it takes: when the disk gets full, writes are refused, and the oplog is not given up in silence.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use oplog::{Oplog, OplogPosition};

use crate::error::Result;
use crate::store::Store;

/// See the module's head.
pub(crate) struct Retention {
    bytes: AtomicU64,
    seconds: AtomicU64,
}

impl Retention {
    pub(crate) fn new(bytes: u64, time: Duration) -> Retention {
        Retention { bytes: AtomicU64::new(bytes), seconds: AtomicU64::new(time.as_secs()) }
    }
}

impl Store {
    /// Bytes and time for which the oplog is kept.
    pub fn oplog_retention(&self) -> (u64, Duration) {
        let seconds = self.retention.seconds.load(Ordering::Acquire);
        (self.retention.bytes.load(Ordering::Acquire), Duration::from_secs(seconds))
    }

    /// Changes for how long the oplog is kept, until the store is opened again.
    pub fn set_oplog_retention(&self, bytes: Option<u64>, time: Option<Duration>) {
        if let Some(bytes) = bytes {
            self.retention.bytes.store(bytes, Ordering::Release);
        }
        if let Some(time) = time {
            self.retention.seconds.store(time.as_secs(), Ordering::Release);
        }
    }

    /// Gives up what neither recovery from `checkpoint` nor anybody who was promised it needs.
    pub(crate) fn truncate_oplog(&self, checkpoint: OplogPosition) -> Result<()> {
        let (bytes, time) = self.oplog_retention();
        let since = self.clock.wall_millis().saturating_sub(time.as_millis() as i64);
        let kept_from = self.oplog.kept_from(bytes, since)?;
        self.oplog.truncate_before(checkpoint.min(kept_from))?;
        Ok(())
    }
}
