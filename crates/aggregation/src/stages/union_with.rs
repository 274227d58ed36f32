//! `$unionWith`: the documents, then those of another collection through a pipeline of their own.

use std::sync::Arc;

use bson::raw::{RawBsonRef, RawDocumentBuf, cstr};
use query_language::ErrorKind;
use query_language::expression::DependencySet;

use super::{documents, type_of};
use crate::context::{Namespace, PipelineContext, RunContext};
use crate::error::{AggregationError, Result};
use crate::host::{BoxSource, DocumentSource};
use crate::pipeline::Pipeline;
use crate::stage::{Needs, PipelineStage, Stage, stage_document};

#[derive(Debug)]
struct UnionWith {
    from: Namespace,
    pipeline: Pipeline,
}

pub(crate) fn parse(argument: RawBsonRef<'_>, context: &PipelineContext) -> Result<Vec<Stage>> {
    let empty = bson::RawArrayBuf::new();
    let (mut collection, mut pipeline) = (None, RawBsonRef::Array(&empty));
    match argument {
        RawBsonRef::String(name) => collection = Some(name),
        RawBsonRef::Document(document) => {
            for element in document {
                let (name, value) = element?;
                match (name.as_str(), value) {
                    ("coll", RawBsonRef::String(name)) => collection = Some(name),
                    ("pipeline", RawBsonRef::Array(_)) => pipeline = value,
                    (name @ ("coll" | "pipeline"), other) => {
                        let expected = if name == "coll" { "string" } else { "array" };
                        let found = type_of(other);
                        let message = format!(
                            "BSON field '$unionWith.{name}' is the wrong type '{found}', expected type '{expected}'"
                        );
                        return Err(AggregationError::new(ErrorKind::TypeMismatch, message));
                    }
                    (other, _) => {
                        let message = format!("BSON field '$unionWith.{other}' is an unknown field.");
                        return Err(AggregationError::numbered(40415, message));
                    }
                }
            }
        }
        other => {
            let message =
                format!("the $unionWith stage specification must be an object or string, but found {}", type_of(other));
            return Err(AggregationError::new(ErrorKind::FailedToParse, message));
        }
    }
    if collection.is_none() && !documents::is_first_of(pipeline) {
        let message =
            "$unionWith stage without explicit collection must have a pipeline with $documents as first stage";
        return Err(AggregationError::new(ErrorKind::FailedToParse, message));
    }
    let from = context.namespace.beside(collection);
    let inner = PipelineContext { namespace: from.clone(), ..context.clone() };
    Ok(vec![Stage::other(UnionWith { from, pipeline: Pipeline::parse_nested(pipeline, &inner)? })])
}

impl PipelineStage for UnionWith {
    fn open(self: Arc<Self>, source: BoxSource, run: &RunContext) -> Result<BoxSource> {
        Ok(Box::new(Joined { stage: self, source, in_second: false, run: run.clone() }))
    }

    fn dependencies(&self, _: &mut DependencySet) -> Needs {
        Needs::WhatFollows
    }

    fn to_bson(&self) -> Result<RawDocumentBuf> {
        let mut inner = RawDocumentBuf::new();
        if !self.from.is_whole_database() {
            inner.append(cstr!("coll"), self.from.collection.as_str());
        }
        inner.append(cstr!("pipeline"), self.pipeline.to_bson()?);
        Ok(stage_document(cstr!("$unionWith"), inner))
    }
}

struct Joined {
    stage: Arc<UnionWith>,
    source: BoxSource,
    in_second: bool,
    run: RunContext,
}

impl DocumentSource for Joined {
    fn next(&mut self) -> Result<Option<RawDocumentBuf>> {
        if let Some(document) = self.source.next()? {
            return Ok(Some(document));
        }
        if std::mem::replace(&mut self.in_second, true) {
            return Ok(None);
        }
        self.source = self.stage.pipeline.open_over_collection(None, &self.run)?;
        self.source.next()
    }
}
