//! `$indexStats`: how often each index was used.

use std::sync::Arc;

use bson::raw::{RawBsonRef, RawDocumentBuf, cstr};
use query_language::expression::DependencySet;

use crate::context::{PipelineContext, RunContext};
use crate::error::{AggregationError, Result};
use crate::host::{BoxSource, source_of};
use crate::stage::{Needs, PipelineStage, Placement, Stage, stage_document};

#[derive(Debug)]
struct IndexStats;

pub(crate) fn parse(argument: RawBsonRef<'_>, _: &PipelineContext) -> Result<Vec<Stage>> {
    match argument {
        RawBsonRef::Document(document) if document.is_empty() => Ok(vec![Stage::other(IndexStats)]),
        _ => {
            let message = "The $indexStats stage specification must be an empty object";
            Err(AggregationError::numbered(28803, message))
        }
    }
}

impl PipelineStage for IndexStats {
    fn open(self: Arc<Self>, _: BoxSource, run: &RunContext) -> Result<BoxSource> {
        Ok(source_of(run.host.index_statistics(&run.pipeline.namespace)?))
    }

    fn dependencies(&self, _: &mut DependencySet) -> Needs {
        Needs::Nothing
    }

    fn placement(&self) -> Placement {
        Placement::First
    }

    fn to_bson(&self) -> Result<RawDocumentBuf> {
        Ok(stage_document(cstr!("$indexStats"), RawDocumentBuf::new()))
    }
}
