//! Rearranges stages so that less is read, kept and computed, without changing the result.
//!
//! - a filter moves before stages that do not change what it reads, or only its name; of one with several conditions those that can;
//! - a sort moves before projections when it comes to the front, where an index may have the order;
//! - limits and skips move before stages that give one document for each;
//! - an `$unwind` is done by the stage that makes the array;
//! - neighbouring filters, limits and skips become one;
//! - a sort learns how many documents are wanted of it;
//! - of the buckets of a time series those are read that may be wanted.

use std::sync::Arc;

use document::work;

use crate::context::PipelineContext;
use crate::error::Result;
use crate::pipeline::Pipeline;
use crate::stage::{PipelineStage, Stage, chain_dependencies};
use crate::stages::limit::Limit;
use crate::stages::match_stage::Match;
use crate::stages::project::first_component;
use crate::stages::skip::Skip;

/// Optimises a pipeline in place.
pub(crate) fn optimize(pipeline: &mut Pipeline) -> Result<()> {
    move_filters_forward(&mut pipeline.stages, &pipeline.context)?;
    move_sorts_forward(&mut pipeline.stages)?;
    move_ranges_forward(&mut pipeline.stages)?;
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
    read_less_of_buckets(pipeline)
}

/// A first stage that makes documents of others reads only those that the next filter can want, and of them what the
/// stages behind it read; all of them are not read for the first few in an order that their input has.
fn read_less_of_buckets(pipeline: &mut Pipeline) -> Result<()> {
    let Some((Stage::Other { definition, .. }, rest)) = pipeline.stages.split_first() else { return Ok(()) };
    let filter = match rest.first() {
        Some(Stage::Match(filter)) => Some(Arc::clone(filter)),
        _ => None,
    };
    let before = filter.as_ref().and_then(|filter| definition.filter_before(filter.source()));
    let needed = chain_dependencies(rest);
    let only = needed.needed_paths().and_then(|paths| {
        let fields: Vec<&str> = paths.into_iter().map(first_component).collect();
        definition.giving_only(&fields)
    });
    let first = only.as_ref().map_or_else(|| Arc::clone(definition), Stage::definition);
    let in_order = match rest.get(usize::from(filter.is_some())) {
        Some(Stage::Sort(sort)) => first.first_in_order(filter.as_ref(), sort),
        _ => None,
    };
    if let Some((sort, stage)) = in_order {
        let replaced = 2 + usize::from(filter.is_some());
        drop(pipeline.stages.splice(..replaced, [Stage::Sort(Arc::new(sort)), stage]));
    } else if let (Some(only), Some(first)) = (only, pipeline.stages.first_mut()) {
        *first = only;
    }
    if let Some(before) = before {
        pipeline.stages.insert(0, Stage::Match(Arc::new(Match::new(before, &pipeline.context)?)));
    }
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
        (Stage::Other { definition, levels }, Stage::Other { definition: second, levels: more }) => {
            let merged = definition.unwinding(second.unwinds()?)?;
            Some(merged.adding(levels + more))
        }
        _ => None,
    }
}

/// Lets every filter pass before the stages that allow it.
fn move_filters_forward(stages: &mut Vec<Stage>, context: &PipelineContext) -> Result<()> {
    let mut position = 1;
    while position < stages.len() {
        let mut at = position;
        while let Some([before, Stage::Match(filter)]) = at.checked_sub(1).and_then(|first| stages.get(first..=at)) {
            match pass(before, filter, context)? {
                Pass::Whole(moved) => {
                    stages.swap(at - 1, at);
                    set(stages, at - 1, moved);
                }
                Pass::Part { moved, left } => {
                    set(stages, at, left);
                    stages.insert(at - 1, Stage::Match(moved));
                    position += 1;
                }
                Pass::None => break,
            }
            at -= 1;
        }
        position += 1;
    }
    Ok(())
}

fn set(stages: &mut [Stage], position: usize, filter: Arc<Match>) {
    if let Some(stage) = stages.get_mut(position) {
        *stage = Stage::Match(filter);
    }
}

/// What of a filter gives the same before the stage in front of it.
enum Pass {
    None,
    Whole(Arc<Match>),
    Part { moved: Arc<Match>, left: Arc<Match> },
}

fn pass(before: &Stage, filter: &Arc<Match>, context: &PipelineContext) -> Result<Pass> {
    let definition = before.definition();
    if definition.field_changes().is_none() && !definition.lets_filter_pass(&[]) {
        return Ok(Pass::None);
    }
    if let Some(moved) = passed(&*definition, filter, context)? {
        return Ok(Pass::Whole(moved));
    }
    let (mut moved, mut left) = (Vec::new(), Vec::new());
    for condition in filter.conditions()? {
        let condition = Arc::new(Match::new(condition, context)?);
        match passed(&*definition, &condition, context)? {
            Some(passed) => moved.push(passed),
            None => left.push(condition),
        }
    }
    let parts = Match::all_of(&mut moved, context)?.zip(Match::all_of(&mut left, context)?);
    Ok(parts.map_or(Pass::None, |(moved, left)| Pass::Part { moved, left }))
}

/// The filter as it stands before a stage, if it can.
fn passed(before: &dyn PipelineStage, filter: &Arc<Match>, context: &PipelineContext) -> Result<Option<Arc<Match>>> {
    let Some(paths) = filter.paths() else { return Ok(None) };
    work::done(paths.len())?;
    let Some(changes) = before.field_changes() else {
        return Ok(before.lets_filter_pass(&paths).then(|| Arc::clone(filter)));
    };
    let mut has_other_names = false;
    for path in &paths {
        let Some(old) = changes.before(path) else { return Ok(None) };
        has_other_names |= old != path.as_str();
    }
    if has_other_names { filter.moved(changes, context) } else { Ok(Some(Arc::clone(filter))) }
}

/// Lets a sort pass before projections, if nothing but filters is left before it: elsewhere it would only keep more of each document.
fn move_sorts_forward(stages: &mut [Stage]) -> Result<()> {
    let front = stages.iter().take_while(|stage| matches!(stage, Stage::Match(_))).count();
    let changing = stages.iter().skip(front).take_while(|stage| stage.definition().field_changes().is_some()).count();
    let Some(Stage::Sort(sort)) = stages.get(front + changing) else { return Ok(()) };
    let mut moved = Arc::clone(sort);
    for stage in stages.get(front..front + changing).unwrap_or_default().iter().rev() {
        let definition = stage.definition();
        let Some(changes) = definition.field_changes() else { return Ok(()) };
        work::done(1 + moved.pattern().parts().len())?;
        match moved.moved(changes)? {
            Some(earlier) => moved = Arc::new(earlier),
            None => return Ok(()),
        }
    }
    if let Some(passed) = stages.get_mut(front..=front + changing) {
        passed.rotate_right(1);
    }
    if let Some(stage) = stages.get_mut(front) {
        *stage = Stage::Sort(moved);
    }
    Ok(())
}

/// Lets limits and skips pass before stages that give one document for each.
fn move_ranges_forward(stages: &mut [Stage]) -> Result<()> {
    for position in 1..stages.len() {
        let mut at = position;
        while let Some([before, Stage::Limit(_) | Stage::Skip(_)]) =
            at.checked_sub(1).and_then(|first| stages.get(first..=at))
            && before.definition().is_one_to_one()
        {
            work::step()?;
            stages.swap(at - 1, at);
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
