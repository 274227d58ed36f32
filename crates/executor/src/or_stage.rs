//! OR: what any of several plans yields, each record once.

use bson::RawDocument;
use collection::RecordId;
use planner::PlanNode;
use platform::OperationMemory;
use query_language::expression::Metadata;
use transaction::ReadView;

use crate::build::build;
use crate::error::{ExecutorError, Result};
use crate::seen_records::SeenRecords;
use crate::stage::{BoxedStage, Context, PlanStage, Step, WORKS_PER_STEP};
use crate::statistics::StageStatistics;

pub(crate) struct OrStage {
    branches: Vec<Branch>,
    current: usize,
    seen: SeenRecords,
    statistics: StageStatistics,
}

/// One of the plans. They run one behind the other, so only one has cursors, however many there are.
enum Branch {
    Waiting { plan: PlanNode, record: StageRecord },
    Open(BoxedStage),
    Ended(StageRecord),
}

/// What a stage has done that is not there yet, or not any more.
struct StageRecord {
    statistics: StageStatistics,
    inputs: Vec<StageRecord>,
}

impl OrStage {
    pub(crate) fn new(plans: &[PlanNode], memory: OperationMemory) -> OrStage {
        let branches =
            plans.iter().map(|plan| Branch::Waiting { plan: plan.clone(), record: StageRecord::of_plan(plan) });
        OrStage {
            branches: branches.collect(),
            current: 0,
            seen: SeenRecords::new(memory),
            statistics: StageStatistics::default(),
        }
    }

    #[cfg(test)]
    pub(crate) fn open_branches(&self) -> usize {
        self.branches.iter().filter(|branch| matches!(branch, Branch::Open(_))).count()
    }
}

impl Branch {
    fn opened(&mut self, context: &Context<'_>) -> Result<&mut dyn PlanStage> {
        if let Branch::Waiting { plan, .. } = self {
            *self = Branch::Open(build(plan, context)?);
        }
        Ok(match self {
            Branch::Open(stage) => &mut **stage,
            Branch::Waiting { record, .. } | Branch::Ended(record) => record,
        })
    }

    fn end(&mut self) {
        *self = Branch::Ended(StageRecord::of_stage(self.stage()));
    }

    fn stage(&self) -> &dyn PlanStage {
        match self {
            Branch::Open(stage) => &**stage,
            Branch::Waiting { record, .. } | Branch::Ended(record) => record,
        }
    }

    fn can_reseat(&self) -> bool {
        match self {
            Branch::Waiting { plan, .. } => !plan.index_scans().iter().any(|scan| scan.is_outdated()),
            Branch::Open(stage) => stage.can_reseat(),
            Branch::Ended(_) => true,
        }
    }
}

impl StageRecord {
    fn of_plan(plan: &PlanNode) -> StageRecord {
        let inputs = plan.inputs().iter().map(StageRecord::of_plan).collect();
        StageRecord { statistics: StageStatistics::default(), inputs }
    }

    fn of_stage(stage: &dyn PlanStage) -> StageRecord {
        let inputs = stage.inputs().into_iter().map(StageRecord::of_stage).collect();
        StageRecord { statistics: stage.statistics(), inputs }
    }
}

impl PlanStage for StageRecord {
    fn next(&mut self, _: &Context<'_>) -> Result<Step> {
        Ok(Step::End)
    }

    fn statistics(&self) -> StageStatistics {
        self.statistics
    }

    fn inputs(&self) -> Vec<&dyn PlanStage> {
        self.inputs.iter().map(|input| input as &dyn PlanStage).collect()
    }
}

impl PlanStage for OrStage {
    fn next(&mut self, context: &Context<'_>) -> Result<Step> {
        for _ in 0..WORKS_PER_STEP {
            self.statistics.works += 1;
            let Some(branch) = self.branches.get_mut(self.current) else {
                self.statistics.is_at_end = true;
                return Ok(Step::End);
            };
            let input = branch.opened(context)?;
            match input.next(context)? {
                Step::Advanced => {
                    let is_new = input.record_id().map_or(Ok(true), |record_id| self.seen.insert(record_id))?;
                    if is_new {
                        self.statistics.advanced += 1;
                        return Ok(Step::Advanced);
                    }
                    self.statistics.duplicates_dropped += 1;
                }
                Step::Working => return Ok(Step::Working),
                Step::End => {
                    branch.end();
                    self.current += 1;
                }
            }
        }
        Ok(Step::Working)
    }

    fn document(&mut self) -> Result<&RawDocument> {
        match self.branches.get_mut(self.current) {
            Some(Branch::Open(input)) => input.document(),
            _ => Err(ExecutorError::Damaged("a plan at its end was asked for a document".to_owned())),
        }
    }

    fn record_id(&self) -> Option<RecordId> {
        self.branches.get(self.current)?.stage().record_id()
    }

    fn metadata(&self) -> Metadata {
        self.branches.get(self.current).map_or_else(Metadata::default, |branch| branch.stage().metadata())
    }

    fn reseat(&mut self, view: &ReadView) -> Result<()> {
        match self.branches.get_mut(self.current) {
            Some(Branch::Open(input)) => input.reseat(view),
            _ => Ok(()),
        }
    }

    fn can_reseat(&self) -> bool {
        self.branches.iter().all(Branch::can_reseat)
    }

    fn statistics(&self) -> StageStatistics {
        self.statistics
    }

    fn inputs(&self) -> Vec<&dyn PlanStage> {
        self.branches.iter().map(Branch::stage).collect()
    }
}
