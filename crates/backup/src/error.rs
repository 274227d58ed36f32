//! What can go wrong with a backup. `commands` attaches MongoDB's codes.

use oplog::OplogError;
use storage_engine::EngineError;
use storage_engine::page_store::PageStoreError;
use transaction::TransactionError;

/// Result of this crate's functions.
pub type Result<T> = std::result::Result<T, BackupError>;

/// Why a backup, the archive or a restore failed.
#[derive(Debug, thiserror::Error)]
pub enum BackupError {
    /// The place where backups are cannot be used.
    #[error("{0}")]
    Place(String),
    /// A file of a backup is not there.
    #[error("{0} is missing")]
    Missing(String),
    /// A file of a backup is not what was written.
    #[error("{name} is damaged: {reason}")]
    Damaged {
        /// Which.
        name: String,
        /// What is wrong.
        reason: String,
    },
    /// A file of a backup was written by a version of the format that this build does not know.
    #[error("{name} has format version {version}; this build reads {supported}")]
    UnsupportedVersion {
        /// Which.
        name: String,
        /// The version that it has.
        version: u32,
        /// The version that is read.
        supported: u32,
    },
    /// Another key is needed, or one at all.
    #[error("{0}")]
    Key(String),
    /// There is nothing to restore from, or not to that moment.
    #[error("{0}")]
    Unreachable(String),
    /// A file of a backup could not be read or written.
    #[error("{name} could not be {action}: {cause}")]
    Io {
        /// Which.
        name: String,
        /// What was tried.
        action: &'static str,
        /// What the system said.
        cause: std::io::Error,
    },
    /// The disk of the server is full: the copy gives its space back first.
    #[error("the server's disk is full: the backup was ended, and what was kept for it is given back")]
    DiskFull,
    /// Somebody asked it to end.
    #[error("the backup was ended before it was complete")]
    Stopped,
    /// The store that is copied, or that is restored into.
    #[error(transparent)]
    Store(#[from] TransactionError),
    /// Its pages.
    #[error(transparent)]
    Pages(#[from] PageStoreError),
    /// Its oplog.
    #[error(transparent)]
    Oplog(#[from] OplogError),
}

impl From<EngineError> for BackupError {
    fn from(error: EngineError) -> Self {
        Self::Store(error.into())
    }
}

impl BackupError {
    /// Whether a file is there that cannot be used: it is damaged, or of a newer build.
    pub(crate) fn is_unreadable(&self) -> bool {
        matches!(self, BackupError::Damaged { .. } | BackupError::UnsupportedVersion { .. })
    }

    pub(crate) fn damaged(name: &str, reason: impl std::fmt::Display) -> Self {
        Self::Damaged { name: name.to_owned(), reason: reason.to_string() }
    }

    pub(crate) fn io(name: &str, action: &'static str) -> impl FnOnce(std::io::Error) -> Self + use<> {
        let name = name.to_owned();
        move |cause| match cause.kind() {
            std::io::ErrorKind::NotFound if action == "read" => Self::Missing(name),
            _ => Self::Io { name, action, cause },
        }
    }
}
