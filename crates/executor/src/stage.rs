//! What every stage of a running plan can do.

use std::sync::Arc;

use bson::RawDocument;
use collection::{Collection, RecordId};
use index_key::KeyPattern;
use planner::CanonicalQuery;
use platform::WorkingMemory;
use transaction::ReadView;

use crate::error::{ExecutorError, Result};
use crate::statistics::StageStatistics;

/// What came of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    /// The stage is on something.
    Advanced,
    /// It has worked for a while and is on nothing: a point to check for interruption.
    Working,
    /// There is nothing more.
    End,
}

/// Units of work after which a stage that has found nothing says `Working`.
pub(crate) const WORKS_PER_STEP: u64 = 128;

/// What stages run with.
pub(crate) struct Context<'c> {
    pub(crate) view: &'c ReadView,
    pub(crate) collection: &'c Arc<Collection>,
    pub(crate) query: &'c CanonicalQuery,
    pub(crate) memory: &'c WorkingMemory,
}

/// The entry that an index scan is on.
pub(crate) struct KeyEntry<'k> {
    pub(crate) pattern: &'k KeyPattern,
    pub(crate) key: &'k [u8],
    pub(crate) type_bits: &'k [u8],
}

/// A running stage.
pub(crate) trait PlanStage: Send {
    /// Moves on.
    fn next(&mut self, context: &Context<'_>) -> Result<Step>;

    /// The document that the stage is on.
    fn document(&mut self) -> Result<&RawDocument> {
        Err(ExecutorError::Damaged("a stage without documents was asked for one".to_owned()))
    }

    /// The record that the stage is on.
    fn record_id(&self) -> Option<RecordId>;

    /// The index entry that the stage is on, if it comes from an index.
    fn key(&mut self) -> Result<Option<KeyEntry<'_>>> {
        Ok(None)
    }

    /// Goes on in another view.
    fn reseat(&mut self, view: &ReadView) -> Result<()>;

    /// Whether going on in another view is right: no index has become multikey where the plan relies on its not being so.
    fn can_reseat(&self) -> bool {
        self.inputs().iter().all(|input| input.can_reseat())
    }

    /// What it has done.
    fn statistics(&self) -> StageStatistics;

    /// The stages it reads from, as in the plan.
    fn inputs(&self) -> Vec<&dyn PlanStage>;
}

pub(crate) type BoxedStage = Box<dyn PlanStage>;

/// Statistics of the stage and all below.
pub(crate) fn total(stage: &dyn PlanStage) -> StageStatistics {
    let mut sum = stage.statistics();
    for input in stage.inputs() {
        let below = total(input);
        sum.keys_examined += below.keys_examined;
        sum.docs_examined += below.docs_examined;
        sum.works += below.works;
    }
    sum
}
