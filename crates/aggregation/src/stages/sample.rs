//! `$sample`: documents drawn at random without repetition, in random order: the first of those sorted by random keys, which
//! spills like any sort.

use std::sync::Arc;

use bson::raw::{RawBsonRef, RawDocumentBuf, cstr};
use document::Number;
use query_language::expression::DependencySet;

use crate::context::{PipelineContext, RunContext};
use crate::error::{AggregationError, Result};
use crate::host::BoxSource;
use crate::stage::{Needs, PipelineStage, Stage, stage_document};
use crate::stages::sort::Sorting;

#[derive(Debug)]
struct Sample(u64);

pub(crate) fn parse(argument: RawBsonRef<'_>, _: &PipelineContext) -> Result<Vec<Stage>> {
    let refuse = |number, message: String| Err(AggregationError::numbered(number, message));
    let RawBsonRef::Document(document) = argument else {
        return refuse(28745, "the $sample stage specification must be an object".to_owned());
    };
    let mut size = None;
    for element in document {
        let (name, value) = element?;
        if name != "size" {
            return refuse(28748, format!("unrecognized option to $sample: {name}"));
        }
        let Some(number) = Number::from_bson(value) else {
            return refuse(28746, "size argument to $sample must be a number".to_owned());
        };
        match number.to_i64_truncated().map(u64::try_from) {
            Some(Ok(given)) if given > 0 => size = Some(given),
            _ => return refuse(28747, "size argument to $sample must be a positive integer".to_owned()),
        }
    }
    match size {
        Some(size) => Ok(vec![Stage::other(Sample(size))]),
        None => refuse(28749, "$sample stage must specify a size".to_owned()),
    }
}

impl PipelineStage for Sample {
    fn open(self: Arc<Self>, source: BoxSource, run: &RunContext) -> Result<BoxSource> {
        Ok(Box::new(Sorting::at_random("$sample", self.0, source, run)))
    }

    fn dependencies(&self, _: &mut DependencySet) -> Needs {
        Needs::WhatFollows
    }

    fn to_bson(&self) -> Result<RawDocumentBuf> {
        Ok(stage_document(cstr!("$sample"), stage_document(cstr!("size"), self.0 as i64)))
    }
}
