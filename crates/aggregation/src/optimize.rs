//! Rearranges stages so that less is read, kept and computed, without changing the result.
//!
//! - a filter moves before stages that do not change what it reads;
//! - neighbouring filters, limits and skips become one;
//! - a sort learns how many documents are wanted of it.

use std::sync::Arc;

use crate::error::Result;
use crate::pipeline::Pipeline;
use crate::stage::Stage;
use crate::stages::limit::Limit;
use crate::stages::skip::Skip;

/// Optimises a pipeline in place.
pub(crate) fn optimize(pipeline: &mut Pipeline) -> Result<()> {
    move_filters_forward(&mut pipeline.stages);
    let stages = std::mem::take(&mut pipeline.stages);
    for stage in stages {
        let merged = match pipeline.stages.last() {
            Some(last) => merge(last, &stage, pipeline)?,
            None => None,
        };
        match merged {
            Some(merged) => {
                pipeline.stages.pop();
                pipeline.stages.push(merged);
            }
            None => pipeline.stages.push(stage),
        }
    }
    limit_sorts(&mut pipeline.stages);
    Ok(())
}

/// Two neighbours as one, when they can be.
fn merge(first: &Stage, second: &Stage, pipeline: &Pipeline) -> Result<Option<Stage>> {
    Ok(match (first, second) {
        (Stage::Match(first), Stage::Match(second)) => {
            Some(Stage::Match(Arc::new(first.and(second, &pipeline.context)?)))
        }
        (Stage::Limit(first), Stage::Limit(second)) => Some(Stage::Limit(Arc::new(Limit(first.0.min(second.0))))),
        (Stage::Skip(first), Stage::Skip(second)) => {
            Some(Stage::Skip(Arc::new(Skip(first.0.saturating_add(second.0)))))
        }
        _ => None,
    })
}

/// Lets every filter pass before the stages that allow it.
fn move_filters_forward(stages: &mut [Stage]) {
    for position in 1..stages.len() {
        let mut at = position;
        while at > 0 {
            let Some([before, filter]) = stages.get_mut(at - 1..=at) else { break };
            let Stage::Match(filter_stage) = &*filter else { break };
            let passes = match filter_stage.paths() {
                Some(paths) => before.definition().lets_filter_pass(&paths),
                None => false,
            };
            if !passes {
                break;
            }
            std::mem::swap(before, filter);
            at -= 1;
        }
    }
}

/// Tells a sort the number of documents that the limit after it lets through.
fn limit_sorts(stages: &mut [Stage]) {
    for position in 0..stages.len() {
        let (before, after) = stages.split_at_mut(position + 1);
        let Some(Stage::Sort(sort)) = before.last_mut() else { continue };
        let mut skipped: u64 = 0;
        for stage in after {
            match stage {
                Stage::Skip(skip) => skipped = skipped.saturating_add(skip.0),
                Stage::Limit(limit) => {
                    *sort = Arc::new(sort.limited(skipped.saturating_add(limit.0)));
                    break;
                }
                _ => break,
            }
        }
    }
}
