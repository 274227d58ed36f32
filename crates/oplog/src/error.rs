//! What can go wrong with the oplog. Codes for clients are attached in `commands`.

use std::io;
use std::sync::Arc;

use crate::OplogPosition;

/// Result of oplog operations.
pub type Result<T> = std::result::Result<T, OplogError>;

/// Errors of the oplog. Cheap to clone: one cause is reported to everybody who waits.
#[derive(Clone, Debug, thiserror::Error)]
pub enum OplogError {
    /// A write or sync failed before. Nothing more is accepted or acknowledged until the server is started again,
    /// because after a failed sync nobody knows what is on the disk.
    #[error("the oplog is closed for writing because a write to disk failed: {cause}")]
    Poisoned {
        /// The failure that closed it.
        cause: Arc<io::Error>,
    },
    /// No space is left. Nothing that was appended is lost, and appending works again once space returns. From
    /// `wait_durable` it means: appended, visible, but not durable yet.
    #[error("the disk of the oplog is full")]
    DiskFull,
    /// The next segment file could not be made ready, for another reason than space. Tried again in the background.
    #[error("the next oplog segment could not be created: {cause}")]
    SegmentUnavailable {
        /// What the system said.
        cause: Arc<io::Error>,
    },
    /// An entry is larger than any segment may be.
    #[error("an oplog entry of {bytes} bytes is larger than the limit of {bytes_max}")]
    EntryTooLarge {
        /// Size of the payload.
        bytes: u64,
        /// Largest payload.
        bytes_max: u64,
    },
    /// The log is damaged: bytes that were durable are not what was written.
    #[error("the oplog is corrupt in segment {segment} at position {position}: {reason}")]
    Corrupt {
        /// File name of the segment.
        segment: String,
        /// Where in the log.
        position: OplogPosition,
        /// What is wrong there.
        reason: &'static str,
    },
    /// What was received from another member is no entry that belongs here.
    #[error("what was received for position {position} of the oplog is not what was logged there: {reason}")]
    NotAsLogged {
        /// Where.
        position: OplogPosition,
        /// What is wrong.
        reason: &'static str,
    },
    /// The segment was written by a version of the format that this build does not know.
    #[error("oplog segment {segment} has format version {version}; this build reads version {supported}")]
    UnsupportedVersion {
        /// File name of the segment.
        segment: String,
        /// Its version.
        version: u32,
        /// Ours.
        supported: u32,
    },
    /// The position asked for was truncated away.
    #[error("oplog position {position} is gone; the oldest is {first}")]
    PositionTruncated {
        /// What was asked for.
        position: OplogPosition,
        /// The oldest position that is left.
        first: OplogPosition,
    },
    /// The position asked for was never written, or is not the start of an entry.
    #[error("oplog position {position} is not the start of an entry (the end is {end})")]
    InvalidPosition {
        /// What was asked for.
        position: OplogPosition,
        /// The end of the log.
        end: OplogPosition,
    },
    /// A file operation that changes nothing failed (opening, reading, listing).
    #[error("the oplog could not {action}: {cause}")]
    Io {
        /// What was tried.
        action: &'static str,
        /// What the system said.
        cause: Arc<io::Error>,
    },
}

impl OplogError {
    /// For `map_err` on file operations.
    pub(crate) fn io(action: &'static str) -> impl FnOnce(io::Error) -> OplogError {
        move |cause| OplogError::Io { action, cause: Arc::new(cause) }
    }
}
