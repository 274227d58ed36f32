//! GEO_NEAR_2DSPHERE, GEO_NEAR_2D: documents in the order of their distance from a point, ring by ring.
//!
//! Of each ring the record ids are gathered and put in order; the documents are fetched again when they are yielded,
//! so that a ring takes little memory. A ring in which there are too many is begun again as a narrower one. The next
//! ring is wider while there are few. The document of a shape that reaches over several rings is in the one where it
//! is nearest.

use std::sync::Arc;

use bson::RawDocument;
use collection::RecordId;
use document::work;
use planner::GeoNearPlan;
use platform::OperationMemory;
use query_language::expression::Metadata;
use query_language::filter::Nearest;
use transaction::ReadView;

use crate::error::{ExecutorError, Result};
use crate::index_scan::IndexScan;
use crate::stage::{Context, PlanStage, Step, WORKS_PER_STEP};
use crate::statistics::StageStatistics;

pub(crate) struct GeoNear {
    plan: Arc<GeoNearPlan>,
    farthest: f64,
    /// Where the next ring begins, and how wide it is.
    inner: f64,
    width: f64,
    state: State,
    found: Vec<Found>,
    document: Vec<u8>,
    nearest: Option<Nearest>,
    record_id: Option<RecordId>,
    memory: OperationMemory,
    statistics: StageStatistics,
}

enum State {
    /// Before a ring.
    Between,
    Scanning {
        scan: Box<IndexScan>,
        outer: f64,
    },
    /// On the entry before this one.
    Yielding {
        next: usize,
        outer: f64,
    },
    Ended,
}

/// A document in a ring.
struct Found {
    distance: f64,
    record_id: RecordId,
}

/// Documents in a ring beyond which it is made narrower.
const FOUND_MAX: usize = 10_000;
/// Documents in a ring above which the next one is narrower, and below which it is wider.
const FOUND_MANY: usize = 3_000;
const FOUND_FEW: usize = 300;

impl GeoNear {
    pub(crate) fn new(plan: Arc<GeoNearPlan>, memory: OperationMemory) -> GeoNear {
        GeoNear {
            farthest: plan.farthest(),
            inner: plan.near().near().min_distance,
            width: plan.first_width(),
            state: State::Between,
            found: Vec::new(),
            document: Vec::new(),
            nearest: None,
            record_id: None,
            memory,
            statistics: StageStatistics::default(),
            plan,
        }
    }

    /// Begins the next ring, if there is one.
    fn begin(&mut self, context: &Context<'_>) -> Result<()> {
        // The last one has its outer border, too.
        if self.inner > self.farthest {
            self.state = State::Ended;
            return Ok(());
        }
        let outer = self.inner + self.width;
        let outer = if outer >= self.farthest { f64::INFINITY } else { outer };
        let plan = self.plan.scan(self.inner, outer.min(self.farthest))?;
        self.found.clear();
        self.state = State::Scanning { scan: Box::new(IndexScan::new(context, plan)), outer };
        Ok(())
    }

    /// One step in a ring.
    fn scan(&mut self, context: &Context<'_>) -> Result<Step> {
        let State::Scanning { scan, outer } = &mut self.state else { return Ok(Step::Working) };
        let (before, outer) = (scan.statistics(), *outer);
        let step = scan.next(context)?;
        let record_id = scan.record_id();
        let after = scan.statistics();
        self.statistics.keys_examined += after.keys_examined - before.keys_examined;
        self.statistics.seeks += after.seeks - before.seeks;
        match (step, record_id) {
            (Step::Advanced, Some(record_id)) => self.take(context, record_id, outer)?,
            (Step::End, _) => self.end_ring(outer)?,
            _ => {}
        }
        Ok(step)
    }

    /// Keeps a document, if it is in the ring.
    fn take(&mut self, context: &Context<'_>, record_id: RecordId, outer: f64) -> Result<()> {
        if !context.view.get_record(context.collection, record_id, &mut self.document)? {
            return Ok(());
        }
        self.statistics.docs_examined += 1;
        let Some(nearest) = self.looked_at()? else { return Ok(()) };
        if !(self.inner..outer).contains(&nearest.distance) {
            return Ok(());
        }
        self.found.push(Found { distance: nearest.distance, record_id });
        if self.found.len() > FOUND_MAX && self.width > self.plan.least_width() {
            self.width /= 4.0;
            self.state = State::Between;
            return Ok(());
        }
        // They are sorted through as much again.
        let bytes = (2 * self.found.capacity() * size_of::<Found>()) as u64;
        if self.memory.holds(bytes) {
            return Ok(());
        }
        let limit = self.memory.share();
        Err(ExecutorError::MemoryLimit(format!(
            "$near exceeded memory limit of {limit} bytes for documents that are as far"
        )))
    }

    /// The document's nearest place, if it meets the rest of the filter.
    fn looked_at(&self) -> Result<Option<Nearest>> {
        let document = RawDocument::from_bytes(&self.document)?;
        if let Some(filter) = &self.plan.residual
            && !filter.matches(document)?
        {
            return Ok(None);
        }
        Ok(self.plan.near().nearest(document)?)
    }

    fn end_ring(&mut self, outer: f64) -> Result<()> {
        work::sort_by(&mut self.found, |left, right| {
            left.distance.total_cmp(&right.distance).then(left.record_id.cmp(&right.record_id))
        })?;
        self.width *= match self.found.len() {
            0 => 4.0,
            count if count < FOUND_FEW => 2.0,
            // What is read of a disc is read again for each ring: few of them are better.
            count if count > FOUND_MANY && !self.plan.reads_discs() => 0.5,
            _ => 1.0,
        };
        self.state = State::Yielding { next: 0, outer };
        Ok(())
    }

    /// Moves to the next of the ring; whether there is one.
    fn yield_next(&mut self, context: &Context<'_>) -> Result<bool> {
        let State::Yielding { next, outer } = &mut self.state else { return Ok(false) };
        let Some(found) = self.found.get(*next) else {
            self.inner = *outer;
            self.state = State::Between;
            return Ok(false);
        };
        *next += 1;
        let record_id = found.record_id;
        if !context.view.get_record(context.collection, record_id, &mut self.document)? {
            return Ok(false);
        }
        self.record_id = Some(record_id);
        self.nearest = self.looked_at()?;
        Ok(self.nearest.is_some())
    }
}

impl PlanStage for GeoNear {
    fn next(&mut self, context: &Context<'_>) -> Result<Step> {
        for _ in 0..WORKS_PER_STEP {
            self.statistics.works += 1;
            match self.state {
                State::Between => self.begin(context)?,
                State::Scanning { .. } => {
                    if self.scan(context)? == Step::Working {
                        return Ok(Step::Working);
                    }
                }
                State::Yielding { .. } => {
                    if self.yield_next(context)? {
                        self.statistics.advanced += 1;
                        return Ok(Step::Advanced);
                    }
                }
                State::Ended => {
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

    fn record_id(&self) -> Option<RecordId> {
        self.record_id
    }

    fn metadata(&self) -> Metadata {
        let Some(nearest) = &self.nearest else { return Metadata::default() };
        Metadata {
            distance: Some(nearest.distance * self.plan.near().near().scale()),
            place: Some(Arc::new(nearest.place.clone())),
            ..Metadata::default()
        }
    }

    fn reseat(&mut self, view: &ReadView) -> Result<()> {
        match &mut self.state {
            State::Scanning { scan, .. } => scan.reseat(view),
            State::Between | State::Yielding { .. } | State::Ended => Ok(()),
        }
    }

    fn can_reseat(&self) -> bool {
        !self.plan.is_outdated()
    }

    fn statistics(&self) -> StageStatistics {
        self.statistics
    }
}
