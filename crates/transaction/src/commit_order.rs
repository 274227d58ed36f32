//! The order in which commits become visible, and how far the oplog is applied.
//!
//! A commit gets its timestamp and its place in the queue under the oplog's lock, so the queue is in timestamp order. Commits
//! are applied in any order; a commit becomes visible once it and all before it are applied. The same queue says from where the oplog
//! would have to be replayed, and moves the collections' counts, which are therefore exact for what is visible.
//!
//! Life of a commit: in flight → applied → visible. One that cannot be applied stops everything after it for good: it is
//! in the oplog, so only recovery can say what becomes of it.
//!
//! A *large* transaction's commit is concealed: it is logged twice, first as its decision, which makes it happen, and, when it is applied, as its commit,
//! with which it becomes visible. In between commits go past it:
//!
//! ```text
//! decided (concealed) ─ applied, chunk by chunk, while others become visible ─ commit logged ─ visible (revealed)
//! ```
//!
//! Recovery must begin at the oldest decision that is not revealed, so what has gone past it is left out of the counts of a checkpoint's mark.
//!
//! Called by every write. Its lock is taken inside the oplog's; inside it only the engine's snapshot registry is.

mod confirmation;
#[cfg(test)]
mod tests;

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use collection::Collection;
use oplog::OplogPosition;
use parking_lot::{Condvar, Mutex};
use platform::{WaitKind, waiting};
use storage_engine::{CheckpointMark, Engine, Timestamp};

pub use self::confirmation::Leadership;
use self::confirmation::{Confirmed, Unconfirmed};
use crate::error::{Result, TransactionError};

/// A commit: what its write concern waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct CommitInfo {
    /// When it happened, in commit order.
    pub timestamp: Timestamp,
    /// The end of its oplog entry: durable once the oplog is durable up to here.
    pub end: OplogPosition,
}

/// See the module's head.
pub(crate) struct CommitOrder {
    engine: Arc<Engine>,
    queue: Mutex<Queue>,
    moved: Condvar,
    /// A commit that is logged could not be applied: nothing becomes visible any more.
    is_stopped: AtomicBool,
    confirmed: Confirmed,
}

struct Queue {
    commits: VecDeque<Commit>,
    /// Number of the commit at the front.
    front: u64,
    /// Everything before this is visible.
    applied_end: OplogPosition,
    visible: Timestamp,
    /// What is visible and not confirmed by a shared log; `None` where there is none.
    unconfirmed: Option<Unconfirmed>,
    /// Collections whose counts changed since the last checkpoint.
    changed: Vec<Arc<Collection>>,
    /// Where the parts of transactions begin that are being committed.
    held: Vec<OplogPosition>,
    /// The same of the primary's, on a member that follows.
    received_from: Option<OplogPosition>,
    /// Commits that are decided and not visible, in the order of their decisions.
    concealed: Vec<Concealed>,
    waiting: usize,
}

struct Commit {
    timestamp: Timestamp,
    position: OplogPosition,
    applied: Option<Applied>,
}

struct Applied {
    end: OplogPosition,
    effect: Option<Effect>,
    /// Those on other collections.
    others: Vec<Effect>,
    /// The decision that becomes visible with it.
    reveals: Option<OplogPosition>,
}

/// A large transaction between its decision and its commit's becoming visible.
struct Concealed {
    /// Of the decision.
    position: OplogPosition,
    /// From where the oplog is needed to replay it, and the commits that went past it.
    needed_from: OplogPosition,
    /// By how much commits behind the decision have changed the counts of collections, by ident.
    beyond: HashMap<u64, Effect>,
}

/// A decided transaction that is being applied. Dropped without having been revealed, it stops all writes.
pub(crate) struct Decided<'a> {
    order: &'a CommitOrder,
    decision: Option<(Timestamp, OplogPosition)>,
}

/// Keeps the oplog from the first part of a transaction on until its commit is applied or given up.
pub(crate) struct Hold<'a> {
    order: &'a CommitOrder,
    position: std::cell::Cell<Option<OplogPosition>>,
}

/// By how much a commit changes the counts of a collection.
pub(crate) struct Effect {
    pub(crate) collection: Arc<Collection>,
    pub(crate) documents: i64,
    pub(crate) bytes: i64,
}

/// A commit between its append to the oplog and its application. Dropped without `complete`, it stops all writes.
pub(crate) struct InFlight<'a> {
    order: &'a CommitOrder,
    number: Option<u64>,
}

/// The counts of a collection at a checkpoint's mark: documents, bytes.
pub(crate) type CountsAtMark = (Arc<Collection>, i64, i64);

/// Says in the server's log why a commit that is in the oplog stops all writes. Whoever waits for one is only told that they are stopped.
pub(crate) fn tell_why_stopped(error: &TransactionError) {
    tracing::error!(%error, "a commit that is in the oplog could not be applied: writes are stopped until the server is started again");
}

impl CommitOrder {
    /// An order in which everything before `end` is visible. `changed`: the collections whose counts replay has changed.
    pub(crate) fn new(engine: Arc<Engine>, end: OplogPosition, changed: Vec<Arc<Collection>>) -> CommitOrder {
        let queue = Queue {
            commits: VecDeque::new(),
            front: 0,
            applied_end: end,
            visible: engine.visible(),
            unconfirmed: None,
            changed,
            held: Vec::new(),
            received_from: None,
            concealed: Vec::new(),
            waiting: 0,
        };
        CommitOrder {
            engine,
            queue: Mutex::new(queue),
            moved: Condvar::new(),
            is_stopped: AtomicBool::new(false),
            confirmed: Confirmed::by_nobody(),
        }
    }

    /// For a commit in parts.
    pub(crate) fn hold(&self) -> Hold<'_> {
        Hold { order: self, position: std::cell::Cell::new(None) }
    }

    /// For a commit that will be concealed.
    pub(crate) fn decide(&self) -> Decided<'_> {
        Decided { order: self, decision: None }
    }

    /// A place in the queue that is still to be taken, by `register`.
    pub(crate) fn prepare(&self) -> InFlight<'_> {
        InFlight { order: self, number: None }
    }

    /// The oplog is needed from here on for transactions of the primary whose commits have not come.
    pub(crate) fn keep_received(&self, from: Option<OplogPosition>) {
        self.queue.lock().received_from = from;
    }

    /// The primary has decided on a transaction. It is applied with its commit, so nobody sees anything of it before.
    pub(crate) fn note_decided(&self, position: OplogPosition, first_part: OplogPosition) {
        let concealed = Concealed { position, needed_from: first_part.min(position), beyond: HashMap::new() };
        self.queue.lock().concealed.push(concealed);
    }

    /// Waits until the commit at `timestamp` is visible.
    ///
    /// # Errors
    /// `Stopped`.
    #[inline]
    pub(crate) fn wait_visible(&self, timestamp: Timestamp) -> Result<()> {
        if self.engine.visible() >= timestamp { Ok(()) } else { self.wait_in_queue(timestamp) }
    }

    fn wait_in_queue(&self, timestamp: Timestamp) -> Result<()> {
        let mut queue = self.queue.lock();
        while queue.visible < timestamp {
            if self.has_stopped() {
                return Err(TransactionError::Stopped);
            }
            queue.waiting += 1;
            waiting(WaitKind::Locks, || self.moved.wait(&mut queue));
            queue.waiting -= 1;
        }
        Ok(())
    }

    /// The commit that is visible, and the position behind everything that is.
    pub(crate) fn visible_end(&self) -> (Timestamp, OplogPosition) {
        self.queue.lock().visible_end()
    }

    /// Fails when no more commits can become visible, or be confirmed for good.
    ///
    /// # Errors
    /// `Stopped`, `TermLost`.
    pub(crate) fn check_running(&self) -> Result<()> {
        match self.leadership() {
            _ if self.has_stopped() => Err(TransactionError::Stopped),
            Leadership::Lost => Err(TransactionError::TermLost),
            Leadership::Held | Leadership::Stalled | Leadership::Following => Ok(()),
        }
    }

    /// From where the oplog would have to be replayed, from where it is needed for that (parts of transactions may be before),
    /// and the counts there of the collections whose counts changed since the last call.
    pub(crate) fn mark(&self) -> (CheckpointMark, OplogPosition, Vec<CountsAtMark>) {
        let mut queue = self.queue.lock();
        let front = queue.commits.front().map_or(queue.applied_end, |commit| commit.position);
        let position = queue.concealed.first().map_or(front, |concealed| concealed.position.min(front));
        let mark = CheckpointMark { oplog_position: position.0, timestamp: queue.visible, oplog_end: 0 };
        let changed = std::mem::take(&mut queue.changed);
        let counts = changed.into_iter().map(|collection| {
            let (documents, bytes) = collection.counts().take_changed();
            let beyond = queue.beyond_mark(&collection);
            (collection, documents - beyond.0, bytes - beyond.1)
        });
        let counts = counts.collect();
        queue.report_beyond_mark();
        let held = queue.held.iter().chain(&queue.received_from).copied();
        let needed = held.chain(queue.concealed.iter().map(|concealed| concealed.needed_from));
        (mark, needed.fold(position, OplogPosition::min), counts)
    }

    /// Lets go of collections that are dropped, whose counts nobody wants any more.
    pub(crate) fn forget_dropped(&self) {
        // Given back outside of the lock.
        let _dropped: Vec<_> = {
            let mut queue = self.queue.lock();
            queue.changed.extract_if(.., |collection| collection.is_dropped()).collect()
        };
    }

    /// Has `mark` report these collections again: the checkpoint they were reported for failed.
    pub(crate) fn report_again(&self, counts: Vec<CountsAtMark>) {
        let mut queue = self.queue.lock();
        for (collection, _, _) in counts {
            if collection.counts().add(0, 0) {
                queue.changed.push(collection);
            }
        }
    }

    fn complete(&self, number: u64, applied: Applied) {
        let mut queue = self.queue.lock();
        let place = (number - queue.front) as usize;
        if let Some(commit) = queue.commits.get_mut(place) {
            commit.applied = Some(applied);
        }
        if place == 0 {
            self.publish(&mut queue);
        }
    }

    /// Commits are applied that one thread has applied.
    pub(crate) fn complete_group<'o>(
        &self,
        group: impl Iterator<Item = (InFlight<'o>, OplogPosition, Option<Effect>)>,
    ) {
        let mut queue = self.queue.lock();
        for (mut commit, end, effect) in group {
            let Some(number) = commit.number.take() else { continue };
            let place = (number - queue.front) as usize;
            if let Some(commit) = queue.commits.get_mut(place) {
                commit.applied = Some(Applied { end, effect, others: Vec::new(), reveals: None });
            }
        }
        if queue.commits.front().is_some_and(|commit| commit.applied.is_some()) {
            self.publish(&mut queue);
        }
    }

    /// Makes visible what is applied at the front.
    fn publish(&self, queue: &mut Queue) {
        queue.advance();
        if let Some(confirmed) = queue.unconfirmed.as_mut().and_then(Unconfirmed::settle) {
            // It was confirmed before it was applied. Before it is visible, so that readers see it as soon as its writer knows that it is.
            self.engine.set_confirmed(confirmed);
            self.confirmed.wake();
        }
        self.engine.set_visible(queue.visible);
        if queue.waiting > 0 {
            self.moved.notify_all();
        }
    }

    fn stop(&self) {
        // Under the lock, so that nobody who looks before waiting misses it.
        let _queue = self.queue.lock();
        self.is_stopped.store(true, Ordering::Release);
        self.moved.notify_all();
        self.confirmed.wake();
    }

    fn has_stopped(&self) -> bool {
        self.is_stopped.load(Ordering::Acquire)
    }
}

impl Queue {
    /// Makes visible what is applied at the front.
    fn advance(&mut self) {
        while let Some(commit) = self.commits.pop_front_if(|commit| commit.applied.is_some()) {
            self.front += 1;
            self.visible = commit.timestamp;
            let Some(applied) = commit.applied else { continue };
            self.applied_end = applied.end;
            if let Some(unconfirmed) = &mut self.unconfirmed {
                unconfirmed.push(commit.timestamp, applied.end);
            }
            if let Some(decision) = applied.reveals {
                self.reveal(decision);
            }
            for effect in applied.effect.into_iter().chain(applied.others) {
                self.concealed.iter_mut().for_each(|concealed| concealed.goes_past(&effect));
                if effect.collection.counts().add(effect.documents, effect.bytes) {
                    self.changed.push(effect.collection);
                }
            }
        }
    }

    /// A decided transaction becomes visible. Its commit is behind the other decisions, so recovery from one of those replays it, too.
    fn reveal(&mut self, decision: OplogPosition) {
        let Some(place) = self.concealed.iter().position(|concealed| concealed.position == decision) else { return };
        let revealed = self.concealed.remove(place);
        for concealed in &mut self.concealed {
            concealed.needed_from = concealed.needed_from.min(revealed.needed_from);
        }
    }

    /// What of a collection's counts is from behind the mark: documents, bytes.
    fn beyond_mark(&self, collection: &Collection) -> (i64, i64) {
        let first = self.concealed.first();
        let beyond = first.and_then(|concealed| concealed.beyond.get(&collection.ident()));
        beyond.map_or((0, 0), |effect| (effect.documents, effect.bytes))
    }

    /// The counts as of the mark are not the last word on these collections.
    fn report_beyond_mark(&mut self) {
        let Some(first) = self.concealed.first() else { return };
        let again = first.beyond.values().filter(|effect| effect.collection.counts().add(0, 0));
        self.changed.extend(again.map(|effect| effect.collection.clone()));
    }
}

impl Concealed {
    fn goes_past(&mut self, effect: &Effect) {
        let Effect { collection, documents, bytes } = effect;
        let none = || Effect { collection: collection.clone(), documents: 0, bytes: 0 };
        let beyond = self.beyond.entry(collection.ident()).or_insert_with(none);
        beyond.documents += documents;
        beyond.bytes += bytes;
    }
}

impl Decided<'_> {
    /// The decision is logged, and happens with that. Called by the oplog under its lock, in timestamp order.
    pub(crate) fn register(&mut self, timestamp: Timestamp, position: OplogPosition, first_part: OplogPosition) {
        let mut queue = self.order.queue.lock();
        // Before anything that is logged later can become visible.
        self.order.engine.conceal(timestamp);
        queue.concealed.push(Concealed { position, needed_from: first_part.min(position), beyond: HashMap::new() });
        self.decision = Some((timestamp, position));
    }

    /// Its commit has got its place in the queue. Called by the oplog under its lock.
    pub(crate) fn reveal_at(&self, revealed: Timestamp) {
        if let Some((timestamp, _)) = self.decision {
            self.order.engine.reveal(timestamp, revealed);
        }
    }

    /// It is visible once its commit is.
    pub(crate) fn complete(mut self, mut commit: InFlight<'_>, end: OplogPosition, effects: Vec<Effect>) {
        let reveals = self.decision.take().map(|(_, position)| position);
        if let Some(number) = commit.number.take() {
            self.order.complete(number, Applied { end, effect: None, others: effects, reveals });
        }
    }
}

impl Drop for Decided<'_> {
    fn drop(&mut self) {
        if self.decision.is_some() {
            self.order.stop();
        }
    }
}

impl InFlight<'_> {
    /// Takes the next place in the queue. Called by the oplog under its lock, in timestamp order.
    pub(crate) fn register(&mut self, timestamp: Timestamp, position: OplogPosition) {
        let mut queue = self.order.queue.lock();
        self.number = Some(queue.front + queue.commits.len() as u64);
        queue.commits.push_back(Commit { timestamp, position, applied: None });
    }

    /// The commit is applied.
    pub(crate) fn complete(mut self, end: OplogPosition, effect: Option<Effect>) {
        if let Some(number) = self.number.take() {
            self.order.complete(number, Applied { end, effect, others: Vec::new(), reveals: None });
        }
    }

    /// The commit is applied, to several collections.
    pub(crate) fn complete_all(self, end: OplogPosition, effects: Vec<Effect>) {
        self.complete_revealing(end, effects, None);
    }

    /// The same of one that was decided before, with what `note_decided` was told.
    pub(crate) fn complete_revealing(
        mut self,
        end: OplogPosition,
        effects: Vec<Effect>,
        reveals: Option<OplogPosition>,
    ) {
        if let Some(number) = self.number.take() {
            self.order.complete(number, Applied { end, effect: None, others: effects, reveals });
        }
    }
}

impl Hold<'_> {
    /// Begins with the first part; called under the oplog's lock.
    pub(crate) fn keep_from(&self, position: OplogPosition) {
        if self.position.get().is_none() {
            self.position.set(Some(position));
            self.order.queue.lock().held.push(position);
        }
    }
}

impl Drop for Hold<'_> {
    fn drop(&mut self) {
        let Some(position) = self.position.get() else { return };
        let mut queue = self.order.queue.lock();
        if let Some(place) = queue.held.iter().position(|held| *held == position) {
            queue.held.swap_remove(place);
        }
    }
}

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        if self.number.is_some() {
            self.order.stop();
        }
    }
}
