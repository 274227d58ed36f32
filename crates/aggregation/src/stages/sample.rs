//! `$sample`: documents drawn at random without repetition (reservoir sampling), in random order.

use std::sync::Arc;

use bson::raw::{RawBsonRef, RawDocumentBuf, cstr};
use document::Number;
use query_language::ErrorKind;
use query_language::expression::DependencySet;

use crate::context::{Memory, PipelineContext, RunContext};
use crate::error::{AggregationError, Result};
use crate::host::{BoxSource, DocumentSource};
use crate::stage::{Needs, PipelineStage, Stage, stage_document};

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
        let memory = run.begin_memory();
        Ok(Box::new(Sampling { stage: self, source, run: run.clone(), memory, drawn: None }))
    }

    fn dependencies(&self, _: &mut DependencySet) -> Needs {
        Needs::WhatFollows
    }

    fn to_bson(&self) -> Result<RawDocumentBuf> {
        Ok(stage_document(cstr!("$sample"), stage_document(cstr!("size"), self.0 as i64)))
    }
}

struct Sampling {
    stage: Arc<Sample>,
    source: BoxSource,
    run: RunContext,
    memory: Memory,
    drawn: Option<Vec<RawDocumentBuf>>,
}

impl DocumentSource for Sampling {
    fn next(&mut self) -> Result<Option<RawDocumentBuf>> {
        let drawn = match self.drawn.take() {
            Some(drawn) => drawn,
            None => self.draw()?,
        };
        Ok(self.drawn.insert(drawn).pop())
    }
}

impl Sampling {
    fn draw(&mut self) -> Result<Vec<RawDocumentBuf>> {
        let variables = self.run.variables().clone();
        let (mut drawn, mut seen, mut bytes) = (Vec::new(), 0_u64, 0_usize);
        while let Some(document) = self.source.next()? {
            seen += 1;
            bytes += document.as_bytes().len();
            if (drawn.len() as u64) < self.stage.0 {
                drawn.push(document);
            } else {
                let position = variables.next_random() % seen;
                let replaced = usize::try_from(position).ok().and_then(|position| drawn.get_mut(position));
                let old = match replaced {
                    Some(slot) => std::mem::replace(slot, document),
                    None => document,
                };
                bytes -= old.as_bytes().len();
            }
            if !self.memory.holds(bytes) {
                let message = "Exceeded memory limit for $sample; draw fewer documents";
                return Err(AggregationError::new(ErrorKind::QueryExceededMemoryLimitNoDiskUseAllowed, message));
            }
        }
        for last in (1..drawn.len()).rev() {
            drawn.swap(last, (variables.next_random() % (last as u64 + 1)) as usize);
        }
        Ok(drawn)
    }
}
