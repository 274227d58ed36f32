//! Which plan is likely the better one, before anything was tried.

use crate::index_assignment::Assignment;
use crate::interval::IntervalList;
use crate::plan::PlanNode;
use crate::predicate_bounds::rank;

/// Of an index for a filter; greater is better: how tightly each field is bound, the first field first.
pub(crate) fn assignment_rank(assignment: &Assignment) -> u64 {
    bounds_rank(&assignment.bounds, assignment.residual.is_empty())
}

fn bounds_rank(bounds: &[IntervalList], needs_no_filter: bool) -> u64 {
    const FIELDS: usize = 8;
    let mut tightness = 0u64;
    // Behind a range other bounds save fetches, but hardly keys.
    let mut weight = 2;
    for list in bounds.iter().take(FIELDS) {
        let rank = u64::from(rank(list));
        tightness = tightness * 16 + rank * weight;
        if !list.is_points() {
            weight = 1;
        }
    }
    let missing = FIELDS.saturating_sub(bounds.len());
    let tightness = tightness << (4 * missing);
    tightness * 2 + u64::from(needs_no_filter)
}

/// Of a plan; greater is better.
pub fn heuristic_rank(root: &PlanNode) -> (u64, bool, bool) {
    let scans = root.index_scans();
    let least = scans.iter().map(|scan| bounds_rank(&scan.bounds, scan.key_filter.is_none())).min().unwrap_or(0);
    (least, !root.is_blocking(), fetches_nothing(root))
}

fn fetches_nothing(root: &PlanNode) -> bool {
    !matches!(root, PlanNode::Fetch { .. } | PlanNode::CollectionScan { .. })
        && root.inputs().iter().all(fetches_nothing)
}
