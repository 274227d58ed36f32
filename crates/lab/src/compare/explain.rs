//! What lies behind a difference: the functions that cost more for each operation than before, and the counters of the
//! server that changed most. The first of each makes the sentence that names the cause.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::verdict::{Judged, Verdict};
use crate::profile::stacks::Profile;
use crate::profile::table::shares;
use crate::result::{PhaseResult, RunResult};

/// A counter must have changed by at least this factor to be named.
const COUNTER_FACTOR: f64 = 1.5;
/// And count at least this much a thousand operations on one side.
const COUNTER_PER_THOUSAND_MIN: f64 = 1.0;
/// Counters that are listed.
const COUNTERS_LISTED: usize = 25;
/// A function is guilty that holds at least this part of the growth.
const GUILTY_SHARE: f64 = 0.7;
/// A function is new that cost at most this part of what it costs now.
const NEW_SHARE: f64 = 0.005;
/// Functions that are listed.
const FUNCTIONS_LISTED: usize = 20;

/// What a function itself costs for each unit of work.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct FunctionChange {
    pub(crate) name: String,
    /// Instructions or microseconds an operation.
    pub(crate) a: f64,
    pub(crate) b: f64,
    /// Of the whole change of all functions that grew, or that shrank.
    pub(crate) share: f64,
}

/// A number of `serverStatus`, for each unit of work.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct CounterChange {
    pub(crate) phase: String,
    pub(crate) path: String,
    pub(crate) a: f64,
    pub(crate) b: f64,
}

/// What a function costs, by its name.
pub(crate) type Costs = BTreeMap<String, f64>;

/// Instructions of each function for an operation, the mean of the runs.
pub(crate) fn instruction_costs(runs: &[RunResult]) -> Option<Costs> {
    let mut costs = Costs::new();
    for run in runs {
        let count = run.instructions.as_ref()?;
        for (name, instructions) in &count.functions {
            let each = *instructions as f64 / count.operations.max(1) as f64 / runs.len() as f64;
            *costs.entry(name.clone()).or_default() += each;
        }
    }
    (!costs.is_empty()).then_some(costs)
}

/// Microseconds of the server's CPU that each function itself takes for a unit of work: its share of the samples of the
/// server's CPU time.
pub(crate) fn sampled_costs(profile: &Profile, runs: &[RunResult]) -> Option<Costs> {
    let per_unit = cpu_per_unit(runs)?;
    let total = profile.total().max(1) as f64;
    let share = |(name, row): (String, crate::profile::table::FrameShare)| (name, row.own as f64 / total * per_unit);
    Some(shares(profile).into_iter().map(share).collect())
}

/// CPU microseconds of the server for a unit of work, over all phases that are compared.
pub(crate) fn cpu_per_unit(runs: &[RunResult]) -> Option<f64> {
    let mut microseconds = 0.0;
    let mut units = 0.0;
    for phase in runs.iter().flat_map(|run| &run.phases).filter(|phase| !phase.preparation) {
        microseconds += phase.server_cpu_seconds? * 1e6;
        units += units_of(phase);
    }
    (units > 0.0).then(|| microseconds / units)
}

fn units_of(phase: &PhaseResult) -> f64 {
    let units = if phase.throughput_unit == "documents" { phase.documents } else { phase.operations };
    units.max(1) as f64
}

/// What the samples say a function costs with all that it calls.
pub(crate) fn sampled_totals(profile: &Profile, runs: &[RunResult]) -> Option<Costs> {
    let per_unit = cpu_per_unit(runs)?;
    let total = profile.total().max(1) as f64;
    let share = |(name, row): (String, crate::profile::table::FrameShare)| (name, row.total as f64 / total * per_unit);
    Some(shares(profile).into_iter().map(share).collect())
}

/// The function below which most of a growth lies. Callers hold what they call, so many do: of those that were hardly
/// there before, the outermost is what is new; if all were there, the innermost is where it happens.
pub(crate) fn guilty(a: &Costs, b: &Costs) -> Option<FunctionChange> {
    let change = |(name, after): (&String, &f64)| {
        let before = a.get(name).copied().unwrap_or(0.0);
        FunctionChange { name: name.clone(), a: before, b: *after, share: 0.0 }
    };
    let changes: Vec<FunctionChange> = b.iter().map(change).collect();
    let most = changes.iter().map(|change| change.b - change.a).fold(0.0, f64::max);
    let holds_most = |change: &&FunctionChange| most > 0.0 && change.b - change.a >= most * GUILTY_SHARE;
    let is_new = |change: &&FunctionChange| change.a <= change.b * NEW_SHARE;
    let candidates = || changes.iter().filter(holds_most);
    let by_cost = |x: &&FunctionChange, y: &&FunctionChange| x.b.total_cmp(&y.b);
    let found = candidates().filter(is_new).max_by(by_cost).or_else(|| candidates().min_by(by_cost))?;
    Some(FunctionChange { share: (found.b - found.a) / most, ..found.clone() })
}

/// The functions whose own cost changed most, largest change first.
pub(crate) fn functions(a: &Costs, b: &Costs) -> Vec<FunctionChange> {
    let names: BTreeSet<&String> = a.keys().chain(b.keys()).collect();
    let cost = |costs: &Costs, name: &String| costs.get(name).copied().unwrap_or(0.0);
    let mut changes: Vec<FunctionChange> = names
        .into_iter()
        .map(|name| FunctionChange { name: name.clone(), a: cost(a, name), b: cost(b, name), share: 0.0 })
        .collect();
    let grown: f64 = changes.iter().map(|change| (change.b - change.a).max(0.0)).sum();
    let shrunk: f64 = changes.iter().map(|change| (change.a - change.b).max(0.0)).sum();
    for change in &mut changes {
        let difference = change.b - change.a;
        change.share = if difference >= 0.0 { difference / grown.max(1e-12) } else { -difference / shrunk.max(1e-12) };
    }
    changes.sort_by(|x, y| (y.b - y.a).abs().total_cmp(&(x.b - x.a).abs()));
    changes.truncate(FUNCTIONS_LISTED);
    changes
}

/// The counters that changed most, by factor; those that were 0 before come first.
pub(crate) fn counters(a: &[RunResult], b: &[RunResult]) -> Vec<CounterChange> {
    let mut found = Vec::new();
    let Some(first) = a.first() else { return found };
    for phase in first.phases.iter().filter(|phase| !phase.preparation) {
        let (before, after) = (per_unit(a, &phase.name), per_unit(b, &phase.name));
        let paths: BTreeSet<&String> = before.keys().chain(after.keys()).collect();
        for path in paths {
            let value = |side: &BTreeMap<String, f64>| side.get(path).copied().unwrap_or(0.0);
            let change =
                CounterChange { phase: phase.name.clone(), path: path.clone(), a: value(&before), b: value(&after) };
            if change.factor() >= COUNTER_FACTOR && change.a.max(change.b) * 1000.0 >= COUNTER_PER_THOUSAND_MIN {
                found.push(change);
            }
        }
    }
    found.sort_by(|x, y| y.factor().total_cmp(&x.factor()));
    found.truncate(COUNTERS_LISTED);
    found
}

impl CounterChange {
    /// How many times as large the larger is; what is below the least that counts is taken for it.
    fn factor(&self) -> f64 {
        let least = COUNTER_PER_THOUSAND_MIN / 1000.0;
        let (a, b) = (self.a.max(least), self.b.max(least));
        (a / b).max(b / a)
    }
}

/// Rises of each counter for a unit of work, the mean of the runs. What fell is a level and no count.
fn per_unit(runs: &[RunResult], phase: &str) -> BTreeMap<String, f64> {
    let mut sums: BTreeMap<String, f64> = BTreeMap::new();
    for phase in runs.iter().filter_map(|run| run.phase(phase)) {
        for (path, rise) in phase.counters.iter().filter(|(_, rise)| **rise > 0.0) {
            *sums.entry(path.clone()).or_default() += rise / units_of(phase) / runs.len() as f64;
        }
    }
    sums
}

/// The sentence.
pub(crate) fn sentence(
    judged: &[Judged],
    guilty: Option<&FunctionChange>,
    functions: &[FunctionChange],
    cost_unit: &str,
    counters: &[CounterChange],
) -> String {
    let is = |verdict| judged.iter().filter(move |figure| figure.verdict == verdict);
    // By factor: a tenth of the throughput is as large a change as ten times the latency.
    let factor = |figure: &Judged| figure.change.max(-0.999_999).ln_1p().abs();
    let worst = is(Verdict::Worse).max_by(|x, y| factor(x).total_cmp(&factor(y)));
    let best = is(Verdict::Better).max_by(|x, y| factor(x).total_cmp(&factor(y)));
    let Some(figure) = worst.or(best) else {
        return "No figure differs by more than noise.".to_owned();
    };
    let word = if figure.verdict == Verdict::Worse { "worse" } else { "better" };
    let mut text = format!(
        "B is {word}: {} of {} {} by {:.1} % ({} against {} {}).",
        figure.figure,
        figure.phase,
        if figure.change > 0.0 { "rose" } else { "fell" },
        figure.change.abs() * 100.0,
        crate::chart::grouped(figure.b),
        crate::chart::grouped(figure.a),
        figure.unit
    );
    let grows = worst.is_some();
    let (guilty, functions) = if figure.is_about_time() { (guilty, functions) } else { (None, &[][..]) };
    if let Some(function) = guilty.filter(|_| grows) {
        text += &format!(
            " {:.0} % of what grew lies in `{}` and what it calls: {} {cost_unit} where it was {}.",
            function.share * 100.0,
            function.name,
            crate::chart::grouped(function.b),
            crate::chart::grouped(function.a)
        );
    }
    if let Some(function) = functions.iter().find(|function| (function.b > function.a) == grows) {
        text += &format!(
            " By itself `{}` changed most: {} {cost_unit} where it was {}, {:.0} % of all that {}.",
            function.name,
            crate::chart::grouped(function.b),
            crate::chart::grouped(function.a),
            function.share * 100.0,
            if grows { "grew" } else { "shrank" }
        );
    }
    if let Some(counter) = counters.iter().find(|counter| (counter.b > counter.a) == grows) {
        let (a, b) = (short(counter.a), short(counter.b));
        text += &format!(
            " The counter that changed most is `{}` ({}): {b} a unit of work where it was {a}.",
            counter.path, counter.phase
        );
    }
    text
}

/// Small numbers need their digits.
fn short(value: f64) -> String {
    if value == 0.0 || value.abs() >= 10.0 {
        crate::chart::grouped(value)
    } else {
        let digits = (2.0 - value.abs().log10().floor()).clamp(0.0, 9.0) as usize;
        format!("{value:.digits$}")
    }
}
