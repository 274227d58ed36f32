//! `$graphLookup`: an array of the documents of a collection that are reached from each document, one after the other.
//!
//! The search goes by levels: one query of the host for all values that a level has found and none before. A document is found once, at
//! its first level. Null connects with null alone, missing with nothing.

mod parse;
mod value_set;

use std::sync::Arc;

use bson::raw::{CStr, RawArrayBuf, RawBson, RawBsonRef, RawDocumentBuf, cstr};
use document::{array_elements, work};
use query_language::accumulator::value_bytes;
use query_language::expression::{
    DependencySet, EvaluationContext, Expression, FieldPath, Metadata, MetadataUse, Value,
};
use query_language::growth::{CollectedArray, before_filtering};

use super::project::first_component;
use crate::context::{Memory, Namespace, RunContext};
use crate::cursor::Interruptible;
use crate::document_edit::with_path;
use crate::error::{AggregationError, Result};
use crate::host::{BoxSource, DocumentSource, ForeignQuery};
use crate::stage::{Needs, PipelineStage, stage_document};
use value_set::ValueSet;

pub(crate) use parse::parse;

/// Values that one query looks for.
const VALUES_PER_QUERY: usize = 4096;
/// What a found document costs beside its bytes.
const FOUND_BYTES: usize = 2 * size_of::<RawDocumentBuf>() + 16;

#[derive(Debug)]
struct GraphLookup {
    from: Namespace,
    output: FieldPath,
    start: Expression,
    connect_from: FieldPath,
    connect_to: FieldPath,
    depth_max: Option<u64>,
    depth_field: Option<FieldPath>,
    /// A filter on every document that is reached.
    restriction: Option<RawDocumentBuf>,
}

impl PipelineStage for GraphLookup {
    fn open(self: Arc<Self>, source: BoxSource, run: &RunContext) -> Result<BoxSource> {
        Ok(Box::new(Searching { stage: self, source, run: run.clone() }))
    }

    fn dependencies(&self, set: &mut DependencySet) -> Needs {
        self.start.dependencies(set);
        Needs::WhatFollows
    }

    fn lets_filter_pass(&self, paths: &[String]) -> bool {
        let changed = first_component(self.output.as_str());
        !paths.iter().any(|path| first_component(path) == changed)
    }

    fn is_one_to_one(&self) -> bool {
        true
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
        let start = self.stage.start.evaluate(&EvaluationContext::new(&document, self.run.variables()))?;
        let mut search = Search::new(&self.stage, &self.run);
        search.reach(&start)?;
        search.run()?;
        let mut array = CollectedArray::default();
        for found in search.found {
            array.push(RawBsonRef::Document(&found))?;
        }
        with_path(&document, self.stage.output.as_path(), Some(RawBsonRef::Array(array.array()?))).map(Some)
    }

    fn metadata(&self) -> Metadata {
        self.source.metadata()
    }
}

/// The search from one document.
struct Search<'s> {
    stage: &'s GraphLookup,
    run: &'s RunContext,
    memory: Memory,
    bytes: usize,
    found: Vec<RawDocumentBuf>,
    /// The `_id`s of those found.
    identifiers: ValueSet,
    /// All values that have been reached.
    reached: ValueSet,
    /// Those of them that are not looked for yet.
    frontier: Vec<RawBson>,
}

impl<'s> Search<'s> {
    fn new(stage: &'s GraphLookup, run: &'s RunContext) -> Search<'s> {
        Search {
            stage,
            run,
            memory: run.begin_memory(),
            bytes: 0,
            found: Vec::new(),
            identifiers: ValueSet::default(),
            reached: ValueSet::default(),
            frontier: Vec::new(),
        }
    }

    /// The value, or each of an array, will be looked for unless it has been already.
    fn reach(&mut self, value: &Value<'_>) -> Result<()> {
        match value.get() {
            None => Ok(()),
            Some(RawBsonRef::Array(array)) => {
                array_elements(array).try_for_each(|element| self.reach_one(element.value()))
            }
            Some(value) => self.reach_one(value),
        }
    }

    fn reach_one(&mut self, value: RawBsonRef<'_>) -> Result<()> {
        work::step()?;
        let value = if matches!(value, RawBsonRef::Undefined) { RawBsonRef::Null } else { value };
        if let Some(bytes) = self.reached.insert(value) {
            self.frontier.push(value.into());
            self.hold(2 * bytes)?;
        }
        Ok(())
    }

    fn run(&mut self) -> Result<()> {
        let mut depth = 0;
        while !self.frontier.is_empty() {
            let level = std::mem::take(&mut self.frontier);
            for values in level.chunks(VALUES_PER_QUERY) {
                self.follow(values, depth)?;
            }
            depth += 1;
            if self.stage.depth_max.is_some_and(|max| depth > max) {
                break;
            }
        }
        Ok(())
    }

    /// Takes in what connects to these values.
    fn follow(&mut self, values: &[RawBson], depth: u64) -> Result<()> {
        before_filtering(values.len(), values.iter().map(value_bytes).sum())?;
        let filter = self.filter(values)?;
        let variables = Arc::clone(self.run.variables());
        let query = ForeignQuery { filter, needed_paths: None, metadata: MetadataUse::default(), variables };
        let found = self.run.host.find(&self.stage.from, &query)?;
        let mut found = Interruptible::new(found, Arc::clone(&self.run.host));
        while let Some(document) = found.next()? {
            let Some(identifier) = document::get_field(&document, "_id") else {
                let from = &self.stage.from;
                let message = format!(
                    "Documents in the '{from}' namespace must contain an _id for de-duplication in $graphLookup"
                );
                return Err(AggregationError::numbered(40271, message));
            };
            let Some(bytes) = self.identifiers.insert(identifier) else { continue };
            self.hold(bytes + FOUND_BYTES + document.as_bytes().len())?;
            let next = self.stage.connect_from.evaluate(&document)?;
            self.reach(&next)?;
            drop(next);
            self.found.push(match &self.stage.depth_field {
                Some(field) => with_path(&document, field.as_path(), Some(RawBsonRef::Int64(depth as i64)))?,
                None => document,
            });
        }
        Ok(())
    }

    /// The filter on the collection for any of these values.
    fn filter(&self, values: &[RawBson]) -> Result<RawDocumentBuf> {
        let path = <&CStr>::try_from(self.stage.connect_to.as_str())?;
        let equal = |value: &RawBson| stage_document(path, stage_document(cstr!("$eq"), value.clone()));
        let is_regex = |value: &RawBson| matches!(value, RawBson::RegularExpression(_));
        let mut all = RawArrayBuf::new();
        all.push(match values.iter().any(is_regex) {
            // `$in` would take them for patterns.
            true => stage_document(cstr!("$or"), values.iter().map(equal).collect::<RawArrayBuf>()),
            false => {
                let any: RawArrayBuf = values.iter().map(RawBson::as_raw_bson_ref).collect();
                stage_document(path, stage_document(cstr!("$in"), any))
            }
        });
        if values.iter().any(|value| matches!(value, RawBson::Null)) {
            all.push(stage_document(path, stage_document(cstr!("$exists"), true)));
        }
        if let Some(restriction) = &self.stage.restriction {
            all.push(restriction.clone());
        }
        Ok(stage_document(cstr!("$and"), all))
    }

    fn hold(&mut self, bytes: usize) -> Result<()> {
        self.bytes += bytes;
        if self.memory.holds(self.bytes) {
            return Ok(());
        }
        Err(AggregationError::numbered(40099, "$graphLookup reached maximum memory consumption"))
    }
}
