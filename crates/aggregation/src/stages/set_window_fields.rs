//! `$setWindowFields`: fields computed from the documents around each, in partitions and in an order.
//!
//! The documents are sorted by partition and order, and spill like any sort. Then one partition after the other is held in memory, each
//! output field is computed for all of its documents, and they are given out. A partition that does not fit is refused by name.
//! Source: MongoDB's manual, *$setWindowFields (aggregation)*.

mod distance;
mod functions;
mod gathered;
mod parse;
mod window;

use std::sync::Arc;

use bson::raw::{RawBson, RawBsonRef, RawDocument, RawDocumentBuf, cstr};
use document::work;
use query_language::ErrorKind;
use query_language::accumulator::value_bytes;
use query_language::expression::order::compare;
use query_language::expression::sort_pattern::SortPattern;
use query_language::expression::{DependencySet, EvaluationContext, Expression, FieldPath, Variables};

use super::project::first_component;
use super::sort::Sorting;
use super::type_of;
use crate::context::{Memory, RunContext};
use crate::document_edit::with_path;
use crate::error::{AggregationError, Result};
use crate::host::{BoxSource, DocumentSource};
use crate::stage::{Needs, PipelineStage, stage_document};
use functions::Function;

pub(crate) use parse::parse;

/// What a document or a result costs beside its bytes.
const DOCUMENT_BYTES: usize = 2 * size_of::<RawDocumentBuf>() + 16;

#[derive(Debug)]
struct SetWindowFields {
    partition_by: Option<Arc<Expression>>,
    sort: Option<SortPattern>,
    outputs: Vec<Output>,
}

/// One field and how it is computed.
#[derive(Debug)]
struct Output {
    path: FieldPath,
    function: Function,
}

impl PipelineStage for SetWindowFields {
    fn open(self: Arc<Self>, source: BoxSource, run: &RunContext) -> Result<BoxSource> {
        let source = match (&self.partition_by, &self.sort) {
            (None, None) => source,
            (partition_by, sort) => {
                let (partition_by, sort) = (partition_by.clone(), sort.clone());
                Box::new(Sorting::by_partition("$setWindowFields", partition_by, sort, source, run))
            }
        };
        let (variables, memory) = (Arc::clone(run.variables()), run.begin_memory());
        let partition = Partition { documents: Vec::new(), variables: Arc::clone(&variables), memory, bytes: 0 };
        Ok(Box::new(Windowing { stage: self, source, variables, next: None, partition, ready: Vec::new().into_iter() }))
    }

    fn dependencies(&self, set: &mut DependencySet) -> Needs {
        if let Some(partition_by) = &self.partition_by {
            partition_by.dependencies(set);
        }
        for part in self.sort.iter().flat_map(SortPattern::parts) {
            set.add_path(part.path.as_str());
        }
        self.outputs.iter().for_each(|output| output.function.dependencies(set));
        Needs::WhatFollows
    }

    /// A filter drops whole partitions, unless it reads what is computed here.
    fn lets_filter_pass(&self, paths: &[String]) -> bool {
        let Some(partition_by) = self.partition_by.as_ref().and_then(|by| by.as_field_path()) else { return false };
        let computed: Vec<&str> = self.outputs.iter().map(|output| first_component(output.path.as_str())).collect();
        paths.iter().all(|path| path == partition_by.as_str() && !computed.contains(&first_component(path)))
    }

    fn to_bson(&self) -> Result<RawDocumentBuf> {
        let mut inner = RawDocumentBuf::new();
        if let Some(partition_by) = &self.partition_by {
            inner.append(cstr!("partitionBy"), partition_by.to_bson()?);
        }
        if let Some(sort) = &self.sort {
            inner.append(cstr!("sortBy"), sort.to_document()?);
        }
        let mut outputs = RawDocumentBuf::new();
        for output in &self.outputs {
            outputs.append(<&bson::raw::CStr>::try_from(output.path.as_str())?, output.function.to_bson()?);
        }
        inner.append(cstr!("output"), outputs);
        Ok(stage_document(cstr!("$setWindowFields"), inner))
    }
}

struct Windowing {
    stage: Arc<SetWindowFields>,
    source: BoxSource,
    variables: Arc<Variables>,
    /// The first document of the next partition, with what it is told by.
    next: Option<(RawDocumentBuf, RawBson)>,
    partition: Partition,
    ready: std::vec::IntoIter<RawDocumentBuf>,
}

/// Documents that belong together, in order.
struct Partition {
    documents: Vec<RawDocumentBuf>,
    variables: Arc<Variables>,
    memory: Memory,
    bytes: usize,
}

impl DocumentSource for Windowing {
    fn next(&mut self) -> Result<Option<RawDocumentBuf>> {
        if let Some(document) = self.ready.next() {
            return Ok(Some(document));
        }
        self.partition.clear();
        let Some((first, key)) = self.take()? else { return Ok(None) };
        self.partition.add(first)?;
        while let Some((document, other)) = self.take()? {
            if compare(Some(key.as_raw_bson_ref()), Some(other.as_raw_bson_ref())).is_ne() {
                self.next = Some((document, other));
                break;
            }
            self.partition.add(document)?;
        }
        self.compute()?;
        Ok(self.ready.next())
    }
}

impl Windowing {
    /// The next document, and what its partition is told by.
    fn take(&mut self) -> Result<Option<(RawDocumentBuf, RawBson)>> {
        if let Some(next) = self.next.take() {
            return Ok(Some(next));
        }
        let Some(document) = self.source.next()? else { return Ok(None) };
        let Some(partition_by) = &self.stage.partition_by else { return Ok(Some((document, RawBson::Null))) };
        let value = partition_by.evaluate(&EvaluationContext::new(&document, &self.variables))?;
        if let Some(RawBsonRef::Array(_)) = value.get() {
            let message = "An expression used to partition cannot evaluate to value of type array";
            return Err(AggregationError::new(ErrorKind::TypeMismatch, message));
        }
        let key = value.or_null().into();
        drop(value);
        Ok(Some((document, key)))
    }

    fn compute(&mut self) -> Result<()> {
        let stage = Arc::clone(&self.stage);
        let mut documents = Vec::new();
        for (number, output) in stage.outputs.iter().enumerate() {
            let results = output.function.evaluate(&mut self.partition, stage.sort.as_ref())?;
            if number == 0 {
                documents = self.partition.documents.clone();
            }
            for (document, result) in documents.iter_mut().zip(results) {
                work::done(work::of_bytes(document.as_bytes().len()))?;
                *document = with_path(document, output.path.as_path(), result.as_ref().map(RawBson::as_raw_bson_ref))?;
            }
        }
        if stage.outputs.is_empty() {
            documents = std::mem::take(&mut self.partition.documents);
        }
        self.ready = documents.into_iter();
        Ok(())
    }
}

impl Partition {
    fn clear(&mut self) {
        self.documents = Vec::new();
        self.bytes = 0;
        self.memory.clear();
    }

    /// Each document is there twice in the end: as it came, and with its new fields.
    fn add(&mut self, document: RawDocumentBuf) -> Result<()> {
        self.hold(2 * (DOCUMENT_BYTES + document.as_bytes().len()))?;
        self.documents.push(document);
        Ok(())
    }

    /// Counts what is held in addition.
    fn hold(&mut self, bytes: usize) -> Result<()> {
        self.bytes += bytes;
        if self.memory.holds(self.bytes) {
            return Ok(());
        }
        let bytes = self.bytes;
        let message = format!(
            "Exceeded memory limit in $setWindowFields: a partition, and what is computed of it, must fit into memory, \
             but takes {bytes} bytes"
        );
        Err(AggregationError::numbered(5643011, message))
    }

    /// Counts a result.
    fn hold_value(&mut self, value: Option<&RawBson>) -> Result<()> {
        self.hold(size_of::<Option<RawBson>>() + value.map_or(0, value_bytes))
    }

    fn len(&self) -> usize {
        self.documents.len()
    }

    fn document(&self, number: usize) -> Option<&RawDocument> {
        self.documents.get(number).map(|document| &**document)
    }

    /// What an expression gives for one of the documents; `None` when it is missing.
    fn value(&self, expression: &Expression, number: usize) -> Result<Option<RawBson>> {
        let Some(document) = self.document(number) else { return Ok(None) };
        work::step()?;
        let value = expression.evaluate(&EvaluationContext::new(document, &self.variables))?;
        value.before_copying()?;
        Ok(value.into_raw_bson())
    }
}

/// Why a value cannot be taken.
fn unsuitable(number: u32, what: &str, value: RawBsonRef<'_>) -> AggregationError {
    AggregationError::numbered(number, format!("{what}, but found type: {}", type_of(value)))
}
