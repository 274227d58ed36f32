//! `$skip`: all but the first documents.

use std::sync::Arc;

use bson::raw::{RawBsonRef, RawDocumentBuf, cstr};
use document::Number;
use query_language::expression::show_value;
use query_language::expression::{DependencySet, Metadata};

use crate::context::{PipelineContext, RunContext};
use crate::error::{AggregationError, Result};
use crate::host::{BoxSource, DocumentSource};
use crate::stage::{Needs, PipelineStage, Stage, stage_document};

/// How many documents are left out.
#[derive(Debug)]
pub(crate) struct Skip(pub(crate) u64);

pub(crate) fn parse(argument: RawBsonRef<'_>, _: &PipelineContext) -> Result<Vec<Stage>> {
    let invalid = |text: &str| {
        let message = format!("invalid argument to $skip stage: {text} in: $skip: {}", show_value(argument));
        AggregationError::numbered(5107200, message)
    };
    let number = Number::from_bson(argument).ok_or_else(|| invalid("Expected a number"))?;
    let skip = number.to_i64_exact().ok_or_else(|| invalid("Expected an integer"))?;
    let skip = u64::try_from(skip).map_err(|_| invalid("Expected a non-negative number"))?;
    Ok(vec![Stage::Skip(Arc::new(Skip(skip)))])
}

impl PipelineStage for Skip {
    fn open(self: Arc<Self>, source: BoxSource, _: &RunContext) -> Result<BoxSource> {
        Ok(Box::new(Skipping { source, left: self.0 }))
    }

    fn dependencies(&self, _: &mut DependencySet) -> Needs {
        Needs::WhatFollows
    }

    fn to_bson(&self) -> Result<RawDocumentBuf> {
        Ok(stage_document(cstr!("$skip"), self.0 as i64))
    }
}

struct Skipping {
    source: BoxSource,
    left: u64,
}

impl DocumentSource for Skipping {
    fn next(&mut self) -> Result<Option<RawDocumentBuf>> {
        while let Some(left) = self.left.checked_sub(1) {
            self.left = left;
            if self.source.next()?.is_none() {
                return Ok(None);
            }
        }
        self.source.next()
    }

    fn metadata(&self) -> Metadata {
        self.source.metadata()
    }
}
