//! What stages count.

/// Of one stage.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct StageStatistics {
    pub(crate) works: u64,
    pub(crate) advanced: u64,
    pub(crate) keys_examined: u64,
    pub(crate) docs_examined: u64,
    /// Of the documents examined, those that a second thread has read.
    pub(crate) docs_examined_ahead: u64,
    /// Documents that a search did not want.
    pub(crate) docs_rejected: u64,
    pub(crate) seeks: u64,
    pub(crate) duplicates_dropped: u64,
    /// Bytes of sorted keys and documents.
    pub(crate) sorted_bytes: u64,
    /// Times that memory did not suffice, and bytes that went to temporary files.
    pub(crate) spills: u64,
    pub(crate) spilled_bytes: u64,
    pub(crate) is_at_end: bool,
}

impl StageStatistics {
    /// Adds what another stage has examined.
    pub(crate) fn add(&mut self, below: &StageStatistics) {
        self.keys_examined += below.keys_examined;
        self.docs_examined += below.docs_examined;
        self.works += below.works;
    }
}

/// Of a whole execution.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ExecutionTotals {
    /// Index entries looked at.
    pub keys_examined: u64,
    /// Documents looked at.
    pub docs_examined: u64,
    /// Documents yielded.
    pub returned: u64,
    /// Units of work.
    pub works: u64,
}
