//! What another member of the replica set has logged: appended to the oplog here, and applied while others read.
//!
//! Called by the thread of a member that follows, which gives the entries in order; and once more when that member takes the lead. Every entry goes the way of a
//! commit of a primary: it gets its place in the commit order as it is appended, is applied at its timestamp, and becomes visible. So readers, feeds and
//! checkpoints work as on a primary.
//!
//! - Changes of documents are applied by several threads (`dispatch`). Everything else waits until what came before it is applied.
//! - Definitions change under their gates. An index is filled from the start of its build on, beside what follows (`builds`); writers, which here are the entries
//!   that follow, maintain it meanwhile.
//! - Parts of a large transaction mean nothing until its commit comes, which has them applied. The oplog is kept from the first of them on. A decision is noted,
//!   because whoever takes the lead has to commit what was decided. One that a restart has found holds up checkpoints until then: its counts are not known apart.
//! - Expiry, builds of one's own and the commits of decided transactions are the primary's.

mod builds;
mod definitions;
mod dispatch;
mod transactions;

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bson::Uuid;
use collection::{DocumentEntry, Entry, LiveApplier, ReplaySummary, SessionReplay, TransactionCommit};
use oplog::{Appended, Oplog, OplogPosition, ReceivedEntry};
use parking_lot::Mutex;
use storage_engine::Timestamp;

pub use self::dispatch::ApplyingBy;
use self::dispatch::Dispatch;
use crate::commit_order::{Effect, InFlight, Leadership};
use crate::error::{Result, TransactionError};
use crate::lock_table::{LockGuard, LockName, OwnedByTransaction};
use crate::opening::OpensAs;
use crate::store::Store;
use crate::waiting::OwnedName;

/// For so long parts without a decision are kept, within one term.
const PARTS_KEPT: Duration = Duration::from_secs(3600);
/// How long a member that gives up the lead waits for commits that have begun. Large ones take their time.
const WRITERS_PATIENCE: Duration = Duration::from_secs(10);

/// See the module's head.
pub(crate) struct Received {
    state: Mutex<State>,
    /// Decisions that a restart has found and that are not committed yet. Beside the lock, which is held for as long as an entry takes.
    found_at_start: AtomicUsize,
    builds: builds::ReceivedBuilds,
}

struct State {
    /// Made at the first entry.
    applier: Option<LiveApplier>,
    /// Of those who apply documents.
    appliers: Vec<LiveApplier>,
    decided: Vec<Decision>,
    /// Parts that nobody has decided about, and when they came.
    parts: VecDeque<(OplogPosition, Duration)>,
}

/// A transaction that is decided and not committed.
struct Decision {
    commit: TransactionCommit,
    /// Where the decision is, if it came while the store was open.
    position: Option<OplogPosition>,
}

/// How an entry comes into the oplog.
enum Source<'e, 'b> {
    /// Another member has logged it.
    Received(&'e ReceivedEntry<'b>),
    /// This one does.
    Own(&'e [u8]),
}

impl Received {
    /// `first`: where the oplog begins.
    pub(crate) fn new(opens_as: OpensAs, replayed: &ReplaySummary, first: OplogPosition, now: Duration) -> Received {
        let mut state = State { applier: None, appliers: Vec::new(), decided: Vec::new(), parts: VecDeque::new() };
        if opens_as == OpensAs::Follower {
            let found = replayed.decided.iter().cloned();
            state.decided = found.map(|commit| Decision { commit, position: None }).collect();
            // There may be parts of which replay knows nothing.
            state.parts.push_back((first, now));
        }
        let found_at_start = AtomicUsize::new(state.decided.len());
        Received { state: Mutex::new(state), found_at_start, builds: builds::ReceivedBuilds::default() }
    }

    /// A decision is committed.
    fn count_decided(&self, state: &State) {
        let found = state.decided.iter().filter(|decision| decision.position.is_none()).count();
        self.found_at_start.store(found, Ordering::Release);
    }

    /// Asked before a checkpoint begins.
    ///
    /// # Errors
    /// `Undecided`.
    pub(crate) fn check_decided(&self) -> Result<()> {
        if self.found_at_start.load(Ordering::Acquire) > 0 { Err(TransactionError::Undecided) } else { Ok(()) }
    }
}

impl State {
    /// From where the oplog is needed.
    fn needed_from(&self) -> Option<OplogPosition> {
        let decided = self.decided.iter().flat_map(|decision| decision.commit.parts.iter().copied());
        decided.chain(self.parts.iter().map(|(position, _)| *position)).min()
    }

    /// What was decided, and is committed now; where the decision is, if it came while the store was open.
    fn take_decision(&mut self, parts: &[OplogPosition]) -> Option<OplogPosition> {
        self.parts.retain(|(position, _)| !parts.contains(position));
        let place = self.decided.iter().position(|decision| decision.commit.parts == parts)?;
        self.decided.remove(place).position
    }
}

impl Store {
    /// From now on another member leads: nothing is begun here any more, and what others have logged is given to `apply_received`. `false`: a commit that had
    /// begun is not through.
    pub fn follow(&self) -> bool {
        self.set_leadership(Leadership::Following);
        self.wait_until_written(WRITERS_PATIENCE)
    }

    /// Appends and applies entries that another member has logged, in their canonical bytes, which begin where the oplog ends. What of them was appended when this
    /// fails is in the oplog.
    ///
    /// # Errors
    /// `Oplog`, also when these are no such entries; `Engine`, `Stopped`; `Collection` when an entry makes no sense.
    pub fn apply_received(&self, bytes: &[u8]) -> Result<()> {
        let mut state = self.received.state.lock();
        let _unwatched = document::work::unwatched();
        let applied = self.apply_run(&mut state, bytes);
        self.note_set_aside();
        applied
    }

    /// The term of the member that has led is over: what it has not decided will not be.
    pub fn forget_undecided(&self) {
        let mut state = self.received.state.lock();
        state.parts.clear();
        self.commits.keep_received(state.needed_from());
    }

    /// This member leads from now on: commits what was decided. Everything that the shared log has is applied.
    ///
    /// # Errors
    /// As `apply_received`.
    pub fn take_over(&self) -> Result<()> {
        let mut state = self.received.state.lock();
        while let Some(decision) = state.decided.first() {
            let commit = decision.commit.clone();
            self.commit_decided(&mut state, &commit)?;
        }
        state.parts.clear();
        self.commits.keep_received(None);
        drop(state);
        self.note_interrupted_builds();
        Ok(())
    }

    fn dispatch_one<'r>(
        &'r self,
        state: &mut State,
        dispatch: &mut Dispatch<'r>,
        entry: &ReceivedEntry<'r>,
    ) -> Result<()> {
        let decoded = match Entry::decode(entry.payload)? {
            Entry::Document(change) => return dispatch.put(state, entry, change),
            decoded => decoded,
        };
        dispatch.drain()?;
        let _may_apply = self.may_apply()?;
        self.check_commits()?;
        match decoded {
            Entry::Document(_) => Ok(()),
            Entry::Transaction(transaction) => self.apply_transaction(state, entry, &transaction),
            Entry::Command { database, uuid, command, second } => {
                let change = collection::catalog::CatalogChange::decode(database, uuid, command, second)?;
                self.apply_definition(state, entry, &change)
            }
            Entry::Nothing => {
                let (appended, in_flight) = self.append(&Source::Received(entry))?;
                self.commits.note_definition(appended.end);
                in_flight.complete(appended.end, None);
                Ok(())
            }
        }
    }

    /// Appends an entry, which gets its place in the commit order.
    fn append(&self, source: &Source<'_, '_>) -> Result<(Appended, InFlight<'_>)> {
        let mut in_flight = self.commits.prepare();
        let mut register = |timestamp: Timestamp, position: OplogPosition| in_flight.register(timestamp, position);
        let appended = match source {
            Source::Received(entry) => self.oplog.append_one_received(entry, &mut register)?,
            Source::Own(payload) => {
                self.oplog.append(&mut |_, bytes| bytes.extend_from_slice(payload), &mut register)?
            }
        };
        Ok((appended, in_flight))
    }

    /// Applies the change of a document that a transaction has made, and adds what it does to the counts. Everything before the transaction is applied.
    fn apply_change(
        &self,
        state: &mut State,
        change: &DocumentEntry<'_>,
        timestamp: Timestamp,
        effects: &mut Vec<Effect>,
    ) -> Result<()> {
        let Some(collection) = self.applier(state).collection(change) else { return Ok(()) };
        // One that was dropped is not there for the applier; it is asked for its gate, and notes that who may log in may have changed.
        let Ok(_access) = collection.begin_write() else { return Ok(()) };
        let stored = self.note_record_id(&collection, change)?;
        self.apply_locked(self.applier(state), &collection, (change, timestamp, stored))?;
        let (documents, bytes) = (change.count_change(), change.size_change);
        match effects.iter_mut().find(|effect| Arc::ptr_eq(&effect.collection, &collection)) {
            Some(effect) => (effect.documents, effect.bytes) = (effect.documents + documents, effect.bytes + bytes),
            None => effects.push(Effect { collection: collection.clone(), documents, bytes }),
        }
        Ok(())
    }

    fn lock_record(&self, name: LockName) -> LockGuard<'_> {
        loop {
            match self.record_locks.lock(name) {
                Ok(lock) => return lock,
                // A transaction of the time when this member led, which is being ended.
                Err(OwnedByTransaction(owned)) => drop(self.is_released(OwnedName::Record(owned))),
            }
        }
    }

    fn applier<'s>(&self, state: &'s mut State) -> &'s mut LiveApplier {
        state.applier.get_or_insert_with(|| LiveApplier::new(self.catalog.clone(), self.engine.clone()))
    }

    fn tell_commit(&self, transaction: Option<(Uuid, i64)>) {
        if let Some((session, txn_number)) = transaction {
            (&mut &self.sessions).commit(session, txn_number);
        }
    }
}
