//! FETCH: the documents of index entries, and what of the filter keys could not decide.

use bson::RawDocument;
use query_language::filter::FilterNode;

use crate::error::Result;
use crate::stage::{BoxedStage, Context, PlanStage, Step, WORKS_PER_STEP};
use crate::statistics::StageStatistics;

pub(crate) struct Fetch {
    input: BoxedStage,
    filter: Option<FilterNode>,
    document: Vec<u8>,
    statistics: StageStatistics,
}

impl Fetch {
    pub(crate) fn new(input: BoxedStage, filter: Option<FilterNode>) -> Fetch {
        Fetch { input, filter, document: Vec::new(), statistics: StageStatistics::default() }
    }

    /// Whether the record that the input is on is there and wanted.
    fn is_wanted(&mut self, context: &Context<'_>) -> Result<bool> {
        let Some(record_id) = self.input.record_id() else { return Ok(false) };
        if !context.view.get_record(context.collection, record_id, &mut self.document)? {
            return Ok(false);
        }
        self.statistics.docs_examined += 1;
        match &self.filter {
            Some(filter) => Ok(filter.matches(RawDocument::from_bytes(&self.document)?)?),
            None => Ok(true),
        }
    }
}

impl PlanStage for Fetch {
    fn next(&mut self, context: &Context<'_>) -> Result<Step> {
        for _ in 0..WORKS_PER_STEP {
            self.statistics.works += 1;
            match self.input.next(context)? {
                Step::Advanced if self.is_wanted(context)? => {
                    self.statistics.advanced += 1;
                    return Ok(Step::Advanced);
                }
                Step::Advanced => {}
                Step::Working => return Ok(Step::Working),
                Step::End => {
                    self.statistics.is_at_end = true;
                    return Ok(Step::End);
                }
            }
        }
        Ok(Step::Working)
    }

    fn document(&mut self) -> Result<&RawDocument> {
        Ok(RawDocument::from_bytes(&self.document)?)
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
