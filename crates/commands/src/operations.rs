//! What is running: the list behind `currentOp`, and the flag that `killOp`, time limits and shutdown raise.
//!
//! Used by `dispatcher` (begin and end), by long loops through [`Operation::check_interrupt`], by `currentOp` and `killOp`.
//! Every connection has a slot of its own, so that registering a command touches nothing shared.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use platform::Clock;
use transaction::WaitInterrupt;

use crate::admission::Turn;
use crate::error::{CommandError, Result};

/// Bytes of a command that are kept for `currentOp`.
const COMMAND_BYTES_MAX: usize = 4096;

/// A running command as `currentOp` shows it.
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
}

/// One connection's place in the list.
pub(crate) struct OperationSlot {
    pub(crate) connection: u64,
    pub(crate) client: String,
    running: Mutex<(bool, RunningOperation)>,
    is_killed: AtomicBool,
    /// Of the server.
    is_stopping: Arc<AtomicBool>,
}

impl WaitInterrupt for OperationSlot {
    fn is_interrupted(&self) -> bool {
        self.is_killed.load(Ordering::Relaxed) || self.is_stopping.load(Ordering::Relaxed)
    }
}

/// All connections' slots.
pub(crate) struct Operations {
    slots: Mutex<Vec<Weak<OperationSlot>>>,
    next_id: AtomicU32,
    is_stopping: Arc<AtomicBool>,
    clock: Arc<dyn Clock>,
}

/// The command that is running on this thread.
pub(crate) struct Operation<'a> {
    operations: &'a Operations,
    slot: &'a OperationSlot,
    started: Duration,
    deadline: Option<Duration>,
    turn: Turn<'a>,
}

impl Operations {
    pub(crate) fn new(clock: Arc<dyn Clock>) -> Self {
        Self { slots: Mutex::default(), next_id: AtomicU32::new(1), is_stopping: Arc::default(), clock }
    }

    /// A slot for a new connection.
    pub(crate) fn connect(&self, connection: u64, client: String) -> Arc<OperationSlot> {
        let slot = Arc::new(OperationSlot {
            connection,
            client,
            running: Mutex::default(),
            is_killed: AtomicBool::new(false),
            is_stopping: self.is_stopping.clone(),
        });
        let mut slots = self.slots.lock();
        if slots.len() == slots.capacity() {
            slots.retain(|slot| slot.strong_count() > 0);
        }
        slots.push(Arc::downgrade(&slot));
        slot
    }

    /// Registers a command.
    pub(crate) fn begin<'a>(
        &'a self,
        slot: &'a OperationSlot,
        name: &'static str,
        database: &str,
        command: &[u8],
        session: Option<bson::Uuid>,
        turn: impl FnOnce(Duration) -> Turn<'a>,
    ) -> Operation<'a> {
        let started = self.clock.monotonic();
        slot.is_killed.store(false, Ordering::Relaxed);
        let mut running = slot.running.lock();
        let (is_active, operation) = &mut *running;
        *is_active = true;
        operation.id = self.next_id.fetch_add(1, Ordering::Relaxed);
        operation.name = name;
        operation.started = started;
        operation.session = session;
        operation.database.clear();
        operation.database.push_str(database);
        operation.command.clear();
        if command.len() <= COMMAND_BYTES_MAX {
            operation.command.extend_from_slice(command);
        }
        drop(running);
        Operation { operations: self, slot, started, deadline: None, turn: turn(started) }
    }

    /// What is running now, with how long it has been.
    pub(crate) fn running(&self) -> Vec<(RunningOperation, Arc<OperationSlot>, Duration)> {
        let now = self.clock.monotonic();
        let slots: Vec<Arc<OperationSlot>> = self.slots.lock().iter().filter_map(Weak::upgrade).collect();
        let of_slot = |slot: Arc<OperationSlot>| {
            let running = slot.running.lock();
            let (is_active, operation) = &*running;
            let found = is_active.then(|| (operation.clone(), now.saturating_sub(operation.started)));
            drop(running);
            found.map(|(operation, elapsed)| (operation, slot, elapsed))
        };
        slots.into_iter().filter_map(of_slot).collect()
    }

    /// Connections on which nothing is running.
    pub(crate) fn idle(&self) -> Vec<Arc<OperationSlot>> {
        let slots: Vec<Arc<OperationSlot>> = self.slots.lock().iter().filter_map(Weak::upgrade).collect();
        slots.into_iter().filter(|slot| !slot.running.lock().0).collect()
    }

    /// Asks a command to end; nothing happens if it has ended already.
    pub(crate) fn kill(&self, id: u32) {
        for (operation, slot, _) in self.running() {
            if operation.id == id {
                slot.is_killed.store(true, Ordering::Relaxed);
            }
        }
    }

    /// Asks the commands of a session to end, but for one that asks for it itself.
    pub(crate) fn kill_of_session(&self, session: bson::Uuid, own: &Operation<'_>) {
        for (operation, slot, _) in self.running() {
            if operation.session == Some(session) && !std::ptr::eq(&*slot, own.slot) {
                slot.is_killed.store(true, Ordering::Relaxed);
            }
        }
    }

    /// Fails when the slot's command was killed, the deadline has passed, or the server stops.
    pub(crate) fn check(&self, slot: &OperationSlot, deadline: Option<Duration>) -> Result<()> {
        if slot.is_killed.load(Ordering::Relaxed) {
            return Err(CommandError::named("Interrupted", "operation was interrupted"));
        }
        if self.is_stopping.load(Ordering::Relaxed) {
            return Err(CommandError::named("InterruptedAtShutdown", "interrupted at shutdown"));
        }
        match deadline {
            Some(deadline) if self.clock.monotonic() >= deadline => {
                Err(CommandError::named("MaxTimeMSExpired", "operation exceeded time limit"))
            }
            _ => Ok(()),
        }
    }

    /// Asks all commands to end, because the server stops.
    pub(crate) fn stop(&self) {
        self.is_stopping.store(true, Ordering::Relaxed);
    }
}

impl<'a> Operation<'a> {
    /// Sets the time limit, counted from the command's beginning.
    pub(crate) fn set_time_limit(&mut self, limit: Option<Duration>) {
        self.deadline = limit.map(|limit| self.started + limit);
    }

    /// Time since the command began.
    pub(crate) fn elapsed(&self) -> Duration {
        self.operations.clock.monotonic().saturating_sub(self.started)
    }

    /// Its number.
    pub(crate) fn id(&self) -> u32 {
        self.slot.running.lock().1.id
    }

    /// Fails when the command was killed, has run out of time, or the server stops. A command that has worked for long may wait
    /// here, so that others come to their turn: nothing may be locked.
    pub(crate) fn check_interrupt(&self) -> Result<()> {
        self.turn.check();
        self.operations.check(self.slot, self.deadline)
    }

    /// Its place among the running commands.
    pub(crate) fn turn(&self) -> &Turn<'a> {
        &self.turn
    }

    /// When its time is over.
    pub(crate) fn deadline(&self) -> Option<Duration> {
        self.deadline
    }
}

impl Drop for Operation<'_> {
    fn drop(&mut self) {
        self.slot.running.lock().0 = false;
    }
}
