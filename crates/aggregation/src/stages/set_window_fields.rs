//! `$setWindowFields`: fields computed from the documents around each, in partitions and in an order.
//!
//! The documents are sorted by partition and order, and spill like any sort. Then one partition after the other is held,
//! each output field is computed for all of its documents, and they are given out. Of a partition that does not fit into
//! memory the documents are put on temporary storage, and so are the results of each function (`partition`).
//! Source: MongoDB's manual, *$setWindowFields (aggregation)*.

mod distance;
mod functions;
mod gathered;
mod parse;
mod partition;
mod results;
mod window;

use std::sync::Arc;

use bson::raw::{RawBson, RawBsonRef, RawDocument, RawDocumentBuf, cstr};
use document::work;
use query_language::ErrorKind;
use query_language::expression::order::compare;
use query_language::expression::sort_pattern::SortPattern;
use query_language::expression::{DependencySet, EvaluationContext, Expression, FieldPath};

use super::project::first_component;
use super::sort::Sorting;
use super::type_of;
use crate::context::RunContext;
use crate::document_edit::with_path;
use crate::error::{AggregationError, Result};
use crate::host::{BoxSource, DocumentSource};
use crate::stage::{Needs, PipelineStage, stage_document};
use functions::Function;
use partition::{Partition, is_too_large};
use results::Column;

pub(crate) use parse::parse;

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
        let (partition, ready) = (Partition::new(run), Ready::Held(Vec::new().into_iter()));
        Ok(Box::new(Windowing { stage: self, source, run: run.clone(), next: None, partition, ready }))
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
    run: RunContext,
    /// The first document of the next partition, with what it is told by.
    next: Option<(RawDocumentBuf, RawBson)>,
    partition: Partition,
    ready: Ready,
}

/// The documents of a partition with their new fields.
enum Ready {
    Held(std::vec::IntoIter<RawDocumentBuf>),
    /// They are made one by one: those from this number on.
    Spilled {
        number: usize,
        columns: Vec<Column>,
    },
}

impl DocumentSource for Windowing {
    fn next(&mut self) -> Result<Option<RawDocumentBuf>> {
        if let Some(document) = self.next_ready()? {
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
        self.partition.complete()?;
        self.ready = self.compute()?;
        self.next_ready()
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
        let value = partition_by.evaluate(&EvaluationContext::new(&document, self.run.variables()))?;
        if let Some(RawBsonRef::Array(_)) = value.get() {
            let message = "An expression used to partition cannot evaluate to value of type array";
            return Err(AggregationError::new(ErrorKind::TypeMismatch, message));
        }
        let key = value.or_null().into();
        drop(value);
        Ok(Some((document, key)))
    }

    fn compute(&mut self) -> Result<Ready> {
        if !self.partition.is_spilled() {
            match self.compute_in_memory() {
                Err(error) if is_too_large(&error) && self.partition.may_spill() => {
                    self.partition.spill()?;
                    self.partition.complete()?;
                }
                computed => return computed.map(Ready::Held),
            }
        }
        let (stage, partition) = (&self.stage, &mut self.partition);
        let mut columns = Vec::with_capacity(stage.outputs.len());
        let counted = partition.bytes();
        for output in &stage.outputs {
            let results = output.function.evaluate(partition, stage.sort.as_ref())?;
            columns.push(results.into_run(partition)?);
            partition.release(partition.bytes() - counted);
        }
        Ok(Ready::Spilled { number: 0, columns })
    }

    fn compute_in_memory(&mut self) -> Result<std::vec::IntoIter<RawDocumentBuf>> {
        let (stage, partition) = (&self.stage, &mut self.partition);
        let results = stage.outputs.iter().map(|output| output.function.evaluate(partition, stage.sort.as_ref()));
        let results = results.collect::<Result<Vec<_>>>()?;
        let mut documents = partition.take_held();
        for (output, results) in stage.outputs.iter().zip(results) {
            for (document, result) in documents.iter_mut().zip(results.into_held()) {
                *document = with_result(document, output, result.as_ref().map(RawBson::as_raw_bson_ref))?;
            }
        }
        Ok(documents.into_iter())
    }

    fn next_ready(&mut self) -> Result<Option<RawDocumentBuf>> {
        let (number, columns) = match &mut self.ready {
            Ready::Held(documents) => return Ok(documents.next()),
            Ready::Spilled { number, columns } => (number, columns),
        };
        let Some(document) = self.partition.document(*number)? else { return Ok(None) };
        *number += 1;
        let mut document = document.to_owned();
        for (output, column) in self.stage.outputs.iter().zip(columns) {
            document = column.next(|result| with_result(&document, output, result))?;
        }
        Ok(Some(document))
    }
}

fn with_result(document: &RawDocument, output: &Output, result: Option<RawBsonRef<'_>>) -> Result<RawDocumentBuf> {
    work::done(work::of_bytes(document.as_bytes().len()))?;
    with_path(document, output.path.as_path(), result)
}

/// Why a value cannot be taken.
fn unsuitable(number: u32, what: &str, value: RawBsonRef<'_>) -> AggregationError {
    AggregationError::numbered(number, format!("{what}, but found type: {}", type_of(value)))
}
