//! What can go wrong with a shared log. Codes for clients are attached in `commands`.
//!
//! Errors that only say "not now" and errors that stop a member for good are told apart by `is_passing`.

use std::io;
use std::sync::Arc;

use crate::Offset;

/// Result of operations on a shared log.
pub type Result<T> = std::result::Result<T, SharedLogError>;

/// Errors of shared logs and of what is read from them. Cheap to clone.
#[derive(Clone, Debug, thiserror::Error)]
pub enum SharedLogError {
    /// It is encrypted, or is not, and the key does not fit.
    #[error("the shared log cannot be used: {cause}")]
    Key {
        /// What does not fit.
        cause: String,
    },
    /// It cannot be reached at the moment, or did not answer in time.
    #[error("the shared log cannot be reached: {cause}")]
    Unreachable {
        /// What was noticed.
        cause: String,
    },
    /// There is no shared log at that place.
    #[error("there is no shared log here (log create)")]
    Absent,
    /// There is one already.
    #[error("there is a shared log here already")]
    Exists,
    /// Its disks are full.
    #[error("the shared log takes nothing, because it has no space left")]
    Full,
    /// A file operation failed.
    #[error("the shared log could not {action}: {cause}")]
    Io {
        /// What was tried.
        action: &'static str,
        /// What the system said.
        cause: Arc<io::Error>,
    },
    /// A record is larger than any log takes.
    #[error("a record of {bytes} bytes is larger than the limit of {bytes_max}")]
    TooLarge {
        /// Its size.
        bytes: usize,
        /// The largest.
        bytes_max: usize,
    },
    /// What was asked for has been given up: this member needs a newer snapshot.
    #[error("record {offset} of the shared log is gone; the oldest is {first}")]
    Trimmed {
        /// What was asked for.
        offset: Offset,
        /// The oldest that is left.
        first: Offset,
    },
    /// It ends before what this member has read of it: records that were acknowledged are lost.
    #[error(
        "the shared log ends at record {end}, but records up to {offset} have been read: it has lost some (log restore)"
    )]
    Shorter {
        /// Where this member is.
        offset: Offset,
        /// Where the log ends.
        end: Offset,
    },
    /// Something of it is not what was written.
    #[error("record {offset} of the shared log is damaged: {reason}")]
    Damaged {
        /// Where.
        offset: Offset,
        /// What is wrong there.
        reason: &'static str,
    },
    /// A record was written by a release that this one does not know.
    #[error("record {offset} of the shared log has format version {version}; this build reads version {supported}")]
    UnsupportedVersion {
        /// Where.
        offset: Offset,
        /// Its version.
        version: u16,
        /// Ours.
        supported: u16,
    },
    /// The caller did not give the records in order.
    #[error("record {offset} of the shared log was read where {expected} comes next")]
    OutOfOrder {
        /// What was given.
        offset: Offset,
        /// What was to come.
        expected: Offset,
    },
    /// The record's writer had found more in the log, before this record, than this member has: one of the two has misread it.
    #[error(
        "the writer of record {offset} of the shared log knew of term {term} and position {position}, and this member of term {own_term} and position \
         {own_position}: one of them has misread the log"
    )]
    Missed {
        /// Where.
        offset: Offset,
        /// What its writer knew.
        term: u64,
        /// What its writer knew.
        position: u64,
        /// What this member has.
        own_term: u64,
        /// What this member has.
        own_position: u64,
    },
    /// The record's writer has other bytes before this record than this member has.
    #[error("record {offset} of the shared log continues other bytes than this member has before position {position}")]
    Diverged {
        /// Where.
        offset: Offset,
        /// Where in the oplog.
        position: u64,
    },
}

impl SharedLogError {
    /// Whether it may go away by itself, so that the member waits and tries again. Otherwise it stops, and says so.
    pub fn is_passing(&self) -> bool {
        matches!(self, SharedLogError::Unreachable { .. } | SharedLogError::Full | SharedLogError::Io { .. })
    }

    /// For `map_err` on file operations.
    pub(crate) fn io(action: &'static str) -> impl FnOnce(io::Error) -> SharedLogError {
        move |cause| match platform::is_disk_full(&cause) {
            true => SharedLogError::Full,
            false => SharedLogError::Io { action, cause: Arc::new(cause) },
        }
    }
}

/// Why an append has no offset.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Refused {
    /// The record is not in the log, and will not be.
    #[error("nothing was appended: {0}")]
    NotAppended(SharedLogError),
    /// The record may be in the log, now or later.
    #[error("whether it was appended is not known: {0}")]
    Unknown(SharedLogError),
}
