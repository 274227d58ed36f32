//! Write concern: when a write is acknowledged.
//!
//! Used by every command that writes. On one server the choices are: applied (`w: 1`), durable (`j: true` or
//! `w: "majority"`), and no reply at all (`w: 0`, which the client also says by not waiting). What only more servers could satisfy is answered as a replica set answers
//! it: the write is done, and the reply has a `writeConcernError`.
//!
//! `wtimeout` is the longest that a client wants to wait for `w: "majority"`, here for the disk: beyond it the reply has a `writeConcernError`, and the
//! write stays. As the manual has it, it says nothing for `w: 1`, `j` or not.

use std::time::Duration;

use bson::{RawBsonRef, RawDocument};
use document::{Number, elements};
use oplog::Oplog;
use transaction::{Acknowledgement, CommitInfo};

use crate::CommandRequest;
use crate::request::arguments::Field;
use crate::request::error::{CommandError, Result};
use crate::state::context::{Context, ServerContext};

/// The commands that take `writeConcern`; those among them that we do not have yet are here for when we do.
const TAKEN_BY: [&str; 43] = [
    "abortTransaction",
    "aggregate",
    "appendOplogNote",
    "applyOps",
    "bulkWrite",
    "cloneCollectionAsCapped",
    "collMod",
    "commitTransaction",
    "convertToCapped",
    "create",
    "createIndexes",
    "createRole",
    "createSearchIndexes",
    "createUser",
    "delete",
    "drop",
    "dropAllRolesFromDatabase",
    "dropAllUsersFromDatabase",
    "dropDatabase",
    "dropIndexes",
    "dropRole",
    "dropUser",
    "findAndModify",
    "grantPrivilegesToRole",
    "grantRolesToRole",
    "grantRolesToUser",
    "insert",
    "mapReduce",
    "reIndex",
    "renameCollection",
    "replSetReconfig",
    "revokePrivilegesFromRole",
    "revokeRolesFromRole",
    "revokeRolesFromUser",
    "setClusterParameter",
    "setDefaultRWConcern",
    "setFeatureCompatibilityVersion",
    "setIndexCommitQuorum",
    "shardCollection",
    "update",
    "updateRole",
    "updateUser",
    "_mergeAuthzCollections",
];

/// Refuses `writeConcern` where it says nothing.
///
/// # Errors
/// InvalidOptions (72).
pub(crate) fn check_is_taken(command: &str) -> Result<()> {
    if TAKEN_BY.contains(&command) {
        return Ok(());
    }
    Err(CommandError::named("InvalidOptions", format!("Command {command} does not support writeConcern")))
}

/// What a command that has failed says of its write concern: a client that asks for more members than there are is told so in any case.
///
/// # Errors
/// Those of [`WriteConcern::check_satisfiable`]. A write concern that cannot be read is the command's own error.
pub(crate) fn check_beside_error(server: &ServerContext, request: &CommandRequest<'_>) -> Result<()> {
    let asked = match document::get_field(request.body, "writeConcern") {
        Some(RawBsonRef::Document(asked)) if TAKEN_BY.contains(&request.name) => WriteConcern::parse(asked).ok(),
        _ => None,
    };
    asked.map_or(Ok(()), |concern| concern.check_satisfiable(server))
}

/// When a write is acknowledged.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct WriteConcern {
    durable: bool,
    time_limit: Option<Duration>,
    members: Members,
}

/// Whose acknowledgement is asked for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
enum Members {
    /// Nobody waits for any.
    None,
    /// This one's.
    #[default]
    One,
    Majority,
    /// That of so many, which are more than there are.
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
        parsed.durable = journal.unwrap_or(parsed.durable || is_majority);
        parsed.time_limit = time_limit.filter(|_| is_majority).map(Duration::from_millis);
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

    /// Waits until everything committed so far is as safe as asked for.
    pub(crate) fn wait_for_all(&self, server: &ServerContext) -> Result<()> {
        let oplog = server.store.oplog();
        let end = oplog.end_position();
        match (self.durable, self.time_limit) {
            (false, _) => {}
            (true, None) => oplog.wait_durable(end)?,
            (true, Some(longest)) => in_time(oplog.wait_durable_within(end, longest)?)?,
        }
        self.check_satisfiable(server)
    }

    /// Waits until every later read sees a commit, and until it is durable if that was asked for.
    pub(crate) fn wait(&self, context: &mut Context<'_>, commit: Option<&CommitInfo>) -> Result<()> {
        if self.durable {
            context.release_ticket();
        }
        let store = &context.server.store;
        match (commit, self.durable, self.time_limit) {
            (None, ..) => {}
            (Some(commit), false, _) => store.acknowledge(commit, Acknowledgement::Visible)?,
            (Some(commit), true, None) => store.acknowledge(commit, Acknowledgement::Durable)?,
            (Some(commit), true, Some(longest)) => in_time(store.acknowledge_within(commit, longest)?)?,
        }
        self.check_satisfiable(context.server)
    }

    /// Whether one member can be enough.
    ///
    /// # Errors
    /// UnsatisfiableWriteConcern, UnknownReplWriteConcern.
    pub(crate) fn check_satisfiable(&self, server: &ServerContext) -> Result<()> {
        let too_few = || CommandError::named("UnsatisfiableWriteConcern", "Not enough data-bearing nodes");
        let Members::Mode(mode) = &self.members else {
            return if matches!(self.members, Members::Number(_)) { Err(too_few()) } else { Ok(()) };
        };
        let membership = server.replica_set.membership();
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

fn in_time(is_durable: bool) -> Result<()> {
    let late = || CommandError::named("WriteConcernFailed", "waiting for replication timed out");
    if is_durable { Ok(()) } else { Err(late()) }
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
