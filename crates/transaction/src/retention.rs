//! How much of the oplog is kept for those who follow it, beyond what recovery needs.
//!
//! Set when the store is opened and by `replSetResizeOplog`, which stores it beside the oplog; asked after each checkpoint. A stored size holds whatever the
//! server is started with, as with MongoDB; stored hours hold unless it is started with others. The newest bytes of the size are kept, and everything that is not
//! older than the hours, whatever it takes: when the disk gets full, writes are refused, and the oplog is not given up in silence.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use oplog::{LocalOplog, Oplog, OplogError, OplogPosition, StoredRetention};

use crate::error::Result;
use crate::store::Store;

/// See the module's head.
pub(crate) struct Retention {
    bytes: AtomicU64,
    millis: AtomicU64,
}

impl Retention {
    /// What is stored, or else `bytes`; `time`, or else what is stored.
    pub(crate) fn open(oplog: &LocalOplog, bytes: u64, time: Option<Duration>) -> Result<Retention> {
        let stored = match oplog.stored_retention() {
            Err(error @ OplogError::Corrupt { .. }) => {
                tracing::error!(%error, "what replSetResizeOplog has stored cannot be read: all of the oplog is kept until it is set again");
                StoredRetention { bytes: Some(u64::MAX), millis: None }
            }
            stored => stored?,
        };
        if stored != StoredRetention::default() {
            tracing::info!(?stored, "replSetResizeOplog has set how long the oplog is kept");
        }
        let millis = time.map(millis_of).or(stored.millis).unwrap_or(0);
        Ok(Retention { bytes: AtomicU64::new(stored.bytes.unwrap_or(bytes)), millis: AtomicU64::new(millis) })
    }
}

fn millis_of(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

impl Store {
    /// Bytes and time for which the oplog is kept.
    pub fn oplog_retention(&self) -> (u64, Duration) {
        let millis = self.retention.millis.load(Ordering::Acquire);
        (self.retention.bytes.load(Ordering::Acquire), Duration::from_millis(millis))
    }

    /// Changes for how long the oplog is kept, durably.
    ///
    /// # Errors
    /// `Oplog`: nothing is changed.
    pub fn set_oplog_retention(&self, bytes: Option<u64>, time: Option<Duration>) -> Result<()> {
        let _definitions = self.definition_lock.lock();
        let before = match self.oplog.stored_retention() {
            Err(OplogError::Corrupt { .. }) => StoredRetention::default(),
            before => before?,
        };
        let stored = StoredRetention { bytes: bytes.or(before.bytes), millis: time.map(millis_of).or(before.millis) };
        self.oplog.store_retention(stored)?;
        if let Some(bytes) = bytes {
            self.retention.bytes.store(bytes, Ordering::Release);
        }
        if let Some(time) = time {
            self.retention.millis.store(millis_of(time), Ordering::Release);
        }
        Ok(())
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
