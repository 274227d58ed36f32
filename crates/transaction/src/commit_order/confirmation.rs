//! What of the visible commits a shared log has confirmed, and who waits for that.
//!
//! Part of the commit queue and under its lock. A store without a shared log has none of it, and whoever asks finds out by one comparison. Three ends, each
//! behind the next: *confirmed* ≤ *visible* ≤ *end* of the oplog. A commit that is confirmed before it is applied is confirmed here once it is visible.
//!
//! ```text
//! follows no log ── begin ──> confirming ──┬── stalled ⇄ confirming     writes are refused while it is stalled
//!                                          ├── following ⇄ confirming   another member leads; all that is here is confirmed
//!                                          └── lost                     for good: what is not confirmed may vanish
//! ```

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::time::Duration;

use collection::Collection;
use oplog::OplogPosition;
use parking_lot::Condvar;
use storage_engine::Timestamp;

use super::{CommitOrder, Effect, Queue};
use crate::error::{Result, TransactionError};

/// What those look at who hold no lock.
pub(super) struct Confirmed {
    /// Everything before this is confirmed; `u64::MAX` where nobody confirms.
    position: AtomicU64,
    /// The last change of a definition that was logged ends here.
    definitions: AtomicU64,
    /// A `Leadership`.
    leadership: AtomicU8,
    /// How often that has changed.
    changes: AtomicU64,
    /// Something was confirmed, the term is lost, or all is stopped.
    moved: Condvar,
    /// How often somebody waited, and for how many microseconds together.
    waits: AtomicU64,
    waited_micros: AtomicU64,
}

/// Whether commits can be confirmed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leadership {
    /// They can, or need not be.
    Held = 0,
    /// The log has not answered for a while.
    Stalled = 1,
    /// Another one leads, and what is here may not be in the log. Final.
    Lost = 2,
    /// Another one leads, and this one applies what that one logs.
    Following = 3,
}

/// The queue's part.
pub(super) struct Unconfirmed {
    /// Visible and not confirmed: when, and where their entries end.
    commits: VecDeque<(Timestamp, OplogPosition)>,
    /// Everything before this is in the log, visible here or not.
    logged: OplogPosition,
    /// The newest commit that is visible and confirmed, and where its entry ends.
    timestamp: Timestamp,
    end: OplogPosition,
}

impl Confirmed {
    pub(super) fn by_nobody() -> Confirmed {
        Confirmed {
            position: AtomicU64::new(u64::MAX),
            definitions: AtomicU64::new(0),
            leadership: AtomicU8::new(Leadership::Held as u8),
            changes: AtomicU64::new(0),
            moved: Condvar::new(),
            waits: AtomicU64::new(0),
            waited_micros: AtomicU64::new(0),
        }
    }

    /// With the queue locked: those who wait look anew.
    pub(super) fn wake(&self) {
        self.moved.notify_all();
    }

    fn leadership(&self) -> Leadership {
        match self.leadership.load(Ordering::SeqCst) {
            0 => Leadership::Held,
            1 => Leadership::Stalled,
            3 => Leadership::Following,
            _ => Leadership::Lost,
        }
    }
}

impl Unconfirmed {
    /// A commit has become visible.
    pub(super) fn push(&mut self, timestamp: Timestamp, end: OplogPosition) {
        self.commits.push_back((timestamp, end));
    }

    /// Confirms what is visible and in the log; the newest of it, if there is any.
    pub(super) fn settle(&mut self) -> Option<Timestamp> {
        let before = self.timestamp;
        while let Some((timestamp, end)) = self.commits.pop_front_if(|(_, end)| *end <= self.logged) {
            (self.timestamp, self.end) = (timestamp, end);
        }
        (self.timestamp > before).then_some(self.timestamp)
    }
}

impl CommitOrder {
    /// From now on commits are confirmed by a shared log, which has the oplog before `logged`. What is visible now is what readers see: whoever calls this lets
    /// nobody read before all of it is confirmed.
    pub(crate) fn begin_confirming(&self, logged: OplogPosition) {
        let mut queue = self.queue.lock();
        let (timestamp, end) = (queue.visible, queue.applied_end);
        queue.unconfirmed = Some(Unconfirmed { commits: VecDeque::new(), logged, timestamp, end });
        self.engine.begin_confirming();
        self.confirmed.position.store(logged.0, Ordering::Release);
    }

    /// Whether commits are confirmed by a shared log.
    #[inline]
    pub(crate) fn is_confirming(&self) -> bool {
        self.confirmed.position.load(Ordering::Acquire) != u64::MAX
    }

    /// The shared log has the oplog before this.
    pub(crate) fn confirm(&self, logged: OplogPosition) {
        let mut queue = self.queue.lock();
        let Some(unconfirmed) = queue.unconfirmed.as_mut().filter(|unconfirmed| unconfirmed.logged < logged) else {
            return;
        };
        unconfirmed.logged = logged;
        let newest = unconfirmed.settle();
        // Readers first: who waits for the position sees then what it has waited for.
        newest.into_iter().for_each(|timestamp| self.engine.set_confirmed(timestamp));
        self.confirmed.position.store(logged.0, Ordering::Release);
        self.confirmed.wake();
    }

    /// Whether commits can be confirmed just now. What is lost stays lost.
    pub(crate) fn set_leadership(&self, leadership: Leadership) {
        // Under the lock, so that nobody who looks before waiting misses it.
        let _queue = self.queue.lock();
        let before = self.confirmed.leadership();
        if before != Leadership::Lost && before != leadership {
            // Whoever finds the new one finds that it has changed.
            self.confirmed.changes.fetch_add(1, Ordering::SeqCst);
            self.confirmed.leadership.store(leadership as u8, Ordering::SeqCst);
        }
        self.confirmed.wake();
        self.moved.notify_all();
    }

    /// How often that has changed.
    pub(crate) fn leadership_changes(&self) -> u64 {
        self.confirmed.changes.load(Ordering::SeqCst)
    }

    /// See `Leadership`.
    pub(crate) fn leadership(&self) -> Leadership {
        self.confirmed.leadership()
    }

    /// Asked before a commit is logged. What is decided is logged in any case.
    ///
    /// # Errors
    /// `LogUnreachable`, `TermLost`, `NotPrimary`.
    #[inline]
    pub(crate) fn check_leading(&self) -> Result<()> {
        match self.leadership() {
            Leadership::Held => Ok(()),
            Leadership::Stalled => Err(TransactionError::LogUnreachable),
            Leadership::Lost => Err(TransactionError::TermLost),
            Leadership::Following => Err(TransactionError::NotPrimary),
        }
    }

    /// A change of definitions that ends here is logged, and about to be applied. Readers see definitions as they are.
    pub(crate) fn note_definition(&self, end: OplogPosition) {
        self.confirmed.definitions.fetch_max(end.0, Ordering::AcqRel);
    }

    /// Where the last change of a definition ends.
    pub(crate) fn definitions_end(&self) -> OplogPosition {
        OplogPosition(self.confirmed.definitions.load(Ordering::Acquire))
    }

    /// Whether everything before `end` is confirmed.
    #[inline]
    pub(crate) fn is_confirmed(&self, end: OplogPosition) -> bool {
        self.confirmed.position.load(Ordering::Acquire) >= end.0
    }

    /// Somebody has waited for so long.
    pub(crate) fn note_wait(&self, waited: Duration) {
        self.confirmed.waits.fetch_add(1, Ordering::Relaxed);
        self.confirmed.waited_micros.fetch_add(waited.as_micros() as u64, Ordering::Relaxed);
    }

    /// How often somebody waited for the log, and for how long together.
    pub(crate) fn waits(&self) -> (u64, Duration) {
        let micros = self.confirmed.waited_micros.load(Ordering::Relaxed);
        (self.confirmed.waits.load(Ordering::Relaxed), Duration::from_micros(micros))
    }

    /// Everything before this is confirmed; `None` where nobody confirms.
    pub(crate) fn confirmed_position(&self) -> Option<OplogPosition> {
        self.is_confirming().then(|| OplogPosition(self.confirmed.position.load(Ordering::Acquire)))
    }

    /// Waits until everything before `end` is confirmed, but not longer than that; `false`: it is not.
    ///
    /// # Errors
    /// `Stopped`; `TermLost`: whether it is in the log is not known.
    pub(crate) fn wait_confirmed(&self, end: OplogPosition, longest: Duration) -> Result<bool> {
        if self.is_confirmed(end) {
            return Ok(true);
        }
        let mut queue = self.queue.lock();
        let is_over = || self.has_stopped() || self.confirmed.leadership() == Leadership::Lost;
        self.confirmed.moved.wait_while_for(&mut queue, |_| !self.is_confirmed(end) && !is_over(), longest);
        match self.confirmed.leadership() {
            _ if self.is_confirmed(end) => Ok(true),
            _ if self.has_stopped() => Err(TransactionError::Stopped),
            Leadership::Lost => Err(TransactionError::TermLost),
            Leadership::Held | Leadership::Stalled | Leadership::Following => Ok(false),
        }
    }

    /// The newest commit that readers see, and the position behind everything that they do.
    pub(crate) fn confirmed_end(&self) -> (Timestamp, OplogPosition) {
        let queue = self.queue.lock();
        queue.unconfirmed.as_ref().map_or_else(|| queue.visible_end(), |confirmed| (confirmed.timestamp, confirmed.end))
    }

    /// Waits until readers see something behind a position, at most so long.
    pub(crate) fn wait_beyond(&self, position: OplogPosition, longest: Duration) {
        let mut queue = self.queue.lock();
        if self.has_stopped() {
            return;
        }
        match queue.unconfirmed.as_ref().map(|confirmed| confirmed.end) {
            None if queue.applied_end <= position => {
                queue.waiting += 1;
                self.moved.wait_for(&mut queue, longest);
                queue.waiting -= 1;
            }
            Some(end) if end <= position => drop(self.confirmed.moved.wait_for(&mut queue, longest)),
            _ => {}
        }
    }
}

impl Effect {
    /// Whether others go by documents of its collection as by a definition: their newest state, whatever they read otherwise.
    pub(crate) fn is_of_definitions(&self) -> bool {
        Effect::is_of(&self.collection)
    }

    /// The same of an effect on a collection.
    pub(crate) fn is_of(collection: &Collection) -> bool {
        const COLLECTIONS: [&str; 3] = ["system.views", "system.users", "system.roles"];
        COLLECTIONS.contains(&collection.namespace().collection())
    }
}

impl Queue {
    /// The commit that is visible, and the position behind everything that is.
    pub(super) fn visible_end(&self) -> (Timestamp, OplogPosition) {
        (self.visible, self.commits.front().map_or(self.applied_end, |commit| commit.position))
    }
}
