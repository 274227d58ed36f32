//! Plans for `$or`: each branch by an index of its own, and every document once.

use document::work;
use query_language::filter::FilterNode;

use crate::candidates::Usable;
use crate::error::Result;
use crate::hint::ScanDirection;
use crate::index_assignment::{Assignment, joined};
use crate::plan::PlanNode;
use crate::predicates::{conjuncts, size};
use crate::ranking;

/// Conditions of all branches together, each of which has those beside the `$or`, beyond which there is no such plan.
const CONDITIONS_MAX: usize = 1 << 17;
/// Branches beyond which there is no such plan: one takes about a kilobyte.
const BRANCHES_MAX: usize = 1 << 14;
/// Units of work that a condition takes for each index.
const UNITS_PER_CONDITION: usize = 16;

/// A plan for the first `$or` among the conjuncts of which every branch can use an index.
///
/// # Errors
/// The command is to stop.
pub(crate) fn plan(usable: &Usable, root: &FilterNode) -> Result<Option<PlanNode>> {
    let all = conjuncts(root);
    let sizes: Vec<usize> = all.iter().map(size).collect();
    let whole: usize = sizes.iter().sum();
    for ((position, node), size) in all.iter().enumerate().zip(sizes) {
        let FilterNode::Or(branches) = node else { continue };
        if branches.len() > BRANCHES_MAX || branches.len().saturating_mul(whole - size) > CONDITIONS_MAX {
            continue;
        }
        let others: Vec<FilterNode> =
            all.iter().enumerate().filter(|(other, _)| *other != position).map(|(_, node)| node.clone()).collect();
        if let Some(inputs) = branch_plans(usable, branches, &others)? {
            return Ok(Some(PlanNode::Or { inputs }));
        }
    }
    Ok(None)
}

/// A plan for each branch; `None` when one has none.
fn branch_plans(usable: &Usable, branches: &[FilterNode], others: &[FilterNode]) -> Result<Option<Vec<PlanNode>>> {
    let others_size: usize = others.iter().map(size).sum();
    let mut plans = Vec::with_capacity(branches.len());
    for branch in branches {
        let units = (size(branch) + others_size).saturating_mul(usable.indexes().len());
        work::done(units.saturating_mul(UNITS_PER_CONDITION))?;
        match branch_plan(usable, branch, others)? {
            Some(plan) => plans.push(plan),
            None => return Ok(None),
        }
    }
    Ok(Some(plans))
}

/// The best plan for one branch together with what else must hold.
fn branch_plan(usable: &Usable, branch: &FilterNode, others: &[FilterNode]) -> Result<Option<PlanNode>> {
    let mut nodes = conjuncts(branch).to_vec();
    nodes.extend_from_slice(others);
    let Some(root) = joined(&nodes) else { return Ok(None) };
    let mut fitting = Vec::new();
    for index in usable.indexes() {
        let assignment = Assignment::new(index, &root)?;
        if assignment.is_bounded() && assignment.holds_all_matches(&root) {
            fitting.push(assignment);
        }
    }
    let best = fitting.into_iter().max_by_key(ranking::assignment_rank);
    Ok(best.map(|best| best.fetch(ScanDirection::Forward)))
}
