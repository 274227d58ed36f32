//! Trials: candidates run side by side for a bounded number of works, and the most productive wins.

use planner::{CanonicalQuery, Plan, PlanCache, PlanNode, Purpose, decision_shape, heuristic_rank};

use crate::build::build;
use crate::error::{ExecutorError, Result};
use crate::interrupt::Interrupt;
use crate::stage::{BoxedStage, Context, Step, total};

/// The plan chosen, and the others.
pub(crate) struct Choice {
    pub(crate) plan: Plan,
    pub(crate) rejected: Vec<Plan>,
    /// If a trial or the cache decided: by which shape, and what the plan had worked when it won.
    pub(crate) decision: Option<(String, u64)>,
    /// Whether a trial has decided, so that it is worth remembering.
    pub(crate) is_new: bool,
}

/// Works of a candidate before the trial ends undecided, and between turns.
const WORKS_MAX: u64 = 10_000;
const WORKS_PER_TURN: u64 = 250;
/// Results that end the trial: those of a first batch.
const RESULTS_MAX: u64 = 101;

/// Whether decisions made before may be followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Memory {
    Use,
    Ignore,
}

struct Contestant {
    stage: BoxedStage,
    advanced: u64,
    is_at_end: bool,
}

/// Chooses among candidates.
pub(crate) fn choose(
    mut plans: Vec<Plan>,
    context: &Context<'_>,
    purpose: Purpose,
    (cache, memory): (&PlanCache, Memory),
    interrupt: &dyn Interrupt,
) -> Result<Choice> {
    if let Some(best) = obvious(&plans) {
        let plan = plans.swap_remove(best);
        return Ok(Choice { plan, rejected: plans, decision: None, is_new: false });
    }
    let is_cacheable = is_cacheable(context.query);
    let shape = decision_shape(context.query, purpose);
    if memory == Memory::Use
        && is_cacheable
        && let Some(known) = cache.find(context.collection, &shape)
        && let Some(position) = plans.iter().position(|plan| plan.root.signature() == known.signature)
    {
        let plan = plans.swap_remove(position);
        return Ok(Choice { plan, rejected: plans, decision: Some((shape, known.works)), is_new: false });
    }
    let (winner, works) = run(&plans, context, interrupt)?;
    let plan = plans.swap_remove(winner);
    Ok(Choice { plan, rejected: plans, decision: Some((shape, works)), is_new: is_cacheable })
}

fn is_cacheable(query: &CanonicalQuery) -> bool {
    query.hint == planner::Hint::None && query.min.is_none() && query.max.is_none()
}

/// A plan that needs no trial: the only one, one that reads nothing, or a lookup of one key of a unique index.
fn obvious(plans: &[Plan]) -> Option<usize> {
    if plans.len() == 1 {
        return Some(0);
    }
    plans.iter().position(|plan| {
        let scans = plan.root.index_scans();
        let looks_up_one = matches!(&*scans, [scan] if {
            let specification = scan.index.specification();
            let is_unique = specification.unique || specification.is_id_index();
            is_unique && scan.bounds.iter().all(|list| list.is_single_point())
        });
        looks_up_one || is_eof(&plan.root)
    })
}

fn is_eof(node: &PlanNode) -> bool {
    matches!(node, PlanNode::Eof) || matches!(node.inputs(), [input] if is_eof(input))
}

/// The position of the best candidate and its works.
fn run(plans: &[Plan], context: &Context<'_>, interrupt: &dyn Interrupt) -> Result<(usize, u64)> {
    let mut contestants = Vec::with_capacity(plans.len());
    for plan in plans {
        contestants.push(Contestant { stage: build(&plan.root, context)?, advanced: 0, is_at_end: false });
    }
    let mut budget = 0;
    let mut decided = false;
    while !decided && budget < WORKS_MAX {
        budget += WORKS_PER_TURN;
        for contestant in &mut contestants {
            interrupt.check().map_err(ExecutorError::Interrupted)?;
            decided |= contestant.run_to(budget, context)?;
        }
    }
    let best = contestants.iter().zip(plans).enumerate().max_by(|(_, left), (_, right)| {
        let score = |(contestant, plan): &(&Contestant, &Plan)| (contestant.score(), heuristic_rank(&plan.root));
        let (left, right) = (score(left), score(right));
        left.0.total_cmp(&right.0).then_with(|| left.1.cmp(&right.1))
    });
    let (winner, works) = best.map_or((0, 0), |(position, (contestant, _))| (position, contestant.works()));
    Ok((winner, works))
}

impl Contestant {
    /// Keys and documents looked at.
    fn works(&self) -> u64 {
        let total = total(&*self.stage);
        total.keys_examined + total.docs_examined
    }

    /// Runs until it has worked so much; whether it has decided the trial.
    fn run_to(&mut self, budget: u64, context: &Context<'_>) -> Result<bool> {
        while !self.is_at_end && self.advanced < RESULTS_MAX && self.works() < budget {
            match self.stage.next(context)? {
                Step::Advanced => self.advanced += 1,
                Step::Working => {}
                Step::End => self.is_at_end = true,
            }
        }
        Ok(self.is_at_end || self.advanced >= RESULTS_MAX)
    }

    /// Results per work, and a point for having reached the end.
    fn score(&self) -> f64 {
        let productivity = self.advanced as f64 / self.works().max(1) as f64;
        productivity.min(1.0) + if self.is_at_end { 1.0 } else { 0.0 }
    }
}
