//! The command that is running on a thread: how long it has been, whether it is to end, and what it waits with.
//!
//! Begun by `dispatcher` once the command has its place; in every view of what a command works with.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use transaction::Waiting;

use super::{OperationSlot, Registered, check_memory};
use crate::request::error::{CommandError, Result};
use crate::request::stable_api::ApiParameters;
use crate::state::admission::Turn;
use crate::state::fail_points::FailPoint;

/// See the module's head.
pub(crate) struct Operation<'a> {
    registered: Registered<'a>,
    deadline: Cell<Option<Duration>>,
    turn: Turn<'a>,
    api: ApiParameters,
}

impl<'a> Operation<'a> {
    /// It has its place.
    pub(super) fn new(registered: Registered<'a>, turn: Turn<'a>, api: ApiParameters) -> Self {
        Self { registered, deadline: Cell::new(None), turn, api }
    }

    /// Sets the time limit, counted from when the command came.
    ///
    /// # Errors
    /// It is over: the command has waited for so long.
    pub(crate) fn set_time_limit(&self, limit: Option<Duration>) -> Result<()> {
        let Registered { operations, slot, started, .. } = self.registered;
        let Some(limit) = limit else { return Ok(()) };
        let deadline = match operations.fail_points.strike_time_limit() {
            None => started + limit,
            Some(FailPoint::NoTimeIsOver) => return Ok(()),
            Some(_) => started,
        };
        self.deadline.set(Some(deadline));
        slot.deadline_nanos.store(u64::try_from(deadline.as_nanos()).unwrap_or(u64::MAX), Ordering::Relaxed);
        slot.check(self.deadline.get())
    }

    /// Time since the command came.
    pub(crate) fn elapsed(&self) -> Duration {
        let Registered { operations, started, .. } = self.registered;
        operations.clock.monotonic().saturating_sub(started)
    }

    /// How long it has waited for its place.
    pub(crate) fn waited_for_place(&self) -> Duration {
        self.turn.began().saturating_sub(self.registered.started)
    }

    /// Fails when the command was killed, has run out of time, or the server stops. A command that has worked for long may wait
    /// here, so that others come to their turn: nothing may be locked.
    pub(crate) fn check_interrupt(&self) -> Result<()> {
        self.turn.check();
        self.check_locked()
    }

    /// As `check_interrupt`, for where something is locked: it never waits.
    pub(crate) fn check_locked(&self) -> Result<()> {
        let Registered { slot, .. } = self.registered;
        slot.check(self.deadline.get())
    }

    /// As `check_interrupt`, for where what the command holds may have grown: fails, too, when the memory budget has no room for that.
    pub(crate) fn check(&self) -> Result<()> {
        self.check_interrupt()?;
        check_memory()
    }

    /// The connection that it came by.
    pub(crate) fn connection(&self) -> u64 {
        self.registered.slot.connection
    }

    /// It changes something, and goes on when its client goes away.
    pub(crate) fn goes_on_without_client(&self) {
        self.registered.slot.running.lock().1.ends_with_client = false;
    }

    /// Its place among the running commands.
    pub(crate) fn turn(&self) -> &Turn<'a> {
        &self.turn
    }

    /// What it has said of the stable API.
    pub(crate) fn api(&self) -> ApiParameters {
        self.api
    }

    /// When its time is over.
    pub(crate) fn deadline(&self) -> Option<Duration> {
        self.deadline.get()
    }

    /// How long its writes wait for transactions.
    pub(crate) fn waiting(&self) -> Waiting {
        Waiting::Until { interrupt: self.registered.slot.clone(), deadline: self.deadline() }
    }

    /// Its connection's place in the list.
    pub(crate) fn slot(&self) -> &'a Arc<OperationSlot> {
        self.registered.slot
    }

    /// An interruption that only says that there was one, as what it was.
    pub(crate) fn name_interruption(&self, error: CommandError) -> CommandError {
        const INTERRUPTED: i32 = 11601;
        if error.code != INTERRUPTED {
            return error;
        }
        self.check_interrupt().err().unwrap_or(error)
    }
}
