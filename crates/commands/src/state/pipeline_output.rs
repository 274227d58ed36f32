//! What `$out` and `$merge` write with, for as long as the cursor of their pipeline is open.
//!
//! Made by `ServerContext` when a pipeline that writes begins. Their writes are of no session.

use std::sync::Arc;

use crate::state::context::ServerContext;
use crate::state::issued_timestamps::IssuedTimestamps;
use crate::state::operation_counts::OperationCounts;
use crate::state::queries::{OwnedQueries, Queries};
use crate::state::writing::Writing;

/// See the module's head.
#[derive(Clone)]
pub(crate) struct PipelineOutput {
    pub(crate) writing: Arc<Writing>,
    /// Those that replace empty ones in documents.
    pub(crate) timestamps: Arc<IssuedTimestamps>,
    pub(crate) counts: Arc<OperationCounts>,
    queries: OwnedQueries,
}

impl ServerContext {
    /// What a pipeline writes with.
    pub(crate) fn pipeline_output(&self) -> PipelineOutput {
        PipelineOutput {
            writing: self.writing.clone(),
            timestamps: self.timestamps.clone(),
            counts: self.counts.clone(),
            queries: self.queries().to_owned(),
        }
    }
}

impl PipelineOutput {
    /// What finds documents in what it writes to.
    pub(crate) fn queries(&self) -> Queries<'_> {
        self.queries.lend()
    }
}
