//! TEXT_OR: the documents of several terms of a text index, each with the sum of its scores.
//!
//! All entries are read before the first document is, since the last term may be another one of any document's. What is
//! kept of a document meanwhile is its record id and its score, in bounded memory.

use std::collections::{BTreeMap, btree_map};

use bson::RawDocument;
use collection::RecordId;
use index_key::{FieldKind, KeyPattern, KeyValue, decode_number_at};
use platform::OperationMemory;
use query_language::expression::Metadata;
use query_language::filter::FilterNode;
use transaction::ReadView;

use crate::error::{ExecutorError, Result};
use crate::stage::{BoxedStage, Context, KeyEntry, PlanStage, Step, WORKS_PER_STEP};
use crate::statistics::StageStatistics;

/// What a document takes in the map of scores.
const SCORE_BYTES: u64 = 64;

pub(crate) struct TextOr {
    inputs: Vec<BoxedStage>,
    /// The one that is read; behind the last one the documents are.
    current: usize,
    filter: Option<FilterNode>,
    scores: BTreeMap<RecordId, f64>,
    memory: OperationMemory,
    found: Option<btree_map::IntoIter<RecordId, f64>>,
    on: Option<(RecordId, f64)>,
    document: Vec<u8>,
    statistics: StageStatistics,
}

impl TextOr {
    pub(crate) fn new(inputs: Vec<BoxedStage>, filter: Option<FilterNode>, memory: OperationMemory) -> TextOr {
        TextOr {
            inputs,
            current: 0,
            filter,
            scores: BTreeMap::new(),
            memory,
            found: None,
            on: None,
            document: Vec::new(),
            statistics: StageStatistics::default(),
        }
    }

    fn read(&mut self, context: &Context<'_>) -> Result<Step> {
        for _ in 0..WORKS_PER_STEP {
            self.statistics.works += 1;
            let Some(input) = self.inputs.get_mut(self.current) else {
                self.found = Some(std::mem::take(&mut self.scores).into_iter());
                return Ok(Step::Working);
            };
            match input.next(context)? {
                Step::Advanced => {
                    let record_id = input.record_id();
                    let score = input.key()?.and_then(|entry| score_of(&entry));
                    let (Some(record_id), Some(score)) = (record_id, score) else {
                        return Err(ExecutorError::Damaged("an entry of a text index has no score".to_owned()));
                    };
                    *self.scores.entry(record_id).or_default() += score;
                    self.check_memory()?;
                }
                Step::Working => return Ok(Step::Working),
                Step::End => self.current += 1,
            }
        }
        Ok(Step::Working)
    }

    fn check_memory(&mut self) -> Result<()> {
        let bytes = self.scores.len() as u64 * SCORE_BYTES;
        if self.memory.holds(bytes) {
            return Ok(());
        }
        let limit = self.memory.share();
        Err(ExecutorError::MemoryLimit(format!(
            "the scores of a $text query exceeded the memory limit of {limit} bytes: search for rarer words, or without scores"
        )))
    }

    /// Whether the record that the stage is on is there and wanted.
    fn is_wanted(&mut self, record_id: RecordId, context: &Context<'_>) -> Result<bool> {
        if !context.view.get_record(context.collection, record_id, &mut self.document)? {
            return Ok(false);
        }
        self.statistics.docs_examined += 1;
        match &self.filter {
            Some(filter) => Ok(filter.matches(RawDocument::from_bytes(&self.document)?)?),
            None => Ok(true),
        }
    }
}

/// The score that stands behind the term.
fn score_of(entry: &KeyEntry<'_>) -> Option<f64> {
    match decode_number_at(entry.pattern, entry.key, score_position(entry.pattern)?)? {
        KeyValue::Int(whole) => Some(whole as f64),
        KeyValue::Double(score) => Some(score),
        _ => None,
    }
}

fn score_position(pattern: &KeyPattern) -> Option<usize> {
    pattern.fields().iter().position(|field| field.kind == FieldKind::Score)
}

impl PlanStage for TextOr {
    fn next(&mut self, context: &Context<'_>) -> Result<Step> {
        if self.found.is_none() {
            return self.read(context);
        }
        for _ in 0..WORKS_PER_STEP {
            self.statistics.works += 1;
            self.on = self.found.as_mut().and_then(Iterator::next);
            let Some((record_id, _)) = self.on else {
                self.memory.shrink(0);
                self.statistics.is_at_end = true;
                return Ok(Step::End);
            };
            if self.is_wanted(record_id, context)? {
                self.statistics.advanced += 1;
                return Ok(Step::Advanced);
            }
        }
        Ok(Step::Working)
    }

    fn document(&mut self) -> Result<&RawDocument> {
        Ok(RawDocument::from_bytes(&self.document)?)
    }

    fn record_id(&self) -> Option<RecordId> {
        self.on.map(|(record_id, _)| record_id)
    }

    fn metadata(&self) -> Metadata {
        Metadata { text_score: self.on.map(|(_, score)| score), ..Metadata::default() }
    }

    fn reseat(&mut self, view: &ReadView) -> Result<()> {
        self.inputs.iter_mut().try_for_each(|input| input.reseat(view))
    }

    /// Scores are of one point in time, and so are the documents that have them.
    fn can_reseat(&self) -> bool {
        self.statistics.works == 0 && self.inputs.iter().all(|input| input.can_reseat())
    }

    fn statistics(&self) -> StageStatistics {
        self.statistics
    }

    fn inputs(&self) -> Vec<&dyn PlanStage> {
        self.inputs.iter().map(|input| &**input as &dyn PlanStage).collect()
    }
}
