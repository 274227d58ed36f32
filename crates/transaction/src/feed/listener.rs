//! Who listens to the feed: what each is interested in, and what has come for it.
//!
//! Filled by the feed's thread, emptied by followers. Listeners with the same subject are asked once, and share the entries. An inbox knows from which place of the
//! oplog to which it has everything that concerns its owner, so nobody looks at what concerns others. One that is not emptied is cleared; its owner
//! then reads the oplog itself until it has caught up.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use oplog::{OplogError, OplogPosition, OplogReader};
use parking_lot::{Condvar, Mutex};
use storage_engine::Timestamp;

use super::listener_costs::{ListenerCosts, Woken};
use super::pacing::{Delivered, STEP_BYTES, foreseen_cost};
use super::{FeedEntry, KEPT_BYTES};

/// Bytes of entries in an inbox: several may be as far behind as what is kept.
pub(super) const INBOX_BYTES: usize = KEPT_BYTES / 8;

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
    /// Processor time that its owner takes for an entry, beside its bytes, roughly. While processors are busy, the feed is the slower for it.
    pub cost: Duration,
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
    costs: Arc<ListenerCosts>,
}

#[derive(Default)]
struct Inbox {
    is_woken: bool,
    /// What is foreseen for what was delivered since the owner was woken.
    foreseen: Duration,
    /// The owner's thread, while it works on what came.
    working: Option<Woken>,
    batches: VecDeque<SharedEntries>,
    bytes: u64,
    /// Everything of interest from here on was put into `batches`. `None`: nothing yet.
    from: Option<OplogPosition>,
    to: OplogPosition,
    /// Of the last entry before `to`.
    timestamp: Timestamp,
}

/// What came at once for all listeners of a topic.
type SharedEntries = Arc<[Arc<FeedEntry>]>;

/// What was taken out of an inbox.
#[derive(Default)]
pub(super) struct TakenEntries {
    entries: VecDeque<SharedEntries>,
    /// In the first.
    next: usize,
}

/// What an inbox says about what is behind a place.
pub(super) enum Received {
    /// There is more now in the batch that was given, and then up to there.
    Entries,
    /// Nothing up to there.
    NothingUntil(OplogPosition, Timestamp),
    /// It does not go back so far.
    Unknown,
}

impl TakenEntries {
    /// The next entry that is not before a place.
    pub(super) fn next_from(&mut self, from: OplogPosition) -> Option<Arc<FeedEntry>> {
        loop {
            let entries = self.entries.front()?;
            match entries.get(self.next) {
                Some(entry) => {
                    self.next += 1;
                    if entry.position >= from {
                        return Some(entry.clone());
                    }
                }
                None => {
                    self.entries.pop_front();
                    self.next = 0;
                }
            }
        }
    }
}

impl Fresh {
    /// Reads on up to `end`, which is visible at `timestamp`, or less when that is much.
    pub(super) fn read(
        reader: &mut dyn OplogReader,
        timestamp: Timestamp,
        end: OplogPosition,
    ) -> Result<Fresh, OplogError> {
        let (from, mut bytes) = (reader.position(), 0);
        let mut fresh = Fresh { from, to: from, timestamp, entries: Vec::new() };
        while reader.position() < end && bytes < STEP_BYTES {
            let Some(entry) = reader.next_entry()? else { break };
            bytes += entry.payload.len();
            fresh.timestamp = entry.timestamp;
            fresh.entries.push(FeedEntry::of(&entry));
        }
        fresh.to = reader.position();
        Ok(fresh)
    }
}

impl Listener {
    pub(super) fn new(topic: Topic, costs: Arc<ListenerCosts>) -> Listener {
        Listener { topic, inbox: Mutex::default(), bell: Condvar::new(), costs }
    }

    pub(super) fn wait(&self, longest: Duration) -> bool {
        let mut inbox = self.inbox.lock();
        if let Some((foreseen, spent)) = inbox.working.take().and_then(Woken::ends) {
            self.costs.note(foreseen, spent);
        }
        if !inbox.is_woken {
            self.bell.wait_for(&mut inbox, longest);
        }
        let foreseen = std::mem::take(&mut inbox.foreseen);
        inbox.working = (!foreseen.is_zero()).then(|| Woken::now(foreseen));
        std::mem::take(&mut inbox.is_woken)
    }

    pub(super) fn wake(&self) {
        self.inbox.lock().is_woken = true;
        self.bell.notify_one();
    }

    /// Moves what there is into `batch`, which is empty.
    pub(super) fn receive(&self, from: OplogPosition, batch: &mut TakenEntries) -> Received {
        let mut inbox = self.inbox.lock();
        if inbox.from.is_none_or(|known| from < known) {
            return Received::Unknown;
        }
        if inbox.batches.is_empty() {
            return Received::NothingUntil(inbox.to.max(from), inbox.timestamp);
        }
        inbox.bytes = 0;
        std::mem::swap(&mut inbox.batches, &mut batch.entries);
        batch.next = 0;
        Received::Entries
    }

    /// Takes what concerns the owner.
    fn deliver(&self, fresh: &Fresh, concerning: &Concerning, delivered: &mut Delivered) {
        let mut inbox = self.inbox.lock();
        if self.topic.delivers {
            inbox.take(fresh, concerning);
        }
        if concerning.entries.is_empty() {
            return;
        }
        let is_woken_now = !std::mem::replace(&mut inbox.is_woken, true);
        if is_woken_now {
            self.bell.notify_one();
        }
        let work = self.topic.cost * concerning.entries.len() as u32;
        let foreseen = foreseen_cost(is_woken_now, work, concerning.bytes);
        inbox.foreseen += foreseen;
        delivered.woken += u32::from(is_woken_now);
        delivered.foreseen += foreseen;
    }
}

/// What of the fresh entries concerns a topic.
struct Concerning {
    entries: SharedEntries,
    bytes: u64,
}

impl Inbox {
    fn take(&mut self, fresh: &Fresh, concerning: &Concerning) {
        if self.from.is_none() || self.to != fresh.from {
            self.clear(fresh.from);
        }
        if !concerning.entries.is_empty() {
            self.bytes += concerning.bytes;
            self.batches.push_back(concerning.entries.clone());
        }
        if self.bytes > INBOX_BYTES as u64 && self.batches.len() > 1 {
            self.clear(fresh.to);
        }
        (self.to, self.timestamp) = (fresh.to, fresh.timestamp);
    }

    fn clear(&mut self, from: OplogPosition) {
        self.batches.clear();
        (self.bytes, self.from) = (0, Some(from));
    }
}

/// Gives every listener what concerns it.
pub(super) fn deliver(listeners: &[Arc<Listener>], fresh: &Fresh) -> Delivered {
    let mut by_topic: HashMap<&str, Concerning> = HashMap::new();
    let mut delivered = Delivered::default();
    if fresh.to == fresh.from {
        return delivered;
    }
    for listener in listeners {
        let topic = &listener.topic;
        let concerning = by_topic.entry(&topic.name).or_insert_with(|| {
            let entries: SharedEntries =
                fresh.entries.iter().filter(|entry| (topic.interest)(entry)).cloned().collect();
            Concerning { bytes: entries.iter().map(|entry| entry.payload.len() as u64).sum(), entries }
        });
        listener.deliver(fresh, concerning, &mut delivered);
    }
    delivered
}

#[cfg(test)]
mod tests {
    use std::sync::OnceLock;

    use super::*;

    fn listener(name: &str) -> Arc<Listener> {
        let interest = |entry: &Arc<FeedEntry>| entry.position.0.is_multiple_of(20);
        let cost = Duration::from_micros(1);
        let topic = Topic { name: name.to_owned(), interest: Box::new(interest), delivers: true, cost };
        Arc::new(Listener::new(topic, Arc::default()))
    }

    /// Entries of ten bytes of the oplog each, all of `bytes` in memory.
    fn fresh(from: u64, to: u64, bytes: usize) -> Fresh {
        let entry = |position| {
            let (timestamp, payload) = (Timestamp(position), vec![0; bytes]);
            let (position, end) = (OplogPosition(position), OplogPosition(position + 10));
            Arc::new(FeedEntry { position, end, timestamp, payload, shared: OnceLock::new() })
        };
        let entries = (from..to).step_by(10).map(entry).collect();
        Fresh { from: OplogPosition(from), to: OplogPosition(to), timestamp: Timestamp(to - 10), entries }
    }

    /// The positions that come, and what is said behind them.
    fn received(listener: &Listener, from: u64) -> (Vec<u64>, Option<u64>) {
        let (mut batch, mut positions, mut from) = (TakenEntries::default(), Vec::new(), OplogPosition(from));
        loop {
            match listener.receive(from, &mut batch) {
                Received::Entries => {}
                Received::NothingUntil(position, _) => return (positions, Some(position.0)),
                Received::Unknown => return (positions, None),
            }
            while let Some(entry) = batch.next_from(from) {
                positions.push(entry.position.0);
                from = entry.end;
            }
        }
    }

    #[test]
    fn each_listener_gets_what_concerns_it_from_its_place_on() {
        let listeners = [listener("same"), listener("same"), listener("other")];
        assert_eq!(received(&listeners[0], 100), (vec![], None));
        let delivered = deliver(&listeners, &fresh(100, 160, 8));
        // Each has three entries of eight bytes.
        let foreseen = foreseen_cost(true, Duration::from_micros(3), 3 * 8) * 3;
        assert_eq!(delivered, Delivered { woken: 3, foreseen });
        assert_eq!(received(&listeners[0], 100), (vec![100, 120, 140], Some(160)));
        // It has them no more, and is woken again only once it has waited.
        assert_eq!(received(&listeners[0], 100), (vec![], Some(160)));
        assert_eq!(received(&listeners[1], 120), (vec![120, 140], Some(160)));
        assert!(listeners[0].wait(Duration::ZERO));
        assert_eq!(deliver(&listeners, &fresh(160, 200, 8)).woken, 1);
        assert_eq!(received(&listeners[2], 90), (vec![], None));
        assert_eq!(received(&listeners[2], 145), (vec![160, 180], Some(200)));
        assert_eq!(deliver(&listeners, &fresh(200, 200, 8)), Delivered::default());
    }

    #[test]
    fn an_inbox_that_nobody_empties_is_cleared() {
        let slow = [listener("slow")];
        for step in 0..3 {
            deliver(&slow, &fresh(step * 20, step * 20 + 20, INBOX_BYTES / 2));
        }
        assert_eq!(received(&slow[0], 0), (vec![], None));
        // Who has read the oplog up to there goes on with the inbox.
        deliver(&slow, &fresh(60, 80, 8));
        assert_eq!(received(&slow[0], 60), (vec![60], Some(80)));
    }
}
