//! How often what was done, for `serverStatus`.
//!
//! Counted by the commands and, at their end, by `dispatcher`.

use std::sync::atomic::{AtomicU64, Ordering};

/// Counts of operations by kind, for `serverStatus`.
#[derive(Debug, Default)]
pub(crate) struct OperationCounts {
    pub(crate) insert: AtomicU64,
    pub(crate) query: AtomicU64,
    pub(crate) update: AtomicU64,
    pub(crate) delete: AtomicU64,
    pub(crate) get_more: AtomicU64,
    pub(crate) command: AtomicU64,
    pub(crate) documents_inserted: AtomicU64,
    pub(crate) documents_updated: AtomicU64,
    pub(crate) documents_deleted: AtomicU64,
    pub(crate) documents_returned: AtomicU64,
    pub(crate) keys_examined: AtomicU64,
    pub(crate) docs_examined: AtomicU64,
    /// Operations that sorted what no index gives in order, and that read a collection as a whole.
    pub(crate) sorts: AtomicU64,
    pub(crate) collection_scans: AtomicU64,
    /// Commands and statements that failed because of another's writes.
    pub(crate) write_conflicts: AtomicU64,
}

/// Adds to a counter.
pub(crate) fn count(counter: &AtomicU64, by: u64) {
    counter.fetch_add(by, Ordering::Relaxed);
}
