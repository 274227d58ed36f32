//! Write concern: when a write is to be acknowledged.
//!
//! Read by every command that writes, and waited for in `state::acknowledgement`. On one server the choices are:
//! applied (`w: 1`), durable (`j: true` or
//! `w: "majority"`), and no reply at all (`w: 0`, which the client also says by not waiting). What only more servers could satisfy is answered as a replica set answers
//! it: the write is done, and the reply has a `writeConcernError`.
//!
//! `wtimeout` is the longest that a client wants to wait for `w: "majority"`, here for the disk, or for several members: beyond it the reply has a
//! `writeConcernError`, and the write stays. As the manual has it, it says nothing for `w: 1`, `j` or not.

use std::time::Duration;

use bson::{RawBsonRef, RawDocument};
use document::{Number, elements};

use crate::request::declaration::{Declaration, WriteConcernUse};
use crate::request::error::{CommandError, Result};
use crate::request::field::Field;

/// Refuses `writeConcern` where it says nothing.
///
/// # Errors
/// InvalidOptions (72).
pub(crate) fn check_is_taken(command: &Declaration) -> Result<()> {
    match command.write_concern {
        WriteConcernUse::Taken => Ok(()),
        WriteConcernUse::Refused => {
            let message = format!("Command {} does not support writeConcern", command.name);
            Err(CommandError::named("InvalidOptions", message))
        }
    }
}

/// When a write is acknowledged.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct WriteConcern {
    pub(crate) durable: bool,
    pub(crate) time_limit: Option<Duration>,
    pub(crate) members: Members,
}

/// Whose acknowledgement is asked for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) enum Members {
    /// Nobody waits for any.
    None,
    /// This one's.
    #[default]
    One,
    Majority,
    /// That of so many. More than one are there only on a set with a shared log.
    Number(i64),
    /// Those that the replica set's configuration describes under this name.
    Mode(Box<str>),
}

impl WriteConcern {
    /// Parses `{w, j, wtimeout, fsync}`.
    pub(crate) fn parse(source: &RawDocument) -> Result<Self> {
        let mut parsed = Self::default();
        let (mut journal, mut time_limit) = (None, None);
        for element in elements(source) {
            let field = Field::of("writeConcern", element);
            match field.name() {
                "w" if field.is_null() => {}
                "w" => parsed.members = parse_w(field)?,
                "j" => journal = field.optional_boolean()?,
                "fsync" => parsed.durable = field.boolean()?,
                // Zero, and less, is no limit.
                "wtimeout" => {
                    time_limit =
                        field.integer()?.and_then(|millis| u64::try_from(millis).ok()).filter(|millis| *millis > 0)
                }
                "provenance" => {}
                _ => return Err(field.unknown()),
            }
        }
        if parsed.durable && journal == Some(true) {
            return Err(CommandError::failed_to_parse("fsync and j options cannot be used together"));
        }
        // A majority is durable unless the client says otherwise.
        let is_majority = parsed.members == Members::Majority;
        let has_limit = is_majority || matches!(parsed.members, Members::Number(_));
        parsed.durable = journal.unwrap_or(parsed.durable || is_majority);
        parsed.time_limit = time_limit.filter(|_| has_limit).map(Duration::from_millis);
        Ok(parsed)
    }

    /// One that asks for these members, as `w` or `commitQuorum` names them.
    pub(crate) fn of_members(field: Field<'_>) -> Result<Self> {
        Ok(Self { members: parse_w(field)?, ..Self::default() })
    }

    /// The same, and durable whatever was asked for.
    pub(crate) fn and_durable(self) -> Self {
        Self { durable: true, ..self }
    }

    /// That of a majority.
    pub(crate) fn majority() -> Self {
        Self { durable: true, time_limit: None, members: Members::Majority }
    }

    /// Whether nobody would wait.
    pub(crate) fn is_unacknowledged(&self) -> bool {
        self.members == Members::None
    }
}

fn parse_w(field: Field<'_>) -> Result<Members> {
    match field.value() {
        RawBsonRef::String("majority") => Ok(Members::Majority),
        RawBsonRef::String(mode) => Ok(Members::Mode(mode.into())),
        value => match Number::from_bson(value).and_then(Number::to_i64_exact) {
            Some(0) => Ok(Members::None),
            Some(1) => Ok(Members::One),
            Some(number @ 2..=50) => Ok(Members::Number(number)),
            Some(_) => Err(CommandError::failed_to_parse("w has to be a non-negative number and not greater than 50")),
            None => Err(CommandError::failed_to_parse("w has to be a number, a string or an object")),
        },
    }
}
