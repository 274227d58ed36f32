//! `$collStats`: statistics of the collection, one document.

use std::sync::Arc;

use bson::raw::{RawBsonRef, RawDocumentBuf, cstr};
use query_language::ErrorKind;
use query_language::expression::DependencySet;

use super::type_of;
use crate::context::{PipelineContext, RunContext};
use crate::error::{AggregationError, Result};
use crate::host::{BoxSource, source_of};
use crate::stage::{Needs, PipelineStage, Placement, Stage, stage_document};

#[derive(Debug)]
struct CollStats(RawDocumentBuf);

const SECTIONS: &[&str] = &["latencyStats", "storageStats", "count", "queryExecStats"];

pub(crate) fn parse(argument: RawBsonRef<'_>, _: &PipelineContext) -> Result<Vec<Stage>> {
    let RawBsonRef::Document(options) = argument else {
        let message = format!("$collStats must take a nested object but found: $collStats: {}", type_of(argument));
        return Err(AggregationError::numbered(5447000, message));
    };
    for element in options {
        let (name, value) = element?;
        if !SECTIONS.contains(&name.as_str()) {
            let message = format!("BSON field '$collStats.{name}' is an unknown field.");
            return Err(AggregationError::numbered(40415, message));
        }
        if !matches!(value, RawBsonRef::Document(_)) {
            let found = type_of(value);
            let message = format!("BSON field '$collStats.{name}' is the wrong type '{found}', expected type 'object'");
            return Err(AggregationError::new(ErrorKind::TypeMismatch, message));
        }
    }
    Ok(vec![Stage::other(CollStats(options.to_owned()))])
}

impl PipelineStage for CollStats {
    fn open(self: Arc<Self>, _: BoxSource, run: &RunContext) -> Result<BoxSource> {
        Ok(source_of([run.host.collection_statistics(&run.pipeline.namespace, &self.0)?]))
    }

    fn dependencies(&self, _: &mut DependencySet) -> Needs {
        Needs::Nothing
    }

    fn placement(&self) -> Placement {
        Placement::First
    }

    fn to_bson(&self) -> Result<RawDocumentBuf> {
        Ok(stage_document(cstr!("$collStats"), self.0.clone()))
    }
}
