//! `$match`: the documents that a filter accepts.

use std::sync::Arc;

use bson::raw::{RawArrayBuf, RawBson, RawBsonRef, RawDocument, RawDocumentBuf, cstr};
use query_language::expression::DependencySet;
use query_language::filter::Filter;

use crate::context::{PipelineContext, RunContext};
use crate::error::{AggregationError, Result};
use crate::host::{BoxSource, DocumentSource};
use crate::stage::{Needs, PipelineStage, Stage, stage_document};

/// A filter and the document it was parsed from.
#[derive(Debug)]
pub(crate) struct Match {
    source: RawDocumentBuf,
    filter: Filter,
}

pub(crate) fn parse(argument: RawBsonRef<'_>, context: &PipelineContext) -> Result<Vec<Stage>> {
    let RawBsonRef::Document(source) = argument else {
        let message = "the match filter must be an expression in an object";
        return Err(AggregationError::numbered(15959, message));
    };
    Ok(vec![Stage::Match(Arc::new(Match::new(source.to_owned(), context)?))])
}

impl Match {
    pub(crate) fn new(source: RawDocumentBuf, context: &PipelineContext) -> Result<Self> {
        let filter = Filter::parse(&source, &context.filters())?;
        Ok(Self { source, filter })
    }

    /// The filter as the client wrote it.
    pub(crate) fn source(&self) -> &RawDocument {
        &self.source
    }

    /// Several filters, which are taken out, as one; `None` for none.
    pub(crate) fn all_of(filters: &mut Vec<Arc<Match>>, context: &PipelineContext) -> Result<Option<Arc<Match>>> {
        if filters.len() < 2 {
            return Ok(filters.pop());
        }
        let all: RawArrayBuf = filters.drain(..).map(|filter| RawBson::Document(filter.source.clone())).collect();
        Ok(Some(Arc::new(Match::new(stage_document(cstr!("$and"), all), context)?)))
    }

    /// The paths that the filter reads; `None` when it reads whole documents.
    pub(crate) fn paths(&self) -> Option<Vec<String>> {
        let referenced = self.filter.referenced_paths();
        (!referenced.whole_document).then(|| referenced.paths.into_iter().collect())
    }
}

impl PipelineStage for Match {
    fn open(self: Arc<Self>, source: BoxSource, _: &RunContext) -> Result<BoxSource> {
        Ok(Box::new(Matching { stage: self, source }))
    }

    fn dependencies(&self, set: &mut DependencySet) -> Needs {
        match self.paths() {
            Some(paths) => paths.iter().for_each(|path| set.add_path(path)),
            None => set.whole_document = true,
        }
        Needs::WhatFollows
    }

    fn to_bson(&self) -> Result<RawDocumentBuf> {
        Ok(stage_document(cstr!("$match"), self.source.clone()))
    }
}

struct Matching {
    stage: Arc<Match>,
    source: BoxSource,
}

impl DocumentSource for Matching {
    fn next(&mut self) -> Result<Option<RawDocumentBuf>> {
        while let Some(document) = self.source.next()? {
            if self.stage.filter.matches(&document)? {
                return Ok(Some(document));
            }
        }
        Ok(None)
    }
}
