//! What `currentOp` shows of cursors. Counted by the cursors themselves, one batch at a time.

use std::sync::Arc;

use bson::RawDocumentBuf;

use crate::state::access_control::names::UserName;

/// What `currentOp` shows of a cursor.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct CursorFigures {
    /// By the wall clock, in milliseconds.
    pub(crate) created: i64,
    pub(crate) last_used: i64,
    pub(crate) documents: u64,
    pub(crate) batches: u64,
    pub(crate) has_no_timeout: bool,
    pub(crate) is_tailable: bool,
    pub(crate) awaits: bool,
}

/// An idle cursor, for `currentOp`.
pub(crate) struct IdleCursor {
    pub(crate) id: i64,
    pub(crate) namespace: String,
    pub(crate) session: Option<bson::Uuid>,
    pub(crate) owner: Option<Arc<UserName>>,
    pub(crate) command: Option<Arc<RawDocumentBuf>>,
    pub(crate) figures: CursorFigures,
}
