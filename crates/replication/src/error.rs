//! What stops a member, or keeps it from starting.

use oplog::{OplogError, OplogPosition};
use shared_log::SharedLogError;

/// Result of this crate.
pub type Result<T> = std::result::Result<T, ReplicationError>;

/// See the module's head.
#[derive(Debug, thiserror::Error)]
pub enum ReplicationError {
    /// From the shared log.
    #[error(transparent)]
    Log(#[from] SharedLogError),
    /// From the oplog of this member.
    #[error(transparent)]
    Oplog(#[from] OplogError),
    /// From the store, which applies what the log has.
    #[error(transparent)]
    Store(#[from] transaction::TransactionError),
    /// The file that says how far this member has read.
    #[error("the file {file} could not be read or written: {cause}")]
    StandingFile {
        /// Its name.
        file: &'static str,
        /// Why.
        cause: std::io::Error,
    },
    /// The log is another one than this member has followed.
    #[error(
        "the shared log is {found}, and this member has followed {known}: it was deleted and made again, or is another set's. Of a log that was lost, \
         `plimsoll log restore` makes one that members go on with"
    )]
    OtherLog {
        /// What is there.
        found: shared_log::LogIdentity,
        /// What this member knows.
        known: shared_log::LogIdentity,
    },
    /// The log was made again, from a member that had less than this one has, or something else.
    #[error(
        "the shared log was made again from a member that lacks what this one has from position {from} on, and the former log may have acknowledged it: make it \
         again from this member's data (`plimsoll log restore`), or, if that may be lost, start this member with an empty data directory"
    )]
    NotRestored {
        /// What is before is in the log.
        from: u64,
    },
    /// A log that is to be made again has records.
    #[error("there is a log here with {records} records: only one that was lost is made again, in an empty place")]
    NotEmpty {
        /// How many.
        records: u64,
    },
    /// The oplog ends before what this member has read of the log.
    #[error(
        "the oplog ends at {end}, and had {whole} when this member last read the shared log: a part of it is missing"
    )]
    OplogBehind {
        /// Its end.
        end: OplogPosition,
        /// What it had.
        whole: u64,
    },
    /// The set's oplog begins behind the end of this member's: it needs a copy of another member first.
    #[error(
        "the set's oplog begins at {begins}, and this member's ends at {end}: it needs a copy of another member's data first"
    )]
    NeedsCopy {
        /// Where the set's begins.
        begins: u64,
        /// Where this member's ends.
        end: OplogPosition,
    },
    /// This member has logged something else than the set has.
    #[error(
        "this member's oplog differs from the set's between positions {from} and {to}: its newest commits were never confirmed"
    )]
    Differs {
        /// They are equal before.
        from: u64,
        /// They differ before.
        to: u64,
    },
    /// Another member leads, and this one has logged what the set has not. Nobody was told of it; it is to be cut before this member can follow.
    #[error("this member has logged entries from position {from} on that the set does not have")]
    Unconfirmed {
        /// What is before is the set's.
        from: u64,
    },
    /// Somebody else has claimed the lead meanwhile.
    #[error("{address} leads the replica set, in term {term}")]
    OtherLeads {
        /// Who.
        address: String,
        /// Since which term.
        term: u64,
    },
    /// The log did not answer in time.
    #[error("the shared log has not answered for {seconds} seconds")]
    NoAnswer {
        /// How long it was waited for.
        seconds: u64,
    },
}
