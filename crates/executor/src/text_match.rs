//! TEXT_MATCH: of documents that have one of a search's terms, those that have its phrases and nothing that it negates.

use std::sync::Arc;

use planner::TextPlan;

use crate::error::Result;
use crate::stage::{BoxedStage, Context, PlanStage, Step, WORKS_PER_STEP};
use crate::statistics::StageStatistics;

pub(crate) struct TextMatch {
    input: BoxedStage,
    text: Arc<TextPlan>,
    statistics: StageStatistics,
}

impl TextMatch {
    pub(crate) fn new(input: BoxedStage, text: Arc<TextPlan>) -> TextMatch {
        TextMatch { input, text, statistics: StageStatistics::default() }
    }
}

impl PlanStage for TextMatch {
    fn next(&mut self, context: &Context<'_>) -> Result<Step> {
        for _ in 0..WORKS_PER_STEP {
            self.statistics.works += 1;
            match self.input.next(context)? {
                Step::Advanced => {
                    if self.text.accepts(self.input.document()?)? {
                        self.statistics.advanced += 1;
                        return Ok(Step::Advanced);
                    }
                    self.statistics.docs_rejected += 1;
                }
                Step::Working => return Ok(Step::Working),
                Step::End => {
                    self.statistics.is_at_end = true;
                    return Ok(Step::End);
                }
            }
        }
        Ok(Step::Working)
    }

    fn statistics(&self) -> StageStatistics {
        self.statistics
    }

    fn input(&self) -> Option<&dyn PlanStage> {
        Some(&*self.input)
    }

    fn input_mut(&mut self) -> Option<&mut dyn PlanStage> {
        Some(&mut *self.input)
    }
}
