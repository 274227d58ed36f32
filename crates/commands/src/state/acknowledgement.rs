//! Waiting until a write is as safe as its write concern asks for ([`crate::request::write_concern`]).
//!
//! Called by every command that writes, at its end; by `dispatcher` beside an error. [`Acknowledging`] is what such a command waits with.

use std::sync::Arc;
use std::time::Duration;

use bson::{RawBsonRef, RawDocument};
use oplog::Oplog;
use transaction::{Acknowledgement, CommitInfo, Leadership, Store, TransactionError};

use crate::request::error::{CommandError, Result};
use crate::request::write_concern::{Members, WriteConcern};
use crate::state::context::Context;
use crate::state::operations::Operation;
use crate::state::place::Place;
use crate::state::replica_set::ReplicaSet;
use platform::{WaitKind, waiting};

/// What it takes to wait until a command's write is safe.
#[derive(Clone, Copy)]
pub(crate) struct Acknowledging<'a> {
    pub(crate) store: &'a Arc<Store>,
    pub(crate) replica_set: &'a ReplicaSet,
    pub(crate) operation: &'a Operation<'a>,
    place: Place<'a>,
}

impl Context<'_> {
    /// What it takes to wait until its write is safe.
    pub(crate) fn acknowledging(&self) -> Acknowledging<'_> {
        Acknowledging {
            store: &self.server.store,
            replica_set: &self.server.replica_set,
            operation: &self.operation,
            place: self.place(),
        }
    }
}

impl Acknowledging<'_> {
    /// Gives the command's place up, and waits for everything committed so far.
    ///
    /// # Errors
    /// Those of [`WriteConcern::wait_for_all`].
    pub(crate) fn wait_for_all(&self, concern: &WriteConcern) -> Result<()> {
        self.place.give_up();
        concern.wait_for_all(self.store, self.replica_set)
    }
}

/// How long news of other members are waited for at a time.
const NEWS_WAIT: Duration = Duration::from_millis(20);

/// What a command that has failed says of its write concern: a client that asks for more members than there are is told
/// so in any case.
///
/// # Errors
/// Those of [`WriteConcern::check_satisfiable`]. A write concern that cannot be read is the command's own error.
pub(crate) fn check_beside_error(replica_set: &ReplicaSet, body: &RawDocument) -> Result<()> {
    let asked = match document::get_field(body, "writeConcern") {
        Some(RawBsonRef::Document(asked)) => WriteConcern::parse(asked).ok(),
        _ => None,
    };
    asked.map_or(Ok(()), |concern| concern.check_satisfiable(replica_set))
}

impl WriteConcern {
    /// Waits until everything committed so far is as safe as asked for.
    pub(crate) fn wait_for_all(&self, store: &Store, replica_set: &ReplicaSet) -> Result<()> {
        let oplog = store.oplog();
        let end = oplog.end_position();
        match (self.durable, self.time_limit) {
            (false, _) => {}
            // The dispatcher waits for the shared log.
            (true, _) if store.is_confirming() => {}
            (true, None) => oplog.wait_durable(end)?,
            (true, Some(longest)) => in_time(oplog.wait_durable_within(end, longest)?)?,
        }
        self.check_satisfiable(replica_set)?;
        self.wait_for_members(store, replica_set, &|| false)
    }

    /// Waits until as many members as are asked for have applied everything so far; on a set with a shared log, which has it then.
    fn wait_for_members(&self, store: &Store, replica_set: &ReplicaSet, is_over: &dyn Fn() -> bool) -> Result<()> {
        let (Members::Number(wanted), Some(members)) = (&self.members, replica_set.members()) else { return Ok(()) };
        let (end, begun) = (store.oplog().end_position(), store.clock().monotonic());
        while (members.have_applied(end.0) as i64) < *wanted {
            let waited = store.clock().monotonic().saturating_sub(begun);
            if self.time_limit.is_some_and(|longest| waited >= longest) {
                return in_time(false);
            }
            match store.leadership() {
                Leadership::Held => {}
                Leadership::Stalled => return Err(log_is_silent()),
                Leadership::Lost | Leadership::Following => return Err(TransactionError::TermLost.into()),
            }
            // What has ended the command is told by whoever looks next.
            if is_over() {
                return Ok(());
            }
            members.wait_for_news(NEWS_WAIT);
        }
        Ok(())
    }

    /// Waits until every later read sees a commit, and until it is durable if that was asked for. A command that has changed nothing
    /// waits for everything that was committed before: what it found as it wanted it may be what somebody else, or the same client,
    /// has written a moment ago, and a power loss must not take that away from who was told that it is safe.
    pub(crate) fn wait(&self, with: &Acknowledging<'_>, commit: Option<&CommitInfo>) -> Result<()> {
        if self.durable || matches!(self.members, Members::Number(_)) {
            with.place.give_up();
        }
        let Acknowledging { store, replica_set, operation, .. } = *with;
        let is_durable = self.durable && !store.is_confirming();
        match (commit, is_durable) {
            (None, false) => {}
            (None, true) => return self.wait_for_all_of(with),
            (Some(commit), false) => store.acknowledge(commit, Acknowledgement::Visible)?,
            (Some(commit), true) => waiting(WaitKind::Log, || self.wait_durable(store, commit))?,
        }
        self.check_satisfiable(replica_set)?;
        let is_over = || operation.check_locked().is_err();
        self.wait_for_members(store, replica_set, &is_over)
    }

    /// As [`WriteConcern::wait_for_all`], for a command.
    pub(crate) fn wait_for_all_of(&self, with: &Acknowledging<'_>) -> Result<()> {
        waiting(WaitKind::Log, || self.wait_for_all(with.store, with.replica_set))
    }

    fn wait_durable(&self, store: &Store, commit: &CommitInfo) -> Result<()> {
        match self.time_limit {
            None => Ok(store.acknowledge(commit, Acknowledgement::Durable)?),
            Some(longest) => in_time(store.acknowledge_within(commit, longest)?),
        }
    }

    /// Whether there are enough members.
    ///
    /// # Errors
    /// UnsatisfiableWriteConcern, UnknownReplWriteConcern.
    pub(crate) fn check_satisfiable(&self, replica_set: &ReplicaSet) -> Result<()> {
        let too_few = || CommandError::named("UnsatisfiableWriteConcern", "Not enough data-bearing nodes");
        let Members::Mode(mode) = &self.members else {
            let there = replica_set.members().map_or(1, |members| members.look().members.len() as i64);
            return if matches!(self.members, Members::Number(wanted) if wanted > there) {
                Err(too_few())
            } else {
                Ok(())
            };
        };
        let membership = replica_set.membership();
        match membership.and_then(|membership| membership.configuration.can_satisfy(mode)) {
            Some(true) => Ok(()),
            Some(false) => Err(too_few()),
            None => Err(CommandError::named(
                "UnknownReplWriteConcern",
                format!("No write concern mode named '{mode}' found in replica set configuration"),
            )),
        }
    }
}

/// For who waits at a primary that the log does not answer.
pub(crate) fn log_is_silent() -> CommandError {
    let message = "the replica set's log does not answer this member; whether the operation has happened is not known";
    CommandError::named("InterruptedDueToReplStateChange", message)
}

fn in_time(is_durable: bool) -> Result<()> {
    let late = || CommandError::named("WriteConcernFailed", "waiting for replication timed out");
    if is_durable { Ok(()) } else { Err(late()) }
}
