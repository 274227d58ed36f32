//! `$facet`: one document with the results of several pipelines over the same documents.
//!
//! The documents are kept once, in memory or, when there are too many, in a temporary file, and each pipeline runs over them.
//! Where every pipeline begins with stages that gather rows, they take the rows on side by side instead, and none are kept.

use std::borrow::Cow;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bson::raw::{CString, RawBsonRef, RawDocument, RawDocumentBuf, cstr};
use document::work;
use query_language::ErrorKind;
use query_language::expression::DependencySet;
use query_language::growth::{CollectedArray, document_of};
use query_language::rows::{RowBatch, RowNames};

use super::type_of;
use crate::context::{Memory, PipelineContext, RunContext};
use crate::error::{AggregationError, Result};
use crate::host::{BoxSource, DocumentSource, SpillReader, source_of};
use crate::pipeline::{Pipeline, PipelineSource};
use crate::row_stage::{AreRead, FieldNames, RowConsumer, RowPlan};
use crate::spill;
use crate::stage::{Needs, PipelineStage, Stage, stage_document};

/// Units of work that a stage has at least with a document.
const DOCUMENT_UNITS: usize = 8;

/// What a document costs beside its bytes.
const DOCUMENT_BYTES: usize = 2 * size_of::<RawDocumentBuf>() + 16;

/// Pipelines that run side by side at most, each with columns of its own.
const ROW_PIPELINES_MAX: usize = 16;

#[derive(Debug)]
struct Facet(Vec<(CString, Pipeline)>);

pub(crate) fn parse(argument: RawBsonRef<'_>, context: &PipelineContext) -> Result<Vec<Stage>> {
    let document = match argument {
        RawBsonRef::Document(document) if !document.is_empty() => document,
        _ => {
            let message = "the $facet specification must be a non-empty object";
            return Err(AggregationError::numbered(40169, message));
        }
    };
    let mut facets = Vec::new();
    for element in document {
        let (name, value) = element?;
        if name.as_str().starts_with('$') || name.as_str().contains('.') || name.is_empty() {
            let message = format!("invalid $facet output field name: '{name}'");
            return Err(AggregationError::new(ErrorKind::FailedToParse, message));
        }
        if !matches!(value, RawBsonRef::Array(_)) {
            let message = format!("arguments to $facet must be arrays, {name} is type {}", type_of(value));
            return Err(AggregationError::numbered(40170, message));
        }
        let pipeline = Pipeline::parse_nested(value, context)?;
        let shown = pipeline.to_bson()?;
        let nested = shown.into_iter().flatten().filter_map(RawBsonRef::as_document);
        if pipeline.source() == PipelineSource::FirstStage || nested.into_iter().any(is_facet) {
            let message = "a stage of its own source, or $facet, is not allowed to be used within a $facet stage";
            return Err(AggregationError::numbered(40600, message));
        }
        facets.push((CString::from(name), pipeline));
    }
    Ok(vec![Stage::other(Facet(facets))])
}

fn is_facet(stage: &bson::RawDocument) -> bool {
    stage.iter().flatten().any(|(name, _)| name == "$facet")
}

impl PipelineStage for Facet {
    fn open(self: Arc<Self>, source: BoxSource, run: &RunContext) -> Result<BoxSource> {
        let memory = run.begin_memory();
        Ok(Box::new(Faceting { stage: self, source, run: run.clone(), memory, done: false }))
    }

    fn dependencies(&self, set: &mut DependencySet) -> Needs {
        for (_, pipeline) in &self.0 {
            let own = pipeline.dependencies();
            set.paths.extend(own.paths);
            set.variables.extend(own.variables);
            set.whole_document |= own.whole_document;
        }
        Needs::Nothing
    }

    fn row_fields(&self) -> Option<FieldNames> {
        let mut fields = FieldNames::new();
        for (_, pipeline) in &self.0 {
            fields.extend(RowPlan::fields(&pipeline.stages)?);
        }
        Some(fields)
    }

    fn row_consumer(self: Arc<Self>, columns: &RowNames, _: AreRead, run: &RunContext) -> Option<Box<dyn RowConsumer>> {
        Some(Box::new(FacetedRows::new(self, columns, run)?))
    }

    fn to_bson(&self) -> Result<RawDocumentBuf> {
        let mut inner = RawDocumentBuf::new();
        for (name, pipeline) in &self.0 {
            inner.append(name, pipeline.to_bson()?);
        }
        Ok(stage_document(cstr!("$facet"), inner))
    }
}

struct Faceting {
    stage: Arc<Facet>,
    source: BoxSource,
    run: RunContext,
    memory: Memory,
    done: bool,
}

impl DocumentSource for Faceting {
    fn next(&mut self) -> Result<Option<RawDocumentBuf>> {
        if std::mem::replace(&mut self.done, true) {
            return Ok(None);
        }
        let input = self.read()?;
        let outputs = self.stage.0.iter().map(|(_, pipeline)| pipeline.open(input.source(), &self.run));
        self.stage.collect(outputs, &self.run).map(Some)
    }
}

impl Facet {
    /// The stage's document, of what its pipelines give. Each is run to its end before the next is begun.
    fn collect(&self, outputs: impl Iterator<Item = Result<BoxSource>>, run: &RunContext) -> Result<RawDocumentBuf> {
        let mut arrays = Vec::new();
        for ((name, _), output) in self.0.iter().zip(outputs) {
            let (mut output, mut array) = (output?, CollectedArray::default());
            while let Some(document) = output.next()? {
                array.push(RawBsonRef::Document(&document))?;
                check_size(array.bytes(), run)?;
            }
            arrays.push((name.as_str(), array));
        }
        let fields = arrays.iter().map(|(name, array)| Ok((*name, RawBsonRef::Array(array.array()?))));
        let fields = fields.collect::<Result<Vec<_>>>()?;
        Ok(document_of(fields.into_iter())?)
    }
}

/// The pipelines side by side over rows, so that nothing is kept of them.
struct FacetedRows {
    stage: Arc<Facet>,
    plans: Vec<RowPlan>,
    run: RunContext,
    /// For a pipeline that changes rows.
    batch: RowBatch,
}

impl FacetedRows {
    /// `None`: some pipeline has no form for rows.
    fn new(stage: Arc<Facet>, columns: &RowNames, run: &RunContext) -> Option<Self> {
        if stage.0.len() > ROW_PIPELINES_MAX {
            return None;
        }
        let plan = |pipeline: &Pipeline| RowPlan::compile_over(&pipeline.stages, columns, run);
        let plans = stage.0.iter().map(|(_, pipeline)| plan(pipeline)).collect::<Option<_>>()?;
        Some(Self { stage, plans, run: run.clone(), batch: RowBatch::default() })
    }
}

impl RowConsumer for FacetedRows {
    fn take(&mut self, batch: &RowBatch) -> Result<()> {
        for plan in &mut self.plans {
            if plan.changes_batches() {
                work::done(batch.rows())?;
                self.batch.copy_from(batch);
                plan.take(&mut self.batch)?;
            } else {
                plan.take_unchanged(batch)?;
            }
        }
        Ok(())
    }

    fn finish(self: Box<Self>) -> Result<BoxSource> {
        let Self { stage, plans, run, .. } = *self;
        let outputs = plans.into_iter().zip(&stage.0).map(|(plan, (_, pipeline))| {
            let passed = plan.stages;
            pipeline.open_behind(passed, plan.finish()?, &run)
        });
        let document = stage.collect(outputs, &run)?;
        Ok(source_of([document]))
    }
}

impl Faceting {
    fn read(&mut self) -> Result<Input> {
        let (mut documents, mut bytes) = (Vec::new(), 0);
        while let Some(document) = self.source.next()? {
            bytes += DOCUMENT_BYTES + document.as_bytes().len();
            documents.push(document);
            if !self.memory.holds(bytes) {
                return self.spill(documents);
            }
        }
        Ok(Input::Memory(Arc::new(documents)))
    }

    /// Puts all of the input into a file.
    fn spill(&mut self, documents: Vec<RawDocumentBuf>) -> Result<Input> {
        let mut writer = spill::begin_run(&self.run, "$facet")?;
        for document in documents {
            writer.append(document.as_bytes())?;
        }
        self.memory.clear();
        while let Some(document) = self.source.next()? {
            writer.append(document.as_bytes())?;
        }
        Ok(Input::File(Arc::new(Mutex::new(writer.finish()?))))
    }
}

/// The result is one document, so it cannot be larger than one may be.
fn check_size(bytes: usize, run: &RunContext) -> Result<()> {
    if bytes > run.pipeline.memory_bytes_max {
        let message = "document constructed by $facet exceeds the stage's memory limit";
        return Err(AggregationError::numbered(4031700, message));
    }
    Ok(())
}

/// What every facet reads.
enum Input {
    Memory(Arc<Vec<RawDocumentBuf>>),
    File(Arc<Mutex<Box<dyn SpillReader>>>),
}

/// Nothing else looks for an interruption while a facet reads what is there already.
fn note_read(bytes: usize) -> Result<()> {
    Ok(work::done(DOCUMENT_UNITS + work::of_bytes(bytes))?)
}

impl Input {
    /// The input as the source of one facet. The facets are run to their ends one after the other.
    fn source(&self) -> BoxSource {
        match self {
            Input::Memory(documents) => Box::new(FromMemory { documents: Arc::clone(documents), next: 0 }),
            Input::File(reader) => {
                locked(reader).restart();
                Box::new(FromFile(Arc::clone(reader)))
            }
        }
    }
}

fn locked(reader: &Mutex<Box<dyn SpillReader>>) -> MutexGuard<'_, Box<dyn SpillReader>> {
    reader.lock().unwrap_or_else(PoisonError::into_inner)
}

struct FromMemory {
    documents: Arc<Vec<RawDocumentBuf>>,
    next: usize,
}

impl DocumentSource for FromMemory {
    fn next(&mut self) -> Result<Option<RawDocumentBuf>> {
        let Some(document) = self.lend()? else { return Ok(None) };
        query_language::before_allocating_if_large(document.as_bytes().len())?;
        Ok(Some(document.into_owned()))
    }

    fn lend(&mut self) -> Result<Option<Cow<'_, RawDocument>>> {
        let Some(document) = self.documents.get(self.next) else { return Ok(None) };
        self.next += 1;
        note_read(document.as_bytes().len())?;
        Ok(Some(Cow::Borrowed(document)))
    }

    fn count_rest(&mut self) -> Result<Option<u64>> {
        let left = self.documents.len().saturating_sub(self.next);
        self.next = self.documents.len();
        Ok(Some(left as u64))
    }
}

struct FromFile(Arc<Mutex<Box<dyn SpillReader>>>);

impl DocumentSource for FromFile {
    fn next(&mut self) -> Result<Option<RawDocumentBuf>> {
        let mut record = Vec::new();
        let is_found = locked(&self.0).next(&mut record)?;
        note_read(record.len())?;
        Ok(if is_found { Some(RawDocumentBuf::from_bytes(record)?) } else { None })
    }
}
