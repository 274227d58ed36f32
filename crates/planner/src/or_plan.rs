//! Plans for `$or`: each branch by an index of its own, and every document once.

use query_language::filter::FilterNode;

use crate::candidates::Usable;
use crate::hint::ScanDirection;
use crate::index_assignment::{Assignment, joined};
use crate::plan::PlanNode;
use crate::predicates::conjuncts;
use crate::ranking;

/// Conditions of all branches together, each of which has those beside the `$or`, beyond which there is no such plan.
const CONDITIONS_MAX: usize = 1 << 17;

/// A plan for the first `$or` among the conjuncts of which every branch can use an index.
pub(crate) fn plan(usable: &Usable, root: &FilterNode) -> Option<PlanNode> {
    let all = conjuncts(root);
    all.iter().enumerate().find_map(|(position, node)| {
        let FilterNode::Or(branches) = node else { return None };
        if branches.len().saturating_mul(all.len()) > CONDITIONS_MAX {
            return None;
        }
        let others: Vec<FilterNode> =
            all.iter().enumerate().filter(|(other, _)| *other != position).map(|(_, node)| node.clone()).collect();
        let inputs = branches.iter().map(|branch| branch_plan(usable, branch, &others));
        Some(PlanNode::Or { inputs: inputs.collect::<Option<Vec<_>>>()? })
    })
}

/// The best plan for one branch together with what else must hold.
fn branch_plan(usable: &Usable, branch: &FilterNode, others: &[FilterNode]) -> Option<PlanNode> {
    let mut nodes = conjuncts(branch).to_vec();
    nodes.extend_from_slice(others);
    let root = joined(&nodes)?;
    let assignments = usable.indexes().iter().map(|index| Assignment::new(index, &root));
    let fitting = assignments.filter(|assignment| assignment.is_bounded() && assignment.holds_all_matches(&root));
    let best = fitting.max_by_key(ranking::assignment_rank)?;
    Some(best.fetch(ScanDirection::Forward))
}
