//! `$score`: a number computed for each document, which `{$meta: "score"}` reads in what follows.
//!
//! ```text
//! {$score: {score: expression, normalization: "none" | "sigmoid" | "minMaxScaler", weight: number,
//!           scoreDetails: bool}}
//! ```
//!
//! To scale by the least and the greatest score takes all documents first: in memory, then on temporary storage.
//! Source: the manual's page on `$score`.

use std::sync::Arc;

use bson::raw::{RawArrayBuf, RawBson, RawBsonRef, RawDocument, RawDocumentBuf, cstr};
use document::{Number, work};
use query_language::ErrorKind;
use query_language::expression::{DependencySet, EvaluationContext, Expression, Metadata, show_value};

use super::type_of;
use crate::context::{Memory, PipelineContext, RunContext};
use crate::error::{AggregationError, Result};
use crate::host::{BoxSource, DocumentSource, SpillReader, SpillWriter};
use crate::spill;
use crate::stage::{Needs, PipelineStage, Stage, stage_document};

#[derive(Debug)]
struct Score {
    source: RawDocumentBuf,
    score: Expression,
    /// As `scoreDetails` shows it.
    shown: String,
    normalization: Normalization,
    weight: f64,
    has_details: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Normalization {
    None,
    Sigmoid,
    MinMaxScaler,
}

impl Normalization {
    fn named(name: &str) -> Option<Normalization> {
        [Normalization::None, Normalization::Sigmoid, Normalization::MinMaxScaler]
            .into_iter()
            .find(|normalization| normalization.name() == name)
    }

    fn name(self) -> &'static str {
        match self {
            Normalization::None => "none",
            Normalization::Sigmoid => "sigmoid",
            Normalization::MinMaxScaler => "minMaxScaler",
        }
    }
}

pub(crate) fn parse(argument: RawBsonRef<'_>, context: &PipelineContext) -> Result<Vec<Stage>> {
    let RawBsonRef::Document(source) = argument else {
        let message = format!("the $score stage specification must be an object; found {}", type_of(argument));
        return Err(AggregationError::new(ErrorKind::FailedToParse, message));
    };
    let (mut score, mut shown) = (None, String::new());
    let (mut normalization, mut weight, mut has_details) = (Normalization::None, 1.0, false);
    for element in source {
        let (name, value) = element?;
        match (name.as_str(), value) {
            ("score", value) => {
                score = Some(Expression::parse(value, &context.expressions())?);
                shown = show_value(value);
            }
            ("normalization", RawBsonRef::String(name)) => {
                let Some(known) = Normalization::named(name) else {
                    let message =
                        format!("$score.normalization must be 'none', 'sigmoid' or 'minMaxScaler', not '{name}'");
                    return Err(AggregationError::new(ErrorKind::BadValue, message));
                };
                normalization = known;
            }
            ("normalization", other) => return Err(wrong_type("normalization", other, "string")),
            ("weight", value) => weight = weight_of(value, context)?,
            ("scoreDetails", RawBsonRef::Boolean(wanted)) => has_details = wanted,
            ("scoreDetails", other) => return Err(wrong_type("scoreDetails", other, "bool")),
            (other, _) => {
                let message = format!("BSON field '$score.{other}' is an unknown field.");
                return Err(AggregationError::numbered(40415, message));
            }
        }
    }
    let Some(score) = score else {
        let message = "BSON field '$score.score' is missing but a required field";
        return Err(AggregationError::numbered(40414, message));
    };
    Ok(vec![Stage::other(Score { source: source.to_owned(), score, shown, normalization, weight, has_details })])
}

fn wrong_type(field: &str, value: RawBsonRef<'_>, expected: &str) -> AggregationError {
    let found = type_of(value);
    let message = format!("BSON field '$score.{field}' is the wrong type '{found}', expected type '{expected}'");
    AggregationError::new(ErrorKind::TypeMismatch, message)
}

/// A constant from 0 to 1.
fn weight_of(value: RawBsonRef<'_>, context: &PipelineContext) -> Result<f64> {
    let expression = Expression::parse(value, &context.expressions())?;
    let constant = expression.as_constant().and_then(|constant| constant.get()).and_then(Number::from_bson);
    match constant.map(Number::to_f64) {
        Some(weight) if (0.0..=1.0).contains(&weight) => Ok(weight),
        Some(weight) => {
            let message = format!("$score.weight must be from 0 to 1, not {weight}");
            Err(AggregationError::new(ErrorKind::BadValue, message))
        }
        None => {
            let message = format!("$score.weight must be a constant number, not {}", show_value(value));
            Err(AggregationError::new(ErrorKind::BadValue, message))
        }
    }
}

impl PipelineStage for Score {
    fn open(self: Arc<Self>, source: BoxSource, run: &RunContext) -> Result<BoxSource> {
        let (run, memory) = (run.clone(), run.begin_memory());
        Ok(Box::new(Scoring { stage: self, source, run, memory, metadata: Metadata::default(), scaled: None }))
    }

    fn dependencies(&self, set: &mut DependencySet) -> Needs {
        self.score.dependencies(set);
        Needs::WhatFollows
    }

    fn to_bson(&self) -> Result<RawDocumentBuf> {
        Ok(stage_document(cstr!("$score"), self.source.clone()))
    }
}

impl Score {
    fn raw(&self, document: &RawDocument, metadata: &Metadata, run: &RunContext) -> Result<f64> {
        let context = EvaluationContext::new(document, run.variables()).with_metadata(metadata);
        let value = self.score.evaluate(&context)?;
        if let Some(number) = value.get().and_then(Number::from_bson) {
            return Ok(number.to_f64());
        }
        let message = format!("$score.score must be a number, but found type: {}", value.type_name());
        Err(AggregationError::new(ErrorKind::TypeMismatch, message))
    }

    /// What becomes known of a document with a score, which is normalized already but for its weight.
    fn scored(&self, known: Metadata, raw: f64, normalized: f64) -> Metadata {
        let score = normalized * self.weight;
        let score_details = self.has_details.then(|| Arc::new(self.details(raw, score)));
        Metadata { score: Some(score), score_details, ..known }
    }

    fn details(&self, raw: f64, score: f64) -> RawDocumentBuf {
        let mut details = RawDocumentBuf::new();
        details.append(cstr!("value"), score);
        details.append(cstr!("description"), "the raw score, normalized, multiplied by the weight");
        details.append(cstr!("rawScore"), raw);
        details.append(cstr!("normalization"), self.normalization.name());
        details.append(cstr!("weight"), self.weight);
        details.append(cstr!("expression"), self.shown.as_str());
        details.append(cstr!("details"), RawArrayBuf::new());
        details
    }
}

struct Scoring {
    stage: Arc<Score>,
    source: BoxSource,
    run: RunContext,
    memory: Memory,
    /// Of the document that was given last.
    metadata: Metadata,
    scaled: Option<Scaled>,
}

/// All documents with their scores, and the ends of the scale.
struct Scaled {
    ends: (f64, f64),
    documents: Kept,
}

/// A document, its score, and what was known of it before.
type Entry = (Vec<RawBson>, RawDocumentBuf);

enum Kept {
    Memory(std::vec::IntoIter<Entry>),
    File(Box<dyn SpillReader>),
}

/// What an entry takes beside its document.
const ENTRY_BYTES: usize = 256;

impl DocumentSource for Scoring {
    fn next(&mut self) -> Result<Option<RawDocumentBuf>> {
        if self.stage.normalization == Normalization::MinMaxScaler {
            return self.next_scaled();
        }
        let Some(document) = self.source.next()? else { return Ok(None) };
        let known = self.source.metadata();
        let raw = self.stage.raw(&document, &known, &self.run)?;
        let normalized = match self.stage.normalization {
            Normalization::Sigmoid => 1.0 / (1.0 + (-raw).exp()),
            _ => raw,
        };
        self.metadata = self.stage.scored(known, raw, normalized);
        Ok(Some(document))
    }

    fn metadata(&self) -> Metadata {
        self.metadata.clone()
    }
}

impl Scoring {
    fn next_scaled(&mut self) -> Result<Option<RawDocumentBuf>> {
        let mut scaled = match self.scaled.take() {
            Some(scaled) => scaled,
            None => self.read()?,
        };
        let entry = match &mut scaled.documents {
            Kept::Memory(entries) => entries.next(),
            Kept::File(reader) => {
                let mut record = Vec::new();
                let is_found = reader.next(&mut record)?;
                work::done(work::of_bytes(record.len()))?;
                if is_found { Some(spill::parse(&record).map(|record| (record.key, record.body))?) } else { None }
            }
        };
        let (least, greatest) = scaled.ends;
        self.scaled = Some(scaled);
        let Some((key, document)) = entry else { return Ok(None) };
        work::step()?;
        let raw = key.first().and_then(RawBson::as_f64).unwrap_or_default();
        let known = key.get(1).and_then(|known| known.as_document());
        let known = known.map_or_else(Metadata::default, Metadata::of_document);
        // Where all are the same they are at the beginning.
        let normalized = if greatest > least { (raw - least) / (greatest - least) } else { 0.0 };
        self.metadata = self.stage.scored(known, raw, normalized);
        Ok(Some(document))
    }

    /// Takes all documents.
    fn read(&mut self) -> Result<Scaled> {
        let (mut entries, mut bytes): (Vec<Entry>, usize) = (Vec::new(), 0);
        let (mut ends, mut buffer) = ((f64::INFINITY, f64::NEG_INFINITY), Vec::new());
        let mut file: Option<Box<dyn SpillWriter>> = None;
        while let Some(document) = self.source.next()? {
            let known = self.source.metadata();
            let raw = self.stage.raw(&document, &known, &self.run)?;
            ends = (ends.0.min(raw), ends.1.max(raw));
            bytes += ENTRY_BYTES + document.as_bytes().len();
            let key = vec![RawBson::Double(raw), RawBson::Document(known.to_document())];
            entries.push((key, document));
            if file.is_none() && !self.memory.holds(bytes) {
                file = Some(spill::begin_run(&self.run, "$score")?);
            }
            if let Some(writer) = &mut file {
                for (key, document) in entries.drain(..) {
                    spill::append(writer.as_mut(), &mut buffer, &key, &document)?;
                }
                self.memory.clear();
            }
        }
        let documents = match file {
            Some(writer) => Kept::File(writer.finish()?),
            None => Kept::Memory(entries.into_iter()),
        };
        Ok(Scaled { ends, documents })
    }
}
