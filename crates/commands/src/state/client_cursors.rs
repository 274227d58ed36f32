//! Client cursors: result sets that are handed out in batches.
//!
//! Used by `find`, `aggregate`, `listCollections` and `listIndexes` (open), `getMore` and `killCursors`.
//!
//! Life of a cursor: `open` (made by its command, not registered when the first batch is all) → `idle` (registered) ⇄
//! `in use` (taken out by a getMore) → `closed` (exhausted, killed, timed out).

mod eviction;
mod figures;
mod first_batch;
mod pausing;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bson::{RawDocument, RawDocumentBuf};
use document::collation::{self, Collator};
use parking_lot::Mutex;
use platform::command_memory::{self, measure_unreserved};
use platform::{Clock, MemoryBudget, MemoryReservation, MemoryUse};

pub(crate) use self::figures::{CursorFigures, IdleCursor};
pub(crate) use self::first_batch::{CursorWork, write_first_batch};
use crate::request::document_writer::ArrayWriter;
use crate::request::error::{CommandError, Result};
use crate::request::stable_api::ApiParameters;
use crate::state::access_control::names::UserName;
use crate::state::execution_notes::{Detail, Execution};
use crate::state::operations::{Operation, before_allocating, before_allocating_at_once};

/// Documents of the first batch when the client names no size.
pub(crate) const FIRST_BATCH_DOCUMENTS: u64 = 101;
/// What an idle cursor holds: copies of a leaf or two, its query and its plan.
const CURSOR_BYTES: usize = 48 << 10;
/// All idle cursors may hold one part in so many of what is free when the server starts, and this in any case.
const CURSORS_SHARE: u64 = 2;
const CURSORS_BYTES_MIN: u64 = 1 << 20;
/// Longest wait for data between two looks whether the command was killed.
const WAIT_SLICE: Duration = Duration::from_millis(100);
/// Bytes of documents in one batch.
const BATCH_BYTES_MAX: usize = 16 << 20;
/// Memory for a larger document is asked for before it is copied.
const LARGE_DOCUMENT_BYTES: usize = 64 << 10;

/// Where a cursor's documents come from.
pub(crate) trait CursorSource: Send {
    /// The next document, valid until the next call.
    fn next(&mut self, operation: &Operation<'_>) -> Result<Option<&RawDocument>>;

    /// Bytes that it holds between batches, beside what is counted elsewhere (sorts, groups).
    fn held_bytes(&self) -> usize {
        CURSOR_BYTES
    }

    /// Whether the cursor stays open at its end, because more may come.
    fn is_tailing(&self) -> bool {
        false
    }

    /// Whether a getMore waits for more at the end.
    fn awaits(&self) -> bool {
        false
    }

    /// Waits until there may be more, at most so long.
    fn wait(&mut self, _longest: Duration) {}

    /// Where a change stream can be resumed, after what was yielded last; or before that.
    fn resume_token(&self, _is_before_last: bool) -> Option<RawDocumentBuf> {
        None
    }

    /// Whether it is known that nothing more comes.
    fn is_exhausted(&self) -> bool {
        false
    }

    /// What was done so far to find documents.
    fn execution(&self, _detail: Detail) -> Option<Execution> {
        None
    }

    /// The cursor becomes idle: gives up what should not be held meanwhile.
    fn suspend(&mut self) -> Result<()> {
        Ok(())
    }

    /// The cursor is used again.
    fn resume(&mut self) -> Result<()> {
        Ok(())
    }
}

/// Documents that are all there from the start.
pub(crate) struct ListedDocuments(std::vec::IntoIter<RawDocumentBuf>, Option<RawDocumentBuf>);

impl ListedDocuments {
    pub(crate) fn new(documents: Vec<RawDocumentBuf>) -> Self {
        Self(documents.into_iter(), None)
    }
}

impl CursorSource for ListedDocuments {
    fn next(&mut self, _operation: &Operation<'_>) -> Result<Option<&RawDocument>> {
        self.1 = self.0.next();
        Ok(self.1.as_deref())
    }

    fn held_bytes(&self) -> usize {
        self.0.as_slice().iter().map(|document| document.as_bytes().len()).sum()
    }
}

/// A result set between batches.
pub(crate) struct ClientCursor {
    /// `database.collection`.
    pub(crate) namespace: String,
    source: Box<dyn CursorSource>,
    /// What the source has allocated since it was opened and has not counted itself: buffers for the largest document that it has read.
    allocated: i64,
    /// A document that did not fit into the last batch.
    pending: Option<RawDocumentBuf>,
    /// Counts it in the memory budget while it is registered.
    memory: Option<MemoryReservation>,
    session: Option<bson::Uuid>,
    /// Who has opened it.
    pub(crate) owner: Option<Arc<UserName>>,
    /// The number of the transaction that it reads in.
    transaction: Option<i64>,
    has_no_timeout: bool,
    /// Of the client that has opened it.
    connection: u64,
    /// Whether what does not fit into the first batch is lost.
    is_single_batch: bool,
    /// What the command that opened it said of the stable API.
    api: ApiParameters,
    /// The time limit of the command that opened it, which getMore goes on with.
    pub(crate) max_time: Option<Duration>,
    /// When the snapshot is that it reads from, if the client is to be told.
    pub(crate) at_cluster_time: Option<platform::Timestamp>,
    /// The command that has opened it, unless that was too large to be kept.
    pub(crate) command: Option<Arc<RawDocumentBuf>>,
    figures: CursorFigures,
    /// What its batches compare text by: that of the command that opened it.
    collator: Option<Arc<Collator>>,
}

/// How much a batch may hold.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BatchLimit {
    pub(crate) documents: Option<u64>,
}

/// Whether a cursor has more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Remaining {
    Maybe,
    Nothing,
}

impl ClientCursor {
    pub(crate) fn new(namespace: String, source: Box<dyn CursorSource>) -> Self {
        Self {
            namespace,
            source,
            allocated: 0,
            pending: None,
            memory: None,
            session: None,
            owner: None,
            transaction: None,
            has_no_timeout: false,
            connection: 0,
            is_single_batch: false,
            api: ApiParameters::default(),
            max_time: None,
            at_cluster_time: None,
            command: None,
            figures: CursorFigures::default(),
            collator: collation::in_force(),
        }
    }

    /// Ties the cursor to a session, which closes it when it ends.
    pub(crate) fn with_session(mut self, session: Option<bson::Uuid>) -> Self {
        self.session = session;
        self
    }

    /// Ties the cursor to a transaction of its session, which closes it when it ends.
    pub(crate) fn with_transaction(mut self, transaction: Option<i64>) -> Self {
        self.transaction = transaction;
        self
    }

    /// Refuses a getMore from outside of the session or the transaction that it was made in.
    fn check_owner(&self, id: i64, session: Option<bson::Uuid>, transaction: Option<i64>) -> Result<()> {
        let described = |session: Option<bson::Uuid>| match session {
            Some(session) => format!("in session {session}"),
            None => "not in a session".to_owned(),
        };
        if self.session != session {
            let code = match (self.session, session) {
                (None, _) => 50737,
                (Some(_), None) => 50736,
                (Some(_), Some(_)) => 50738,
            };
            let (made, used) = (described(self.session), described(session));
            return Err(CommandError::numbered(
                code,
                format!("Cannot run getMore on cursor {id}, which was created {made}, {used}"),
            ));
        }
        if self.transaction != transaction {
            let code = match (self.transaction, transaction) {
                (None, _) => 50739,
                (Some(_), None) => 50740,
                (Some(_), Some(_)) => 50741,
            };
            return Err(CommandError::numbered(
                code,
                format!(
                    "Cannot run getMore on cursor {id}, which was created in transaction {:?}, in transaction {transaction:?}",
                    self.transaction
                ),
            ));
        }
        Ok(())
    }

    /// Keeps the cursor however long it is idle.
    pub(crate) fn without_timeout(mut self, has_no_timeout: bool) -> Self {
        self.has_no_timeout = has_no_timeout;
        self
    }

    /// What was done so far to find its documents.
    pub(crate) fn execution(&self, detail: Detail) -> Option<Execution> {
        self.source.execution(detail)
    }

    /// A batch has been handed out.
    pub(crate) fn note_batch(&mut self, documents: u64, wall_millis: i64) {
        let figures = &mut self.figures;
        if figures.batches == 0 {
            figures.created = wall_millis;
        }
        figures.last_used = wall_millis;
        figures.documents += documents;
        figures.batches += 1;
    }

    /// What `currentOp` shows of it.
    pub(crate) fn figures(&self) -> CursorFigures {
        let (is_tailable, awaits) = (self.source.is_tailing(), self.source.awaits());
        CursorFigures { has_no_timeout: self.has_no_timeout, is_tailable, awaits, ..self.figures }
    }

    /// Whether a getMore waits for more at the end.
    pub(crate) fn awaits(&self) -> bool {
        self.source.awaits()
    }

    /// Refuses a getMore that says something else of the stable API than the command that opened the cursor.
    pub(crate) fn check_api(&self, api: ApiParameters) -> Result<()> {
        if self.api == api {
            return Ok(());
        }
        let message = "the getMore has other API parameters than the command that opened its cursor";
        Err(CommandError::named("APIMismatchError", message))
    }

    /// Whether it can be resumed where it was: it is a change stream.
    pub(crate) fn is_change_stream(&self) -> bool {
        self.resume_token().is_some()
    }

    /// Fills a batch, waiting until the deadline for something to put into it. `is_ended` is asked now and then whether to give up.
    pub(crate) fn fill_or_wait(
        &mut self,
        batch: &mut ArrayWriter<'_>,
        limit: BatchLimit,
        operation: &Operation<'_>,
        longest: Duration,
        is_killed: &dyn Fn() -> bool,
    ) -> Result<Remaining> {
        loop {
            let remaining = self.fill(batch, limit, operation)?;
            let left = longest.saturating_sub(operation.elapsed());
            if batch.count() > 0 || remaining == Remaining::Nothing || left.is_zero() {
                return Ok(remaining);
            }
            operation.check_interrupt()?;
            if is_killed() {
                return Err(CommandError::named("CursorKilled", "the cursor was killed"));
            }
            self.source.wait(left.min(WAIT_SLICE));
            self.resume()?;
        }
    }

    /// The token after what the last batch had.
    pub(crate) fn resume_token(&self) -> Option<RawDocumentBuf> {
        self.source.resume_token(self.pending.is_some())
    }

    /// Fills a batch.
    pub(crate) fn fill(
        &mut self,
        batch: &mut ArrayWriter<'_>,
        limit: BatchLimit,
        operation: &Operation<'_>,
    ) -> Result<Remaining> {
        let _collation = collation::enter(self.collator.clone());
        let most = limit.documents.unwrap_or(u64::MAX);
        if most > 0
            && let Some(pending) = self.pending.take()
        {
            batch.make_room(pending.as_bytes().len(), before_allocating)?;
            batch.push(&pending);
        }
        while u64::from(batch.count()) < most {
            let (found, more) = measure_unreserved(|| self.source.next(operation));
            self.allocated += more;
            let Some(document) = found? else {
                return Ok(if self.source.is_tailing() { Remaining::Maybe } else { Remaining::Nothing });
            };
            let bytes = document.as_bytes().len();
            // Another batch may find memory that is not there now.
            let may_end = batch.count() > 0 && !self.is_single_batch;
            let ask = if may_end { before_allocating_at_once } else { before_allocating };
            let is_full = batch.count() > 0 && batch.bytes() + bytes > BATCH_BYTES_MAX;
            let room = if is_full { Ok(()) } else { batch.make_room(bytes, ask) };
            if is_full || (may_end && room.is_err()) {
                if document.as_bytes().len() > LARGE_DOCUMENT_BYTES {
                    before_allocating(document.as_bytes().len())?;
                }
                self.pending = Some(document.to_owned());
                break;
            }
            room?;
            batch.push(document);
        }
        let is_over = self.pending.is_none() && self.source.is_exhausted();
        Ok(if is_over { Remaining::Nothing } else { Remaining::Maybe })
    }
}

struct Idle {
    cursor: ClientCursor,
    since: Duration,
}

enum Entry {
    Idle(Box<Idle>),
    /// A getMore has it.
    InUse {
        session: Option<bson::Uuid>,
        owner: Option<Arc<UserName>>,
        is_killed: bool,
    },
}

/// The cursors of the server.
pub(crate) struct ClientCursors {
    entries: Mutex<HashMap<i64, Entry>>,
    next_id: AtomicU64,
    opened: AtomicU64,
    timed_out: AtomicU64,
    clock: Arc<dyn Clock>,
    budget: Arc<MemoryBudget>,
    /// What all of them may hold.
    bytes_max: u64,
}

impl ClientCursors {
    /// No cursors. `seed` keeps ids from repeating between starts.
    pub(crate) fn new(clock: Arc<dyn Clock>, seed: u64, budget: Arc<MemoryBudget>) -> Self {
        Self {
            entries: Mutex::default(),
            next_id: AtomicU64::new(seed | 1),
            opened: AtomicU64::new(0),
            timed_out: AtomicU64::new(0),
            clock,
            bytes_max: (budget.free() / CURSORS_SHARE).max(CURSORS_BYTES_MIN),
            budget,
        }
    }

    /// A positive id that is hard to guess from another one.
    fn new_id(&self) -> i64 {
        loop {
            let counter = self.next_id.fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::Relaxed);
            let mixed = (counter ^ counter >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            let id = (mixed >> 1) as i64;
            if id != 0 && !self.entries.lock().contains_key(&id) {
                return id;
            }
        }
    }

    /// Registers a cursor whose first batch has been filled and which may have more.
    pub(crate) fn register(&self, mut cursor: ClientCursor) -> Result<i64> {
        cursor.suspend()?;
        self.count_memory(&mut cursor)?;
        let id = self.new_id();
        self.opened.fetch_add(1, Ordering::Relaxed);
        let idle = Idle { cursor, since: self.clock.monotonic() };
        self.entries.lock().insert(id, Entry::Idle(Box::new(idle)));
        Ok(id)
    }

    /// Counts what the cursor holds while it is idle.
    fn count_memory(&self, cursor: &mut ClientCursor) -> Result<()> {
        let pending = cursor.pending.as_ref().map_or(0, |document| document.as_bytes().len());
        // What every cursor is counted with has room for small documents.
        let grown = usize::try_from(cursor.allocated).unwrap_or(0);
        let bytes = (cursor.source.held_bytes().max(grown) + pending) as u64;
        let memory = cursor.memory.get_or_insert_with(|| self.budget.reservation(MemoryUse::Cursors));
        memory.shrink(bytes);
        // The command has counted it until now.
        command_memory::hand_over(bytes.saturating_sub(memory.bytes()));
        let covered = self.cover(memory, bytes).or_else(|refused| {
            self.make_room(refused.wanted.max(bytes), cursor.connection);
            self.cover(memory, bytes)
        });
        covered.map_err(|error| {
            CommandError::named("ExceededMemoryLimit", format!("there is no memory to keep a cursor: {error}"))
        })
    }

    /// Takes a cursor for a getMore; it must be given back.
    pub(crate) fn take(
        &self,
        id: i64,
        namespace: &str,
        of_session: Option<bson::Uuid>,
        of_transaction: Option<i64>,
    ) -> Result<ClientCursor> {
        let mut entries = self.entries.lock();
        let (session, owner) = match entries.get(&id) {
            None => return Err(not_found(id)),
            Some(Entry::InUse { .. }) => {
                return Err(CommandError::named("CursorInUse", format!("cursor id {id} is already in use")));
            }
            Some(Entry::Idle(idle)) if idle.cursor.namespace != namespace => {
                return Err(CommandError::named(
                    "Unauthorized",
                    format!(
                        "Requested getMore on namespace '{namespace}', but cursor belongs to a different namespace {}",
                        idle.cursor.namespace
                    ),
                ));
            }
            Some(Entry::Idle(idle)) => {
                idle.cursor.check_owner(id, of_session, of_transaction)?;
                (idle.cursor.session, idle.cursor.owner.clone())
            }
        };
        let taken = entries.insert(id, Entry::InUse { session, owner, is_killed: false });
        drop(entries);
        let Some(Entry::Idle(mut idle)) = taken else { return Err(not_found(id)) };
        if let Err(error) = idle.cursor.resume() {
            self.entries.lock().remove(&id);
            return Err(error);
        }
        Ok(idle.cursor)
    }

    /// Gives a cursor back after a getMore; one that was killed meanwhile is closed.
    pub(crate) fn give_back(&self, id: i64, mut cursor: ClientCursor) -> Result<()> {
        let suspended = cursor.suspend().and_then(|()| self.count_memory(&mut cursor));
        let mut entries = self.entries.lock();
        let is_killed = matches!(entries.get(&id), Some(Entry::InUse { is_killed: true, .. }) | None);
        if is_killed || suspended.is_err() {
            entries.remove(&id);
        } else {
            let idle = Idle { cursor, since: self.clock.monotonic() };
            entries.insert(id, Entry::Idle(Box::new(idle)));
        }
        suspended
    }

    /// Closes a cursor that a getMore has taken.
    pub(crate) fn close(&self, id: i64) {
        self.entries.lock().remove(&id);
    }

    /// Whether a cursor that is in use was killed meanwhile.
    pub(crate) fn is_killed(&self, id: i64) -> bool {
        matches!(self.entries.lock().get(&id), Some(Entry::InUse { is_killed: true, .. }) | None)
    }

    /// Who has opened a cursor, if there is one.
    pub(crate) fn owner(&self, id: i64) -> Option<Option<Arc<UserName>>> {
        self.entries.lock().get(&id).map(|entry| match entry {
            Entry::Idle(idle) => idle.cursor.owner.clone(),
            Entry::InUse { owner, .. } => owner.clone(),
        })
    }

    /// Kills a cursor; `false` when there is none.
    pub(crate) fn kill(&self, id: i64) -> bool {
        let mut entries = self.entries.lock();
        match entries.get_mut(&id) {
            None => false,
            Some(Entry::InUse { is_killed, .. }) => {
                *is_killed = true;
                true
            }
            Some(Entry::Idle(_)) => {
                let removed = entries.remove(&id);
                drop(entries);
                removed.is_some()
            }
        }
    }

    /// Closes the cursors of sessions that ended.
    pub(crate) fn close_of_sessions(&self, sessions: &HashSet<bson::Uuid>) {
        self.close_where(|entry| {
            let of = match entry {
                Entry::Idle(idle) => idle.cursor.session,
                Entry::InUse { session, .. } => *session,
            };
            of.is_some_and(|session| sessions.contains(&session))
        });
    }

    /// Closes the cursors of a transaction that ended.
    pub(crate) fn close_of_transaction(&self, session: bson::Uuid, transaction: i64) {
        self.close_where(|entry| match entry {
            Entry::Idle(idle) => (idle.cursor.session, idle.cursor.transaction) == (Some(session), Some(transaction)),
            Entry::InUse { .. } => false,
        });
    }

    /// Closes cursors that have been idle for too long; called now and then.
    pub(crate) fn close_idle(&self, timeout: Duration) {
        let now = self.clock.monotonic();
        let closed = self.close_where(|entry| match entry {
            Entry::Idle(idle) => !idle.cursor.has_no_timeout && now.saturating_sub(idle.since) > timeout,
            Entry::InUse { .. } => false,
        });
        self.timed_out.fetch_add(closed, Ordering::Relaxed);
    }

    fn close_where(&self, is_closed: impl Fn(&Entry) -> bool) -> u64 {
        let mut entries = self.entries.lock();
        let ids: Vec<i64> = entries.iter().filter(|(_, entry)| is_closed(entry)).map(|(id, _)| *id).collect();
        let mut removed = Vec::new();
        for id in &ids {
            match entries.get_mut(id) {
                Some(Entry::InUse { is_killed, .. }) => *is_killed = true,
                _ => removed.extend(entries.remove(id)),
            }
        }
        drop(entries);
        ids.len() as u64
    }

    /// Open cursors that a getMore has, and those that are kept however long they are idle.
    pub(crate) fn open_by_kind(&self) -> (u64, u64) {
        let entries = self.entries.lock();
        let pinned = entries.values().filter(|entry| matches!(entry, Entry::InUse { .. })).count();
        let is_kept = |entry: &&Entry| matches!(entry, Entry::Idle(idle) if idle.cursor.has_no_timeout);
        (pinned as u64, entries.values().filter(is_kept).count() as u64)
    }

    /// The cursors that nobody uses at the moment.
    pub(crate) fn idle(&self) -> Vec<IdleCursor> {
        let entries = self.entries.lock();
        let describe = |(id, entry): (&i64, &Entry)| match entry {
            Entry::InUse { .. } => None,
            Entry::Idle(idle) => Some(IdleCursor {
                id: *id,
                namespace: idle.cursor.namespace.clone(),
                session: idle.cursor.session,
                owner: idle.cursor.owner.clone(),
                command: idle.cursor.command.clone(),
                figures: idle.cursor.figures(),
            }),
        };
        entries.iter().filter_map(describe).collect()
    }

    /// Open cursors, those opened since the start, and those that timed out.
    pub(crate) fn counts(&self) -> (u64, u64, u64) {
        let open = self.entries.lock().len() as u64;
        (open, self.opened.load(Ordering::Relaxed), self.timed_out.load(Ordering::Relaxed))
    }
}

/// The error for a cursor that is not there.
pub(crate) fn not_found(id: i64) -> CommandError {
    CommandError::named("CursorNotFound", format!("cursor id {id} not found"))
}
