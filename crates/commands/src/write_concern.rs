//! Write concern: when a write is acknowledged.
//!
//! Used by every command that writes. On one server the choices are: applied (`w: 1`), durable (`j: true` or
//! `w: "majority"`), and no reply at all (`w: 0`, which the client also says by not waiting). More than one server cannot be asked for.
//!
//! `wtimeout` is the longest that a client wants to wait for `w: "majority"`, here for the disk: beyond it the reply has a `writeConcernError`, and the
//! write stays. As the manual has it, it says nothing for `w: 1`, `j` or not.

use std::time::Duration;

use bson::{RawBsonRef, RawDocument};
use document::{Number, elements};
use oplog::Oplog;
use transaction::{Acknowledgement, CommitInfo, Store};

use crate::arguments::Field;
use crate::context::Context;
use crate::error::{CommandError, Result};

/// When a write is acknowledged.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct WriteConcern {
    durable: bool,
    time_limit: Option<Duration>,
}

impl WriteConcern {
    /// Parses `{w, j, wtimeout, fsync}`.
    pub(crate) fn parse(source: &RawDocument) -> Result<Self> {
        let mut parsed = Self::default();
        let (mut journal, mut time_limit, mut is_majority) = (None, None, false);
        for element in elements(source) {
            let field = Field::of("writeConcern", element);
            match field.name() {
                "w" => {
                    parsed.durable |= parse_w(field)?;
                    is_majority = parsed.durable;
                }
                "j" => journal = Some(field.boolean()?),
                "fsync" => parsed.durable |= field.boolean()?,
                // Zero, and less, is no limit.
                "wtimeout" => time_limit = u64::try_from(field.integer()?).ok().filter(|millis| *millis > 0),
                "provenance" => {}
                _ => return Err(field.unknown()),
            }
        }
        // A majority is durable unless the client says otherwise.
        parsed.durable = journal.unwrap_or(parsed.durable);
        parsed.time_limit = time_limit.filter(|_| is_majority).map(Duration::from_millis);
        Ok(parsed)
    }

    /// The same, and durable whatever was asked for.
    pub(crate) fn and_durable(self) -> Self {
        Self { durable: true, ..self }
    }

    /// Waits until everything committed so far is as safe as asked for.
    pub(crate) fn wait_for_all(self, store: &Store) -> Result<()> {
        let end = store.oplog().end_position();
        match (self.durable, self.time_limit) {
            (false, _) => Ok(()),
            (true, None) => Ok(store.oplog().wait_durable(end)?),
            (true, Some(longest)) => in_time(store.oplog().wait_durable_within(end, longest)?),
        }
    }

    /// Waits until every later read sees a commit, and until it is durable if that was asked for.
    pub(crate) fn wait(self, context: &mut Context<'_>, commit: Option<&CommitInfo>) -> Result<()> {
        if self.durable {
            context.release_ticket();
        }
        let store = &context.server.store;
        let Some(commit) = commit else { return Ok(()) };
        match (self.durable, self.time_limit) {
            (false, _) => Ok(store.acknowledge(commit, Acknowledgement::Visible)?),
            (true, None) => Ok(store.acknowledge(commit, Acknowledgement::Durable)?),
            (true, Some(longest)) => in_time(store.acknowledge_within(commit, longest)?),
        }
    }
}

fn in_time(is_durable: bool) -> Result<()> {
    let late = || CommandError::named("WriteConcernFailed", "waiting for replication timed out");
    if is_durable { Ok(()) } else { Err(late()) }
}

/// Whether `w` asks for durability.
fn parse_w(field: Field<'_>) -> Result<bool> {
    match field.value() {
        RawBsonRef::String("majority") => Ok(true),
        RawBsonRef::String(mode) => Err(CommandError::named(
            "UnknownReplWriteConcern",
            format!("No write concern mode named '{mode}' found in replica set configuration"),
        )),
        value => match Number::from_bson(value).and_then(Number::to_i64_exact) {
            Some(0 | 1) => Ok(false),
            Some(2..=50) => Err(CommandError::bad_value("cannot use 'w' > 1 when a host is not replicated")),
            Some(_) => Err(CommandError::failed_to_parse("w has to be a non-negative number and not greater than 50")),
            None => Err(CommandError::failed_to_parse("w has to be a number, a string or an object")),
        },
    }
}
