//! Makes the stages of a plan.

use planner::PlanNode;

use crate::collection_scan::CollectionScan;
use crate::covered_projection::CoveredProjection;
use crate::eof::Eof;
use crate::error::Result;
use crate::fetch::Fetch;
use crate::geo_near::GeoNear;
use crate::id_lookup::IdLookupStage;
use crate::index_scan::IndexScan;
use crate::limit::Limit;
use crate::or_stage::OrStage;
use crate::projection::ProjectionStage;
use crate::return_key::{InputYields, ReturnKey};
use crate::skip::Skip;
use crate::sort::Sort;
use crate::sort_merge::SortMerge;
use crate::stage::{BoxedStage, Context};
use crate::text_match::TextMatch;
use crate::text_or::TextOr;

/// The stages of a node and everything below it.
pub(crate) fn build(node: &PlanNode, context: &Context<'_>) -> Result<BoxedStage> {
    Ok(match node {
        PlanNode::Eof => Box::new(Eof),
        PlanNode::IdLookup { index, id } => Box::new(IdLookupStage::new(index.clone(), id)),
        PlanNode::CollectionScan { direction, filter } => {
            Box::new(CollectionScan::new(context, *direction, filter.clone()))
        }
        PlanNode::IndexScan(plan) => Box::new(IndexScan::new(context, plan.clone())),
        PlanNode::GeoNear(plan) => Box::new(GeoNear::new(plan.clone(), context.memory.begin())),
        PlanNode::Fetch { input, filter } => Box::new(Fetch::new(build(input, context)?, filter.clone())),
        PlanNode::Or { inputs } => Box::new(OrStage::new(inputs, context.memory.begin())),
        PlanNode::SortMerge { inputs, pattern } => Box::new(SortMerge::new(inputs, pattern.clone(), context)?),
        PlanNode::TextOr { inputs, filter } => {
            let inputs = inputs.iter().map(|input| build(input, context)).collect::<Result<Vec<_>>>()?;
            Box::new(TextOr::new(inputs, filter.clone(), context.memory.begin()))
        }
        PlanNode::TextMatch { input, text } => Box::new(TextMatch::new(build(input, context)?, text.clone())),
        PlanNode::Sort { input, pattern, limit } => {
            Box::new(Sort::new(build(input, context)?, pattern.clone(), *limit, context.memory.begin()))
        }
        PlanNode::Skip { input, count } => Box::new(Skip::new(build(input, context)?, *count)),
        PlanNode::Limit { input, count } => Box::new(Limit::new(build(input, context)?, *count)),
        PlanNode::Projection { input } => Box::new(ProjectionStage::new(build(input, context)?)),
        PlanNode::CoveredProjection { input, needed } => {
            Box::new(CoveredProjection::new(build(input, context)?, needed.clone()))
        }
        PlanNode::ReturnKey { input } => {
            let comes_as = if input.is_blocking() { InputYields::Keys } else { InputYields::Entries };
            Box::new(ReturnKey::new(build(input, context)?, comes_as))
        }
    })
}
