//! COLLSCAN: documents in the order of their record ids, which is that of their insertion.

use bson::RawDocument;
use collection::RecordId;
use planner::ScanDirection;
use query_language::filter::FilterNode;
use query_language::rows::RowReader;
use transaction::{Counted, ReadView, RecordCursor};

use crate::error::{ExecutorError, Result};
use crate::scan_pieces::Wanted;
use crate::shared_scan::{SharedScan, Turned};
use crate::stage::{Context, PlanStage, Step, WORKS_PER_STEP};
use crate::statistics::StageStatistics;

/// Documents that are counted at once.
const COUNTED_AT_ONCE: u64 = 1024;

pub(crate) struct CollectionScan {
    cursor: RecordCursor,
    direction: ScanDirection,
    filter: Option<FilterNode>,
    current: Option<RecordId>,
    is_positioned: bool,
    shared: SharedScan,
    statistics: StageStatistics,
}

/// What a move of the scan's own thread came to, where pieces are shared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Moved {
    /// The cursor is on a document that is wanted.
    Wanted,
    /// On one that is not.
    Unwanted,
    /// Its piece has ended.
    EndOfPiece,
    /// There is nothing more.
    End,
}

impl CollectionScan {
    pub(crate) fn new(context: &Context<'_>, direction: ScanDirection, filter: Option<FilterNode>) -> CollectionScan {
        CollectionScan {
            cursor: context.view.record_cursor(context.collection),
            direction,
            filter,
            current: None,
            is_positioned: false,
            shared: SharedScan::default(),
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

    /// Moves to the next document.
    #[inline]
    fn move_on(&mut self) -> Result<Moved> {
        if self.shared.is_between() {
            return Ok(Moved::EndOfPiece);
        }
        self.current = self.step()?;
        if self.shared.is_behind(self.current) {
            return Ok(Moved::EndOfPiece);
        }
        self.statistics.works += 1;
        if self.current.is_none() {
            self.statistics.is_at_end = true;
            return Ok(Moved::End);
        }
        self.statistics.docs_examined += 1;
        let is_wanted = match &self.filter {
            Some(filter) => filter.matches(self.cursor.document()?)?,
            None => true,
        };
        self.statistics.advanced += u64::from(is_wanted);
        Ok(if is_wanted { Moved::Wanted } else { Moved::Unwanted })
    }

    /// Has a second thread read ahead, if that is worth it now.
    fn consider_sharing(&mut self, context: &Context<'_>, wanted: impl FnOnce() -> Wanted) -> Result<()> {
        let (true, Some(current)) = (self.direction == ScanDirection::Forward, self.current) else { return Ok(()) };
        let on = (self.statistics.docs_examined, current);
        self.shared.consider(context, on, self.filter.as_ref(), wanted)
    }

    /// At the end of a piece: how many documents that are wanted were taken over from the second thread.
    fn turn(&mut self) -> Result<u64> {
        let Turned::TookOver { examined, matched } = self.shared.turn(&mut self.cursor, self.filter.as_ref())? else {
            return Ok(0);
        };
        self.statistics.works += examined;
        self.statistics.docs_examined += examined;
        self.statistics.docs_examined_ahead += examined;
        self.statistics.advanced += matched;
        Ok(matched)
    }
}

impl PlanStage for CollectionScan {
    fn next(&mut self, _: &Context<'_>) -> Result<Step> {
        if self.shared.is_shared() {
            // Whoever has counted or filled all asks once more.
            if self.statistics.is_at_end {
                return Ok(Step::End);
            }
            return Err(ExecutorError::Damaged("a scan that is shared was asked for one document".to_owned()));
        }
        for _ in 0..WORKS_PER_STEP {
            match self.move_on()? {
                Moved::Wanted => return Ok(Step::Advanced),
                Moved::Unwanted => {}
                Moved::EndOfPiece | Moved::End => return Ok(Step::End),
            }
        }
        Ok(Step::Working)
    }

    fn count(&mut self, context: &Context<'_>) -> Result<Option<Counted>> {
        self.consider_sharing(context, || Wanted::Number)?;
        let mut entries = 0;
        for _ in 0..COUNTED_AT_ONCE {
            match self.move_on()? {
                Moved::Wanted => entries += 1,
                Moved::Unwanted => {}
                Moved::EndOfPiece => {
                    entries += self.turn()?;
                    break;
                }
                Moved::End => return Ok(Some(Counted { entries, is_end: true })),
            }
        }
        Ok(Some(Counted { entries, is_end: false }))
    }

    fn fill(&mut self, context: &Context<'_>, rows: &mut RowReader) -> Result<Option<Step>> {
        let names = rows.names().clone();
        let rows_max = rows.rows_max();
        self.consider_sharing(context, || Wanted::Rows(names, rows_max))?;
        for _ in 0..WORKS_PER_STEP {
            if self.shared.has_rows() {
                if rows.batch().rows() == 0 {
                    self.shared.hand_on(rows);
                }
                return Ok(Some(Step::Advanced));
            }
            if rows.is_full() {
                return Ok(Some(Step::Advanced));
            }
            match self.move_on()? {
                Moved::Wanted => rows.take(self.cursor.document()?)?,
                Moved::Unwanted => {}
                Moved::EndOfPiece => {
                    self.turn()?;
                    if !self.shared.has_rows() {
                        return Ok(Some(Step::Working));
                    }
                }
                Moved::End => return Ok(Some(Step::End)),
            }
        }
        Ok(Some(Step::Working))
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

    fn can_reseat(&self) -> bool {
        // What was gathered ahead is of the view that there was.
        !self.shared.is_shared()
    }

    fn statistics(&self) -> StageStatistics {
        self.statistics
    }
}
