//! OR: what any of several plans yields, each record once.

use std::collections::HashSet;

use bson::RawDocument;
use collection::RecordId;
use transaction::ReadView;

use crate::error::{ExecutorError, Result};
use crate::stage::{BoxedStage, Context, PlanStage, Step, WORKS_PER_STEP};
use crate::statistics::StageStatistics;

pub(crate) struct OrStage {
    inputs: Vec<BoxedStage>,
    current: usize,
    seen: HashSet<RecordId>,
    statistics: StageStatistics,
}

impl OrStage {
    pub(crate) fn new(inputs: Vec<BoxedStage>) -> OrStage {
        OrStage { inputs, current: 0, seen: HashSet::new(), statistics: StageStatistics::default() }
    }
}

impl PlanStage for OrStage {
    fn next(&mut self, context: &Context<'_>) -> Result<Step> {
        for _ in 0..WORKS_PER_STEP {
            self.statistics.works += 1;
            let Some(input) = self.inputs.get_mut(self.current) else {
                self.statistics.is_at_end = true;
                return Ok(Step::End);
            };
            match input.next(context)? {
                Step::Advanced => {
                    if input.record_id().is_none_or(|record_id| self.seen.insert(record_id)) {
                        self.statistics.advanced += 1;
                        return Ok(Step::Advanced);
                    }
                    self.statistics.duplicates_dropped += 1;
                }
                Step::Working => return Ok(Step::Working),
                Step::End => self.current += 1,
            }
        }
        Ok(Step::Working)
    }

    fn document(&mut self) -> Result<&RawDocument> {
        match self.inputs.get_mut(self.current) {
            Some(input) => input.document(),
            None => Err(ExecutorError::Damaged("a plan at its end was asked for a document".to_owned())),
        }
    }

    fn record_id(&self) -> Option<RecordId> {
        self.inputs.get(self.current)?.record_id()
    }

    fn reseat(&mut self, view: &ReadView) -> Result<()> {
        self.inputs.iter_mut().try_for_each(|input| input.reseat(view))
    }

    fn statistics(&self) -> StageStatistics {
        self.statistics
    }

    fn inputs(&self) -> Vec<&dyn PlanStage> {
        self.inputs.iter().map(|input| &**input).collect()
    }
}
