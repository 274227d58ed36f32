//! Write concern: when a write is acknowledged.
//!
//! Used by every command that writes. On one server the choices are: applied (`w: 1`), durable (`j: true` or
//! `w: "majority"`), and no reply at all (`w: 0`, which the client also says by not waiting).

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
}

impl WriteConcern {
    /// Acknowledged once it survives a crash.
    pub(crate) const DURABLE: WriteConcern = WriteConcern { durable: true };

    /// Parses `{w, j, wtimeout, fsync}`.
    pub(crate) fn parse(source: &RawDocument) -> Result<Self> {
        let mut parsed = Self::default();
        let mut journal = None;
        for element in elements(source) {
            let field = Field::of("writeConcern", element);
            match field.name() {
                "w" => parsed.durable |= parse_w(field)?,
                "j" => journal = Some(field.boolean()?),
                "fsync" => parsed.durable |= field.boolean()?,
                "wtimeout" => {
                    field.integer()?;
                }
                "provenance" => {}
                _ => return Err(field.unknown()),
            }
        }
        // A majority is durable unless the client says otherwise.
        parsed.durable = journal.unwrap_or(parsed.durable);
        Ok(parsed)
    }

    /// Waits until everything committed so far is as safe as asked for.
    pub(crate) fn wait_for_all(self, store: &Store) -> Result<()> {
        if self.durable {
            let end = store.oplog().end_position();
            store.oplog().wait_durable(end)?;
        }
        Ok(())
    }

    /// Waits until every later read sees a commit, and until it is durable if that was asked for.
    pub(crate) fn wait(self, context: &mut Context<'_>, commit: Option<&CommitInfo>) -> Result<()> {
        if self.durable {
            context.release_ticket();
        }
        let store = &context.server.store;
        let acknowledgement = if self.durable { Acknowledgement::Durable } else { Acknowledgement::Visible };
        match commit {
            Some(commit) => Ok(store.acknowledge(commit, acknowledgement)?),
            None => Ok(()),
        }
    }
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
