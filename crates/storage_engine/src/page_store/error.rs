//! What can go wrong in the page store.

use std::io;

use super::address::{PageAddress, PageId};

/// Result of the page store's functions.
pub type Result<T> = std::result::Result<T, PageStoreError>;

/// An error of the page store.
#[derive(Debug, thiserror::Error)]
pub enum PageStoreError {
    /// A file operation failed. If it was a write or a sync, the store is poisoned from now on.
    #[error("{operation} of {file} failed: {cause}")]
    Io {
        /// What was attempted.
        operation: &'static str,
        /// The file, relative to the data directory.
        file: String,
        /// What the system said.
        #[source]
        cause: io::Error,
    },
    /// A page's block is not what was written there.
    #[error("page {page} at {address:?} is corrupt: {reason}")]
    Corrupt {
        /// The page that was asked for.
        page: PageId,
        /// Where it should be.
        address: PageAddress,
        /// What is wrong.
        reason: String,
    },
    /// A superblock or page-table file is not what was written.
    #[error("{file} is corrupt at byte {offset}: {reason}")]
    CorruptFile {
        /// The file, relative to the data directory.
        file: String,
        /// Where.
        offset: u64,
        /// What is wrong.
        reason: String,
    },
    /// The file is of another format version, or the options cannot be used with it.
    #[error("{file} cannot be used: {reason}")]
    Format {
        /// The file, relative to the data directory.
        file: String,
        /// Why not.
        reason: String,
    },
    /// No space for a write. Nothing changed; the same call may be made again when space has returned.
    #[error("no space left on the disk for {operation}")]
    DiskFull {
        /// What was attempted.
        operation: &'static str,
    },
    /// An earlier write or sync failed, so what is on disk is unknown; nothing is written any more.
    #[error("the page store takes no writes since an earlier failure: {cause}")]
    Poisoned {
        /// The earlier failure.
        cause: String,
    },
    /// A page version arrived for a checkpoint that is published, being published, or not begun.
    #[error("page {page} was written for checkpoint {epoch}, which does not take pages")]
    WrongEpoch {
        /// The page.
        page: PageId,
        /// The epoch it came with.
        epoch: u64,
    },
    /// `freeze_epoch` while the frozen epoch is not published, or `publish` without a frozen epoch.
    #[error("checkpoint out of order: {reason}")]
    CheckpointOrder {
        /// Which of the two.
        reason: &'static str,
    },
    /// All page ids are in use.
    #[error("all {limit} page ids are in use")]
    TooManyPages {
        /// How many there are.
        limit: u64,
    },
    /// An argument is out of its range.
    #[error("{reason}")]
    Argument {
        /// Which and why.
        reason: String,
    },
}

impl PageStoreError {
    /// Whether what is stored is not what was written.
    pub(crate) fn is_damage(&self) -> bool {
        matches!(self, Self::Corrupt { .. } | Self::CorruptFile { .. })
    }
}
