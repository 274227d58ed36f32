//! Changes of documents that another member has logged, applied by several threads: those of one record always by the same.
//!
//! Used by `received` for each run of entries that it is given. The calling thread appends them in their order, which gives each its place in the commit order,
//! and hands them over in groups; whoever gets a group applies it and says so. They become visible in the order of the oplog, whoever is faster. Everything else
//! than the change of one document waits until all before it is applied (`drain`).
//!
//! Why the record alone decides: every key that an entry puts or removes ends in its record id, in unique indexes, too (decision 0034). So two entries of
//! different records never touch the same key, and what is stored does not depend on their order. A ring is written in order, by one thread.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::Scope;

use collection::{Collection, DocumentEntry, DocumentOperation, LiveApplier, LoggedStatement, SessionReplay, Stored};
use oplog::{OplogPosition, ReceivedEntry};
use parking_lot::Mutex;
use platform::spawn_scoped;
use storage_engine::Timestamp;

use super::{Source, State};
use crate::commit_order::{Effect, InFlight, tell_why_stopped};
use crate::error::{Result, TransactionError};
use crate::store::Store;
use crate::waiting::Waiting;
use crate::write_freeze::MayWrite;

/// Shorter runs are applied by the calling thread: starting others takes as long.
const THREADS_FROM_BYTES: usize = 64 << 10;
/// Entries are handed over in groups of so many.
const GROUP_ENTRIES: usize = 1024;
/// Or of so many bytes.
const GROUP_BYTES: usize = 1 << 20;
/// Groups that wait for one thread.
const GROUPS_WAITING: usize = 4;
/// So many bits of a record id do not decide which thread is to apply it: neighbours are on the same page.
const NEIGHBOUR_BITS: u32 = 9;

/// Who applies what another member has logged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ApplyingBy {
    /// So many threads beside the one that reads; with one, that one does it.
    Threads(usize),
    /// The calling thread, group by group as if there were so many threads, the last of them first: for the simulator.
    Caller {
        /// As if there were so many.
        queues: usize,
    },
}

/// A change that is in the oplog and to be applied.
struct Due<'r> {
    change: DocumentEntry<'r>,
    collection: Arc<Collection>,
    timestamp: Timestamp,
    end: OplogPosition,
    stored: Stored,
    in_flight: InFlight<'r>,
    /// Unless its collection was dropped meanwhile.
    is_applied: bool,
}

/// What a thread is given at a time.
struct Group<'r> {
    dues: Vec<Due<'r>>,
    _may_apply: Option<Arc<MayWrite<'r>>>,
}

/// See the module's head.
pub(super) struct Dispatch<'r> {
    store: &'r Store,
    /// Of the threads, one for each queue; none: the caller applies.
    threads: Vec<SyncSender<Group<'r>>>,
    own: &'r mut LiveApplier,
    /// What is to be handed over.
    queues: Vec<Vec<Due<'r>>>,
    entries: usize,
    bytes: usize,
    /// Held from the first entry of a group until the last is applied.
    may_apply: Option<Arc<MayWrite<'r>>>,
    last: Option<Timestamp>,
}

impl Store {
    /// Appends and applies entries.
    pub(super) fn apply_run(&self, state: &mut State, bytes: &[u8]) -> Result<()> {
        let (queues, threads) = match self.options.applying_by {
            ApplyingBy::Threads(threads) if threads > 1 && bytes.len() >= THREADS_FROM_BYTES => (threads, threads),
            ApplyingBy::Threads(_) => (1, 0),
            ApplyingBy::Caller { queues } => (queues.max(1), 0),
        };
        let mut appliers = std::mem::take(&mut state.appliers);
        appliers.resize_with(threads + 1, || LiveApplier::new(self.catalog.clone(), self.engine.clone()));
        let failure = Mutex::new(None);
        let applied = std::thread::scope(|scope| {
            let Some((own, others)) = appliers.split_first_mut() else { return Ok(()) };
            let mut dispatch = Dispatch::begin(self, scope, own, others, &failure);
            if dispatch.threads.is_empty() {
                dispatch.queues.resize_with(queues, Vec::new);
            }
            let applied = self.dispatch_all(state, &mut dispatch, bytes);
            // What is appended is applied, whatever became of the next one.
            dispatch.drain().and(applied)
        });
        state.appliers = appliers;
        // Why all is stopped, if it is.
        failure.into_inner().map_or(applied, Err)
    }

    fn dispatch_all<'r>(&'r self, state: &mut State, dispatch: &mut Dispatch<'r>, bytes: &'r [u8]) -> Result<()> {
        let mut rest = bytes;
        while !rest.is_empty() {
            let entry = self.oplog.next_received(rest)?;
            self.dispatch_one(state, dispatch, &entry)?;
            rest = rest.get(entry.length..).unwrap_or_default();
        }
        Ok(())
    }

    /// Notes the record id of an entry that is about to be applied, so that whoever leads next gives out none that is taken, or that a snapshot sees. All entries
    /// before it are applied if the collection's record ids are not settled.
    pub(super) fn note_record_id(&self, collection: &Collection, change: &DocumentEntry<'_>) -> Result<Stored> {
        let is_insert = matches!(change.operation, DocumentOperation::Insert(_));
        if collection.ring().is_some() || !(is_insert || matches!(change.operation, DocumentOperation::Delete)) {
            return Ok(Stored::Unknown);
        }
        match collection.settle_record_ids(&self.engine).map_err(TransactionError::from) {
            // Whoever applies it sets the collection aside.
            Err(error) if error.is_damage() => return Ok(Stored::Unknown),
            settled => settled?,
        }
        let is_new = is_insert && collection.note_record_id(change.record_id);
        Ok(if is_new { Stored::Nothing } else { Stored::Unknown })
    }

    /// Applies a group, and says that it is applied.
    fn apply_group(&self, applier: &mut LiveApplier, mut group: Group<'_>) -> Result<()> {
        for dues in group.dues.chunk_by_mut(|one, other| Arc::ptr_eq(&one.collection, &other.collection)) {
            let Some(collection) = dues.first().map(|due| due.collection.clone()) else { continue };
            // One that was dropped is not there for the applier; it is asked for its gate, and notes that who may log in may have changed.
            let Ok(_access) = collection.begin_write() else { continue };
            for due in dues {
                self.apply_locked(applier, &collection, (&due.change, due.timestamp, due.stored))?;
                due.is_applied = true;
            }
        }
        self.note_set_aside();
        self.commits.complete_group(group.dues.into_iter().map(|due| {
            let Due { change, collection, end, in_flight, is_applied, .. } = due;
            let (documents, bytes) = (change.count_change(), change.size_change);
            (in_flight, end, is_applied.then_some(Effect { collection, documents, bytes }))
        }));
        Ok(())
    }

    /// Applies a change under its record's lock. The collection's gate is held.
    pub(super) fn apply_locked(
        &self,
        applier: &mut LiveApplier,
        collection: &Arc<Collection>,
        (change, timestamp, stored): (&DocumentEntry<'_>, Timestamp, Stored),
    ) -> Result<()> {
        // A ring's own lock keeps builders away, and is taken before those of records.
        let is_ring = collection.ring().is_some();
        let _lock = (!is_ring).then(|| self.lock_record((collection.ident(), change.record_id.0 as u64)));
        Ok(applier.apply(collection, change, timestamp, stored)?)
    }
}

impl<'r> Dispatch<'r> {
    /// With a thread for each applier, as far as they can be had.
    fn begin<'scope>(
        store: &'r Store,
        scope: &'scope Scope<'scope, '_>,
        own: &'r mut LiveApplier,
        appliers: &'r mut [LiveApplier],
        failure: &'r Mutex<Option<TransactionError>>,
    ) -> Dispatch<'r>
    where
        'r: 'scope,
    {
        let mut threads = Vec::new();
        for (number, applier) in appliers.iter_mut().enumerate() {
            let (sender, groups) = sync_channel(GROUPS_WAITING);
            let body = move || work(store, &groups, applier, failure);
            if spawn_scoped(scope, &format!("log-apply-{number}"), body).is_ok() {
                threads.push(sender);
            }
        }
        let mut queues = Vec::new();
        queues.resize_with(threads.len(), Vec::new);
        Dispatch { store, threads, own, queues, entries: 0, bytes: 0, may_apply: None, last: None }
    }

    /// Before an entry is appended: waits as long as writes are stopped, as any writer does. Nothing is held back meanwhile.
    pub(super) fn wait_to_begin(&mut self) -> Result<()> {
        if self.may_apply.is_some() {
            return Ok(());
        }
        let may_apply = self.store.may_apply()?;
        self.store.check_commits()?;
        self.may_apply = Some(Arc::new(may_apply));
        Ok(())
    }

    /// As any writer, it is slowed down when the background falls behind.
    fn keep_pace(&mut self) -> Result<()> {
        let delay = self.store.engine.pace();
        if !delay.is_zero() {
            self.hand_over()?;
            self.store.clock.sleep(delay);
        }
        Ok(())
    }

    /// Appends the change of a document, and has it applied after all that come before it and are of the same record.
    pub(super) fn put(
        &mut self,
        state: &mut State,
        entry: &ReceivedEntry<'_>,
        change: DocumentEntry<'r>,
    ) -> Result<()> {
        self.keep_pace()?;
        let found = self.store.applier(state).collection(&change);
        if let Some(collection) = &found {
            self.prepare(collection)?;
        }
        self.wait_to_begin()?;
        let stored = match &found {
            Some(collection) => self.store.note_record_id(collection, &change)?,
            None => Stored::Unknown,
        };
        let (appended, in_flight) = self.store.append(&Source::Received(entry))?;
        self.last = Some(appended.timestamp);
        if let Some(statement) = LoggedStatement::of(&change, appended.position) {
            (&mut &self.store.sessions).statement(statement);
        }
        let Some(collection) = found else {
            in_flight.complete(appended.end, None);
            return Ok(());
        };
        if Effect::is_of(&collection) {
            self.store.commits.note_definition(appended.end);
        }
        let queue = self.queue_of(&collection, &change);
        let (timestamp, end) = (appended.timestamp, appended.end);
        let due = Due { change, collection, timestamp, end, stored, in_flight, is_applied: false };
        if let Some(queue) = self.queues.get_mut(queue) {
            queue.push(due);
        }
        (self.entries, self.bytes) = (self.entries + 1, self.bytes + entry.length);
        if self.entries >= GROUP_ENTRIES || self.bytes >= GROUP_BYTES { self.hand_over() } else { Ok(()) }
    }

    /// What has to be so before an entry of a collection is appended.
    fn prepare(&mut self, collection: &Collection) -> Result<()> {
        if collection.ring().is_none() {
            // They are looked up with everything before this applied.
            return if collection.last_record_id().is_none() { self.drain() } else { Ok(()) };
        }
        // Before anything is logged, so that a full disk of rings holds up the member and not a commit.
        if self.store.engine.rings_are_full() {
            self.drain()?;
            self.store.wait_for_ring_room(&Waiting::Always)?;
        }
        Ok(())
    }

    fn queue_of(&self, collection: &Collection, change: &DocumentEntry<'_>) -> usize {
        let of_record = if collection.ring().is_some() { 0 } else { change.record_id.0 as u64 >> NEIGHBOUR_BITS };
        let mixed = (of_record ^ collection.ident().rotate_left(32)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        (mixed >> 32) as usize % self.queues.len().max(1)
    }

    /// Gives everybody what is theirs.
    fn hand_over(&mut self) -> Result<()> {
        (self.entries, self.bytes) = (0, 0);
        let may_apply = self.may_apply.take();
        for (number, queue) in self.queues.iter_mut().enumerate().rev() {
            if queue.is_empty() {
                continue;
            }
            let group = Group { dues: std::mem::take(queue), _may_apply: may_apply.clone() };
            match self.threads.get(number) {
                // It is gone because it has failed, which it has told.
                Some(thread) => thread.send(group).map_err(|_| TransactionError::Stopped)?,
                None => self.store.apply_group(self.own, group).inspect_err(tell_why_stopped)?,
            }
        }
        Ok(())
    }

    /// Waits until everything that was put is applied.
    pub(super) fn drain(&mut self) -> Result<()> {
        self.hand_over()?;
        self.last.take().map_or(Ok(()), |last| self.store.commits.wait_visible(last))
    }
}

/// A thread that applies.
fn work(
    store: &Store,
    groups: &Receiver<Group<'_>>,
    applier: &mut LiveApplier,
    failure: &Mutex<Option<TransactionError>>,
) {
    storage_engine::mark_background_thread();
    for group in groups {
        if let Err(error) = store.apply_group(applier, group) {
            tell_why_stopped(&error);
            failure.lock().get_or_insert(error);
            return;
        }
    }
}
