//! The one error type of this crate. MongoDB's numbers are attached in `commands`.

use collection::CollectionError;
use oplog::OplogError;
use storage_engine::EngineError;

/// Shorthand for results of this crate.
pub type Result<T> = std::result::Result<T, TransactionError>;

/// What can go wrong with a read or a write.
#[derive(Debug, thiserror::Error)]
pub enum TransactionError {
    /// From the layer of collections: names, definitions, documents, duplicate keys.
    #[error(transparent)]
    Collection(CollectionError),
    /// From the storage engine.
    #[error(transparent)]
    Engine(EngineError),
    /// From the oplog.
    #[error(transparent)]
    Oplog(OplogError),
    /// A commit was logged and could not be applied, so nothing after it can become visible. Opening the store again
    /// recovers it from the oplog.
    #[error("writes are stopped because a commit could not be applied; the server must be started again")]
    Stopped,
    /// The store could not be brought to where its replica set's log is.
    #[error(transparent)]
    SharedLog(Box<dyn std::error::Error + Send + Sync>),
    /// InterruptedDueToReplStateChange (11602): another member leads now, and whether what was waited for is in the shared log is not known.
    #[error("this member does not lead the replica set any more; whether the operation has happened is not known")]
    TermLost,
    /// NotWritablePrimary (10107): another member leads the replica set.
    #[error("not primary")]
    NotPrimary,
    /// A large transaction of the primary is decided and its commit has not come: until then no checkpoint can be made of what a restart has found of it.
    #[error("a large transaction that the primary has decided is not committed yet")]
    Undecided,
    /// NotWritablePrimary (10107): the shared log has not answered for a while, so nothing new is begun.
    #[error("the replica set's log has not answered for a while; nothing is written until it does")]
    LogUnreachable,
    /// The shared log does not have everything yet, and the store is being closed.
    #[error("the replica set's log does not have the newest commits yet, and the store is being closed")]
    Unconfirmed,
    /// There is no room for new data. Deletes are accepted, and everything is once there is space again.
    #[error("the disk is full: the {available_bytes} bytes that are left are kept for deletes and checkpoints")]
    OutOfSpace {
        /// Free bytes as last seen.
        available_bytes: u64,
    },
    /// All but a reserve of the pages that there can be are in use. Deletes are accepted.
    #[error(
        "the database is full: of its {pages} pages so few are left that they are kept for deletes and checkpoints"
    )]
    OutOfPages {
        /// How many there can be.
        pages: u64,
    },
    /// The data directory does not hold together: the checkpoint needs a part of the oplog that is not there.
    #[error("the oplog and the checkpoint do not fit together: {0}; a part of the oplog is missing or damaged")]
    OplogMissing(String),
    /// A part of the catalog cannot be read, so that no checkpoint can be made.
    #[error(
        "writes are stopped because a part of the catalog is damaged: {0}; 'plimsoll repair' saves what can be read into a new directory"
    )]
    CatalogDamaged(String),
    /// The machine's clock is so far ahead of what is stored that it cannot be right, or nobody has written for very long.
    #[error(
        "the machine's clock is {ahead_seconds} seconds ahead of the newest write (timestamp {newest}), and {accepted_seconds} are accepted: timestamps would \
         go ahead for good, and what expires would be deleted"
    )]
    ClockAhead {
        /// How far.
        ahead_seconds: i64,
        /// How far it may be.
        accepted_seconds: i64,
        /// The newest write.
        newest: platform::Timestamp,
    },
    /// TransactionTooOld (225): the session has gone on to a newer retryable write or transaction.
    #[error("{0}")]
    TransactionTooOld(String),
    /// InvalidLength (16): a session keeps no more of one retryable write.
    #[error("{0}")]
    TooManyStatements(String),
    /// IncompleteTransactionHistory (217): what a retry needs to know is not there any more.
    #[error("{0}")]
    IncompleteTransactionHistory(String),
    /// WriteConflict (112): another transaction, or a write since this transaction's snapshot, has changed what it wants to change.
    #[error(
        "Caused by :: Write conflict during plan execution and yielding is disabled. :: Please retry your operation or multi-document transaction."
    )]
    WriteConflict,
    /// LockTimeout (24): the definition of a collection is being changed, which the transaction does not wait for.
    #[error("Unable to acquire a lock on '{0}' within 5ms: its definition is being changed.")]
    LockTimeout(String),
    /// SnapshotUnavailable (246): definitions have changed since the transaction's snapshot.
    #[error("{0}")]
    SnapshotUnavailable(String),
    /// NoSuchTransaction (251).
    #[error("{0}")]
    NoSuchTransaction(String),
    /// TransactionCommitted (256).
    #[error("{0}")]
    TransactionCommitted(String),
    /// ConflictingOperationInProgress (117).
    #[error("{0}")]
    ConflictingOperation(String),
    /// TransactionTooLargeForCache (319): its changes do not fit into the memory budget.
    #[error("{0}")]
    TransactionTooLarge(String),
    /// OperationNotSupportedInTransaction (263).
    #[error("{0}")]
    NotInTransaction(String),
    /// Whoever waited for a transaction to let go of a record was asked to end.
    #[error("the operation was interrupted while it waited for a transaction")]
    Interrupted,
    /// TooManyLogicalSessions (261).
    #[error("cannot add session into the cache, there are too many sessions")]
    TooManySessions,
    /// A repair could not begin.
    #[error("{0}")]
    Repair(String),
    /// A temporary file could not be written or read.
    #[error("a temporary file could not be written or read: {0}")]
    TemporaryFile(std::io::Error),
    /// A background thread could not be started.
    #[error("a background thread could not be started: {0}")]
    Thread(std::io::Error),
}

impl From<CollectionError> for TransactionError {
    fn from(error: CollectionError) -> TransactionError {
        match error {
            CollectionError::Engine(error) => TransactionError::Engine(error),
            CollectionError::Oplog(error) => TransactionError::Oplog(error),
            error => TransactionError::Collection(error),
        }
    }
}

impl From<EngineError> for TransactionError {
    fn from(error: EngineError) -> TransactionError {
        TransactionError::Engine(error)
    }
}

impl From<OplogError> for TransactionError {
    fn from(error: OplogError) -> TransactionError {
        TransactionError::Oplog(error)
    }
}

impl TransactionError {
    /// Whether the collection was dropped before anything was done with it.
    pub fn is_dropped(&self) -> bool {
        matches!(self, TransactionError::Collection(CollectionError::CollectionDropped { .. }))
    }

    /// Whether what is stored is not what was written, so that opening it again fails again.
    pub fn is_damage(&self) -> bool {
        match self {
            TransactionError::OplogMissing(_)
            | TransactionError::CatalogDamaged(_)
            | TransactionError::Oplog(OplogError::Corrupt { .. }) => true,
            TransactionError::Engine(error) => error.is_damage(),
            TransactionError::Collection(error) => error.is_damage(),
            _ => false,
        }
    }

    /// Whether the collection to be created is there already.
    pub fn is_namespace_exists(&self) -> bool {
        matches!(self, TransactionError::Collection(CollectionError::NamespaceExists(_)))
    }
}
