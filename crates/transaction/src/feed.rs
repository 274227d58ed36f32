//! The newest part of the oplog for those who follow it: read once for all of them, and whom it concerns is woken.
//!
//! Used by tailable cursors, `local.oplog.rs` and change streams. A background thread (`feed_step`) takes part in what writers do only by waiting for commits that
//! readers see; it looks at most once every few milliseconds, the more seldom the more listeners it wakes (`pacing`), reads what is new from the oplog, keeps it in
//! memory for a while, and gives each listener what concerns it (`listener`).
//!
//! Nothing is read while nobody listens. Whoever is further behind than what is kept reads the oplog itself.

mod listener;
mod listener_costs;
mod pacing;

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bson::RawDocumentBuf;
use listener::{Fresh, Listener, Received, TakenEntries, deliver};
pub use listener::{Interest, Topic};
use listener_costs::ListenerCosts;
use oplog::{LocalOplog, Oplog, OplogEntry, OplogError, OplogPosition, OplogReader};
use pacing::Pacing;
use parking_lot::{Condvar, Mutex, RwLock};
use storage_engine::{Engine, Timestamp};

use crate::error::Result;
use crate::store::Store;

/// Bytes of entries kept.
const KEPT_BYTES: usize = 8 << 20;
/// Longest wait for a commit, so that stopping is noticed.
const WAIT: Duration = Duration::from_millis(100);
/// Longest wait for somebody who listens: whoever comes and the end of the store end it.
const LISTENERS_WAIT: Duration = WAIT.saturating_mul(50);

/// An entry of the oplog.
pub struct FeedEntry {
    /// Where it is.
    pub position: OplogPosition,
    /// Where the next one is.
    pub end: OplogPosition,
    /// Its commit timestamp.
    pub timestamp: Timestamp,
    /// As logged.
    pub payload: Vec<u8>,
    /// What followers make of it and share.
    pub shared: OnceLock<Option<Arc<RawDocumentBuf>>>,
}

impl FeedEntry {
    fn of(entry: &OplogEntry<'_>) -> Arc<FeedEntry> {
        Arc::new(FeedEntry {
            position: entry.position,
            end: entry.end,
            timestamp: entry.timestamp,
            payload: entry.payload.to_vec(),
            shared: OnceLock::new(),
        })
    }
}

#[derive(Default)]
struct Recent {
    entries: VecDeque<Arc<FeedEntry>>,
    bytes: usize,
}

/// See the module's head.
pub(crate) struct Feed {
    recent: RwLock<Recent>,
    listeners: Mutex<Vec<Arc<Listener>>>,
    has_listeners: Condvar,
    progress: Mutex<FeedProgress>,
    costs: Arc<ListenerCosts>,
    /// While the feed holds itself back: where it is. Who has caught up with it goes no further by itself. Otherwise `NOT_HELD_BACK`.
    held_back_at: AtomicU64,
}

const NOT_HELD_BACK: u64 = u64::MAX;

/// The feed's own place.
#[derive(Default)]
struct FeedProgress {
    reader: Option<Box<dyn OplogReader>>,
    pacing: Pacing,
}

/// Wakes its owner when something comes that it is interested in.
pub struct Subscription {
    store: Arc<Store>,
    listener: Arc<Listener>,
}

impl Subscription {
    /// Waits until something has come since the last call, at most so long.
    pub fn wait(&self, longest: Duration) -> bool {
        self.listener.wait(longest)
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        self.store.feed.listeners.lock().retain(|listener| !Arc::ptr_eq(listener, &self.listener));
    }
}

impl Store {
    /// From now on the topic is asked about every entry that readers come to see. Needs the background.
    pub fn subscribe(self: &Arc<Self>, topic: Topic) -> Subscription {
        let listener = Arc::new(Listener::new(topic, self.feed.costs.clone()));
        self.feed.listeners.lock().push(listener.clone());
        self.feed.has_listeners.notify_all();
        Subscription { store: self.clone(), listener }
    }

    /// Ends the background thread's wait for somebody who listens.
    pub(crate) fn wake_feed(&self) {
        // Who has not seen that the store stops is waiting once the lock is to be had.
        drop(self.feed.listeners.lock());
        self.feed.has_listeners.notify_all();
    }

    /// One turn of the background thread.
    ///
    /// # Errors
    /// `Oplog`.
    pub fn feed_step(&self) -> Result<()> {
        let mut listeners = self.feed.listeners.lock();
        if listeners.is_empty() {
            *self.feed.recent.write() = Recent::default();
            self.feed.progress.lock().reader = None;
            self.feed.held_back_at.store(NOT_HELD_BACK, Ordering::Release);
            if !self.is_stopping() {
                self.feed.has_listeners.wait_for(&mut listeners, LISTENERS_WAIT);
            }
            return Ok(());
        }
        drop(listeners);
        let mut progress = self.feed.progress.lock();
        let FeedProgress { reader, pacing } = &mut *progress;
        let reader = match reader {
            Some(reader) => reader,
            none => {
                let reader = none.insert(self.oplog.read_from(self.commits.confirmed_end().1)?);
                // Who subscribed before may have missed what came until now.
                self.feed.listeners.lock().iter().for_each(|listener| listener.wake());
                reader
            }
        };
        self.commits.wait_beyond(reader.position(), WAIT);
        let (timestamp, confirmed_end) = self.commits.confirmed_end();
        let fresh = match Fresh::read(&mut **reader, timestamp, confirmed_end) {
            // The oplog dropped what the feed was too slow for: it goes on at the end, and who misses something finds out by itself.
            Err(OplogError::PositionTruncated { .. }) => {
                progress.reader = None;
                return Ok(());
            }
            fresh => fresh?,
        };
        self.feed.keep(&fresh.entries);
        let delivered = deliver(&self.feed.listeners.lock(), &fresh);
        let (rest, is_held_back) = pacing.rest(
            self.clock.monotonic(),
            delivered.on_machine(self.feed.costs.scale()),
            fresh.to < confirmed_end,
        );
        let at = if is_held_back { fresh.to.0 } else { NOT_HELD_BACK };
        self.feed.held_back_at.store(at, Ordering::Release);
        drop(progress);
        self.clock.sleep(rest);
        Ok(())
    }

    /// Bytes of the oplog that listeners have not been given, because the processors are busy.
    pub fn listeners_held_back(&self) -> u64 {
        match self.feed.held_back_at.load(Ordering::Acquire) {
            NOT_HELD_BACK => 0,
            at => self.commits.confirmed_end().1.0.saturating_sub(at),
        }
    }

    /// Follows the oplog from a position: what readers see of it.
    ///
    /// # Errors
    /// `Oplog` with `PositionTruncated` and `InvalidPosition`.
    pub fn follow_oplog(self: &Arc<Self>, from: OplogPosition) -> Result<OplogFollower> {
        // Fails at once when it is gone.
        drop(self.oplog.read_from(from)?);
        Ok(OplogFollower {
            store: self.clone(),
            position: from,
            reader: None,
            listener: None,
            received: TakenEntries::default(),
        })
    }

    /// As `follow_oplog`, for the entries that concern a subscription, others as they come.
    ///
    /// # Errors
    /// As `follow_oplog`.
    pub fn follow_topic(self: &Arc<Self>, from: OplogPosition, subscription: &Subscription) -> Result<OplogFollower> {
        Ok(OplogFollower { listener: Some(subscription.listener.clone()), ..self.follow_oplog(from)? })
    }
}

impl Default for Feed {
    fn default() -> Feed {
        Feed {
            recent: RwLock::default(),
            listeners: Mutex::default(),
            has_listeners: Condvar::new(),
            progress: Mutex::default(),
            costs: Arc::default(),
            held_back_at: AtomicU64::new(NOT_HELD_BACK),
        }
    }
}

impl Feed {
    fn keep(&self, fresh: &[Arc<FeedEntry>]) {
        let mut recent = self.recent.write();
        for entry in fresh {
            recent.bytes += entry.payload.len();
            recent.entries.push_back(entry.clone());
        }
        while recent.bytes > KEPT_BYTES {
            let Some(oldest) = recent.entries.pop_front() else { break };
            recent.bytes -= oldest.payload.len();
        }
    }

    fn find(&self, position: OplogPosition) -> Option<Arc<FeedEntry>> {
        let recent = self.recent.read();
        let at = recent.entries.binary_search_by_key(&position, |entry| entry.position).ok()?;
        recent.entries.get(at).cloned()
    }
}

/// Reads the oplog in order, up to what readers see.
pub struct OplogFollower {
    store: Arc<Store>,
    position: OplogPosition,
    reader: Option<Box<dyn OplogReader>>,
    listener: Option<Arc<Listener>>,
    /// Taken from the listener and not looked at yet.
    received: TakenEntries,
}

/// What a follower finds at its place.
pub enum Followed {
    /// The next entry.
    Entry(Arc<FeedEntry>),
    /// Nothing that is newer than this, yet.
    UpTo(Timestamp),
}

impl OplogFollower {
    /// Where the next entry is.
    pub fn position(&self) -> OplogPosition {
        self.position
    }

    /// The next entry; `None` when there is none yet.
    ///
    /// # Errors
    /// `Oplog` with `PositionTruncated` when it is gone.
    #[allow(clippy::should_implement_trait, reason = "it may go on after None, which an iterator does not")]
    pub fn next(&mut self) -> Result<Option<Arc<FeedEntry>>> {
        match self.advance()? {
            Followed::Entry(entry) => Ok(Some(entry)),
            Followed::UpTo(_) => Ok(None),
        }
    }

    /// As `next`; also tells how far it has looked.
    ///
    /// # Errors
    /// As `next`.
    pub fn advance(&mut self) -> Result<Followed> {
        if let Some(entry) = self.received.next_from(self.position) {
            return Ok(Followed::Entry(self.step(entry)));
        }
        let (timestamp, mut end) = self.store.commits.confirmed_end();
        if let Some(listener) = &self.listener {
            match listener.receive(self.position, &mut self.received) {
                Received::Entries => {
                    if let Some(entry) = self.received.next_from(self.position) {
                        return Ok(Followed::Entry(self.step(entry)));
                    }
                }
                Received::NothingUntil(position, timestamp) => {
                    self.position = position;
                    return Ok(Followed::UpTo(timestamp));
                }
                Received::Unknown => {}
            }
            end = end.min(OplogPosition(self.store.feed.held_back_at.load(Ordering::Acquire)));
        }
        Ok(self.read_next(end)?.map_or(Followed::UpTo(timestamp), Followed::Entry))
    }

    fn step(&mut self, entry: Arc<FeedEntry>) -> Arc<FeedEntry> {
        self.reader = None;
        self.position = entry.end;
        entry
    }

    fn read_next(&mut self, end: OplogPosition) -> Result<Option<Arc<FeedEntry>>> {
        if let Some(entry) = self.store.feed.find(self.position) {
            return Ok(Some(self.step(entry)));
        }
        if self.position >= end {
            return Ok(None);
        }
        let reader = match &mut self.reader {
            Some(reader) => reader,
            none => none.insert(self.store.oplog.read_from(self.position)?),
        };
        let Some(entry) = reader.next_entry()? else { return Ok(None) };
        self.position = entry.end;
        Ok(Some(FeedEntry::of(&entry)))
    }
}

/// Where the entries of a part of the oplog are, newest first: for reading it backward, segment by segment.
pub struct BackwardOplog {
    oplog: LocalOplog,
    engine: Arc<Engine>,
    segments: Vec<OplogPosition>,
    end: OplogPosition,
    entries: Vec<OplogPosition>,
}

impl Store {
    /// Reads the oplog backward from what readers see now.
    ///
    /// # Errors
    /// `Oplog`.
    pub fn oplog_backward(&self) -> Result<BackwardOplog> {
        let segments = self.oplog.segments()?.iter().map(|segment| segment.start).collect();
        let end = self.confirmed_end().1;
        Ok(BackwardOplog { oplog: self.oplog.clone(), engine: self.engine.clone(), segments, end, entries: Vec::new() })
    }
}

impl BackwardOplog {
    /// The entry before; `None` at the beginning.
    ///
    /// # Errors
    /// `Oplog`.
    pub fn previous(&mut self) -> Result<Option<(Timestamp, Vec<u8>)>> {
        loop {
            if let Some(position) = self.entries.pop() {
                let mut reader = self.oplog.read_from(position)?;
                match reader.next_entry()? {
                    Some(entry) if entry.timestamp <= self.engine.readable() => {
                        return Ok(Some((entry.timestamp, entry.payload.to_vec())));
                    }
                    _ => continue,
                }
            }
            let Some(start) = self.segments.pop() else { return Ok(None) };
            if start >= self.end {
                continue;
            }
            let mut reader = self.oplog.read_from(start)?;
            while reader.position() < self.end {
                self.entries.push(reader.position());
                if reader.next_entry()?.is_none() {
                    self.entries.pop();
                    break;
                }
            }
            self.end = start;
        }
    }
}
