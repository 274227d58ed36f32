//! Plans that have a sort's order although a scan does not: one scan for each combination of the values that its first
//! fields are bound to, each in the order of the fields behind, and all merged (SORT_MERGE).
//!
//! `{a: {$in: [1, 2]}}` with `sort: {b: 1}` over an index `{a: 1, b: 1}` reads `a = 1` by `b` beside `a = 2` by `b`. Called by
//! `candidates`. MongoDB calls it "explode for sort".

use document::work;

use crate::canonical_query::CanonicalQuery;
use crate::index_assignment::Assignment;
use crate::interval::{Interval, IntervalList};
use crate::plan::PlanNode;
use crate::predicates::size;
use crate::sort_order::direction_for;

/// Scans beyond which there is no such plan, as in MongoDB: each is open as long as the query.
const SCANS_MAX: usize = 200;
/// Conditions and intervals of all scans together, beyond which there is no such plan.
const CONDITIONS_MAX: usize = 1 << 17;

/// The plan with one index, if it has the order only so.
pub(crate) fn plan(assignment: &Assignment, query: &CanonicalQuery) -> Option<PlanNode> {
    let sort = query.sort.as_ref()?;
    let is_complete = assignment.holds_all_matches(query.filter.root()) && assignment.expanded.is_none();
    // What covers a shape would meet its document in several of the scans.
    let is_complete = is_complete && !assignment.has_several;
    if !is_complete || query.return_key || assignment.is_empty() || direction_for(assignment, sort).is_some() {
        return None;
    }
    let single = exploded(assignment);
    // All have the same order: it hangs on which fields are bound to one value, not on the value.
    let direction = direction_for(single.first()?, sort)?;
    let inputs = single.iter().map(|assignment| assignment.fetch(direction)).collect();
    Some(PlanNode::SortMerge { inputs, pattern: sort.clone() })
}

/// The assignment once for each combination of the single values that its first fields are bound to; none where they are too many.
fn exploded(assignment: &Assignment) -> Vec<Assignment> {
    let lists = || assignment.bounds.iter().take_while(|list| list.is_points());
    let scans = lists().fold(1usize, |scans, list| scans.saturating_mul(list.intervals().len()));
    if scans > SCANS_MAX || scans.saturating_mul(weight(assignment)) > CONDITIONS_MAX {
        return Vec::new();
    }
    let mut all = vec![assignment.clone()];
    for (position, list) in lists().enumerate() {
        let points = list.intervals();
        work::count(points.len());
        all = all.iter().flat_map(|outer| points.iter().map(move |point| with_point(outer, position, point))).collect();
    }
    all
}

/// Conditions and intervals that each scan has.
fn weight(assignment: &Assignment) -> usize {
    let conditions = assignment.residual.iter().chain(&assignment.key_filter).map(size).sum::<usize>();
    conditions + assignment.bounds.iter().map(|list| list.intervals().len()).sum::<usize>()
}

fn with_point(assignment: &Assignment, position: usize, point: &Interval) -> Assignment {
    let mut one = assignment.clone();
    if let Some(list) = one.bounds.get_mut(position) {
        *list = IntervalList::one(point.clone());
    }
    one
}
