//! `$graphLookup`: an array of the documents of a collection that are reached from each document, one after the other.
//!
//! The search goes by levels: one query of the host for all values that a level has found and none before. A document is found once, at
//! its first level. Null connects with null alone, missing with nothing. What does not fit into memory goes to temporary
//! storage (`search`). An `$unwind` of the array that stands behind it is done here, so that no array is made: what is found
//! may then be of any size.

mod hash_runs;
mod kept;
mod parse;
mod search;
mod seen_values;
mod value_set;

use std::sync::Arc;

use bson::raw::{RawBsonRef, RawDocument, RawDocumentBuf, cstr};
use query_language::expression::{DependencySet, EvaluationContext, Expression, FieldPath, Metadata};
use query_language::growth::CollectedArray;

use super::project::first_component;
use crate::context::{Memory, Namespace, RunContext};
use crate::cursor::Interruptible;
use crate::document_edit::with_path;
use crate::error::Result;
use crate::host::{BoxSource, DocumentSource};
use crate::stage::{Needs, PipelineStage, Stage, Unwinds, stage_document};
use kept::KeptReading;
use search::Search;

pub(crate) use parse::parse;

/// Its name, for errors.
const STAGE: &str = "$graphLookup";

#[derive(Debug, Clone)]
struct GraphLookup {
    from: Namespace,
    output: FieldPath,
    start: Arc<Expression>,
    connect_from: FieldPath,
    connect_to: FieldPath,
    depth_max: Option<u64>,
    depth_field: Option<FieldPath>,
    /// A filter on every document that is reached.
    restriction: Option<RawDocumentBuf>,
    /// The array is unwound as soon as it is there.
    unwinds: Option<Unwinds>,
}

impl PipelineStage for GraphLookup {
    fn open(self: Arc<Self>, source: BoxSource, run: &RunContext) -> Result<BoxSource> {
        if self.unwinds.is_some() {
            let unwinding = Unwinding { stage: self, source, run: run.clone(), document: None };
            // One document may become millions: what follows works long before the source is asked again.
            return Ok(Box::new(Interruptible::new(Box::new(unwinding), Arc::clone(&run.host))));
        }
        Ok(Box::new(Searching { stage: self, source, run: run.clone() }))
    }

    fn dependencies(&self, set: &mut DependencySet) -> Needs {
        self.start.dependencies(set);
        Needs::WhatFollows
    }

    fn lets_filter_pass(&self, paths: &[String]) -> bool {
        let index = self.unwinds.as_ref().and_then(|unwinds| unwinds.index_path.as_ref());
        let changed = [Some(&self.output), index];
        let changed: Vec<&str> = changed.iter().flatten().map(|path| first_component(path.as_str())).collect();
        !paths.iter().any(|path| changed.contains(&first_component(path)))
    }

    fn is_one_to_one(&self) -> bool {
        self.unwinds.is_none()
    }

    fn unwinding(&self, unwinds: &Unwinds) -> Option<Stage> {
        // Behind a dot the array may lie in several documents.
        let is_own = unwinds.path.as_str() == self.output.as_str() && !self.output.as_str().contains('.');
        let is_free = self.unwinds.is_none();
        (is_own && is_free).then(|| Stage::other(GraphLookup { unwinds: Some(unwinds.clone()), ..self.clone() }))
    }

    fn to_bson(&self) -> Result<RawDocumentBuf> {
        let mut inner = RawDocumentBuf::new();
        inner.append(cstr!("from"), self.from.collection.as_str());
        inner.append(cstr!("as"), self.output.as_str());
        inner.append(cstr!("connectToField"), self.connect_to.as_str());
        inner.append(cstr!("connectFromField"), self.connect_from.as_str());
        inner.append(cstr!("startWith"), self.start.to_bson()?);
        if let Some(field) = &self.depth_field {
            inner.append(cstr!("depthField"), field.as_str());
        }
        if let Some(depth) = self.depth_max {
            inner.append(cstr!("maxDepth"), depth as i64);
        }
        if let Some(restriction) = &self.restriction {
            inner.append(cstr!("restrictSearchWithMatch"), restriction.clone());
        }
        if let Some(unwinds) = &self.unwinds {
            inner.append(cstr!("unwinding"), unwinds.to_bson());
        }
        Ok(stage_document(cstr!("$graphLookup"), inner))
    }
}

struct Searching {
    stage: Arc<GraphLookup>,
    source: BoxSource,
    run: RunContext,
}

impl DocumentSource for Searching {
    fn next(&mut self) -> Result<Option<RawDocumentBuf>> {
        let Some(document) = self.source.next()? else { return Ok(None) };
        let (mut found, _memory) = search_from(&self.stage, &document, &self.run)?;
        let mut array = CollectedArray::default();
        while let Some(found) = found.next()? {
            array.push(RawBsonRef::Document(&found))?;
        }
        with_path(&document, self.stage.output.as_path(), Some(RawBsonRef::Array(array.array()?))).map(Some)
    }

    fn metadata(&self) -> Metadata {
        self.source.metadata()
    }
}

/// What is reached from a document.
fn search_from(stage: &GraphLookup, document: &RawDocument, run: &RunContext) -> Result<(KeptReading, Memory)> {
    let start = stage.start.evaluate(&EvaluationContext::new(document, run.variables()))?;
    let mut search = Search::new(stage, run);
    search.reach(&start)?;
    search.run()
}

/// The stage that unwinds its array.
struct Unwinding {
    stage: Arc<GraphLookup>,
    source: BoxSource,
    run: RunContext,
    document: Option<Unwound>,
}

/// A document that is given once for each that was found.
struct Unwound {
    document: RawDocumentBuf,
    found: KeptReading,
    index: i64,
    _memory: Memory,
}

impl DocumentSource for Unwinding {
    fn next(&mut self) -> Result<Option<RawDocumentBuf>> {
        let Some(unwinds) = &self.stage.unwinds else { return Ok(None) };
        let output = self.stage.output.as_path();
        loop {
            let unwound = match &mut self.document {
                Some(unwound) => unwound,
                none => {
                    let Some(document) = self.source.next()? else { return Ok(None) };
                    let (found, _memory) = search_from(&self.stage, &document, &self.run)?;
                    none.insert(Unwound { document, found, index: 0, _memory })
                }
            };
            if let Some(found) = unwound.found.next()? {
                let given = with_path(&unwound.document, output, Some(RawBsonRef::Document(&found)))?;
                unwound.index += 1;
                return unwinds.with_index(given, RawBsonRef::Int64(unwound.index - 1)).map(Some);
            }
            let is_empty = unwound.index == 0;
            let Some(Unwound { document, .. }) = self.document.take() else { return Ok(None) };
            if is_empty && unwinds.keep_empty {
                return unwinds.with_index(with_path(&document, output, None)?, RawBsonRef::Null).map(Some);
            }
        }
    }

    fn metadata(&self) -> Metadata {
        self.source.metadata()
    }
}
