//! Who listens to the feed: what each is interested in, and what has come for it.
//!
//! Filled by the feed's thread, emptied by followers. Listeners with the same subject are asked once, and share the entries. An inbox knows from which place of the
//! oplog to which it has everything that concerns its owner, so nobody looks at what concerns others. One that is not emptied is cleared; its owner
//! then reads the oplog itself until it has caught up.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use oplog::OplogPosition;
use parking_lot::{Condvar, Mutex};
use storage_engine::Timestamp;

use super::FeedEntry;

/// Bytes of entries in an inbox.
const INBOX_BYTES: usize = 1 << 20;

/// Whom an entry concerns.
pub type Interest = dyn Fn(&Arc<FeedEntry>) -> bool + Send + Sync;

/// What a subscription is about.
pub struct Topic {
    /// Equal for equal interests.
    pub name: String,
    /// Asked about every entry that becomes visible. It must be quick.
    pub interest: Box<Interest>,
    /// Whether the entries are kept for a follower; otherwise the owner is woken only.
    pub delivers: bool,
}

/// What the feed has read since it last looked.
pub(super) struct Fresh {
    pub(super) from: OplogPosition,
    pub(super) to: OplogPosition,
    pub(super) timestamp: Timestamp,
    pub(super) entries: Vec<Arc<FeedEntry>>,
}

pub(super) struct Listener {
    topic: Topic,
    inbox: Mutex<Inbox>,
    bell: Condvar,
}

#[derive(Default)]
struct Inbox {
    is_woken: bool,
    entries: VecDeque<Arc<FeedEntry>>,
    bytes: usize,
    /// Everything of interest from here on was put into `entries`. `None`: nothing yet.
    from: Option<OplogPosition>,
    to: OplogPosition,
    /// Of the last entry before `to`.
    timestamp: Timestamp,
}

/// What an inbox says about what is behind a place.
pub(super) enum Received {
    Entry(Arc<FeedEntry>),
    /// Nothing up to there.
    NothingUntil(OplogPosition, Timestamp),
    /// It does not go back so far.
    Unknown,
}

impl Listener {
    pub(super) fn new(topic: Topic) -> Listener {
        Listener { topic, inbox: Mutex::default(), bell: Condvar::new() }
    }

    pub(super) fn wait(&self, longest: Duration) -> bool {
        let mut inbox = self.inbox.lock();
        if !inbox.is_woken {
            self.bell.wait_for(&mut inbox, longest);
        }
        std::mem::take(&mut inbox.is_woken)
    }

    pub(super) fn wake(&self) {
        self.inbox.lock().is_woken = true;
        self.bell.notify_one();
    }

    /// The next entry from a place on.
    pub(super) fn receive(&self, from: OplogPosition) -> Received {
        let mut inbox = self.inbox.lock();
        if inbox.from.is_none_or(|known| from < known) {
            return Received::Unknown;
        }
        while let Some(entry) = inbox.entries.pop_front() {
            inbox.bytes -= entry.payload.len();
            if entry.position >= from {
                return Received::Entry(entry);
            }
        }
        Received::NothingUntil(inbox.to.max(from), inbox.timestamp)
    }

    /// Takes what concerns the owner; `true`: it was woken.
    fn deliver(&self, fresh: &Fresh, concerning: &[Arc<FeedEntry>]) -> bool {
        let mut inbox = self.inbox.lock();
        if self.topic.delivers {
            inbox.take(fresh, concerning);
        }
        if concerning.is_empty() || inbox.is_woken {
            return false;
        }
        inbox.is_woken = true;
        self.bell.notify_one();
        true
    }
}

impl Inbox {
    fn take(&mut self, fresh: &Fresh, concerning: &[Arc<FeedEntry>]) {
        if self.from.is_none() || self.to != fresh.from {
            self.clear(fresh.from);
        }
        for entry in concerning {
            self.bytes += entry.payload.len();
            self.entries.push_back(entry.clone());
        }
        if self.bytes > INBOX_BYTES {
            self.clear(fresh.to);
        }
        (self.to, self.timestamp) = (fresh.to, fresh.timestamp);
    }

    fn clear(&mut self, from: OplogPosition) {
        self.entries.clear();
        (self.bytes, self.from) = (0, Some(from));
    }
}

/// Gives every listener what concerns it. Returns how many were woken.
pub(super) fn deliver(listeners: &[Arc<Listener>], fresh: &Fresh) -> u32 {
    let mut by_topic: HashMap<&str, Vec<Arc<FeedEntry>>> = HashMap::new();
    let mut woken = 0;
    for listener in listeners {
        let topic = &listener.topic;
        let concerning = by_topic
            .entry(&topic.name)
            .or_insert_with(|| fresh.entries.iter().filter(|entry| (topic.interest)(entry)).cloned().collect());
        woken += u32::from(listener.deliver(fresh, concerning));
    }
    woken
}
