//! COLLSCAN: documents in the order of their record ids, which is that of their insertion.

use bson::RawDocument;
use collection::RecordId;
use planner::ScanDirection;
use query_language::filter::FilterNode;
use transaction::{ReadView, RecordCursor};

use crate::error::Result;
use crate::stage::{Context, PlanStage, Step, WORKS_PER_STEP};
use crate::statistics::StageStatistics;

pub(crate) struct CollectionScan {
    cursor: RecordCursor,
    direction: ScanDirection,
    filter: Option<FilterNode>,
    current: Option<RecordId>,
    is_positioned: bool,
    statistics: StageStatistics,
}

impl CollectionScan {
    pub(crate) fn new(context: &Context<'_>, direction: ScanDirection, filter: Option<FilterNode>) -> CollectionScan {
        CollectionScan {
            cursor: context.view.record_cursor(context.collection),
            direction,
            filter,
            current: None,
            is_positioned: false,
            statistics: StageStatistics::default(),
        }
    }

    fn step(&mut self) -> Result<Option<RecordId>> {
        if !self.is_positioned {
            self.is_positioned = true;
            match self.direction {
                ScanDirection::Forward => self.cursor.seek_first()?,
                ScanDirection::Backward => self.cursor.seek_last()?,
            }
        }
        Ok(match self.direction {
            ScanDirection::Forward => self.cursor.next()?,
            ScanDirection::Backward => self.cursor.previous()?,
        })
    }
}

impl PlanStage for CollectionScan {
    fn next(&mut self, _: &Context<'_>) -> Result<Step> {
        for _ in 0..WORKS_PER_STEP {
            self.statistics.works += 1;
            self.current = self.step()?;
            if self.current.is_none() {
                self.statistics.is_at_end = true;
                return Ok(Step::End);
            }
            self.statistics.docs_examined += 1;
            let is_wanted = match &self.filter {
                Some(filter) => filter.matches(self.cursor.document()?)?,
                None => true,
            };
            if is_wanted {
                self.statistics.advanced += 1;
                return Ok(Step::Advanced);
            }
        }
        Ok(Step::Working)
    }

    fn document(&mut self) -> Result<&RawDocument> {
        Ok(self.cursor.document()?)
    }

    fn record_id(&self) -> Option<RecordId> {
        self.current
    }

    fn reseat(&mut self, view: &ReadView) -> Result<()> {
        if !self.is_positioned {
            // Only the view is taken: the next step begins at the end it always would have.
            return Ok(self.cursor.reseat(view)?);
        }
        match self.direction {
            ScanDirection::Forward => self.cursor.reseat(view)?,
            ScanDirection::Backward => self.cursor.reseat_backward(view)?,
        }
        Ok(())
    }

    fn statistics(&self) -> StageStatistics {
        self.statistics
    }
}
