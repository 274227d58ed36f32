//! How much of the oplog is kept for those who follow it, beyond what recovery needs.
//!
//! Set when the store is opened and by `replSetResizeOplog`, which stores it beside the oplog; asked after each checkpoint. A stored size holds whatever the
//! server is started with, as with MongoDB; stored hours hold unless it is started with others. The newest bytes of the size are kept, and everything that is not
//! older than the hours, whatever it takes: when the disk gets full, writes are refused, and the oplog is not given up in silence.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use oplog::{LocalOplog, Oplog, OplogError, OplogPosition, StoredRetention};
use parking_lot::Mutex;

use crate::error::Result;
use crate::store::Store;

/// See the module's head.
pub(crate) struct Retention {
    bytes: AtomicU64,
    millis: AtomicU64,
    holds: Mutex<Vec<(u64, OplogPosition)>>,
    next_hold: AtomicU64,
}

/// While it lives, the oplog is kept from a position on.
pub struct OplogHold {
    store: Arc<Store>,
    number: u64,
}

impl OplogHold {
    /// From now on it is kept from there on only.
    pub fn advance(&self, position: OplogPosition) {
        let mut holds = self.store.retention.holds.lock();
        holds.iter_mut().filter(|(number, _)| *number == self.number).for_each(|(_, from)| *from = position.max(*from));
    }

    /// Nothing that is there now is kept any more.
    pub fn advance_to_end(&self) {
        self.advance(self.store.oplog.end_position());
    }
}

impl Drop for OplogHold {
    fn drop(&mut self) {
        self.store.retention.holds.lock().retain(|(number, _)| *number != self.number);
    }
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
        let bytes = AtomicU64::new(stored.bytes.unwrap_or(bytes));
        Ok(Retention { bytes, millis: AtomicU64::new(millis), holds: Mutex::default(), next_hold: AtomicU64::new(0) })
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
        let holds = self.retention.holds.lock();
        let held = holds.iter().map(|(_, from)| *from).min().unwrap_or(checkpoint);
        self.oplog.truncate_before(checkpoint.min(kept_from).min(held))?;
        Ok(())
    }

    /// Keeps all of the oplog that there is.
    pub fn hold_everything(self: &Arc<Self>) -> OplogHold {
        self.hold_oplog(OplogPosition::default())
    }

    /// Keeps the oplog from `position` on, as far as it is there, whatever was promised to others.
    pub fn hold_oplog(self: &Arc<Self>, position: OplogPosition) -> OplogHold {
        let number = self.retention.next_hold.fetch_add(1, Ordering::Relaxed);
        self.retention.holds.lock().push((number, position));
        OplogHold { store: Arc::clone(self), number }
    }
}
