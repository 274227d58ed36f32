//! What is running: the list behind `currentOp`, and the flag that `killOp`, time limits, shutdown and clients that go away raise.
//!
//! Used by `dispatcher` (from before a command waits for its place until its end), by long loops through [`Operation::check_interrupt`], by `currentOp` and `killOp`.
//! Every connection has a slot of its own, so that registering a command touches nothing shared.

mod operation;

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use bson::RawDocumentBuf;
use document::work::Watch;
use document::{Element, Interruption, elements_of_bytes};
use parking_lot::Mutex;
use platform::command_memory::{self, MemoryWait, Patience};
use platform::{Clock, OverBudget, WeakList};
use query_language::{ErrorKind, QueryError};
use transaction::WaitInterrupt;

pub(crate) use self::operation::Operation;
use crate::DocumentWriter;
use crate::request::declaration::{Declaration, WithoutClient};
use crate::request::error::{CommandError, Result};
use crate::request::secrets::write_without_secrets;
use crate::request::stable_api::ApiParameters;
use crate::state::access_control::names::UserName;
use crate::state::admission::Turn;
use crate::state::fail_points::FailPoints;

/// Bytes of a command that are kept for `currentOp`.
pub(crate) const COMMAND_BYTES_MAX: usize = 4096;

/// A command that runs, or waits for its place among those that run, as `currentOp` shows it.
#[derive(Debug, Clone, Default)]
pub(crate) struct RunningOperation {
    pub(crate) id: u32,
    pub(crate) name: &'static str,
    pub(crate) database: String,
    /// The command document; empty when it is larger than is kept.
    pub(crate) command: Vec<u8>,
    pub(crate) started: Duration,
    /// `lsid.id`.
    pub(crate) session: Option<bson::Uuid>,
    /// Whether it still waits for its place.
    pub(crate) is_queued: bool,
    /// Whether it ends when its client goes away.
    ends_with_client: bool,
    /// Whether it waits for the lock of `fsync`.
    pub(crate) waits_for_lock: bool,
    /// The transaction that it is a part of.
    pub(crate) transaction: Option<i64>,
    /// The command that has opened the cursor which this one goes on with.
    pub(crate) originating: Option<Arc<RawDocumentBuf>>,
}

/// Nobody has asked the command to end.
const RUNS_ON: u8 = 0;
/// `killOp` has, or the end of its session.
const KILLED: u8 = 1;
/// Its client is gone.
const CLIENT_GONE: u8 = 2;

/// One connection's place in the list.
pub(crate) struct OperationSlot {
    pub(crate) connection: u64,
    pub(crate) client: String,
    /// What the client said of itself in its first `hello`.
    metadata: Mutex<Option<Arc<RawDocumentBuf>>>,
    /// Who has logged in.
    user: Mutex<Option<Arc<UserName>>>,
    running: Mutex<(bool, RunningOperation)>,
    /// Why it shall end: one of the three above.
    end: AtomicU8,
    /// How often the running command has given way to others.
    yields: AtomicU32,
    /// When the running command's time is over, in nanoseconds of the clock; 0 for never.
    deadline_nanos: AtomicU64,
    /// Of the server.
    is_stopping: Arc<AtomicBool>,
    clock: Arc<dyn Clock>,
}

impl OperationSlot {
    /// Fails when the command was killed, the deadline has passed, or the server stops.
    pub(crate) fn check(&self, deadline: Option<Duration>) -> Result<()> {
        self.why_to_stop(deadline).map_or(Ok(()), |(name, message)| Err(CommandError::named(name, message)))
    }
}

/// For what takes long inside of a document, or between documents where nothing else asks.
impl Watch for OperationSlot {
    fn interruption(&self) -> Option<Interruption> {
        self.why_to_stop(self.deadline()).map(|(name, message)| Interruption { name, message })
    }
}

/// While it waits for memory.
impl MemoryWait for OperationSlot {
    fn gives_up(&self) -> bool {
        self.why_to_stop(self.deadline()).is_some()
    }
}

/// What pure functions ask before they make something large, of the command of their thread.
pub(crate) fn limit_of_queries(bytes: usize) -> std::result::Result<(), QueryError> {
    // A record may be locked.
    command_memory::before_allocating(bytes, Patience::AsTheCommand)
        .map_err(|error| QueryError::new(ErrorKind::ExceededMemoryLimit, no_memory(error)))
}

/// Fails when what the command of this thread holds does not fit into the memory budget.
pub(crate) fn check_memory() -> Result<()> {
    before_allocating(0)
}

/// The same with so many bytes that are about to be allocated.
pub(crate) fn before_allocating(bytes: usize) -> Result<()> {
    command_memory::before_allocating(bytes, Patience::Waits)
        .map_err(|error| CommandError::named("ExceededMemoryLimit", no_memory(error)))
}

/// The same, without waiting for others to give something back.
pub(crate) fn before_allocating_at_once(bytes: usize) -> Result<()> {
    command_memory::before_allocating(bytes, Patience::FailsAtOnce)
        .map_err(|error| CommandError::named("ExceededMemoryLimit", no_memory(error)))
}

fn no_memory(error: OverBudget) -> String {
    format!("the command needs more memory than is left: {error}")
}

impl WaitInterrupt for OperationSlot {
    fn is_interrupted(&self) -> bool {
        self.end.load(Ordering::Relaxed) != RUNS_ON || self.is_stopping.load(Ordering::Relaxed)
    }
}

/// All connections' slots.
pub(crate) struct Operations {
    slots: WeakList<OperationSlot>,
    next_id: AtomicU32,
    is_stopping: Arc<AtomicBool>,
    clock: Arc<dyn Clock>,
    fail_points: Arc<FailPoints>,
}

/// A command whose request waits for its place without a thread. It is listed until this is dropped, or what was made of it.
pub(crate) struct Queued(Arc<OperationSlot>);

/// A command that this thread has in hand and that is listed; it may have no place yet.
pub(crate) struct Registered<'a> {
    operations: &'a Operations,
    slot: &'a Arc<OperationSlot>,
    started: Duration,
    _queued: Option<Queued>,
}

impl Operations {
    pub(crate) fn new(clock: Arc<dyn Clock>, fail_points: Arc<FailPoints>) -> Self {
        Self { slots: WeakList::default(), next_id: AtomicU32::new(1), is_stopping: Arc::default(), clock, fail_points }
    }

    /// A slot for a new connection.
    pub(crate) fn connect(&self, connection: u64, client: String) -> Arc<OperationSlot> {
        let slot = Arc::new(OperationSlot {
            connection,
            client,
            metadata: Mutex::default(),
            user: Mutex::default(),
            running: Mutex::default(),
            end: AtomicU8::new(RUNS_ON),
            yields: AtomicU32::new(0),
            deadline_nanos: AtomicU64::new(0),
            is_stopping: self.is_stopping.clone(),
            clock: self.clock.clone(),
        });
        self.slots.push(&slot);
        slot
    }

    /// Lists a command whose request waits for its place without a thread.
    pub(crate) fn queue(
        &self,
        slot: &Arc<OperationSlot>,
        found: &Declaration,
        database: &str,
        command: &[u8],
    ) -> Queued {
        let mut running = slot.running.lock();
        self.list(slot, &mut running, found, database, command);
        running.1.is_queued = true;
        drop(running);
        Queued(Arc::clone(slot))
    }

    /// Lists a command that has a thread now; one that was `queued` is listed already.
    pub(crate) fn register<'a>(
        &'a self,
        slot: &'a Arc<OperationSlot>,
        found: &Declaration,
        database: &str,
        command: &[u8],
        session: Option<bson::Uuid>,
        queued: Option<Queued>,
    ) -> Registered<'a> {
        let mut running = slot.running.lock();
        if queued.is_none() {
            self.list(slot, &mut running, found, database, command);
        }
        let operation = &mut running.1;
        (operation.session, operation.is_queued) = (session, false);
        operation.ends_with_client = found.without_client == WithoutClient::Ends;
        let started = operation.started;
        drop(running);
        Registered { operations: self, slot, started, _queued: queued }
    }

    fn list(
        &self,
        slot: &OperationSlot,
        (is_active, operation): &mut (bool, RunningOperation),
        found: &Declaration,
        database: &str,
        command: &[u8],
    ) {
        let name = found.name;
        slot.end.store(RUNS_ON, Ordering::Relaxed);
        slot.yields.store(0, Ordering::Relaxed);
        slot.deadline_nanos.store(0, Ordering::Relaxed);
        *is_active = true;
        operation.ends_with_client = false;
        operation.id = self.next_id.fetch_add(1, Ordering::Relaxed);
        operation.name = name;
        operation.started = self.clock.monotonic();
        operation.session = None;
        (operation.transaction, operation.originating, operation.waits_for_lock) = (None, None, false);
        operation.database.clear();
        operation.database.push_str(database);
        operation.command.clear();
        if !found.secrets.is_empty() {
            write_without_secrets(found.secrets, command, &mut operation.command);
        } else if command.len() <= COMMAND_BYTES_MAX {
            operation.command.extend_from_slice(command);
        } else {
            shorten(name, command, &mut operation.command);
        }
    }

    /// What is running now, with how long it has been.
    pub(crate) fn running(&self) -> Vec<(RunningOperation, Arc<OperationSlot>, Duration)> {
        let now = self.clock.monotonic();
        let of_slot = |slot: Arc<OperationSlot>| {
            let running = slot.running.lock();
            let (is_active, operation) = &*running;
            let found = is_active.then(|| (operation.clone(), now.saturating_sub(operation.started)));
            drop(running);
            found.map(|(operation, elapsed)| (operation, slot, elapsed))
        };
        self.slots.all().into_iter().filter_map(of_slot).collect()
    }

    /// Commands that run in transactions.
    pub(crate) fn sessions_in_transactions(&self) -> usize {
        self.running().iter().filter(|(operation, _, _)| operation.transaction.is_some()).count()
    }

    /// Connections on which nothing is running.
    pub(crate) fn idle(&self) -> Vec<Arc<OperationSlot>> {
        self.slots.all().into_iter().filter(|slot| !slot.running.lock().0).collect()
    }

    /// Whose connection a running command came by; `None`: there is no such command.
    pub(crate) fn owner(&self, id: u32) -> Option<Option<Arc<UserName>>> {
        self.running().iter().find(|(operation, _, _)| operation.id == id).map(|(_, slot, _)| slot.user())
    }

    /// Asks a command to end; nothing happens if it has ended already.
    pub(crate) fn kill(&self, id: u32) {
        for (operation, slot, _) in self.running() {
            if operation.id == id {
                slot.end.store(KILLED, Ordering::Relaxed);
            }
        }
    }

    /// Asks the commands of sessions to end, but for the one that asks for it itself.
    pub(crate) fn kill_of_sessions(&self, sessions: &HashSet<bson::Uuid>, own: &Operation<'_>) {
        for (operation, slot, _) in self.running() {
            let is_named = operation.session.is_some_and(|session| sessions.contains(&session));
            if is_named && !std::ptr::eq(&*slot, &**own.slot()) {
                slot.end.store(KILLED, Ordering::Relaxed);
            }
        }
    }

    /// The connections whose commands have been running for this long and end when their client goes away; not those that have been told.
    pub(crate) fn connections_that_wait(&self, longer_than: Duration) -> Vec<u64> {
        let now = self.clock.monotonic();
        let waits = |slot: &Arc<OperationSlot>| {
            let (is_active, operation) = &*slot.running.lock();
            let is_told = slot.end.load(Ordering::Relaxed) != RUNS_ON;
            *is_active && !is_told && operation.ends_with_client && now.saturating_sub(operation.started) >= longer_than
        };
        self.slots.all().into_iter().filter(waits).map(|slot| slot.connection).collect()
    }

    /// The client of a connection is gone: what runs for it ends, unless that goes on by itself.
    pub(crate) fn client_gone(&self, connection: u64) {
        for slot in self.slots.all().iter().filter(|slot| slot.connection == connection) {
            let (is_active, operation) = &*slot.running.lock();
            if *is_active && operation.ends_with_client {
                slot.end.store(CLIENT_GONE, Ordering::Relaxed);
            }
        }
    }

    /// Asks all commands to end, because the server stops.
    pub(crate) fn stop(&self) {
        self.is_stopping.store(true, Ordering::Relaxed);
    }

    /// Whether the server stops.
    pub(crate) fn is_stopping(&self) -> bool {
        self.is_stopping.load(Ordering::Relaxed)
    }
}

/// What is kept of a command that is too large: its first field, which names the collection, and its comment, by which it is looked for.
fn shorten(name: &str, command: &[u8], kept: &mut Vec<u8>) {
    let mut writer = DocumentWriter::begin(kept);
    let mut elements = elements_of_bytes(command);
    let first = elements.next();
    let comment = elements.find(|element| element.name_bytes() == b"comment");
    let small = |element: &Element<'_>| element.value_bytes().len() <= COMMAND_BYTES_MAX / 4;
    first.filter(small).into_iter().for_each(|first| writer.element(first));
    writer.string("$truncated", name);
    comment.filter(small).into_iter().for_each(|comment| writer.element(comment));
    writer.finish();
}

impl<'a> Registered<'a> {
    /// It waits for a lock, for as long as `wait` does, which may ask whether to give up.
    pub(crate) fn wait_for_lock(&self, wait: impl FnOnce(&dyn Fn() -> Result<()>) -> Result<()>) -> Result<()> {
        self.slot.running.lock().1.waits_for_lock = true;
        let waited = wait(&|| self.slot.check(None));
        self.slot.running.lock().1.waits_for_lock = false;
        waited
    }

    /// It waits for its place from now on.
    pub(crate) fn note_waiting(&self) {
        self.slot.running.lock().1.is_queued = true;
    }

    /// It has its place. When it came, unless it had to wait: then that it does not any more, and the time now.
    ///
    /// # Errors
    /// It was killed meanwhile, or the server stops.
    pub(crate) fn placed(&self, has_waited: bool) -> Result<Duration> {
        if !has_waited {
            return Ok(self.started);
        }
        self.slot.running.lock().1.is_queued = false;
        self.slot.check(None)?;
        Ok(self.operations.clock.monotonic())
    }

    /// Where is counted how often it gives way.
    pub(crate) fn yields(&self) -> &'a AtomicU32 {
        &self.slot.yields
    }

    /// It runs.
    pub(crate) fn begin(self, turn: Turn<'a>, api: ApiParameters) -> Operation<'a> {
        Operation::new(self, turn, api)
    }
}

impl OperationSlot {
    /// When the running command's time is over.
    fn deadline(&self) -> Option<Duration> {
        match self.deadline_nanos.load(Ordering::Relaxed) {
            0 => None,
            nanos => Some(Duration::from_nanos(nanos)),
        }
    }

    /// Why its command is to stop, by name and text.
    fn why_to_stop(&self, deadline: Option<Duration>) -> Option<(&'static str, &'static str)> {
        match self.end.load(Ordering::Relaxed) {
            RUNS_ON => {}
            CLIENT_GONE => return Some(("ClientDisconnect", "the client has closed the connection")),
            _ => return Some(("Interrupted", "operation was interrupted")),
        }
        if self.is_stopping.load(Ordering::Relaxed) {
            return Some(("InterruptedAtShutdown", "interrupted at shutdown"));
        }
        let is_over = deadline.is_some_and(|deadline| self.clock.monotonic() >= deadline);
        is_over.then_some(("MaxTimeMSExpired", "operation exceeded time limit"))
    }

    /// How often its command has given way to others.
    pub(crate) fn yields(&self) -> u32 {
        self.yields.load(Ordering::Relaxed)
    }

    /// Whether its command has been asked to end.
    pub(crate) fn is_to_end(&self) -> bool {
        self.end.load(Ordering::Relaxed) != RUNS_ON
    }

    /// Keeps what the client said of itself.
    pub(crate) fn set_metadata(&self, metadata: Arc<RawDocumentBuf>) {
        *self.metadata.lock() = Some(metadata);
    }

    /// What the client said of itself.
    pub(crate) fn metadata(&self) -> Option<Arc<RawDocumentBuf>> {
        self.metadata.lock().clone()
    }

    /// Keeps who has logged in.
    pub(crate) fn set_user(&self, user: Option<Arc<UserName>>) {
        *self.user.lock() = user;
    }

    /// Who has logged in.
    pub(crate) fn user(&self) -> Option<Arc<UserName>> {
        self.user.lock().clone()
    }

    /// The command goes on with a cursor that this one has opened.
    pub(crate) fn set_originating(&self, command: Option<Arc<RawDocumentBuf>>) {
        self.running.lock().1.originating = command;
    }

    /// See `RunningOperation::originating`.
    pub(crate) fn originating(&self) -> Option<Arc<RawDocumentBuf>> {
        self.running.lock().1.originating.clone()
    }

    /// The command is a part of a transaction.
    pub(crate) fn set_transaction(&self, txn_number: i64) {
        self.running.lock().1.transaction = Some(txn_number);
    }

    fn clear(&self) {
        self.running.lock().0 = false;
    }
}

impl Drop for Queued {
    fn drop(&mut self) {
        self.0.clear();
    }
}

impl Drop for Registered<'_> {
    fn drop(&mut self) {
        self.slot.clear();
    }
}

#[cfg(test)]
mod tests {
    use platform::SimulatedClock;

    use super::*;
    use crate::request::declaration::Needs;

    #[test]
    fn a_client_that_is_gone_is_told_to_its_command_once() {
        let clock = Arc::new(SimulatedClock::new(0));
        let operations = Operations::new(clock.clone(), Arc::default());
        let slot = operations.connect(7, String::new());
        let wait = Duration::from_millis(500);
        let find = Declaration::new("find", "Finds.", Needs::Data, &[]);
        for _command in 0..2 {
            operations.list(&slot, &mut slot.running.lock(), &find, "db", &[]);
            slot.running.lock().1.ends_with_client = true;
            assert!(operations.connections_that_wait(wait).is_empty());
            clock.sleep(wait);
            assert_eq!(operations.connections_that_wait(wait), [7]);
            operations.client_gone(7);
            assert!(slot.check(None).is_err());
            assert!(operations.connections_that_wait(wait).is_empty());
        }
    }
}
