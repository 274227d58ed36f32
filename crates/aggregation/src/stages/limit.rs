//! `$limit`: the first documents.

use std::sync::Arc;

use bson::raw::{RawBsonRef, RawDocumentBuf, cstr};
use document::Number;
use query_language::expression::show_value;
use query_language::expression::{DependencySet, Metadata};

use crate::context::{PipelineContext, RunContext};
use crate::error::{AggregationError, Result};
use crate::host::{BoxSource, DocumentSource};
use crate::stage::{Needs, PipelineStage, Stage, stage_document};

/// How many documents pass.
#[derive(Debug)]
pub(crate) struct Limit(pub(crate) u64);

pub(crate) fn parse(argument: RawBsonRef<'_>, _: &PipelineContext) -> Result<Vec<Stage>> {
    let invalid = |text: &str| {
        let message = format!("invalid argument to $limit stage: {text} in: $limit: {}", show_value(argument));
        AggregationError::numbered(5107201, message)
    };
    let number = Number::from_bson(argument).ok_or_else(|| invalid("Expected a number"))?;
    let limit = number.to_i64_exact().ok_or_else(|| invalid("Expected an integer"))?;
    let limit = u64::try_from(limit).map_err(|_| invalid("Expected a non-negative number"))?;
    if limit == 0 {
        return Err(AggregationError::numbered(15958, "the limit must be positive"));
    }
    Ok(vec![Stage::Limit(Arc::new(Limit(limit)))])
}

impl PipelineStage for Limit {
    fn open(self: Arc<Self>, source: BoxSource, _: &RunContext) -> Result<BoxSource> {
        Ok(Box::new(Limited { source, left: self.0 }))
    }

    fn dependencies(&self, _: &mut DependencySet) -> Needs {
        Needs::WhatFollows
    }

    fn to_bson(&self) -> Result<RawDocumentBuf> {
        Ok(stage_document(cstr!("$limit"), self.0 as i64))
    }
}

struct Limited {
    source: BoxSource,
    left: u64,
}

impl DocumentSource for Limited {
    fn next(&mut self) -> Result<Option<RawDocumentBuf>> {
        match self.left.checked_sub(1) {
            None => Ok(None),
            Some(left) => {
                self.left = left;
                self.source.next()
            }
        }
    }

    fn metadata(&self) -> Metadata {
        self.source.metadata()
    }
}
