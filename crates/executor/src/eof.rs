//! EOF: nothing.

use collection::RecordId;
use transaction::ReadView;

use crate::error::Result;
use crate::stage::{Context, PlanStage, Step};
use crate::statistics::StageStatistics;

pub(crate) struct Eof;

impl PlanStage for Eof {
    fn next(&mut self, _: &Context<'_>) -> Result<Step> {
        Ok(Step::End)
    }

    fn record_id(&self) -> Option<RecordId> {
        None
    }

    fn reseat(&mut self, _: &ReadView) -> Result<()> {
        Ok(())
    }

    fn statistics(&self) -> StageStatistics {
        StageStatistics { is_at_end: true, ..StageStatistics::default() }
    }

    fn inputs(&self) -> Vec<&dyn PlanStage> {
        Vec::new()
    }
}
