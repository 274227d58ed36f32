//! `$lookup`: an array of the documents of another collection that belong to each document.
//!
//! They belong by equal fields, by a pipeline (with variables from the document), or both. Each document asks the host
//! for its matches, so that an index on the foreign field serves; without one, and if it fits into memory, the foreign
//! collection is read once into a hash table. A pipeline that depends on nothing runs once.

mod ahead;
mod equality;
mod hash_join;
mod parse;

use std::sync::Arc;

use bson::raw::{RawArray, RawArrayBuf, RawBson, RawBsonRef, RawDocument, RawDocumentBuf, cstr};
use query_language::expression::{
    DependencySet, EvaluationContext, Expression, FieldPath, Metadata, Value, Variables, check_bound,
};
use query_language::growth::CollectedArray;
use query_language::rows::RowReader;

use super::project::first_component;
use crate::context::{Memory, Namespace, PipelineContext, RunContext};
use crate::document_edit::with_path;
use crate::error::{AggregationError, Result};
use crate::host::{BoxSource, DocumentSource, FindById, Moment};
use crate::pipeline::Pipeline;
use crate::stage::{Needs, PipelineStage, stage_document};
use ahead::Ahead;
use hash_join::HashJoin;

pub(crate) use parse::parse;

#[derive(Debug)]
struct Lookup {
    from: Namespace,
    output: FieldPath,
    equality: Option<Equality>,
    bindings: Vec<(String, Expression)>,
    /// The pipeline as written: with bindings it is parsed anew for each document's values.
    stages: Vec<RawDocumentBuf>,
    /// The pipeline parsed with the variables of the command, its bindings missing.
    pipeline: Pipeline,
}

#[derive(Debug)]
struct Equality {
    local: FieldPath,
    foreign: FieldPath,
}

impl PipelineStage for Lookup {
    fn open(self: Arc<Self>, source: BoxSource, run: &RunContext) -> Result<BoxSource> {
        let (constant, hashed, by_id, moment) = (None, None, None, Moment::Now);
        let memory = run.begin_memory();
        let matcher = Matcher { stage: self, run: run.clone(), constant, hashed, by_id, moment };
        Ok(Box::new(Joining { source, matcher, ahead: Ahead::default(), memory, metadata: None }))
    }

    fn dependencies(&self, set: &mut DependencySet) -> Needs {
        if let Some(equality) = &self.equality {
            set.add_path(equality.local.as_str());
        }
        self.bindings.iter().for_each(|(_, expression)| expression.dependencies(set));
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
        if !self.from.is_whole_database() {
            inner.append(cstr!("from"), self.from.collection.as_str());
        }
        inner.append(cstr!("as"), self.output.as_str());
        if let Some(equality) = &self.equality {
            inner.append(cstr!("localField"), equality.local.as_str());
            inner.append(cstr!("foreignField"), equality.foreign.as_str());
        }
        if !self.bindings.is_empty() {
            let mut bindings = RawDocumentBuf::new();
            for (name, expression) in &self.bindings {
                bindings.append(<&bson::raw::CStr>::try_from(name.as_str())?, expression.to_bson()?);
            }
            inner.append(cstr!("let"), bindings);
        }
        if !self.stages.is_empty() {
            inner.append(cstr!("pipeline"), self.stages.iter().map(|stage| &**stage).collect::<RawArrayBuf>());
        }
        Ok(stage_document(cstr!("$lookup"), inner))
    }
}

struct Joining {
    source: BoxSource,
    matcher: Matcher,
    ahead: Ahead,
    /// For what is read ahead.
    memory: Memory,
    /// Of the document that was given last, if it had been read ahead.
    metadata: Option<Metadata>,
}

/// Finds what belongs to a document.
struct Matcher {
    stage: Arc<Lookup>,
    run: RunContext,
    /// The matches, when they are the same for every document.
    constant: Option<CollectedArray>,
    /// The foreign collection in memory, if that was found to be worth it; unknown before the first document.
    hashed: Option<Option<HashJoin>>,
    /// The foreign documents by `_id`, if that is what they are wanted by; unknown before the first document.
    by_id: Option<Option<Box<dyn FindById>>>,
    /// When they are looked for by that.
    moment: Moment,
}

/// Documents that are looked for together where each is asked for, and where all are.
const AT_ONCE: usize = 128;
const AT_ONCE_OF_ALL: usize = 1024;

impl Joining {
    /// Whether one document by `_id` belongs to each, and there is memory to read ahead.
    fn reads_ahead(&mut self) -> Result<bool> {
        Ok(self.matcher.looks_up_ids()? && self.memory.holds(ahead::BYTES_MAX))
    }

    /// Shows the next document with what belongs to it.
    fn show_ahead<T>(
        &mut self,
        at_once_max: usize,
        show: impl FnOnce(&RawDocument, &RawArray) -> Result<T>,
    ) -> Result<Option<T>> {
        let Self { source, matcher, ahead, metadata, .. } = self;
        let stage = Arc::clone(&matcher.stage);
        let (Some(equality), Some(Some(finder))) = (&stage.equality, &mut matcher.by_id) else { return Ok(None) };
        let Some(mut outer) = ahead.next(&mut **source, (&mut **finder, &equality.local), at_once_max)? else {
            return Ok(None);
        };
        *metadata = Some(std::mem::take(&mut outer.metadata));
        match ahead.matches(&outer) {
            Some(matches) => show(&outer.document, matches),
            None => {
                matcher.moment = Moment::Now;
                matcher.with_matches(&outer.document, |matches| show(&outer.document, matches.array()?))
            }
        }
        .map(Some)
    }
}

/// A document with what belongs to it, as a row.
fn take_joined(
    rows: &mut RowReader,
    document: &RawDocument,
    output: &document::FieldPath,
    matches: &RawArray,
) -> Result<()> {
    let matches = RawBsonRef::Array(matches);
    match output.len() {
        1 => rows.take_with(document, output.as_str(), matches)?,
        _ => rows.take(&with_path(document, output, Some(matches))?)?,
    }
    Ok(())
}

impl DocumentSource for Joining {
    fn next(&mut self) -> Result<Option<RawDocumentBuf>> {
        if self.reads_ahead()? {
            let stage = Arc::clone(&self.matcher.stage);
            return self.show_ahead(AT_ONCE, |document, matches| {
                with_path(document, stage.output.as_path(), Some(RawBsonRef::Array(matches)))
            });
        }
        let Some(document) = self.source.next()? else { return Ok(None) };
        let stage = Arc::clone(&self.matcher.stage);
        self.matcher.moment = Moment::Now;
        let joined = self.matcher.with_matches(&document, |matches| {
            with_path(&document, stage.output.as_path(), Some(RawBsonRef::Array(matches.array()?)))
        })?;
        Ok(Some(joined))
    }

    fn fill(&mut self, rows: &mut RowReader) -> Result<bool> {
        if self.reads_ahead()? {
            let stage = Arc::clone(&self.matcher.stage);
            let output = stage.output.as_path();
            while !rows.is_full() {
                let show = |document: &RawDocument, matches: &RawArray| take_joined(rows, document, output, matches);
                if self.show_ahead(AT_ONCE_OF_ALL, show)?.is_none() {
                    return Ok(false);
                }
            }
            return Ok(true);
        }
        let Self { source, matcher, .. } = self;
        let stage = Arc::clone(&matcher.stage);
        let output = stage.output.as_path();
        let mut has_more = true;
        matcher.moment = Moment::Now;
        while !rows.is_full() {
            let Some(document) = source.lend()? else {
                has_more = false;
                break;
            };
            matcher.with_matches(&document, |matches| take_joined(rows, &document, output, matches.array()?))?;
            matcher.moment = Moment::AsBefore;
        }
        if let Some(Some(by_id)) = &mut matcher.by_id {
            by_id.rest();
        }
        Ok(has_more)
    }

    fn metadata(&self) -> Metadata {
        self.metadata.clone().unwrap_or_else(|| self.source.metadata())
    }
}

/// Whether a local value can be equal to one `_id` at most, which is what it is.
fn is_one_id(local: &Value<'_>) -> bool {
    !local.is_nullish() && !matches!(local.get(), Some(RawBsonRef::Array(_) | RawBsonRef::RegularExpression(_)))
}

impl Matcher {
    /// Whether what belongs to a document is the one with the local value as its `_id`, and can be had by that.
    fn looks_up_ids(&mut self) -> Result<bool> {
        let is_plain = self.stage.bindings.is_empty() && self.stage.stages.is_empty();
        let is_by_id = self.stage.equality.as_ref().is_some_and(|equality| equality.foreign.as_str() == "_id");
        if !is_plain || !is_by_id {
            return Ok(false);
        }
        if self.by_id.is_none() {
            self.by_id = Some(self.run.host.by_id(&self.stage.from)?);
        }
        Ok(matches!(self.by_id, Some(Some(_))))
    }

    /// Shows a document's matches.
    fn with_matches<T>(
        &mut self,
        document: &RawDocument,
        show: impl FnOnce(&CollectedArray) -> Result<T>,
    ) -> Result<T> {
        if let Some(matches) = &self.constant {
            return show(matches);
        }
        let matches = self.matches(document)?;
        let shown = show(&matches)?;
        let is_constant = self.stage.equality.is_none() && self.stage.bindings.is_empty();
        if is_constant && matches.bytes() <= self.run.pipeline.memory_bytes_max {
            self.constant = Some(matches);
        }
        Ok(shown)
    }

    fn matches(&mut self, document: &RawDocument) -> Result<CollectedArray> {
        let stage = Arc::clone(&self.stage);
        let mut condition = None;
        if let Some(equality) = &stage.equality {
            let local = equality.local.evaluate(document)?;
            if let Some(matches) = self.matches_by_id(&local)? {
                return Ok(matches);
            }
            let filter = equality::filter(equality.foreign.as_str(), &local)?;
            self.prepare_hash(equality)?;
            if let Some(Some(hashed)) = &self.hashed {
                let options = stage.pipeline.context.filters();
                let mut matches = CollectedArray::default();
                for found in hashed.matches(&local, &filter, &options)? {
                    matches.push(RawBsonRef::Document(found))?;
                    self.check_memory(matches.bytes())?;
                }
                return Ok(matches);
            }
            condition = Some(filter);
        }
        let bound;
        let pipeline = match self.stage.bindings.is_empty() {
            true => &self.stage.pipeline,
            false => {
                bound = self.bound_pipeline(document)?;
                &bound
            }
        };
        let mut found = pipeline.open_over_collection(condition, &self.run)?;
        let mut matches = CollectedArray::default();
        while let Some(document) = found.next()? {
            matches.push(RawBsonRef::Document(&document))?;
            self.check_memory(matches.bytes())?;
        }
        Ok(matches)
    }

    /// The one document with the local value as its `_id`, or none; `None`: a query is to find what is equal.
    fn matches_by_id(&mut self, local: &Value<'_>) -> Result<Option<CollectedArray>> {
        if !is_one_id(local) || !self.looks_up_ids()? {
            return Ok(None);
        }
        let Some(Some(found)) = &mut self.by_id else { return Ok(None) };
        let mut matches = CollectedArray::default();
        if let Some(document) = found.find(local.or_null(), self.moment)? {
            matches.push(RawBsonRef::Document(document))?;
        }
        Ok(Some(matches))
    }

    /// Reads the foreign collection into memory, once: for equal fields alone, without an index on the foreign one.
    fn prepare_hash(&mut self, equality: &Equality) -> Result<()> {
        if self.hashed.is_some() {
            return Ok(());
        }
        let is_plain = self.stage.bindings.is_empty() && self.stage.stages.is_empty();
        let is_wanted = is_plain && !self.run.host.has_index(&self.stage.from, equality.foreign.as_str())?;
        let built = if is_wanted {
            let mut source = self.stage.pipeline.open_over_collection(None, &self.run)?;
            HashJoin::build(&equality.foreign, &mut *source, self.run.begin_memory())?
        } else {
            None
        };
        self.hashed = Some(built);
        Ok(())
    }

    fn check_memory(&self, bytes: usize) -> Result<()> {
        let limit = self.run.pipeline.memory_bytes_max;
        if bytes > limit {
            let from = &self.stage.from;
            let message = format!(
                "Total size of documents in {from} matching pipeline's $lookup stage exceeds {limit} bytes, \
                 the memory limit of a stage"
            );
            return Err(AggregationError::numbered(4568, message));
        }
        Ok(())
    }

    /// The pipeline with the variables that the document gives it.
    fn bound_pipeline(&self, document: &RawDocument) -> Result<Pipeline> {
        let outer = self.run.variables();
        let context = EvaluationContext::new(document, outer);
        let mut variables: Variables = outer.as_ref().clone();
        for (name, expression) in &self.stage.bindings {
            let value = expression.evaluate(&context)?;
            check_bound(&value)?;
            value.before_copying()?;
            variables.define(name, value.into_raw_bson())?;
        }
        let inner = self.stage.context(&self.run.pipeline, Arc::new(variables));
        let stages: RawArrayBuf = self.stage.stages.iter().map(|stage| &**stage).collect();
        Pipeline::parse_nested(RawBson::Array(stages).as_raw_bson_ref(), &inner)
    }
}

impl Lookup {
    /// The context of the foreign pipeline.
    fn context(&self, outer: &PipelineContext, variables: Arc<Variables>) -> PipelineContext {
        PipelineContext { namespace: self.from.clone(), ..outer.with_variables(variables) }
    }
}
