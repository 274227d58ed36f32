//! `$redact`: what an expression leaves of each document and of the documents within it.

use std::sync::Arc;

use bson::raw::{RawBsonRef, RawDocumentBuf, cstr};
use query_language::expression::{DependencySet, Metadata, Redaction, Variables};

use crate::context::{PipelineContext, RunContext};
use crate::error::Result;
use crate::host::{BoxSource, DocumentSource};
use crate::stage::{Needs, PipelineStage, Stage, stage_document};

#[derive(Debug)]
struct Redact(Redaction);

pub(crate) fn parse(argument: RawBsonRef<'_>, context: &PipelineContext) -> Result<Vec<Stage>> {
    Ok(vec![Stage::other(Redact(Redaction::parse(argument, &context.expressions())?))])
}

impl PipelineStage for Redact {
    fn open(self: Arc<Self>, source: BoxSource, run: &RunContext) -> Result<BoxSource> {
        Ok(Box::new(Redacting { variables: Arc::clone(run.variables()), stage: self, source }))
    }

    fn dependencies(&self, set: &mut DependencySet) -> Needs {
        set.whole_document = true;
        Needs::WhatFollows
    }

    fn to_bson(&self) -> Result<RawDocumentBuf> {
        Ok(stage_document(cstr!("$redact"), self.0.to_bson()?))
    }
}

struct Redacting {
    stage: Arc<Redact>,
    source: BoxSource,
    variables: Arc<Variables>,
}

impl DocumentSource for Redacting {
    fn next(&mut self) -> Result<Option<RawDocumentBuf>> {
        while let Some(document) = self.source.next()? {
            if let Some(left) = self.stage.0.apply(&document, &self.variables)? {
                return Ok(Some(left));
            }
        }
        Ok(None)
    }

    fn metadata(&self) -> Metadata {
        self.source.metadata()
    }
}
