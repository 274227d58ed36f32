//! G5: latencies with checkpoints one after the other against latencies without any, in turn.

use std::time::Duration;

use bson::doc;

use super::judgement::{Bound, Judgement};
use super::probe::Probe;
use super::rig::{OFFERED_WRITERS, Rig, only_phase};
use super::statistic::median;
use crate::error::LabError;
use crate::latency::LatencySummary;
use crate::result::PhaseResult;

/// Of the sustainable rate: a load under which a server without checkpoints has room.
const LOAD: f64 = 0.3;
/// Who update: as many as the other tests watch.
const CLIENTS: usize = 32;
/// Times that both are measured, one right after the other. Their ratio is taken round by round: on a machine that others use too p99 drifts
/// within minutes, and two phases side by side have the same share of that.
const ROUNDS: usize = 8;
/// Of the rig's seconds: how long a phase lasts.
const PHASE_SHARE: f64 = 0.25;
/// Where servers count their checkpoints.
const COUNTERS: [&str; 3] = [
    "plimsoll.checkpoints",
    "wiredTiger.checkpoint.number of checkpoints started",
    "wiredTiger.transaction.transaction checkpoints",
];

pub(super) async fn judge(rig: &mut Rig) -> Result<Vec<Judgement>, LabError> {
    let rate = rig.sustainable().await? * LOAD;
    if let Err(error) = rig.admin(doc! { "fsync": 1 }).await {
        let because = format!("this server refuses fsync, the command that makes a checkpoint: {error}");
        return Ok(vec![Judgement::not_judged("G5", &because)]);
    }
    let mut judgement = rig.judgement("G5");
    let (mut without, mut with, mut made) = (Vec::new(), Vec::new(), 0);
    for round in 0..ROUNDS {
        for is_storm in if round % 2 == 0 { [false, true] } else { [true, false] } {
            if is_storm {
                let (phase, checkpoints) = storm(rig, rate).await?;
                made += checkpoints;
                with.push(phase);
            } else {
                // One right before, so that none is due meanwhile.
                rig.admin(doc! { "fsync": 1 }).await?;
                without.push(updates(rig, rate).await?);
            }
        }
    }
    let p99 = |phases: &[PhaseResult]| median_p99(phases.iter().map(PhaseResult::undisturbed_latency));
    let with_stolen = |phases: &[PhaseResult]| median_p99(phases.iter().map(|phase| &phase.latency_microseconds));
    let ratios = p99_ratios(&with, &without);
    judgement
        .figure(
            "p99 with / without checkpoints, median of the rounds",
            median(ratios.iter().copied()),
            "x",
            Bound::AtMost(1.25),
        )
        .figure("smallest of the rounds", ratios.iter().copied().fold(f64::INFINITY, f64::min), "x", Bound::Shown)
        .figure("largest of the rounds", ratios.iter().copied().fold(0.0, f64::max), "x", Bound::Shown)
        .figure("p99 without, median of the rounds", p99(&without), "ms", Bound::Shown)
        .figure("p99 with, median of the rounds", p99(&with), "ms", Bound::Shown)
        .figure("p99 without, with what the host disturbed", with_stolen(&without), "ms", Bound::Shown)
        .figure("p99 with checkpoints, with what the host disturbed", with_stolen(&with), "ms", Bound::Shown)
        .leaves_out_own_waits(&[
            ("p99 without, with the load generator's own waits", without.as_slice()),
            ("p99 with checkpoints, with the load generator's own waits", with.as_slice()),
        ])
        .leaves_out_stolen_time(with.iter().chain(&without))
        .figure("checkpoints asked for", made as f64, "", Bound::AtLeast(ROUNDS as f64));
    let by_itself = |phase: &PhaseResult| COUNTERS.iter().find_map(|path| phase.counters.get(*path)).copied();
    match without.iter().filter_map(by_itself).sum::<f64>() {
        stray if stray > 0.0 => {
            judgement.remark(format!("{stray} checkpoints began in the phases that were to be without any."));
        }
        _ => {}
    }
    if let (Some(calm), Some(stormy)) = (without.last(), with.last()) {
        judgement.evidence("Updates at a third of the sustainable rate, no checkpoint", calm);
        judgement.evidence("The same with checkpoints one after the other", stormy);
    }
    Ok(vec![judgement])
}

/// Of each round the p99 with checkpoints by that without.
fn p99_ratios(with: &[PhaseResult], without: &[PhaseResult]) -> Vec<f64> {
    let p99 = |phase: &PhaseResult| phase.undisturbed_latency().p99;
    with.iter().zip(without).map(|(with, without)| p99(with) / p99(without).max(1.0)).collect()
}

/// Milliseconds.
fn median_p99<'a>(rounds: impl Iterator<Item = &'a LatencySummary>) -> f64 {
    median(rounds.map(|latency| latency.p99 / 1e3))
}

async fn updates(rig: &mut Rig, rate: f64) -> Result<PhaseResult, LabError> {
    let changes = [
        ("documents", rig.documents.to_string()),
        ("threads", CLIENTS.to_string()),
        ("rate", rate.to_string()),
        ("seconds", (rig.seconds * PHASE_SHARE).to_string()),
        ("warm_up", "1".to_owned()),
    ];
    only_phase(rig.run_watched(OFFERED_WRITERS, &changes).await?)
}

/// Updates while another client asks for one checkpoint after the other.
async fn storm(rig: &mut Rig, rate: f64) -> Result<(PhaseResult, u64), LabError> {
    let database = rig.new_client(1).await?.database("admin");
    let probe = Probe::start(Duration::from_millis(10), move |_| {
        let database = database.clone();
        async move {
            let done = database.run_command(doc! { "fsync": 1 }).await;
            done.map(drop).map_err(LabError::command("fsync"))
        }
    });
    let phase = updates(rig, rate).await;
    let record = probe.finish().await?;
    Ok((phase?, record.latency.count))
}
