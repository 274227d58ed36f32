//! PROJECTION: the query's projection of documents.

use bson::RawDocument;
use planner::CanonicalQuery;
use query_language::expression::Metadata;
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
            let metadata = metadata(context.query, &*self.input);
            project(context, self.input.document()?, metadata, &mut self.projected)?;
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

/// What the query asks for. What another branch of an `$or` than that with `$text` has found has nothing of the search.
pub(crate) fn metadata(query: &CanonicalQuery, input: &dyn PlanStage) -> Metadata {
    let wanted = query.metadata();
    if !wanted.is_any() {
        return Metadata::default();
    }
    let known = input.metadata();
    let text_score = wanted.text_score.then(|| known.text_score.unwrap_or_default());
    Metadata { text_score, ..known }
}

/// Writes the query's projection of a document over `out`.
pub(crate) fn project(
    context: &Context<'_>,
    document: &RawDocument,
    metadata: Metadata,
    out: &mut Vec<u8>,
) -> Result<()> {
    out.clear();
    let query = context.query;
    let Some(projection) = &query.projection else {
        out.extend_from_slice(document.as_bytes());
        return Ok(());
    };
    let mut details = MatchDetails::new();
    if projection.needs_match_details() {
        query.filter.matches_with(document, &mut details)?;
    }
    if !metadata.is_empty() {
        details = details.with_metadata(metadata);
    }
    Ok(projection.apply_into(document, Some(&details), &query.variables, out)?)
}
