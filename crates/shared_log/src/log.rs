//! What a shared log must be able to do, and the values that pass through it.
//!
//! Implemented by `MemoryLog`, `DirectoryLog`, `ObjectLog`, and by `kafka_log`. Spoken to by whoever drives a `Writer` or a `Reading`.
//!
//! What is asked of an implementation, and nothing more:
//! - Records have offsets that grow by one. A record that was read at an offset is read there for ever, by everybody, or is trimmed.
//! - An append that was answered with an offset is there, durably, whatever fails. One that was not answered may be there, once or several
//!   times, or come to be there at any later time, behind whatever was appended meanwhile.
//! - Appends may arrive in another order than they were sent in.
//!
//! Who may append is not its business: the rule (`Reading`) decides what counts.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::{Refused, Result, SharedLogError};

/// How long a record that is known to be there may take to come: a log beyond a network has nothing at hand at first.
pub const ARRIVES_WITHIN: Duration = Duration::from_secs(10);

/// The number of a record in a shared log, from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Offset(pub u64);

impl Offset {
    /// That of the record behind.
    pub fn following(self) -> Offset {
        Offset(self.0.saturating_add(1))
    }
}

impl fmt::Display for Offset {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

/// What a shared log is known by: another one of the same name, made after it was deleted, has another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LogIdentity(pub [u8; 16]);

impl fmt::Display for LogIdentity {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(formatter, "{byte:02x}"))
    }
}

/// One attempt to append one record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(pub u64);

/// A record that is to be appended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sending {
    /// By which the outcome is told.
    pub ticket: Ticket,
    /// The encoded record.
    pub bytes: Arc<[u8]>,
}

/// What became of an append.
#[derive(Clone, Debug)]
pub struct AppendOutcome {
    /// The attempt.
    pub ticket: Ticket,
    /// Where the record is; or that it is not there, or that nobody knows.
    pub result: std::result::Result<Offset, Refused>,
}

/// A record as it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredRecord {
    /// Where it is.
    pub offset: Offset,
    /// The encoded record.
    pub bytes: Arc<[u8]>,
}

/// Which records a shared log has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// The oldest one that can be read.
    pub first: Offset,
    /// Behind the newest one.
    pub end: Offset,
}

impl Bounds {
    /// Whether records are to go so that the log begins at `offset`; `false`: it begins there already, or later.
    ///
    /// # Errors
    /// `Shorter`: it has no such record, and none that comes next.
    pub fn has_before(self, offset: Offset) -> Result<bool> {
        let Bounds { first, end } = self;
        if offset > end { Err(SharedLogError::Shorter { offset, end }) } else { Ok(offset > first) }
    }
}

/// A log that several machines append to and read.
pub trait SharedLog: Send + Sync {
    /// What it is known by. Whoever has read it before compares.
    ///
    /// # Errors
    /// `Unreachable`, `Damaged`.
    fn identity(&self) -> Result<LogIdentity>;

    /// Begins to append records; the outcome of each comes from `outcomes`, whatever happens. Must not be called with one that is
    /// larger than `STORED_BYTES_MAX`; its outcome is a refusal then.
    fn begin_append(&self, batch: &[Sending]);

    /// What became of appends since the last call; waits for one, but not longer than that.
    fn outcomes(&self, longest: Duration) -> Vec<AppendOutcome>;

    /// Records from `from` on, in order and without a gap, of about that size together, but at least one if there is one. Waits for one at
    /// the end of the log, but not longer than that. Who does not wait at all is given what is at hand: of a log beyond a network that may be
    /// nothing, though there is something.
    ///
    /// # Errors
    /// `Trimmed`; `Shorter` when `from` is behind the end; `Unreachable`, `Damaged`.
    fn read(&self, from: Offset, bytes_max: usize, longest: Duration) -> Result<Vec<StoredRecord>>;

    /// Which records there are.
    ///
    /// # Errors
    /// `Unreachable`, `Damaged`.
    fn bounds(&self) -> Result<Bounds>;

    /// Whether the log answers at all, within about that.
    ///
    /// # Errors
    /// `Unreachable`: it does not. `Damaged`.
    fn answers(&self, longest: Duration) -> Result<()>;

    /// Gives up the records before `offset`; returns the oldest one that is left, which may be an older one. The caller knows that nobody
    /// needs them.
    ///
    /// # Errors
    /// `Shorter` when `offset` is behind the end; `Unreachable`, `Damaged`.
    fn trim_before(&self, offset: Offset) -> Result<Offset>;

    /// Puts up a notice of a member beside the log, in the place of its last one. What counts never depends on notices: they may be lost, late, or of long ago.
    ///
    /// # Errors
    /// `Unreachable`.
    fn post(&self, node: u64, notice: &[u8]) -> Result<()>;

    /// The last notice of each member.
    ///
    /// # Errors
    /// `Unreachable`.
    fn notices(&self) -> Result<Vec<Vec<u8>>>;

    /// Takes a member's notice down: it does not belong to the set any more.
    ///
    /// # Errors
    /// `Unreachable`.
    fn withdraw(&self, node: u64) -> Result<()>;

    /// Examines whether the log keeps its promises as it is set up; each complaint is a sentence for the operator. A member with
    /// complaints does not serve.
    ///
    /// # Errors
    /// `Unreachable`, `Damaged`.
    fn check(&self) -> Result<Vec<String>>;
}
