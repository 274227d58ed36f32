//! G25: one client, then 500, then one: ten seconds later each has at least nine tenths of what it would have with the best
//! fixed number of tickets.
//!
//! The best fixed setting is looked for by the parameters that MongoDB has for it: `storageEngineConcurrencyAdjustmentAlgorithm` and
//! the numbers of read and write tickets. A server without them is not judged on it; what 16 clients get is shown for either.
//!
//! Of several settings that are measured on a noisy machine the fastest is partly the one that was lucky. So what chose it is not what it
//! is compared by: it is measured anew, each time right before the setting that adapts, and the median of these pairs counts.

use bson::doc;

use super::judgement::{Bound, Judgement};
use super::rig::{Rig, only_phase};
use super::statistic::median;
use crate::error::LabError;
use crate::result::PhaseResult;

const MIXED_CLIENTS: &str = include_str!("../../scenarios/certify/mixed-clients.yaml");
const RISE_AND_FALL: &str = include_str!("../../scenarios/certify/rise-and-fall.yaml");
/// As in the scenario.
const MANY: u32 = 500;
/// Numbers of tickets, of reads and of writes each, among which the best is looked for.
const FIXED: [i32; 5] = [4, 8, 16, 64, 256];
/// How often each of them is measured, in turn, as a machine changes its speed.
const ROUNDS: usize = 2;
/// How often the best of them and the setting that adapts are measured, in turn.
const PAIRS: usize = 5;
const ALGORITHM: &str = "storageEngineConcurrencyAdjustmentAlgorithm";

pub(super) async fn judge(rig: &mut Rig) -> Result<Vec<Judgement>, LabError> {
    rig.load().await?;
    let mut judgement = rig.judgement("G25");
    let documents = ("documents", rig.documents.to_string());
    let seconds = ("seconds", (rig.seconds / 2.0).to_string());
    let few = [documents.clone(), seconds.clone(), ("threads", "16".to_owned())];
    // Fills the cache.
    rig.run(MIXED_CLIENTS, &few).await?;
    let few = only_phase(rig.run(MIXED_CLIENTS, &few).await?)?;
    if let Err(error) = adapt(rig).await {
        return Ok(vec![Judgement::not_judged("G25", &format!("its number of tickets cannot be fixed: {error}"))]);
    }
    let (tickets, searched) = best_fixed(rig, &documents, &seconds).await?;
    let mut pairs: Vec<Pair> = Vec::new();
    for _ in 0..PAIRS {
        let fixed = with_fixed(rig, tickets, &documents, &seconds).await;
        adapt(rig).await?;
        pairs.push(Pair { fixed: fixed?, adapted: rise_and_fall(rig, &documents, &seconds).await? });
    }
    judgement
        .figure(
            &format!("operations/s of {MANY} clients / with the best fixed number of tickets, {tickets}"),
            median(pairs.iter().map(Pair::of_the_best)),
            "",
            Bound::AtLeast(0.9),
        )
        .figure(
            "operations/s of one client after them / before",
            median(pairs.iter().map(Pair::afterwards)),
            "",
            Bound::AtLeast(0.9),
        );
    pairs.sort_by(|one, other| one.of_the_best().total_cmp(&other.of_the_best()));
    let ratios: Vec<String> = pairs.iter().map(|pair| format!("{:.2}", pair.of_the_best())).collect();
    let Some(Pair { fixed, adapted: [_, many, last] }) = pairs.get(pairs.len() / 2) else {
        return Ok(vec![Judgement::not_judged("G25", "nothing was measured")]);
    };
    judgement
        .figure("operations/s with the best fixed number", fixed.operations_per_second, "", Bound::Shown)
        .figure(&format!("operations/s of {MANY} clients"), many.operations_per_second, "", Bound::Shown)
        .figure("their p99", many.latency_microseconds.p99 / 1e3, "ms", Bound::Shown)
        .figure("operations/s of 16 clients", few.operations_per_second, "", Bound::Shown)
        .figure("load generator's CPU for an operation of 16", client_cpu(&few), "us", Bound::Shown)
        .figure(&format!("and of {MANY}"), client_cpu(many), "us", Bound::Shown);
    judgement.remark(format!(
        "Operations/s with fixed numbers, {ROUNDS} times each in turn: {searched}. The best by its mean was measured again, each time before \
         the adapting one, with the same {MANY} clients: {}. The median counts.",
        ratios.join(", ")
    ));
    judgement.evidence(&format!("{MANY} clients, {tickets} tickets, the best of {FIXED:?}"), fixed);
    judgement.evidence(&format!("{MANY} clients, from ten seconds after they came"), many);
    judgement.evidence("One client, from ten seconds after they went", last);
    Ok(vec![judgement])
}

/// The best fixed number, and right after it the one that adapts: one client, many, one.
struct Pair {
    fixed: PhaseResult,
    adapted: [PhaseResult; 3],
}

impl Pair {
    fn of_the_best(&self) -> f64 {
        ratio(&self.adapted[1], &self.fixed)
    }

    fn afterwards(&self) -> f64 {
        ratio(&self.adapted[2], &self.adapted[0])
    }
}

fn ratio(one: &PhaseResult, other: &PhaseResult) -> f64 {
    one.operations_per_second / other.operations_per_second.max(1.0)
}

/// The number of tickets whose mean is the highest, and what each had.
async fn best_fixed(
    rig: &mut Rig,
    documents: &(&'static str, String),
    seconds: &(&'static str, String),
) -> Result<(i32, String), LabError> {
    let mut rates: [Vec<f64>; FIXED.len()] = Default::default();
    for _ in 0..ROUNDS {
        for (tickets, rates) in FIXED.into_iter().zip(&mut rates) {
            let phase = with_fixed(rig, tickets, documents, seconds).await;
            adapt(rig).await?;
            rates.push(phase?.operations_per_second);
        }
    }
    let told = |(tickets, rates): (i32, &Vec<f64>)| {
        let rates: Vec<String> = rates.iter().map(|rate| format!("{rate:.0}")).collect();
        format!("{tickets}: {}", rates.join(" and "))
    };
    let searched = FIXED.into_iter().zip(&rates).map(told).collect::<Vec<_>>().join("; ");
    let best = FIXED.into_iter().zip(&rates).max_by(|(_, one), (_, other)| sum(one).total_cmp(&sum(other)));
    Ok((best.map_or(FIXED[0], |(tickets, _)| tickets), searched))
}

fn sum(rates: &[f64]) -> f64 {
    rates.iter().sum()
}

/// What so many tickets give to all clients, once they have settled.
async fn with_fixed(
    rig: &mut Rig,
    tickets: i32,
    documents: &(&'static str, String),
    seconds: &(&'static str, String),
) -> Result<PhaseResult, LabError> {
    rig.admin(doc! { "setParameter": 1, ALGORITHM: "fixedConcurrentTransactions" }).await?;
    for parameter in ["storageEngineConcurrentReadTransactions", "storageEngineConcurrentWriteTransactions"] {
        rig.admin(doc! { "setParameter": 1, parameter: tickets }).await?;
    }
    let changes = [documents.clone(), seconds.clone(), ("threads", MANY.to_string()), ("warm_up", "3".to_owned())];
    only_phase(rig.run(MIXED_CLIENTS, &changes).await?)
}

async fn adapt(rig: &Rig) -> Result<(), LabError> {
    rig.admin(doc! { "setParameter": 1, ALGORITHM: "throughputProbing" }).await.map(drop)
}

async fn rise_and_fall(
    rig: &mut Rig,
    documents: &(&'static str, String),
    seconds: &(&'static str, String),
) -> Result<[PhaseResult; 3], LabError> {
    let result = rig.run(RISE_AND_FALL, &[documents.clone(), seconds.clone()]).await?;
    let phase = |name: &str| {
        result.phase(name).cloned().ok_or_else(|| LabError::WrongReply(format!("the phase {name:?} did not run")))
    };
    Ok([phase("one")?, phase("many")?, phase("one again")?])
}

fn client_cpu(phase: &PhaseResult) -> f64 {
    phase.overhead.client_cpu_microseconds_per_operation
}
