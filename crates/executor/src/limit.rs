//! LIMIT: the first few.

use crate::error::Result;
use crate::stage::{BoxedStage, Context, PlanStage, Step};
use crate::statistics::StageStatistics;

pub(crate) struct Limit {
    input: BoxedStage,
    left: u64,
    statistics: StageStatistics,
}

impl Limit {
    pub(crate) fn new(input: BoxedStage, count: u64) -> Limit {
        Limit { input, left: count, statistics: StageStatistics::default() }
    }
}

impl PlanStage for Limit {
    fn next(&mut self, context: &Context<'_>) -> Result<Step> {
        self.statistics.works += 1;
        let step = if self.left == 0 { Step::End } else { self.input.next(context)? };
        match step {
            Step::Advanced => {
                self.left -= 1;
                self.statistics.advanced += 1;
            }
            Step::Working => {}
            Step::End => self.statistics.is_at_end = true,
        }
        Ok(step)
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
