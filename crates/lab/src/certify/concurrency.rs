//! G25: one client, then 500, then one: ten seconds later each has at least nine tenths of what it would have with the best
//! fixed number of tickets.
//!
//! The best fixed setting is looked for by the parameters that MongoDB has for it: `storageEngineConcurrencyAdjustmentAlgorithm` and
//! the numbers of read and write tickets. A server without them is not judged on it; what 16 clients get is shown for either.

use bson::doc;

use super::judgement::{Bound, Judgement};
use super::rig::{Rig, only_phase};
use super::statistic::mean;
use crate::error::LabError;
use crate::result::PhaseResult;

const MIXED_CLIENTS: &str = include_str!("../../scenarios/certify/mixed-clients.yaml");
const RISE_AND_FALL: &str = include_str!("../../scenarios/certify/rise-and-fall.yaml");
/// As in the scenario.
const MANY: u32 = 500;
/// Numbers of tickets, of reads and of writes each, among which the best is looked for.
const FIXED: [i32; 5] = [4, 8, 16, 64, 256];
/// Measured in turn with those that adapt, as a machine changes its speed.
const ROUNDS: usize = 2;
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
    let mut best: Option<(i32, PhaseResult)> = None;
    let mut adapted: Vec<[PhaseResult; 3]> = Vec::new();
    for _ in 0..ROUNDS {
        for tickets in FIXED {
            let phase = with_fixed(rig, tickets, &documents, &seconds).await;
            adapt(rig).await?;
            let phase = phase?;
            if best.as_ref().is_none_or(|(_, best)| phase.operations_per_second > best.operations_per_second) {
                best = Some((tickets, phase));
            }
        }
        adapted.push(rise_and_fall(rig, &documents, &seconds).await?);
    }
    let one = mean_rate(adapted.iter().map(|[one, _, _]| one));
    let again = mean_rate(adapted.iter().map(|[_, _, again]| again));
    let by_rate = |[_, many, _]: &[PhaseResult; 3], [_, other, _]: &[PhaseResult; 3]| {
        many.operations_per_second.total_cmp(&other.operations_per_second)
    };
    let (Some((tickets, best)), Some([_, many, last])) = (best, adapted.into_iter().max_by(by_rate)) else {
        return Ok(vec![Judgement::not_judged("G25", "nothing was measured")]);
    };
    judgement
        .figure(
            &format!("operations/s of {MANY} clients / with the best fixed number of tickets, {tickets}"),
            many.operations_per_second / best.operations_per_second.max(1.0),
            "",
            Bound::AtLeast(0.9),
        )
        .figure("operations/s of one client after them / before", again / one.max(1.0), "", Bound::AtLeast(0.9))
        .figure("operations/s with the best fixed number", best.operations_per_second, "", Bound::Shown)
        .figure(&format!("operations/s of {MANY} clients"), many.operations_per_second, "", Bound::Shown)
        .figure("their p99", many.latency_microseconds.p99 / 1e3, "ms", Bound::Shown)
        .figure("operations/s of 16 clients", few.operations_per_second, "", Bound::Shown)
        .figure("load generator's CPU for an operation of 16", client_cpu(&few), "us", Bound::Shown)
        .figure(&format!("and of {MANY}"), client_cpu(&many), "us", Bound::Shown);
    judgement.remark(format!(
        "Fixed settings and the adapting one have the same {MANY} clients and are measured in turn, {ROUNDS} times; the best of each \
         counts. Of one client it is the mean."
    ));
    judgement.evidence(&format!("{MANY} clients, {tickets} tickets, the best of {FIXED:?}"), &best);
    judgement.evidence(&format!("{MANY} clients, from ten seconds after they came"), &many);
    judgement.evidence("One client, from ten seconds after they went", &last);
    Ok(vec![judgement])
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

/// Operations a second, the mean of the rounds.
fn mean_rate<'p>(phases: impl Iterator<Item = &'p PhaseResult>) -> f64 {
    let rates: Vec<f64> = phases.map(|phase| phase.operations_per_second).collect();
    mean(&rates).unwrap_or(0.0)
}

fn client_cpu(phase: &PhaseResult) -> f64 {
    phase.overhead.client_cpu_microseconds_per_operation
}
