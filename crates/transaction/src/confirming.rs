//! Waiting for what a shared log has confirmed, and telling the store of it.
//!
//! Told by whoever ships the oplog to the log (`begin_confirming`, `confirm`, `set_leadership`). Asked by `commands` once for every reply, and here by whatever
//! outlives the process. Without a shared log each of these is one comparison. The reasons: `docs/decisions/0023-confirmed-positions.md`.

use std::time::Duration;

use oplog::{Oplog, OplogPiece, OplogPosition};
use storage_engine::Timestamp;

use crate::commit_order::Leadership;
use crate::error::{Result, TransactionError};
use crate::interleaving::Moment;
use crate::read_view::ReadView;
use crate::store::Store;

/// How long is waited at a time before somebody looks whether it is still wanted.
const LOOK: Duration = Duration::from_millis(20);
/// The same of what is to come from the primary.
const COMES_LOOK: Duration = Duration::from_millis(2);
/// How long a store that is being closed waits for the log.
const PATIENCE_AT_END: Duration = Duration::from_secs(5);

impl Store {
    /// From now on commits are confirmed by a shared log, which has the oplog before `logged`. What is visible now is what readers see, so nobody is served before
    /// all that the oplog has now is confirmed.
    pub fn begin_confirming(&self, logged: OplogPosition) {
        self.commits.begin_confirming(logged);
    }

    /// The shared log has the oplog before this for every reader. Earlier ones are ignored.
    pub fn confirm(&self, logged: OplogPosition) {
        self.commits.confirm(logged);
    }

    /// Whether what is logged can be confirmed just now. While it cannot, no commit is begun.
    pub fn set_leadership(&self, leadership: Leadership) {
        self.commits.set_leadership(leadership);
    }

    /// See `set_leadership`.
    pub fn leadership(&self) -> Leadership {
        self.commits.leadership()
    }

    /// How often it has changed. Whoever acts by a leadership finds the number that came with it, or a greater one.
    pub fn leadership_changes(&self) -> u64 {
        self.commits.leadership_changes()
    }

    /// Whether what is written here may happen: it is alone, or leads its set.
    pub(crate) fn leads(&self) -> bool {
        matches!(self.leadership(), Leadership::Held | Leadership::Stalled)
    }

    /// Whether commits are confirmed by a shared log.
    #[inline]
    pub fn is_confirming(&self) -> bool {
        self.commits.is_confirming()
    }

    /// Whether everything before `end` is confirmed.
    pub fn is_confirmed(&self, end: OplogPosition) -> bool {
        self.commits.is_confirmed(end)
    }

    /// A view of everything that is visible, for those who read in order to write. What it shows may vanish: nobody may be told of it before `wait_confirmed`.
    pub fn newest_view(&self) -> ReadView {
        ReadView::newest(self.engine.clone())
    }

    /// The newest commit that readers see: `operationTime` of a reply.
    pub fn readable_timestamp(&self) -> Timestamp {
        self.engine.readable()
    }

    /// The newest commit that readers see, and the position in the oplog behind it.
    pub fn confirmed_end(&self) -> (Timestamp, OplogPosition) {
        self.commits.confirmed_end()
    }

    /// The shared log has everything before this; `None`: the store is alone.
    pub fn confirmed_position(&self) -> Option<OplogPosition> {
        self.commits.confirmed_position()
    }

    /// How often somebody has waited for the shared log, and for how long together.
    pub fn confirmation_waits(&self) -> (u64, Duration) {
        self.commits.waits()
    }

    /// What must be confirmed before anybody is told of what a command has seen that looked at the newest state: all that is in the oplog, as keys and records
    /// are compared with what is applied, visible or not. `None`: all is.
    #[inline]
    pub fn to_be_confirmed(&self) -> Option<OplogPosition> {
        if !self.is_confirming() {
            return None;
        }
        let end = self.oplog.end_position();
        (!self.commits.is_confirmed(end)).then_some(end)
    }

    /// The same for a command that has read confirmed documents only: definitions are always the newest.
    #[inline]
    pub fn definitions_to_be_confirmed(&self) -> Option<OplogPosition> {
        if !self.is_confirming() {
            return None;
        }
        let end = self.commits.definitions_end();
        (!self.commits.is_confirmed(end)).then_some(end)
    }

    /// Waits until the log has everything before `end`; `false`: `is_over` has said that nobody waits any more.
    ///
    /// # Errors
    /// `TermLost`, `Stopped`: whether the log has it, or will, is not known.
    pub fn wait_confirmed(&self, end: OplogPosition, is_over: &dyn Fn() -> bool) -> Result<bool> {
        if self.commits.is_confirmed(end) {
            return Ok(true);
        }
        let began = self.clock.monotonic();
        let waited = self.wait_for_log(end, is_over);
        self.commits.note_wait(self.clock.monotonic().saturating_sub(began));
        waited
    }

    fn wait_for_log(&self, end: OplogPosition, is_over: &dyn Fn() -> bool) -> Result<bool> {
        while !self.commits.is_confirmed(end) {
            self.options.interleaving.at(Moment::Unconfirmed { end });
            if self.commits.wait_confirmed(end, LOOK)? {
                break;
            }
            if is_over() {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Waits until readers see everything up to `timestamp`. `false`: nothing so new has been committed. A member that follows waits until it has come.
    ///
    /// # Errors
    /// `Stopped`, `TermLost`; `Interrupted` when `is_over` says that nobody waits any more for what is to be confirmed.
    pub fn wait_until_readable(&self, timestamp: Timestamp, is_over: &dyn Fn() -> bool) -> Result<bool> {
        while self.leadership() == Leadership::Following && self.oplog.last_timestamp() < timestamp {
            if is_over() {
                return Err(TransactionError::Interrupted);
            }
            self.clock.sleep(COMES_LOOK);
        }
        let is_known = self.oplog.last_timestamp() >= timestamp;
        if is_known {
            self.commits.wait_visible(timestamp)?;
            let is_readable =
                self.readable_timestamp() >= timestamp || self.wait_confirmed(self.commits.visible_end().1, is_over)?;
            if !is_readable {
                return Err(TransactionError::Interrupted);
            }
        }
        Ok(is_known)
    }

    /// As `wait_confirmed`, but not longer than that.
    pub(crate) fn wait_confirmed_within(&self, end: OplogPosition, longest: Option<Duration>) -> Result<bool> {
        let give_up = longest.map(|longest| self.clock.monotonic() + longest);
        self.wait_confirmed(end, &|| give_up.is_some_and(|give_up| self.clock.monotonic() >= give_up))
    }

    /// A piece of the oplog for somebody who keeps it: all of it is durable here, and confirmed. As `LocalOplog::copy_durable` otherwise.
    ///
    /// # Errors
    /// As `wait_secured`.
    pub fn copy_secured(&self, position: OplogPosition, bytes_max: usize) -> Result<Option<OplogPiece>> {
        let piece = self.oplog.copy_durable(position, bytes_max)?;
        piece.iter().try_for_each(|piece| self.wait_secured(piece.end()))?;
        Ok(piece)
    }

    /// Waits until everything before `end` is in the local oplog for good and confirmed: for whatever outlives the process.
    ///
    /// # Errors
    /// `Oplog`; `TermLost`, `Stopped`; `Unconfirmed` when the store is being closed and the log does not answer.
    pub fn wait_secured(&self, end: OplogPosition) -> Result<()> {
        self.oplog.wait_durable(end)?;
        if self.commits.is_confirmed(end) {
            return Ok(());
        }
        let began = self.clock.monotonic();
        let is_late = || self.clock.monotonic().saturating_sub(began) >= PATIENCE_AT_END;
        // It has been waited for already if it is known not to answer.
        let is_over = || self.is_stopping() && (self.leadership() == Leadership::Stalled || is_late());
        if self.wait_confirmed(end, &is_over)? { Ok(()) } else { Err(TransactionError::Unconfirmed) }
    }
}
