//! Stopping all writes for a while, so that files can be copied: nothing is logged or applied until writes are let go on.
//!
//! Used by `fsync` with `lock` through [`Store::freeze_writes`]. Every commit passes here once before it is logged; who changes records passes before it takes
//! locks, too, so that nobody waits here with locks that others want, but for those who were about to log.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use platform::{WaitKind, waiting};

use crate::error::{Result, TransactionError};
use crate::store::Store;

/// See the module's head.
#[derive(Debug, Default)]
pub(crate) struct WriteFreeze {
    is_frozen: AtomicBool,
    /// Commits that are being logged and applied.
    active: AtomicU64,
    lock: Mutex<()>,
    /// Writes may go on, the last of those being made while others are stopped is through, or the store is being closed.
    changed: Condvar,
}

impl WriteFreeze {
    /// Those who wait look anew.
    pub(crate) fn wake(&self) {
        // Who has not seen what was changed before is waiting once the lock is to be had.
        drop(self.lock.lock());
        self.changed.notify_all();
    }
}

/// A commit that may be logged and applied; until it is dropped no freeze begins.
pub(crate) struct MayWrite<'a>(&'a WriteFreeze);

impl Drop for MayWrite<'_> {
    fn drop(&mut self) {
        let is_last = self.0.active.fetch_sub(1, Ordering::SeqCst) == 1;
        if is_last && self.0.is_frozen.load(Ordering::SeqCst) {
            self.0.wake();
        }
    }
}

impl Store {
    /// Stops writes, once those that are being made are through, and checkpoints. What was written so far is in the last checkpoint and in the oplog, and what
    /// the background may still write to the page file replaces nothing of that checkpoint: a copy of the files is as good as the files.
    /// `false`: writes were not through within `longest`, and nothing is stopped.
    pub fn freeze_writes(&self, longest: Duration) -> bool {
        let freeze = &self.write_freeze;
        self.checkpoints.between_checkpoints(|| freeze.is_frozen.store(true, Ordering::SeqCst));
        let goes_on = |_: &mut ()| freeze.active.load(Ordering::SeqCst) > 0 && !self.is_stopping();
        freeze.changed.wait_while_for(&mut freeze.lock.lock(), goes_on, longest);
        let is_through = freeze.active.load(Ordering::SeqCst) == 0;
        if !is_through {
            self.thaw_writes();
        }
        is_through
    }

    /// Whether writes are stopped.
    pub(crate) fn has_frozen_writes(&self) -> bool {
        self.write_freeze.is_frozen.load(Ordering::Relaxed)
    }

    /// Lets writes go on.
    pub fn thaw_writes(&self) {
        self.write_freeze.is_frozen.store(false, Ordering::SeqCst);
        self.write_freeze.wake();
    }

    /// Before locks are taken: waits as long as writes are stopped.
    pub(crate) fn wait_until_writes_may_begin(&self) {
        if self.write_freeze.is_frozen.load(Ordering::Relaxed) {
            // What comes of it is said when the commit is to be logged.
            let _ = self.wait_until_thawed();
        }
    }

    /// Before a commit is logged.
    ///
    /// # Errors
    /// `Stopped`: the store is being closed. `TermLost`, `LogUnreachable`, `NotPrimary`: what is written now could not be confirmed.
    pub(crate) fn may_write(&self) -> Result<MayWrite<'_>> {
        let may_write = self.may_apply()?;
        // Not before it is counted: who gives up the lead waits for those who were let in.
        self.commits.check_leading()?;
        Ok(may_write)
    }

    /// Waits until nobody is in the midst of a commit; `false`: it took longer than that. Whoever asks has let nobody in since.
    pub(crate) fn wait_until_written(&self, longest: Duration) -> bool {
        let give_up = self.clock.monotonic() + longest;
        while self.write_freeze.active.load(Ordering::SeqCst) > 0 {
            if self.clock.monotonic() >= give_up || self.is_stopping() {
                return false;
            }
            self.clock.sleep(Duration::from_millis(1));
        }
        true
    }

    /// Before what another member has logged is appended here.
    ///
    /// # Errors
    /// `Stopped`: the store is being closed.
    pub(crate) fn may_apply(&self) -> Result<MayWrite<'_>> {
        let freeze = &self.write_freeze;
        loop {
            freeze.active.fetch_add(1, Ordering::SeqCst);
            let may_write = MayWrite(freeze);
            if !freeze.is_frozen.load(Ordering::SeqCst) {
                return Ok(may_write);
            }
            drop(may_write);
            self.wait_until_thawed()?;
        }
    }

    fn wait_until_thawed(&self) -> Result<()> {
        let freeze = &self.write_freeze;
        let mut lock = freeze.lock.lock();
        while freeze.is_frozen.load(Ordering::SeqCst) {
            if self.is_stopping() {
                return Err(TransactionError::Stopped);
            }
            waiting(WaitKind::Locks, || freeze.changed.wait(&mut lock));
        }
        Ok(())
    }
}
