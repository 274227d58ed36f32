//! Which plan is likely the better one, before anything was tried.

use index_key::FieldKind;

use crate::index_assignment::Assignment;
use crate::interval::IntervalList;
use crate::plan::PlanNode;
use crate::predicate_bounds::rank;

/// Of an index for a filter; greater is better: how tightly each field is bound, the first field first.
pub(crate) fn assignment_rank(assignment: &Assignment) -> u64 {
    let fields = assignment.pattern().fields().iter().zip(&assignment.bounds);
    let bounds = fields.filter(|(field, _)| field.kind != FieldKind::Path).map(|(_, bounds)| bounds);
    bounds_rank(bounds, assignment.residual.is_empty())
}

fn bounds_rank<'b>(bounds: impl Iterator<Item = &'b IntervalList>, needs_no_filter: bool) -> u64 {
    const FIELDS: usize = 8;
    let (mut tightness, mut count) = (0u64, 0);
    // Behind a range other bounds save fetches, but hardly keys.
    let mut weight = 2;
    for list in bounds.take(FIELDS) {
        count += 1;
        let rank = u64::from(rank(list));
        tightness = tightness * 16 + rank * weight;
        if !list.is_points() {
            weight = 1;
        }
    }
    let missing = FIELDS.saturating_sub(count);
    let tightness = tightness << (4 * missing);
    tightness * 2 + u64::from(needs_no_filter)
}

/// Of a plan; greater is better.
pub fn heuristic_rank(root: &PlanNode) -> (u64, bool, bool) {
    let scans = root.index_scans();
    let least =
        scans.iter().map(|scan| bounds_rank(scan.ranked_bounds(), scan.key_filter.is_none())).min().unwrap_or(0);
    (least, !root.is_blocking(), fetches_nothing(root))
}

fn fetches_nothing(root: &PlanNode) -> bool {
    !matches!(root, PlanNode::Fetch { .. } | PlanNode::CollectionScan { .. })
        && root.inputs().iter().all(fetches_nothing)
}
