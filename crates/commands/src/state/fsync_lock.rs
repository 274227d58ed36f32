//! The lock of `fsync` with `lock: true`: while it is held nothing is written, and those who would write wait.
//!
//! Taken and given back by `fsync` and `fsyncUnlock`; commands that write wait for it in `dispatcher`, before they take a place among those that run. What writes by
//! itself (expiry, index builds, commands that were running when the lock came) waits in the store.
//!
//! Taken several times it must be given back as often.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use crate::request::error::Result;

/// Longest wait between two looks whether the command was killed.
const WAIT_SLICE: Duration = Duration::from_millis(50);

/// See the module's head.
#[derive(Debug, Default)]
pub(crate) struct FsyncLock {
    holders: Mutex<u64>,
    is_locked: AtomicBool,
    unlocked: Condvar,
}

impl FsyncLock {
    pub(crate) fn is_locked(&self) -> bool {
        self.is_locked.load(Ordering::Relaxed)
    }

    /// Takes it; `stop_writes` is called if nobody has it yet. Gives how often it is taken now.
    pub(crate) fn lock(&self, stop_writes: impl FnOnce() -> Result<()>) -> Result<u64> {
        let mut holders = self.holders.lock();
        if *holders == 0 {
            stop_writes()?;
        }
        *holders += 1;
        self.is_locked.store(true, Ordering::Relaxed);
        Ok(*holders)
    }

    /// Gives it back; `let_write` is called if nobody has it any more. How often it is still taken; `None`: it was not.
    pub(crate) fn unlock(&self, let_write: impl FnOnce()) -> Option<u64> {
        let mut holders = self.holders.lock();
        *holders = holders.checked_sub(1)?;
        if *holders == 0 {
            self.is_locked.store(false, Ordering::Relaxed);
            let_write();
            self.unlocked.notify_all();
        }
        Some(*holders)
    }

    /// Waits until nobody has it. `check` is asked now and then whether to give up.
    pub(crate) fn wait(&self, check: impl Fn() -> Result<()>) -> Result<()> {
        let mut holders = self.holders.lock();
        while *holders > 0 {
            check()?;
            self.unlocked.wait_for(&mut holders, WAIT_SLICE);
        }
        Ok(())
    }
}
