//! Waiting for a transaction to let go of a record or a unique key.
//!
//! Called by writes of single documents, which wait with nothing locked, as MongoDB has it: the write is done once the transaction is over, on
//! what it has left.

use std::sync::Arc;
use std::time::Duration;

use platform::Clock;

use crate::error::{Result, TransactionError};
use crate::lock_table::LockName;
use crate::store::Store;
use crate::write_context::WriteContext;

/// How long to sleep before looking whether the writer should end.
const CHECK_INTERVAL: Duration = Duration::from_millis(20);

/// What a transaction owns.
#[derive(Clone, Copy, Debug)]
pub(crate) enum OwnedName {
    Record(LockName),
    Unique(LockName),
}

/// Says whether whoever waits should give up.
pub trait WaitInterrupt: Send + Sync {
    /// Whether it was asked to end.
    fn is_interrupted(&self) -> bool;
}

/// What a writer does when a transaction is in its way.
#[derive(Clone, Default)]
pub enum Waiting {
    /// It waits, however long that takes.
    #[default]
    Always,
    /// It waits until it is interrupted or its time (of the monotonic clock) is over.
    Until {
        /// Who interrupts it.
        interrupt: Arc<dyn WaitInterrupt>,
        /// When its time is over.
        deadline: Option<Duration>,
    },
    /// It fails with `WriteConflict`.
    Never,
}

impl Waiting {
    /// Whether whoever waits was interrupted, or its time is over.
    pub(crate) fn is_over(&self, clock: &dyn Clock) -> bool {
        let Waiting::Until { interrupt, deadline } = self else { return false };
        deadline.is_some_and(|deadline| clock.monotonic() >= deadline) || interrupt.is_interrupted()
    }
}

impl Store {
    /// Waits until the name is free.
    ///
    /// # Errors
    /// `Interrupted`; `WriteConflict`.
    pub(crate) fn wait_for_transaction(&self, context: &WriteContext, owned: OwnedName) -> Result<()> {
        loop {
            if matches!(context.waiting, Waiting::Never) {
                return Err(TransactionError::WriteConflict);
            }
            if context.waiting.is_over(&*self.clock) {
                return Err(TransactionError::Interrupted);
            }
            if self.is_released(owned) {
                return Ok(());
            }
        }
    }

    /// Waits a moment; whether the name is free then.
    pub(crate) fn is_released(&self, owned: OwnedName) -> bool {
        match owned {
            OwnedName::Record(name) => self.record_locks.wait_until_released(name, CHECK_INTERVAL),
            OwnedName::Unique(name) => self.unique_locks.wait_until_released(name, CHECK_INTERVAL),
        }
    }
}
