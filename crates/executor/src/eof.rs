//! EOF: nothing.

use crate::error::Result;
use crate::stage::{Context, PlanStage, Step};
use crate::statistics::StageStatistics;

pub(crate) struct Eof;

impl PlanStage for Eof {
    fn next(&mut self, _: &Context<'_>) -> Result<Step> {
        Ok(Step::End)
    }

    fn statistics(&self) -> StageStatistics {
        StageStatistics { is_at_end: true, ..StageStatistics::default() }
    }
}
