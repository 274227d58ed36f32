//! What every stage of a running plan can do.

use std::sync::Arc;

use bson::RawDocument;
use collection::{Collection, RecordId};
use index_key::KeyPattern;
use planner::CanonicalQuery;
use platform::WorkingMemory;
use query_language::expression::Metadata;
use query_language::rows::RowReader;
use transaction::{Counted, ReadView, Store};

use crate::error::{ExecutorError, Result};
use crate::shared_scan::ScanSharing;
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
    pub(crate) store: &'c Arc<Store>,
    pub(crate) sharing: ScanSharing,
}

/// The entry that an index scan is on.
pub(crate) struct KeyEntry<'k> {
    pub(crate) pattern: &'k KeyPattern,
    pub(crate) key: &'k [u8],
    pub(crate) type_bits: &'k [u8],
}

/// A running stage.
///
/// One that reads from one other and passes on what that is on says only which ([`PlanStage::input`], [`PlanStage::input_mut`]) and how it moves.
pub(crate) trait PlanStage: Send {
    /// Moves on.
    fn next(&mut self, context: &Context<'_>) -> Result<Step>;

    /// Passes over some of the results and counts them, where that is quicker than to yield them; `None`: they are to be yielded.
    fn count(&mut self, _: &Context<'_>) -> Result<Option<Counted>> {
        Ok(None)
    }

    /// Adds rows of some of the results, or puts a batch of them in the place of an empty one; `None`: they are to be
    /// yielded. Once it has, nothing is to be yielded any more.
    fn fill(&mut self, _: &Context<'_>, _: &mut RowReader) -> Result<Option<Step>> {
        Ok(None)
    }

    /// The one stage it reads from, if there is exactly one.
    fn input(&self) -> Option<&dyn PlanStage> {
        None
    }

    /// The same, to be moved.
    fn input_mut(&mut self) -> Option<&mut dyn PlanStage> {
        None
    }

    /// The document that the stage is on.
    fn document(&mut self) -> Result<&RawDocument> {
        match self.input_mut() {
            Some(input) => input.document(),
            None => Err(ExecutorError::Damaged("a stage without documents was asked for one".to_owned())),
        }
    }

    /// The record that the stage is on.
    fn record_id(&self) -> Option<RecordId> {
        self.input()?.record_id()
    }

    /// What is known, beside its fields, of the document that the stage is on.
    fn metadata(&self) -> Metadata {
        self.input().map_or_else(Metadata::default, PlanStage::metadata)
    }

    /// The index entry that the stage is on, if it comes from an index.
    fn key(&mut self) -> Result<Option<KeyEntry<'_>>> {
        self.input_mut().map_or(Ok(None), PlanStage::key)
    }

    /// Goes on in another view.
    fn reseat(&mut self, view: &ReadView) -> Result<()> {
        self.input_mut().map_or(Ok(()), |input| input.reseat(view))
    }

    /// Whether going on in another view is right: no index has become multikey where the plan relies on its not being so.
    fn can_reseat(&self) -> bool {
        self.inputs().iter().all(|input| input.can_reseat())
    }

    /// What it has done.
    fn statistics(&self) -> StageStatistics;

    /// The stages it reads from, as in the plan.
    fn inputs(&self) -> Vec<&dyn PlanStage> {
        self.input().into_iter().collect()
    }
}

pub(crate) type BoxedStage = Box<dyn PlanStage>;

/// Statistics of the stage and all below.
pub(crate) fn total(stage: &dyn PlanStage) -> StageStatistics {
    let mut sum = stage.statistics();
    // Most have one, which needs no list: this is asked for with every document of a pipeline.
    match stage.input() {
        Some(input) => sum.add(&total(input)),
        None => stage.inputs().into_iter().for_each(|input| sum.add(&total(input))),
    }
    sum
}
