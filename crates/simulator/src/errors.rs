//! What an error of the store means to a simulated client.

use collection::CollectionError;
use oplog::OplogError;
use replication::ReplicationError;
use storage_engine::EngineError;
use transaction::TransactionError;

/// Kinds of errors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// No space; goes on when there is some.
    DiskFull,
    /// The disk failed, or has failed before.
    Disk,
    /// A checksum was wrong or what was read makes no sense.
    Corrupt,
    DuplicateKey,
    /// The collection or index is gone.
    Dropped,
    SnapshotTooOld,
    /// A ring has overtaken a cursor.
    PositionLost,
    /// Anything else.
    Other,
}

pub(crate) fn kind(error: &TransactionError) -> Kind {
    match error {
        TransactionError::Engine(error) => engine_kind(error),
        TransactionError::Oplog(error) => oplog_kind(error),
        TransactionError::OutOfSpace { .. } | TransactionError::OutOfPages { .. } => Kind::DiskFull,
        TransactionError::Stopped | TransactionError::TermLost => Kind::Disk,
        TransactionError::SharedLog(error) => match error.downcast_ref::<ReplicationError>() {
            Some(ReplicationError::Oplog(error)) => oplog_kind(error),
            Some(ReplicationError::StandingFile { .. }) => Kind::Disk,
            _ => Kind::Other,
        },
        TransactionError::OplogMissing(_) | TransactionError::CatalogDamaged(_) => Kind::Corrupt,
        TransactionError::Collection(error) => match error {
            CollectionError::DuplicateKey(_) => Kind::DuplicateKey,
            CollectionError::CollectionDropped { .. }
            | CollectionError::IndexDropped { .. }
            | CollectionError::IndexBuildAborted(_) => Kind::Dropped,
            CollectionError::Engine(error) => engine_kind(error),
            CollectionError::Oplog(error) => oplog_kind(error),
            CollectionError::Damaged(_) | CollectionError::DamagedData { .. } | CollectionError::SetAside { .. } => {
                Kind::Corrupt
            }
            _ => Kind::Other,
        },
        _ => Kind::Other,
    }
}

/// Whether a write was refused because the oplog's next segment could not be created; the next one tries again.
pub(crate) fn is_segment_unavailable(error: &TransactionError) -> bool {
    matches!(error, TransactionError::Oplog(OplogError::SegmentUnavailable { .. }))
}

fn engine_kind(error: &EngineError) -> Kind {
    use storage_engine::page_store::PageStoreError;
    match error {
        error if error.is_disk_full() => Kind::DiskFull,
        EngineError::RingFile(error) if error.kind() == std::io::ErrorKind::InvalidData => Kind::Corrupt,
        EngineError::Poisoned(_) | EngineError::HistoryFile(_) | EngineError::RingFile(_) => Kind::Disk,
        EngineError::Corrupt { .. } => Kind::Corrupt,
        EngineError::SnapshotTooOld => Kind::SnapshotTooOld,
        EngineError::RingPositionLost => Kind::PositionLost,
        EngineError::Store(error) => match **error {
            PageStoreError::Io { .. } | PageStoreError::Poisoned { .. } => Kind::Disk,
            PageStoreError::Corrupt { .. } | PageStoreError::CorruptFile { .. } => Kind::Corrupt,
            _ => Kind::Other,
        },
        _ => Kind::Other,
    }
}

fn oplog_kind(error: &OplogError) -> Kind {
    match error {
        OplogError::DiskFull => Kind::DiskFull,
        OplogError::Poisoned { .. } | OplogError::SegmentUnavailable { .. } | OplogError::Io { .. } => Kind::Disk,
        OplogError::Corrupt { .. } | OplogError::UnsupportedVersion { .. } => Kind::Corrupt,
        _ => Kind::Other,
    }
}
