//! `$bucketAuto`: documents in a given number of buckets of about the same size, by the order of a value.
//!
//! The documents are sorted, and spill like any sort. A value never lies in two buckets. With a granularity, bounds are numbers of a series
//! of preferred numbers. Source: MongoDB's manual, *$bucketAuto (aggregation)*.

mod granularity;
mod parse;

use std::sync::Arc;

use bson::raw::{CString, RawBson, RawBsonRef, RawDocumentBuf, cstr};
use query_language::accumulator::{Accumulator, AccumulatorExpression};
use query_language::before_allocating_if_large;
use query_language::expression::order::compare;
use query_language::expression::{DependencySet, EvaluationContext, Expression, Value};
use query_language::growth::document_of;

use super::sort::Sorting;
use crate::context::{Memory, RunContext};
use crate::error::{AggregationError, Result};
use crate::host::{BoxSource, DocumentSource};
use crate::stage::{Needs, PipelineStage, stage_document};
use granularity::Granularity;

pub(crate) use parse::parse;

#[derive(Debug)]
struct BucketAuto {
    by: Arc<Expression>,
    buckets: u64,
    granularity: Option<Granularity>,
    fields: Vec<(CString, AccumulatorExpression)>,
}

impl PipelineStage for BucketAuto {
    fn open(self: Arc<Self>, source: BoxSource, run: &RunContext) -> Result<BoxSource> {
        let sorted = Sorting::by_value("$bucketAuto", Arc::clone(&self.by), source, run);
        let memory = run.begin_memory();
        Ok(Box::new(Bucketing { stage: self, sorted, run: run.clone(), memory, next: None, progress: None }))
    }

    fn dependencies(&self, set: &mut DependencySet) -> Needs {
        self.by.dependencies(set);
        self.fields.iter().for_each(|(_, accumulator)| accumulator.dependencies(set));
        Needs::Nothing
    }

    fn to_bson(&self) -> Result<RawDocumentBuf> {
        let mut inner = RawDocumentBuf::new();
        inner.append(cstr!("groupBy"), self.by.to_bson()?);
        inner.append(cstr!("buckets"), self.buckets as i64);
        if let Some(granularity) = &self.granularity {
            inner.append(cstr!("granularity"), granularity.name());
        }
        let mut output = RawDocumentBuf::new();
        for (name, accumulator) in &self.fields {
            output.append(name, accumulator.to_bson()?);
        }
        inner.append(cstr!("output"), output);
        Ok(stage_document(cstr!("$bucketAuto"), inner))
    }
}

struct Bucketing {
    stage: Arc<BucketAuto>,
    sorted: Sorting,
    run: RunContext,
    memory: Memory,
    /// The first document that is in no bucket yet.
    next: Option<Sorted>,
    progress: Option<Progress>,
}

/// A document and the value that it is sorted by.
struct Sorted {
    document: RawDocumentBuf,
    value: RawBson,
}

/// How far the buckets have come.
struct Progress {
    /// Documents that a bucket has at least.
    size: u64,
    buckets_made: u64,
    /// The upper bound of the bucket before, where bounds are rounded.
    bound: Option<RawBson>,
}

impl DocumentSource for Bucketing {
    fn next(&mut self) -> Result<Option<RawDocumentBuf>> {
        let mut progress = match self.progress.take() {
            Some(progress) => progress,
            None => self.begin()?,
        };
        let bucket = self.bucket(&mut progress)?;
        self.progress = Some(progress);
        Ok(bucket)
    }
}

impl Bucketing {
    fn begin(&mut self) -> Result<Progress> {
        self.next = self.read()?;
        let documents = self.sorted.documents();
        let size = (documents as f64 / self.stage.buckets as f64).round() as u64;
        Ok(Progress { size: size.max(1), buckets_made: 0, bound: None })
    }

    fn read(&mut self) -> Result<Option<Sorted>> {
        let Some(document) = self.sorted.next()? else { return Ok(None) };
        let context = EvaluationContext::new(&document, self.run.variables());
        let value: RawBson = self.stage.by.evaluate(&context)?.or_null().into();
        if self.stage.granularity.is_some() {
            granularity::check(value.as_raw_bson_ref())?;
        }
        Ok(Some(Sorted { document, value }))
    }

    /// The next bucket.
    fn bucket(&mut self, progress: &mut Progress) -> Result<Option<RawDocumentBuf>> {
        let Some(first) = self.next.take() else { return Ok(None) };
        let mut states = self.new_states()?;
        let (mut count, mut min, mut max) = (1, first.value.clone(), first.value.clone());
        self.add(&mut states, &first.document)?;
        progress.buckets_made += 1;
        let is_last = progress.buckets_made == self.stage.buckets;
        self.next = self.read()?;
        while let Some(next) = self.next.take_if(|_| is_last || count < progress.size) {
            self.add(&mut states, &next.document)?;
            (max, count) = (next.value, count + 1);
            self.next = self.read()?;
        }
        let granularity = self.stage.granularity;
        if let Some(granularity) = granularity {
            min = match progress.bound.take() {
                Some(bound) => bound,
                None => granularity.round_down(min.as_raw_bson_ref()),
            };
            max = granularity.round_up(max.as_raw_bson_ref());
        }
        // What belongs to the bucket still: equal values, or those below its rounded bound.
        while let Some(next) = self.next.take_if(|next| {
            let order = compare(Some(next.value.as_raw_bson_ref()), Some(max.as_raw_bson_ref()));
            if granularity.is_some() { order.is_lt() } else { order.is_le() }
        }) {
            self.add(&mut states, &next.document)?;
            self.next = self.read()?;
        }
        match (granularity, &self.next) {
            (Some(_), _) => progress.bound = Some(max.clone()),
            (None, Some(next)) => max = next.value.clone(),
            (None, None) => {}
        }
        self.document(min, max, states).map(Some)
    }

    fn new_states(&self) -> Result<Vec<Box<dyn Accumulator>>> {
        let nothing = RawDocumentBuf::new();
        let context = EvaluationContext::new(&nothing, self.run.variables());
        let states = self.stage.fields.iter().map(|(_, accumulator)| accumulator.new_state(&context));
        Ok(states.collect::<std::result::Result<_, _>>()?)
    }

    fn add(&mut self, states: &mut [Box<dyn Accumulator>], document: &RawDocumentBuf) -> Result<()> {
        let context = EvaluationContext::new(document, self.run.variables());
        for ((_, accumulator), state) in self.stage.fields.iter().zip(states.iter_mut()) {
            accumulator.accumulate(state.as_mut(), &context)?;
        }
        let bytes = bytes_of(states);
        if self.memory.holds(bytes) {
            return Ok(());
        }
        let message = format!("$bucketAuto used too much memory: one bucket alone takes {bytes} bytes");
        Err(AggregationError::new(query_language::ErrorKind::ExceededMemoryLimit, message))
    }

    /// `{_id: {min, max}, field: result, ...}`.
    fn document(&self, min: RawBson, max: RawBson, states: Vec<Box<dyn Accumulator>>) -> Result<RawDocumentBuf> {
        before_allocating_if_large(bytes_of(&states))?;
        let results = states.iter().map(|state| state.finish()).collect::<std::result::Result<Vec<_>, _>>()?;
        let bounds = document_of([("min", min.as_raw_bson_ref()), ("max", max.as_raw_bson_ref())].into_iter())?;
        let names = self.stage.fields.iter().map(|(name, _)| name.as_str());
        let fields = names.zip(results.iter().map(Value::or_null));
        Ok(document_of([("_id", RawBsonRef::Document(&bounds))].into_iter().chain(fields))?)
    }
}

fn bytes_of(states: &[Box<dyn Accumulator>]) -> usize {
    states.iter().map(|state| state.memory_bytes()).sum()
}
