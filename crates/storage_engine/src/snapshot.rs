//! Snapshots: which commit a reader sees, and which versions must therefore be kept.
//!
//! Called by `engine` (begin, advance) and by everything that asks whether a version is settled. One short lock orders
//! two events that must not pass each other: a reader registering at the visible timestamp, and the visible timestamp
//! moving on while no reader is registered.
//!
//! Life of a snapshot: `active` → `released` (dropped or ended), or `active` → `too old` (given up because the version history
//! outgrew its quota) → `released`.
//!
//! A large commit is *concealed* while it is applied: its changes carry the timestamp at which it was logged, and commits after it become
//! visible before it does. It becomes visible at a later timestamp, when it is *revealed*:
//!
//! ```text
//! concealed at C ──────── applied ──────── revealed at R         a snapshot at t sees changes of C only if t < C (none yet) or t >= R
//! ```
//!
//! So what a snapshot does not see is decided by its timestamp alone, whenever it was taken. C is *unsettled* while it is concealed and as long as a
//! snapshot from between C and R lives or can be had; commits after it are settled all the same, once no snapshot is older than they are.
//!
//! Where commits are *confirmed* by a log that others read, too, what is visible and not confirmed may vanish with the process. Readers see what is confirmed;
//! who reads in order to write sees what is visible (`begin_newest`). Without such a log everything visible is confirmed.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::{Mutex, MutexGuard};
use platform::Timestamp;

use crate::error::{EngineError, Result};

struct Active {
    count: usize,
    too_old: Arc<AtomicBool>,
}

/// A commit that becomes visible later than others with higher timestamps.
struct Concealed {
    /// The timestamp of its changes.
    at: u64,
    /// From when it is seen; not known while it is applied.
    revealed: Option<u64>,
}

#[derive(Default)]
struct Registered {
    active: BTreeMap<u64, Active>,
    /// The unsettled ones, in the order of `at`; none, nearly always.
    concealed: Vec<Concealed>,
}

impl Registered {
    /// The timestamps that a snapshot at `timestamp` does not see though they are not above it.
    fn unseen(&self, timestamp: u64) -> impl Iterator<Item = u64> {
        let is_unseen = move |one: &&Concealed| one.at <= timestamp && one.revealed.is_none_or(|at| timestamp < at);
        self.concealed.iter().filter(is_unseen).map(|one| one.at)
    }

    /// The oldest snapshot that was not given up.
    fn oldest(&self) -> Option<(u64, &Active)> {
        let mut kept = self.active.iter().filter(|(_, active)| !active.too_old.load(Ordering::Relaxed));
        kept.next().map(|(timestamp, active)| (*timestamp, active))
    }
}

/// All snapshots of one engine.
pub(crate) struct SnapshotRegistry {
    registered: Mutex<Registered>,
    visible: AtomicU64,
    /// Readers see commits up to here, as far as they are visible; `u64::MAX` where nobody confirms anything.
    confirmed: AtomicU64,
    oldest: AtomicU64,
    /// The first commit that is unsettled because it is or was concealed; `u64::MAX` when there is none.
    first_concealed: AtomicU64,
}

/// Which commits are settled: every present and future snapshot sees them.
#[derive(Clone, Copy)]
pub(crate) struct Horizon<'a> {
    registry: &'a SnapshotRegistry,
    oldest: u64,
}

impl Horizon<'_> {
    /// Whether the commit at `timestamp` is settled.
    #[inline]
    pub(crate) fn is_settled(self, timestamp: u64) -> bool {
        timestamp <= self.oldest && !self.registry.is_concealed(timestamp)
    }
}

impl SnapshotRegistry {
    /// A registry without snapshots, at timestamp 0.
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self {
            registered: Mutex::new(Registered::default()),
            visible: AtomicU64::new(0),
            confirmed: AtomicU64::new(u64::MAX),
            oldest: AtomicU64::new(0),
            first_concealed: AtomicU64::new(u64::MAX),
        })
    }

    /// The newest commit that those see who read in order to write.
    pub(crate) fn visible(&self) -> Timestamp {
        Timestamp(self.visible.load(Ordering::Acquire))
    }

    /// The newest commit that new readers see.
    #[inline]
    pub(crate) fn readable(&self) -> Timestamp {
        // In this order: what is confirmed is visible, and neither falls.
        let confirmed = self.confirmed.load(Ordering::Acquire);
        Timestamp(confirmed.min(self.visible.load(Ordering::Acquire)))
    }

    /// The timestamp of the oldest snapshot that there is or can be had. Every snapshot sees the commits up to here, unless they are concealed.
    #[inline]
    pub(crate) fn oldest(&self) -> u64 {
        self.oldest.load(Ordering::Acquire)
    }

    /// Every commit at or below this timestamp is settled, and there is none that is concealed.
    #[inline]
    pub(crate) fn settled(&self) -> u64 {
        // In this order: a commit is concealed before it can be visible.
        let oldest = self.oldest();
        oldest.min(self.first_concealed.load(Ordering::Acquire).saturating_sub(1))
    }

    /// Which commits are settled now; they remain so.
    #[inline]
    pub(crate) fn horizon(&self) -> Horizon<'_> {
        Horizon { registry: self, oldest: self.oldest() }
    }

    /// Whether the commit at `timestamp` is unsettled because it is concealed, or was and a snapshot does not see it.
    #[inline]
    pub(crate) fn is_concealed(&self, timestamp: u64) -> bool {
        timestamp >= self.first_concealed.load(Ordering::Acquire)
            && self.registered.lock().concealed.iter().any(|one| one.at == timestamp)
    }

    /// Moves the visible timestamp forward; earlier ones are ignored.
    pub(crate) fn set_visible(&self, timestamp: Timestamp) {
        let mut registered = self.registered.lock();
        if timestamp.0 > self.visible.load(Ordering::Relaxed) {
            self.visible.store(timestamp.0, Ordering::Release);
            self.update_oldest(&mut registered);
        }
    }

    /// From now on readers see what is confirmed only: what is visible now.
    pub(crate) fn begin_confirming(&self) {
        let mut registered = self.registered.lock();
        self.confirmed.store(self.visible.load(Ordering::Relaxed), Ordering::Release);
        self.update_oldest(&mut registered);
    }

    /// Moves the confirmed timestamp forward; earlier ones are ignored, and all of them where nobody has begun to confirm.
    pub(crate) fn set_confirmed(&self, timestamp: Timestamp) {
        let mut registered = self.registered.lock();
        if timestamp.0 > self.confirmed.load(Ordering::Relaxed) {
            self.confirmed.store(timestamp.0, Ordering::Release);
            self.update_oldest(&mut registered);
        }
    }

    fn update_oldest(&self, registered: &mut Registered) {
        // A reader may still come for what is confirmed, though the only snapshots be newer.
        let readable = self.readable().0;
        let oldest = registered.oldest().map_or(readable, |(timestamp, _)| timestamp.min(readable));
        self.oldest.store(oldest, Ordering::Release);
        if !registered.concealed.is_empty() {
            // From here on no snapshot can be had that does not see them.
            registered.concealed.retain(|one| one.revealed.is_none_or(|revealed| revealed > oldest));
            self.note_first_concealed(registered);
        }
    }

    fn note_first_concealed(&self, registered: &Registered) {
        let first = registered.concealed.first().map_or(u64::MAX, |one| one.at);
        self.first_concealed.store(first, Ordering::Release);
    }

    /// Conceals the commit at `timestamp`, which is not visible yet and of which nothing is applied, until it is revealed.
    pub(crate) fn conceal(&self, timestamp: Timestamp) {
        let mut registered = self.registered.lock();
        registered.concealed.push(Concealed { at: timestamp.0, revealed: None });
        self.note_first_concealed(&registered);
    }

    /// Everything of a concealed commit is applied: snapshots from `revealed` on, which is not visible yet, see it.
    pub(crate) fn reveal(&self, timestamp: Timestamp, revealed: Timestamp) {
        let mut registered = self.registered.lock();
        registered
            .concealed
            .iter_mut()
            .filter(|one| one.at == timestamp.0)
            .for_each(|one| one.revealed = Some(revealed.0));
    }

    /// Registers a snapshot at what readers see.
    pub(crate) fn begin(self: &Arc<Self>) -> Snapshot {
        let registered = self.registered.lock();
        let timestamp = self.readable().0;
        self.register_new(registered, timestamp)
    }

    /// Registers a snapshot at the visible timestamp, for those who read in order to write.
    pub(crate) fn begin_newest(self: &Arc<Self>) -> Snapshot {
        let registered = self.registered.lock();
        let timestamp = self.visible.load(Ordering::Relaxed);
        self.register_new(registered, timestamp)
    }

    fn register_new(self: &Arc<Self>, mut registered: MutexGuard<'_, Registered>, timestamp: u64) -> Snapshot {
        if let Some(active) = registered.active.get_mut(&timestamp)
            && active.too_old.load(Ordering::Relaxed)
        {
            active.too_old = Arc::new(AtomicBool::new(false));
        }
        self.register(&mut registered, timestamp)
    }

    fn register(self: &Arc<Self>, registered: &mut Registered, timestamp: u64) -> Snapshot {
        let unseen: Box<[u64]> = registered.unseen(timestamp).collect();
        let fresh = || Active { count: 0, too_old: Arc::new(AtomicBool::new(false)) };
        let active = registered.active.entry(timestamp).or_insert_with(fresh);
        active.count += 1;
        let too_old = active.too_old.clone();
        self.update_oldest(registered);
        let (registry, has_ended) = (Some(self.clone()), AtomicBool::new(false));
        Snapshot(Arc::new(Registration { timestamp, unseen, too_old, registry, has_ended }))
    }

    /// Registers a snapshot at an earlier timestamp. `None`: readers do not see it yet, or what it needs may be gone.
    pub(crate) fn begin_at(self: &Arc<Self>, timestamp: Timestamp) -> Option<Snapshot> {
        let mut registered = self.registered.lock();
        let possible = self.oldest.load(Ordering::Relaxed)..=self.readable().0;
        if !possible.contains(&timestamp.0) {
            return None;
        }
        let active = registered.active.get(&timestamp.0);
        if active.is_some_and(|active| active.too_old.load(Ordering::Relaxed)) {
            return None;
        }
        Some(self.register(&mut registered, timestamp.0))
    }

    /// Gives up the oldest snapshot below what new readers see, to free what the history keeps for it; `false` when there is none.
    pub(crate) fn give_up_oldest(&self) -> bool {
        let mut registered = self.registered.lock();
        let readable = self.readable().0;
        match registered.oldest() {
            Some((timestamp, active)) if timestamp < readable => {
                active.too_old.store(true, Ordering::Release);
                self.update_oldest(&mut registered);
                true
            }
            _ => false,
        }
    }

    /// Gives up the oldest snapshot to free what is kept of a concealed commit. `false` when there is none, or that would free nothing, because the
    /// first such commit is still concealed.
    pub(crate) fn give_up_for_concealed(&self) -> bool {
        let is_revealed = self.registered.lock().concealed.first().is_some_and(|one| one.revealed.is_some());
        is_revealed && self.give_up_oldest()
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
        self.update_oldest(&mut registered);
    }
}

struct Registration {
    timestamp: u64,
    /// Timestamps not above its own that it does not see.
    unseen: Box<[u64]>,
    too_old: Arc<AtomicBool>,
    /// None: nothing was ever kept for it.
    registry: Option<Arc<SnapshotRegistry>>,
    has_ended: AtomicBool,
}

impl Registration {
    fn end(&self) {
        if let Some(registry) = self.registry.as_ref().filter(|_| !self.has_ended.swap(true, Ordering::AcqRel)) {
            registry.release(self.timestamp);
        }
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        self.end();
    }
}

/// A reader's point in time: it sees every commit up to its timestamp and none after. Cloning shares it; the versions
/// it needs are kept until the last clone is dropped, or one is ended.
#[derive(Clone)]
pub struct Snapshot(Arc<Registration>);

impl Snapshot {
    /// For trees in which everything was applied as settled: it sees only that, is never given up, and nothing is kept for it.
    pub(crate) fn of_settled() -> Snapshot {
        let too_old = Arc::new(AtomicBool::new(false));
        let (unseen, has_ended) = (Box::default(), AtomicBool::new(false));
        Snapshot(Arc::new(Registration { timestamp: 0, unseen, too_old, registry: None, has_ended }))
    }

    /// Nobody will read with it, whoever has clones of it: nothing is kept for it any more, and reads with it fail.
    pub fn end(&self) {
        self.0.end();
    }

    /// The newest commit it sees.
    pub fn timestamp(&self) -> Timestamp {
        Timestamp(self.0.timestamp)
    }

    /// Whether it sees a commit.
    #[inline]
    pub fn sees(&self, timestamp: Timestamp) -> bool {
        timestamp.0 <= self.0.timestamp && (self.0.unseen.is_empty() || !self.0.unseen.contains(&timestamp.0))
    }

    /// Fails once the snapshot was given up or ended; asked after every read, since what was read before may be incomplete.
    ///
    /// # Errors
    /// `SnapshotTooOld`.
    pub fn check(&self) -> Result<()> {
        let is_over = self.0.too_old.load(Ordering::Acquire) || self.0.has_ended.load(Ordering::Acquire);
        if is_over { Err(EngineError::SnapshotTooOld) } else { Ok(()) }
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
    fn readers_see_what_is_confirmed_and_writers_what_is_visible() {
        let registry = SnapshotRegistry::new();
        registry.set_visible(Timestamp(5));
        registry.set_confirmed(Timestamp(3));
        assert_eq!(registry.begin().timestamp(), Timestamp(5), "nobody confirms anything");
        registry.begin_confirming();
        registry.set_visible(Timestamp(9));
        let (reader, writer) = (registry.begin(), registry.begin_newest());
        assert_eq!((reader.timestamp(), writer.timestamp()), (Timestamp(5), Timestamp(9)));
        assert!(reader.sees(Timestamp(5)) && !reader.sees(Timestamp(6)) && writer.sees(Timestamp(9)));
        assert!(registry.begin_at(Timestamp(7)).is_none(), "it may vanish");
        drop(reader);
        assert_eq!(registry.oldest(), 5, "another reader may come, though the only snapshot is newer");
        registry.set_confirmed(Timestamp(7));
        registry.set_confirmed(Timestamp(6));
        assert_eq!((registry.oldest(), registry.readable()), (7, Timestamp(7)));
        assert_eq!(registry.begin_at(Timestamp(7)).unwrap().timestamp(), Timestamp(7));
        registry.set_confirmed(Timestamp(12));
        assert_eq!(registry.readable(), Timestamp(9), "nobody reads what is not visible");
        assert_eq!(registry.oldest(), 9);
        drop(writer);
        registry.set_visible(Timestamp(12));
        assert_eq!((registry.oldest(), registry.begin().timestamp()), (12, Timestamp(12)));
    }

    #[test]
    fn no_snapshot_is_given_up_that_a_reader_might_have_now() {
        let registry = SnapshotRegistry::new();
        registry.set_visible(Timestamp(5));
        registry.begin_confirming();
        registry.set_visible(Timestamp(9));
        let (reader, writer) = (registry.begin(), registry.begin_newest());
        assert!(!registry.give_up_oldest(), "it would free nothing");
        registry.set_confirmed(Timestamp(6));
        assert!(registry.give_up_oldest() && reader.check().is_err() && writer.check().is_ok());
        assert_eq!(registry.oldest(), 6);
        assert!(!registry.give_up_oldest());
    }

    #[test]
    fn what_a_concealed_commit_has_replaced_is_kept_until_its_end_is_confirmed() {
        let registry = SnapshotRegistry::new();
        registry.set_visible(Timestamp(5));
        registry.begin_confirming();
        registry.conceal(Timestamp(6));
        registry.set_visible(Timestamp(9));
        registry.reveal(Timestamp(6), Timestamp(10));
        registry.set_visible(Timestamp(10));
        registry.set_confirmed(Timestamp(9));
        assert_eq!((registry.settled(), registry.oldest()), (5, 9));
        assert!(!registry.begin().sees(Timestamp(6)) && registry.begin_newest().sees(Timestamp(6)));
        registry.set_confirmed(Timestamp(10));
        assert_eq!(registry.settled(), 10);
        assert!(registry.begin().sees(Timestamp(6)));
    }

    #[test]
    fn a_concealed_commit_is_seen_from_where_it_is_revealed() {
        let registry = SnapshotRegistry::new();
        registry.set_visible(Timestamp(5));
        let before = registry.begin();
        registry.conceal(Timestamp(6));
        registry.set_visible(Timestamp(9));
        let beside = registry.begin();
        assert!(!before.sees(Timestamp(6)) && !before.sees(Timestamp(9)));
        assert!(beside.sees(Timestamp(5)) && !beside.sees(Timestamp(6)) && beside.sees(Timestamp(9)));
        drop(before);
        assert_eq!(registry.settled(), 5, "what the concealed commit has replaced is needed");
        let horizon = registry.horizon();
        assert!(horizon.is_settled(5) && !horizon.is_settled(6) && horizon.is_settled(7) && horizon.is_settled(9));
        registry.reveal(Timestamp(6), Timestamp(10));
        assert!(!registry.begin().sees(Timestamp(6)), "it is seen at ten");
        registry.set_visible(Timestamp(10));
        let after = registry.begin();
        assert!(after.sees(Timestamp(6)) && !beside.sees(Timestamp(6)));
        let earlier = registry.begin_at(Timestamp(9)).unwrap();
        assert!(!earlier.sees(Timestamp(6)), "a point in time is the same whenever it is read");
        assert_eq!((registry.settled(), registry.oldest()), (5, 9));
        drop((beside, earlier));
        assert_eq!((registry.settled(), registry.oldest()), (10, 10));
        assert!(registry.registered.lock().concealed.is_empty() && registry.horizon().is_settled(6));
    }

    #[test]
    fn without_snapshots_a_concealed_commit_holds_back_settling() {
        let registry = SnapshotRegistry::new();
        registry.set_visible(Timestamp(5));
        registry.conceal(Timestamp(6));
        registry.conceal(Timestamp(8));
        registry.set_visible(Timestamp(9));
        assert_eq!((registry.settled(), registry.oldest()), (5, 9));
        registry.reveal(Timestamp(6), Timestamp(10));
        registry.set_visible(Timestamp(10));
        assert_eq!((registry.settled(), registry.oldest()), (7, 10));
        registry.reveal(Timestamp(8), Timestamp(11));
        registry.set_visible(Timestamp(11));
        assert_eq!(registry.settled(), 11);
        assert!(registry.registered.lock().concealed.is_empty());
    }

    #[test]
    fn for_a_concealed_commit_snapshots_are_given_up_once_it_is_revealed() {
        let registry = SnapshotRegistry::new();
        registry.set_visible(Timestamp(5));
        registry.conceal(Timestamp(6));
        registry.set_visible(Timestamp(9));
        let beside = registry.begin();
        registry.set_visible(Timestamp(10));
        assert!(!registry.give_up_for_concealed(), "it would free nothing");
        registry.reveal(Timestamp(6), Timestamp(11));
        registry.set_visible(Timestamp(11));
        assert!(registry.give_up_for_concealed() && beside.check().is_err());
        assert_eq!(registry.settled(), 11);
        assert!(!registry.give_up_for_concealed());
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
        let again = first.clone();
        first.end();
        assert!(again.check().is_err());
        assert_eq!(registry.oldest(), 9);
        drop((first, again));
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
