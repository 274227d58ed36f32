//! Plans for `$or`: each branch by an index of its own, and every document once; merged where each has the order asked for.

use document::work;
use query_language::expression::sort_pattern::SortPattern;
use query_language::filter::FilterNode;

use crate::candidates::Usable;
use crate::error::Result;
use crate::hint::ScanDirection;
use crate::index_assignment::{Assignment, joined};
use crate::plan::PlanNode;
use crate::predicates::{conjuncts, size};
use crate::ranking;
use crate::sort_order::direction_for;
use crate::text_plan;

/// Conditions of all branches together, each of which has those beside the `$or`, beyond which there is no such plan.
const CONDITIONS_MAX: usize = 1 << 17;
/// Branches beyond which there is no such plan: one takes about a kilobyte.
const BRANCHES_MAX: usize = 1 << 14;
/// The same where all branches are open at once.
const MERGED_MAX: usize = 200;
/// Units of work that a condition takes for each index.
const UNITS_PER_CONDITION: usize = 16;

/// A plan for the first `$or` among the conjuncts of which every branch can use an index.
///
/// # Errors
/// The command is to stop.
pub(crate) fn plan(usable: &Usable, root: &FilterNode) -> Result<Option<PlanNode>> {
    Ok(inputs(usable, root, None)?.map(|inputs| PlanNode::Or { inputs }))
}

/// The same where each branch has an order by its index, so that they are merged.
///
/// # Errors
/// The command is to stop.
pub(crate) fn merged(usable: &Usable, root: &FilterNode, order: &SortPattern) -> Result<Option<PlanNode>> {
    Ok(inputs(usable, root, Some(order))?.map(|inputs| PlanNode::SortMerge { inputs, pattern: order.clone() }))
}

fn inputs(usable: &Usable, root: &FilterNode, order: Option<&SortPattern>) -> Result<Option<Vec<PlanNode>>> {
    let branches_max = if order.is_some() { MERGED_MAX } else { BRANCHES_MAX };
    let all = conjuncts(root);
    let sizes: Vec<usize> = all.iter().map(size).collect();
    let whole: usize = sizes.iter().sum();
    for ((position, node), size) in all.iter().enumerate().zip(sizes) {
        let FilterNode::Or(branches) = node else { continue };
        if branches.len() > branches_max || branches.len().saturating_mul(whole - size) > CONDITIONS_MAX {
            continue;
        }
        let others: Vec<FilterNode> =
            all.iter().enumerate().filter(|(other, _)| *other != position).map(|(_, node)| node.clone()).collect();
        if let Some(inputs) = branch_plans(usable, branches, &others, order)? {
            return Ok(Some(inputs));
        }
    }
    Ok(None)
}

/// A plan for each branch; `None` when one has none.
fn branch_plans(
    usable: &Usable,
    branches: &[FilterNode],
    others: &[FilterNode],
    order: Option<&SortPattern>,
) -> Result<Option<Vec<PlanNode>>> {
    let others_size: usize = others.iter().map(size).sum();
    let mut plans = Vec::with_capacity(branches.len());
    for branch in branches {
        let units = (size(branch) + others_size).saturating_mul(usable.indexes().len());
        work::done(units.saturating_mul(UNITS_PER_CONDITION))?;
        match branch_plan(usable, branch, others, order)? {
            Some(plan) => plans.push(plan),
            None => return Ok(None),
        }
    }
    Ok(Some(plans))
}

/// The best plan for one branch together with what else must hold.
fn branch_plan(
    usable: &Usable,
    branch: &FilterNode,
    others: &[FilterNode],
    order: Option<&SortPattern>,
) -> Result<Option<PlanNode>> {
    let mut nodes = conjuncts(branch).to_vec();
    nodes.extend_from_slice(others);
    let Some(root) = joined(&nodes) else { return Ok(None) };
    if let Some(plan) = text_plan::plan(usable.indexes(), &root, usable.needs_text_score())? {
        return Ok(Some(plan));
    }
    let mut fitting = Vec::new();
    for index in usable.indexes() {
        for assignment in Assignment::all(index, &root)? {
            let direction = match order {
                Some(order) => direction_for(&assignment, order),
                None => Some(ScanDirection::Forward),
            };
            if let Some(direction) = direction
                && assignment.is_bounded()
                && assignment.holds_all_matches(&root)
            {
                fitting.push((assignment, direction));
            }
        }
    }
    let best = fitting.into_iter().max_by_key(|(assignment, _)| ranking::assignment_rank(assignment));
    Ok(best.map(|(best, direction)| best.fetch(direction)))
}
