//! Rearranges stages so that less is read, kept and computed, without changing the result.
//!
//! - a filter moves before stages that do not change what it reads;
//! - neighbouring filters, limits and skips become one;
//! - a sort learns how many documents are wanted of it.

use std::sync::Arc;

use document::work;

use crate::error::Result;
use crate::pipeline::Pipeline;
use crate::stage::Stage;
use crate::stages::limit::Limit;
use crate::stages::match_stage::Match;
use crate::stages::skip::Skip;

/// Optimises a pipeline in place.
pub(crate) fn optimize(pipeline: &mut Pipeline) -> Result<()> {
    move_filters_forward(&mut pipeline.stages)?;
    let stages = std::mem::take(&mut pipeline.stages);
    for stage in filters_together(stages, pipeline)? {
        let merged = pipeline.stages.last().and_then(|last| merge(last, &stage));
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

/// Each run of neighbouring filters as one: at once, since as many filters as a pipeline may have are nested too deep when each is put around those before.
fn filters_together(stages: Vec<Stage>, pipeline: &Pipeline) -> Result<Vec<Stage>> {
    let (mut together, mut run) = (Vec::with_capacity(stages.len()), Vec::new());
    for stage in stages {
        match stage {
            Stage::Match(filter) => run.push(filter),
            other => {
                together.extend(Match::all_of(&mut run, &pipeline.context)?.map(Stage::Match));
                together.push(other);
            }
        }
    }
    together.extend(Match::all_of(&mut run, &pipeline.context)?.map(Stage::Match));
    Ok(together)
}

/// Two neighbours as one, when they can be.
fn merge(first: &Stage, second: &Stage) -> Option<Stage> {
    match (first, second) {
        (Stage::Limit(first), Stage::Limit(second)) => Some(Stage::Limit(Arc::new(Limit(first.0.min(second.0))))),
        (Stage::Skip(first), Stage::Skip(second)) => {
            Some(Stage::Skip(Arc::new(Skip(first.0.saturating_add(second.0)))))
        }
        _ => None,
    }
}

/// Lets every filter pass before the stages that allow it.
fn move_filters_forward(stages: &mut [Stage]) -> Result<()> {
    for position in 1..stages.len() {
        let Some(Stage::Match(filter)) = stages.get(position) else { continue };
        let Some(paths) = filter.paths() else { continue };
        let mut at = position;
        while at > 0 {
            work::done(paths.len())?;
            let Some([before, filter]) = stages.get_mut(at - 1..=at) else { break };
            if !before.definition().lets_filter_pass(&paths) {
                break;
            }
            std::mem::swap(before, filter);
            at -= 1;
        }
    }
    Ok(())
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
