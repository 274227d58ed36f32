//! The rings of an engine, and how much of them is in memory only.
//!
//! Called by `ring` (counting), by the engine's checkpoints and by whoever writes rings to their files.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use platform::{Disk, WeakList};

use super::Ring;

/// See the module's head.
pub(crate) struct RingRegistry {
    disk: Arc<dyn Disk>,
    rings: WeakList<Ring>,
    /// Files that no checkpoint needs any more once the next one is published.
    dropped: Mutex<Vec<u64>>,
    buffered: AtomicU64,
    buffered_max: u64,
    /// Rung when the buffers are half full, and when something of them was written.
    moved: Condvar,
    bell: Mutex<()>,
}

impl RingRegistry {
    pub(crate) fn new(disk: Arc<dyn Disk>, buffered_max: u64) -> Arc<RingRegistry> {
        Arc::new(RingRegistry {
            disk,
            rings: WeakList::default(),
            dropped: Mutex::default(),
            buffered: AtomicU64::new(0),
            buffered_max: buffered_max.max(1),
            moved: Condvar::new(),
            bell: Mutex::new(()),
        })
    }

    pub(crate) fn disk(&self) -> &Arc<dyn Disk> {
        &self.disk
    }

    pub(super) fn add(&self, ring: &Arc<Ring>) {
        self.rings.push(ring);
    }

    /// All of them.
    pub(crate) fn all(&self) -> Vec<Arc<Ring>> {
        self.rings.all()
    }

    pub(super) fn count_buffered(&self, bytes: u64) {
        let before = self.buffered.fetch_add(bytes, Ordering::AcqRel);
        let half = self.buffered_max / 2;
        if before < half && before + bytes >= half {
            self.ring_bell();
        }
    }

    pub(super) fn count_written(&self, bytes: u64) {
        self.buffered.fetch_sub(bytes, Ordering::AcqRel);
        self.ring_bell();
    }

    pub(super) fn ring_bell(&self) {
        let _bell = self.bell.lock();
        self.moved.notify_all();
    }

    /// Waits for the bell.
    pub(super) fn wait(&self, longest: Duration, unless: impl Fn(f64) -> bool) {
        let mut bell = self.bell.lock();
        if !unless(self.buffered_share()) {
            self.moved.wait_for(&mut bell, longest);
        }
    }

    /// Bytes in memory, as a share of what there may be.
    pub(crate) fn buffered_share(&self) -> f64 {
        self.buffered.load(Ordering::Acquire) as f64 / self.buffered_max as f64
    }

    /// Bytes in memory.
    pub(crate) fn buffered_bytes(&self) -> u64 {
        self.buffered.load(Ordering::Acquire)
    }

    /// From now on it is none of them, whoever still holds it: its tree, which has its state, goes next.
    pub(super) fn note_dropped(&self, number: u64) {
        self.rings.remove(|ring| ring.number == number);
        self.dropped.lock().push(number);
    }

    pub(super) fn take_dropped(&self) -> Vec<u64> {
        std::mem::take(&mut self.dropped.lock())
    }
}
