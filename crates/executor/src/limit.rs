//! LIMIT: the first few.

use bson::RawDocument;
use collection::RecordId;
use transaction::ReadView;

use crate::error::Result;
use crate::stage::{BoxedStage, Context, KeyEntry, PlanStage, Step};
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

    fn document(&mut self) -> Result<&RawDocument> {
        self.input.document()
    }

    fn record_id(&self) -> Option<RecordId> {
        self.input.record_id()
    }

    fn key(&mut self) -> Result<Option<KeyEntry<'_>>> {
        self.input.key()
    }

    fn reseat(&mut self, view: &ReadView) -> Result<()> {
        self.input.reseat(view)
    }

    fn statistics(&self) -> StageStatistics {
        self.statistics
    }

    fn inputs(&self) -> Vec<&dyn PlanStage> {
        vec![&*self.input]
    }
}
