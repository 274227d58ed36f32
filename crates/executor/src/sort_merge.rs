//! SORT_MERGE: what several plans yield that each have the query's order, in that order, each record once.
//!
//! All are open at once. Which is next is told by the sort keys of the documents that they are on.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use bson::RawDocument;
use collection::RecordId;
use document::collation;
use planner::PlanNode;
use query_language::expression::Metadata;
use query_language::expression::sort_pattern::SortPattern;
use transaction::ReadView;

use crate::build::build;
use crate::error::{ExecutorError, Result};
use crate::seen_records::SeenRecords;
use crate::sort_key;
use crate::stage::{BoxedStage, Context, KeyEntry, PlanStage, Step, WORKS_PER_STEP};
use crate::statistics::StageStatistics;

pub(crate) struct SortMerge {
    inputs: Vec<BoxedStage>,
    pattern: SortPattern,
    /// Those that are on a document, by its key; the least is next.
    waiting: BinaryHeap<Reverse<(Vec<u8>, usize)>>,
    /// Those that have to move before anything is known.
    unmoved: Vec<usize>,
    /// The one whose document is yielded.
    current: Option<usize>,
    seen: SeenRecords,
    has_begun: bool,
    statistics: StageStatistics,
}

impl SortMerge {
    pub(crate) fn new(plans: &[PlanNode], pattern: SortPattern, context: &Context<'_>) -> Result<SortMerge> {
        let inputs = plans.iter().map(|plan| build(plan, context)).collect::<Result<Vec<_>>>()?;
        Ok(SortMerge {
            unmoved: (0..inputs.len()).rev().collect(),
            inputs,
            pattern,
            waiting: BinaryHeap::new(),
            current: None,
            seen: SeenRecords::new(context.memory.begin()),
            has_begun: false,
            statistics: StageStatistics::default(),
        })
    }

    /// Moves the inputs that have to; `Working` when they are not done.
    fn move_inputs(&mut self, context: &Context<'_>) -> Result<Step> {
        while let Some(position) = self.unmoved.last().copied() {
            let Some(input) = self.inputs.get_mut(position) else { break };
            match input.next(context)? {
                Step::Working => return Ok(Step::Working),
                Step::End => {}
                Step::Advanced => {
                    let mut key = Vec::new();
                    let subject = sort_key::Subject { document: input.document()?, metadata: &Metadata::default() };
                    sort_key::write(&self.pattern, &subject, collation::in_force().as_deref(), &mut key)?;
                    self.waiting.push(Reverse((key, position)));
                }
            }
            self.unmoved.pop();
        }
        Ok(Step::Advanced)
    }
}

impl PlanStage for SortMerge {
    fn next(&mut self, context: &Context<'_>) -> Result<Step> {
        self.has_begun = true;
        for _ in 0..WORKS_PER_STEP {
            self.statistics.works += 1;
            self.unmoved.extend(self.current.take());
            if self.move_inputs(context)? == Step::Working {
                return Ok(Step::Working);
            }
            let Some(Reverse((_, position))) = self.waiting.pop() else {
                self.statistics.is_at_end = true;
                return Ok(Step::End);
            };
            self.current = Some(position);
            let record_id = self.inputs.get(position).and_then(|input| input.record_id());
            if record_id.map_or(Ok(true), |record_id| self.seen.insert(record_id))? {
                self.statistics.advanced += 1;
                return Ok(Step::Advanced);
            }
            self.statistics.duplicates_dropped += 1;
        }
        Ok(Step::Working)
    }

    fn document(&mut self) -> Result<&RawDocument> {
        match self.current.and_then(|position| self.inputs.get_mut(position)) {
            Some(input) => input.document(),
            None => Err(ExecutorError::Damaged("a plan at its end was asked for a document".to_owned())),
        }
    }

    fn record_id(&self) -> Option<RecordId> {
        self.inputs.get(self.current?)?.record_id()
    }

    fn key(&mut self) -> Result<Option<KeyEntry<'_>>> {
        match self.current.and_then(|position| self.inputs.get_mut(position)) {
            Some(input) => input.key(),
            None => Ok(None),
        }
    }

    fn reseat(&mut self, view: &ReadView) -> Result<()> {
        self.inputs.iter_mut().try_for_each(|input| input.reseat(view))
    }

    fn can_reseat(&self) -> bool {
        // What waits is of the old view: its place would not be that of the document that is there now.
        !self.has_begun && self.inputs.iter().all(|input| input.can_reseat())
    }

    fn statistics(&self) -> StageStatistics {
        self.statistics
    }

    fn inputs(&self) -> Vec<&dyn PlanStage> {
        self.inputs.iter().map(|input| &**input as &dyn PlanStage).collect()
    }
}
