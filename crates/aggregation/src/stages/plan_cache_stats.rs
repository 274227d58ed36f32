//! `$planCacheStats`: the decisions between plans that are remembered for the collection.

use std::sync::Arc;

use bson::raw::{RawBsonRef, RawDocumentBuf, cstr};
use query_language::ErrorKind;
use query_language::expression::DependencySet;

use crate::context::{PipelineContext, RunContext};
use crate::error::{AggregationError, Result};
use crate::host::{BoxSource, source_of};
use crate::stage::{Needs, PipelineStage, Placement, Stage, stage_document};

#[derive(Debug)]
struct PlanCacheStats;

pub(crate) fn parse(argument: RawBsonRef<'_>, _: &PipelineContext) -> Result<Vec<Stage>> {
    let RawBsonRef::Document(options) = argument else {
        let message = "$planCacheStats value must be an object.";
        return Err(AggregationError::new(ErrorKind::FailedToParse, message));
    };
    match options.iter().next().transpose()? {
        None => Ok(vec![Stage::other(PlanCacheStats)]),
        Some((name, _)) => {
            let message = format!("$planCacheStats parameters object must be empty. Found: {name}");
            Err(AggregationError::new(ErrorKind::FailedToParse, message))
        }
    }
}

impl PipelineStage for PlanCacheStats {
    fn open(self: Arc<Self>, _: BoxSource, run: &RunContext) -> Result<BoxSource> {
        Ok(source_of(run.host.plan_cache_statistics(&run.pipeline.namespace)?))
    }

    fn dependencies(&self, _: &mut DependencySet) -> Needs {
        Needs::Nothing
    }

    fn placement(&self) -> Placement {
        Placement::First
    }

    fn to_bson(&self) -> Result<RawDocumentBuf> {
        Ok(stage_document(cstr!("$planCacheStats"), RawDocumentBuf::new()))
    }
}
