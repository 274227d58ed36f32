//! The one error type of the engine.
//!
//! Returned by every fallible call of this crate; `transaction` and `collection` pass it on, `commands` gives it a code.

use std::sync::Arc;

use crate::page_store::{PageId, PageStoreError};

/// Why an engine call failed.
#[derive(Debug, Clone, thiserror::Error)]
pub enum EngineError {
    /// The page store could not read, write or allocate.
    #[error(transparent)]
    Store(Arc<PageStoreError>),
    /// A file of the engine's own (the history's spill file) could not be used.
    #[error("version history file: {0}")]
    HistoryFile(Arc<std::io::Error>),
    /// The file of a ring could not be used.
    #[error("ring file: {0}")]
    RingFile(Arc<std::io::Error>),
    /// A cursor over a ring was overtaken: what comes next is gone.
    #[error("the ring has overtaken the cursor: the document that comes next is gone")]
    RingPositionLost,
    /// A page of a tree is not what was written, or makes no sense.
    #[error("page {} of tree {tree} is damaged: {reason}", page.0)]
    Corrupt {
        /// Root page id of the tree; 0 when unknown.
        tree: u64,
        /// The page.
        page: PageId,
        /// What is wrong.
        reason: String,
    },
    /// A key is longer than [`crate::MAX_KEY_BYTES`].
    #[error("key of {length} bytes is longer than {}", crate::MAX_KEY_BYTES)]
    KeyTooLong {
        /// Its length in bytes.
        length: usize,
    },
    /// A value is longer than [`crate::MAX_VALUE_BYTES`].
    #[error("value of {length} bytes is longer than {}", crate::MAX_VALUE_BYTES)]
    ValueTooLong {
        /// Its length in bytes.
        length: usize,
    },
    /// The version history outgrew its quota and this snapshot, the oldest, was given up.
    #[error("the snapshot is too old: the versions it needs were dropped to keep the version history in its quota")]
    SnapshotTooOld,
    /// A tree that does not exist was named.
    #[error("there is no tree {0}")]
    NoSuchTree(u64),
    /// An earlier write failed; the engine takes no more changes until it is opened again.
    #[error("the storage engine stopped writing after an error: {0}")]
    Poisoned(String),
    /// There is no memory for a large value, a session, a transaction or a definition.
    #[error("what this needs does not fit into what is left of the memory: {0}")]
    NoMemory(platform::OverBudget),
    /// The cache is too small for the address space, or the machine refused the memory or a thread.
    #[error("{0}")]
    Setup(String),
}

impl EngineError {
    /// Says to which tree a damaged page belongs.
    pub(crate) fn in_tree(self, root: crate::TreeId) -> Self {
        match self {
            Self::Store(error) => match &*error {
                PageStoreError::Corrupt { page, address, reason } => {
                    Self::Corrupt { tree: root.0, page: *page, reason: format!("{reason} (block at {address:?})") }
                }
                _ => Self::Store(error),
            },
            Self::Corrupt { tree: 0, page, reason } => Self::Corrupt { tree: root.0, page, reason },
            other => other,
        }
    }

    /// Whether what is stored is not what was written.
    pub fn is_damage(&self) -> bool {
        match self {
            Self::Store(error) => error.is_damage(),
            Self::Corrupt { .. } => true,
            _ => false,
        }
    }

    /// Whether the disk was full: nothing is lost, and the call succeeds once there is space again.
    pub fn is_disk_full(&self) -> bool {
        match self {
            Self::Store(error) => matches!(**error, PageStoreError::DiskFull { .. }),
            Self::HistoryFile(error) | Self::RingFile(error) => platform::is_disk_full(error),
            _ => false,
        }
    }
}

impl From<PageStoreError> for EngineError {
    fn from(error: PageStoreError) -> Self {
        Self::Store(Arc::new(error))
    }
}

/// Shorthand for results of this crate.
pub type Result<T> = std::result::Result<T, EngineError>;

/// Why an optimistic attempt ended: somebody changed a page meanwhile, or something is really wrong.
#[derive(Debug)]
pub(crate) enum Retry {
    /// Begin again from the root.
    Restart,
    /// Give up.
    Failed(EngineError),
}

impl From<EngineError> for Retry {
    fn from(error: EngineError) -> Self {
        Self::Failed(error)
    }
}

/// Result of an optimistic attempt.
pub(crate) type Attempt<T> = std::result::Result<T, Retry>;
