//! What a command declares of itself, once, beside its handler.
//!
//! `registry` lists the declarations; `dispatcher`, `listCommands`, the compatibility page and the server's counters derive from them what they do
//! with a command. Nothing else lists commands by name.

use crate::request::audit_events::Audited;
use crate::request::privileges::Privilege;
use crate::request::read_level::Level;
use crate::request::requirements::Computed;

/// See the module's head.
#[derive(Debug)]
pub(crate) struct Declaration {
    pub(crate) name: &'static str,
    /// Other names it answers to.
    pub(crate) aliases: &'static [&'static str],
    pub(crate) help: &'static str,
    /// What the server must be.
    pub(crate) needs: Needs,
    /// What a user must be allowed to do, whatever the fields say.
    pub(crate) privileges: &'static [Privilege],
    /// What it needs beside that, by its fields.
    pub(crate) computed: Option<Computed>,
    /// Whether its first field is another command, whose privileges it needs.
    pub(crate) is_about_command: bool,
    /// What the audit log is told of it.
    pub(crate) audit: Option<Audited>,
    /// Fields that are shown to nobody.
    pub(crate) secrets: &'static [&'static str],
    pub(crate) authentication: Authentication,
    pub(crate) is_admin_only: bool,
    /// Whether `opcounters.command` counts it; CRUD has counters of its own.
    pub(crate) counts_as_command: bool,
    /// The fields that may come as document sequences.
    pub(crate) sequences: &'static [&'static str],
    /// What it needs in order to run.
    pub(crate) class: Class,
    pub(crate) changes: Changes,
    pub(crate) session_use: SessionUse,
    /// What becomes of it when its client goes away.
    pub(crate) without_client: WithoutClient,
    /// The levels of `readConcern` that it takes, beside `local`.
    pub(crate) read_concerns: &'static [Level],
    pub(crate) write_concern: WriteConcernUse,
    pub(crate) stable_api: StableApi,
    pub(crate) cursor: CursorUse,
    /// What it may see that a shared log has not confirmed; asked by `sees`.
    pub(crate) sees: Sees,
}

/// What a command may have seen when it replies. Where commits are confirmed by a shared log, the reply waits for that.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sees {
    /// Documents that are confirmed, and the newest definitions.
    Confirmed,
    /// The newest of everything: it writes, or counts without reading.
    Newest,
    /// The one or the other, by the stages of its pipeline.
    NewestByStages,
}

/// What the server must be for a command, as a member of a replica set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Needs {
    /// Whatever it is: the command is about the server itself, its sessions or its replica set.
    Nothing,
    /// It has data that can be read; on a member that is no primary only for who asks for that.
    Data,
    /// It is the primary.
    Primary,
}

/// Whether a client must have said who it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Authentication {
    Needed,
    NotNeeded,
}

/// What a command needs in order to run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Class {
    /// Nothing: it answers however loaded the server is.
    Exempt,
    /// A place among the reads.
    Read,
    /// A place among the writes.
    Write,
}

/// What a command changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Changes {
    /// Nothing that is stored; or what the server keeps of its own, which `fsync` with `lock` does not hold up.
    Nothing,
    /// Documents or definitions.
    Stored,
}

/// What a command can be in a session, beside a use of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SessionUse {
    /// Nothing.
    Plain,
    /// A part of a transaction.
    InTransaction,
    /// A part of a transaction, or a retryable write.
    RetryableWrite,
    /// The end of a transaction.
    EndsTransaction,
}

/// What becomes of a command whose client has closed the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WithoutClient {
    /// It ends: nobody wants its reply, and it has no other use.
    Ends,
    /// It goes on: it changes something.
    GoesOn,
}

/// Whether a command takes `writeConcern`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WriteConcernUse {
    Refused,
    Taken,
}

/// In which version of the stable API it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StableApi {
    NoVersion,
    Version1,
}

/// Whether a command goes on with what an earlier one has begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CursorUse {
    /// It begins for itself, and may begin again.
    BeginsAnew,
    /// It goes on with a cursor, which has its own snapshot and place.
    GoesOn,
}

impl Declaration {
    /// One that changes nothing, and says nothing of what is not said here.
    pub(crate) const fn new(
        name: &'static str,
        help: &'static str,
        needs: Needs,
        privileges: &'static [Privilege],
    ) -> Self {
        Self {
            name,
            aliases: &[],
            help,
            needs,
            privileges,
            computed: None,
            is_about_command: false,
            audit: None,
            secrets: &[],
            authentication: Authentication::Needed,
            is_admin_only: false,
            counts_as_command: true,
            sequences: &[],
            class: Class::Exempt,
            changes: Changes::Nothing,
            session_use: SessionUse::Plain,
            without_client: WithoutClient::Ends,
            read_concerns: &[],
            write_concern: WriteConcernUse::Refused,
            stable_api: StableApi::NoVersion,
            cursor: CursorUse::BeginsAnew,
            sees: Sees::Confirmed,
        }
    }

    /// See `Sees`. Whatever can write has seen the newest state.
    pub(crate) fn sees(&self) -> Sees {
        let writes = self.class == Class::Write
            || self.changes == Changes::Stored
            || self.needs == Needs::Primary
            || self.write_concern == WriteConcernUse::Taken;
        if writes && self.sees == Sees::Confirmed { Sees::Newest } else { self.sees }
    }

    /// Whether it answers to a name.
    pub(crate) fn has_name(&self, name: &str) -> bool {
        self.name == name || self.aliases.contains(&name)
    }
}
