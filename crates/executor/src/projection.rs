//! PROJECTION: the query's projection of documents.

use bson::RawDocument;
use query_language::filter::MatchDetails;

use crate::error::Result;
use crate::stage::{BoxedStage, Context, PlanStage, Step};
use crate::statistics::StageStatistics;

pub(crate) struct ProjectionStage {
    input: BoxedStage,
    projected: Vec<u8>,
    statistics: StageStatistics,
}

impl ProjectionStage {
    pub(crate) fn new(input: BoxedStage) -> ProjectionStage {
        ProjectionStage { input, projected: Vec::new(), statistics: StageStatistics::default() }
    }
}

impl PlanStage for ProjectionStage {
    fn next(&mut self, context: &Context<'_>) -> Result<Step> {
        self.statistics.works += 1;
        let step = self.input.next(context)?;
        if step == Step::Advanced {
            self.statistics.advanced += 1;
            project(context, self.input.document()?, &mut self.projected)?;
        }
        self.statistics.is_at_end |= step == Step::End;
        Ok(step)
    }

    fn document(&mut self) -> Result<&RawDocument> {
        Ok(RawDocument::from_bytes(&self.projected)?)
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

/// Writes the query's projection of a document over `out`.
pub(crate) fn project(context: &Context<'_>, document: &RawDocument, out: &mut Vec<u8>) -> Result<()> {
    out.clear();
    let query = context.query;
    let Some(projection) = &query.projection else {
        out.extend_from_slice(document.as_bytes());
        return Ok(());
    };
    let mut details = MatchDetails::new();
    let details = if projection.needs_match_details() {
        query.filter.matches_with(document, &mut details)?;
        Some(&details)
    } else {
        None
    };
    Ok(projection.apply_into(document, details, &query.variables, out)?)
}
