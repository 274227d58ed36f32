//! `$match`: the documents that a filter accepts.

use std::sync::Arc;

use bson::raw::{CStr, RawArrayBuf, RawBson, RawBsonRef, RawDocument, RawDocumentBuf, cstr};
use document::work;
use query_language::expression::{DependencySet, Metadata};
use query_language::filter::Filter;
use query_language::projection::FieldChanges;
use query_language::rows::{RowFilter, RowNames};

use crate::context::{PipelineContext, RunContext};
use crate::error::{AggregationError, Result};
use crate::host::{BoxSource, DocumentSource};
use crate::row_stage::{FieldNames, RowStep};
use crate::stage::{Needs, PipelineStage, Stage, stage_document};
use crate::stages::project::first_component;

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
        let filter = Filter::parse(&source, &context.filters().with_texts())?;
        Ok(Self { source, filter })
    }

    /// Whether it has a `$text`, which an index answers.
    pub(crate) fn has_text(&self) -> bool {
        self.filter.text().is_some()
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

    /// The same filter where other paths have what it reads; `None` where it reads something else than named paths.
    pub(crate) fn moved(&self, changes: &FieldChanges, context: &PipelineContext) -> Result<Option<Arc<Match>>> {
        with_paths(&self.source, changes)?.map(|source| Match::new(source, context).map(Arc::new)).transpose()
    }

    /// Whether a document matches.
    pub(crate) fn accepts(&self, document: &RawDocument) -> Result<bool> {
        Ok(self.filter.matches(document)?)
    }

    /// What all must hold for the filter to accept a document, each condition by itself.
    pub(crate) fn conditions(&self) -> Result<Vec<RawDocumentBuf>> {
        let mut conditions = Vec::new();
        for element in &self.source {
            let (name, value) = element?;
            match (name.as_str(), value) {
                ("$and", RawBsonRef::Array(all)) => {
                    for condition in all {
                        conditions.extend(condition?.as_document().map(ToOwned::to_owned));
                    }
                }
                _ => conditions.push(stage_document(name, value)),
            }
        }
        Ok(conditions)
    }

    /// The paths that the filter reads; `None` when it reads whole documents.
    pub(crate) fn paths(&self) -> Option<Vec<String>> {
        let referenced = self.filter.referenced_paths();
        (!referenced.whole_document).then(|| referenced.paths.into_iter().collect())
    }
}

/// A filter with the paths that have its values before some changes.
fn with_paths(filter: &RawDocument, changes: &FieldChanges) -> Result<Option<RawDocumentBuf>> {
    let mut moved = RawDocumentBuf::new();
    for element in filter {
        let (name, value) = element?;
        work::done(1)?;
        match (name.as_str(), value) {
            ("$and" | "$or" | "$nor", RawBsonRef::Array(branches)) => {
                let mut all = RawArrayBuf::new();
                for branch in branches {
                    let Some(branch) = branch?.as_document() else { return Ok(None) };
                    let Some(branch) = with_paths(branch, changes)? else { return Ok(None) };
                    all.push(branch);
                }
                moved.append(name, all);
            }
            ("$comment", _) => moved.append(name, value),
            (path, _) if !path.starts_with('$') => {
                let Some(before) = changes.before(path) else { return Ok(None) };
                moved.append(<&CStr>::try_from(&*before)?, value);
            }
            _ => return Ok(None),
        }
    }
    Ok(Some(moved))
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

    fn passes_rows(&self) -> bool {
        true
    }

    fn row_needs(&self, wanted: &FieldNames) -> Option<FieldNames> {
        let paths = self.paths()?;
        Some(paths.iter().map(|path| first_component(path).to_owned()).chain(wanted.iter().cloned()).collect())
    }

    fn row_step(&self, columns: &RowNames, _: &FieldNames) -> Option<RowStep> {
        RowFilter::compile(&self.filter, columns).map(RowStep::Filter)
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

    fn metadata(&self) -> Metadata {
        self.source.metadata()
    }
}
