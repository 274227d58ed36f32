//! Snapshots: which commit a reader sees, and which versions must therefore be kept.
//!
//! Called by `engine` (begin, advance) and by everything that asks whether a version is settled. One short lock orders
//! two events that must not pass each other: a reader registering at the visible timestamp, and the visible timestamp
//! moving on while no reader is registered.
//!
//! Life of a snapshot: `active` → `released` (dropped), or `active` → `too old` (given up because the version history
//! outgrew its quota) → `released`.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::Mutex;
use platform::Timestamp;

use crate::error::{EngineError, Result};

struct Active {
    count: usize,
    too_old: Arc<AtomicBool>,
}

#[derive(Default)]
struct Registered {
    active: BTreeMap<u64, Active>,
}

/// All snapshots of one engine.
pub(crate) struct SnapshotRegistry {
    registered: Mutex<Registered>,
    visible: AtomicU64,
    oldest: AtomicU64,
}

impl SnapshotRegistry {
    /// A registry without snapshots, at timestamp 0.
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self {
            registered: Mutex::new(Registered::default()),
            visible: AtomicU64::new(0),
            oldest: AtomicU64::new(0),
        })
    }

    /// The newest commit that new snapshots see.
    pub(crate) fn visible(&self) -> Timestamp {
        Timestamp(self.visible.load(Ordering::Acquire))
    }

    /// Versions at or below this timestamp are seen by every present and future snapshot: they are settled.
    #[inline]
    pub(crate) fn oldest(&self) -> u64 {
        self.oldest.load(Ordering::Acquire)
    }

    /// Moves the visible timestamp forward; earlier ones are ignored.
    pub(crate) fn set_visible(&self, timestamp: Timestamp) {
        let registered = self.registered.lock();
        if timestamp.0 > self.visible.load(Ordering::Relaxed) {
            self.visible.store(timestamp.0, Ordering::Release);
            self.update_oldest(&registered);
        }
    }

    fn update_oldest(&self, registered: &Registered) {
        let first = registered.active.iter().find(|(_, active)| !active.too_old.load(Ordering::Relaxed));
        let visible = self.visible.load(Ordering::Relaxed);
        self.oldest.store(first.map_or(visible, |(timestamp, _)| *timestamp), Ordering::Release);
    }

    /// Registers a snapshot at the visible timestamp.
    pub(crate) fn begin(self: &Arc<Self>) -> Snapshot {
        let mut registered = self.registered.lock();
        let timestamp = self.visible.load(Ordering::Relaxed);
        let fresh = || Active { count: 0, too_old: Arc::new(AtomicBool::new(false)) };
        let active = registered.active.entry(timestamp).or_insert_with(fresh);
        if active.too_old.load(Ordering::Relaxed) {
            *active = Active { count: active.count, too_old: Arc::new(AtomicBool::new(false)) };
        }
        active.count += 1;
        let too_old = active.too_old.clone();
        self.update_oldest(&registered);
        Snapshot(Arc::new(Registration { timestamp, too_old, registry: self.clone() }))
    }

    /// Registers a snapshot at an earlier timestamp. `None`: it is not visible yet, or what it needs may be gone.
    pub(crate) fn begin_at(self: &Arc<Self>, timestamp: Timestamp) -> Option<Snapshot> {
        let mut registered = self.registered.lock();
        let possible = self.oldest.load(Ordering::Relaxed)..=self.visible.load(Ordering::Relaxed);
        if !possible.contains(&timestamp.0) {
            return None;
        }
        let fresh = || Active { count: 0, too_old: Arc::new(AtomicBool::new(false)) };
        let active = registered.active.entry(timestamp.0).or_insert_with(fresh);
        if active.too_old.load(Ordering::Relaxed) {
            return None;
        }
        active.count += 1;
        let too_old = active.too_old.clone();
        self.update_oldest(&registered);
        Some(Snapshot(Arc::new(Registration { timestamp: timestamp.0, too_old, registry: self.clone() })))
    }

    /// Gives up the oldest snapshot below the visible timestamp; `false` when there is none.
    pub(crate) fn give_up_oldest(&self) -> bool {
        let registered = self.registered.lock();
        let visible = self.visible.load(Ordering::Relaxed);
        let oldest = registered.active.iter().find(|(_, active)| !active.too_old.load(Ordering::Relaxed));
        match oldest {
            Some((timestamp, active)) if *timestamp < visible => {
                active.too_old.store(true, Ordering::Release);
                self.update_oldest(&registered);
                true
            }
            _ => false,
        }
    }

    /// How many snapshots are registered, and the timestamp of the oldest.
    pub(crate) fn active(&self) -> (usize, Option<Timestamp>) {
        let registered = self.registered.lock();
        let count = registered.active.values().map(|active| active.count).sum();
        (count, registered.active.keys().next().map(|timestamp| Timestamp(*timestamp)))
    }

    fn release(&self, timestamp: u64) {
        let mut registered = self.registered.lock();
        if let Some(active) = registered.active.get_mut(&timestamp) {
            active.count -= 1;
            if active.count == 0 {
                registered.active.remove(&timestamp);
            }
        }
        self.update_oldest(&registered);
    }
}

struct Registration {
    timestamp: u64,
    too_old: Arc<AtomicBool>,
    registry: Arc<SnapshotRegistry>,
}

impl Drop for Registration {
    fn drop(&mut self) {
        self.registry.release(self.timestamp);
    }
}

/// A reader's point in time: it sees every commit up to its timestamp and none after. Cloning shares it; the versions
/// it needs are kept until the last clone is dropped.
#[derive(Clone)]
pub struct Snapshot(Arc<Registration>);

impl Snapshot {
    /// The newest commit it sees.
    pub fn timestamp(&self) -> Timestamp {
        Timestamp(self.0.timestamp)
    }

    /// Fails once the snapshot was given up; asked after every read, since what was read before may be incomplete.
    pub(crate) fn check(&self) -> Result<()> {
        if self.0.too_old.load(Ordering::Acquire) { Err(EngineError::SnapshotTooOld) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_earlier_snapshot_can_be_had_while_an_older_one_is_held() {
        let registry = SnapshotRegistry::new();
        registry.set_visible(Timestamp(5));
        let held = registry.begin();
        registry.set_visible(Timestamp(9));
        assert!(registry.begin_at(Timestamp(4)).is_none() && registry.begin_at(Timestamp(10)).is_none());
        let between = registry.begin_at(Timestamp(7)).unwrap();
        assert_eq!(between.timestamp(), Timestamp(7));
        drop(held);
        assert_eq!(registry.oldest(), 7);
        assert!(registry.begin_at(Timestamp(6)).is_none());
        drop(between);
        assert!(registry.begin_at(Timestamp(7)).is_none());
        assert!(registry.begin_at(Timestamp(9)).is_some());
    }

    #[test]
    fn the_oldest_snapshot_holds_back_settling() {
        let registry = SnapshotRegistry::new();
        registry.set_visible(Timestamp(5));
        let first = registry.begin();
        registry.set_visible(Timestamp(9));
        let second = registry.begin();
        assert_eq!(registry.oldest(), 5);
        drop(first.clone());
        assert_eq!(registry.oldest(), 5);
        drop(first);
        assert_eq!(registry.oldest(), 9);
        registry.set_visible(Timestamp(7));
        assert_eq!(registry.visible(), Timestamp(9));
        assert!(!registry.give_up_oldest(), "a snapshot at the visible timestamp costs nothing");
        registry.set_visible(Timestamp(10));
        assert!(registry.give_up_oldest());
        assert!(second.check().is_err());
        assert_eq!(registry.oldest(), 10);
    }
}
