//! G26: a hundred currentOp a second and a metrics scrape each second, beside clients that work as fast as they are answered.
//!
//! One percent is less than a shared machine varies by. So both are measured several times in turn, and the verdict is
//! given only where the interval of the difference lies on one side of the bound; the processors' time that the server
//! spends on diagnostics alone is told as well, and where the interval says nothing, it decides.

use std::time::Duration;

use bson::doc;

use super::judgement::{Bound, Judgement};
use super::probe::{Probe, ProbeRecord};
use super::rig::{Rig, only_phase};
use super::statistic::median;
use crate::compare::statistics::{Sample, log_ratio};
use crate::error::LabError;
use crate::result::PhaseResult;

const MIXED_CLIENTS: &str = include_str!("../../scenarios/certify/mixed-clients.yaml");
const ROUNDS: usize = 5;
/// A hundred a second, with some time for the answer.
const CURRENT_OP_PAUSE: Duration = Duration::from_millis(9);
const SCRAPE_PAUSE: Duration = Duration::from_secs(1);
/// For the diagnostics alone.
const ALONE: Duration = Duration::from_secs(1);
/// Many, and short: the server's background work is as large as what is measured, and comes and goes.
const ALONE_ROUNDS: usize = 15;
/// Before that, the server works off what came before: until it uses less of the machine, at most so many times `ALONE`.
const REST_PERCENT: f64 = 0.5;
const RESTS_MAX: usize = 60;
const BOUND_PERCENT: f64 = 1.0;
/// Of the runs of one build, where too few were made to measure it.
const RUN_NOISE: f64 = 0.03;

pub(super) async fn judge(rig: &mut Rig) -> Result<Vec<Judgement>, LabError> {
    rig.load().await?;
    let mut judgement = rig.judgement("G26");
    let alone = alone(rig).await?;
    clients(rig).await?;
    let (mut without, mut with) = (Vec::new(), Vec::new());
    let mut asked = ProbeRecord::default();
    for round in 0..ROUNDS {
        for is_asked in if round % 2 == 0 { [false, true] } else { [true, false] } {
            if is_asked {
                let probes = start(rig).await?;
                let phase = clients(rig).await;
                asked = finish(probes).await?;
                with.push(phase?);
            } else {
                without.push(clients(rig).await?);
            }
        }
    }
    let samples = |phases: &[PhaseResult]| -> Vec<Sample> {
        let rates = phases.iter().map(|phase| phase.operations_per_second);
        rates.map(|value| Sample { value, series: Vec::new() }).collect()
    };
    let ratio = log_ratio(&samples(&without), &samples(&with), 0.0, RUN_NOISE, 1);
    let (low, high) = ratio.map_or((f64::NEG_INFINITY, f64::INFINITY), |ratio| ratio.interval(0.9));
    let percent_lost = |logarithm: f64| (1.0 - logarithm.exp()) * 100.0;
    let (least, most) = (percent_lost(high), percent_lost(low));
    let lost = ratio.map_or(f64::INFINITY, |ratio| percent_lost(ratio.centre));
    let is_told = least > BOUND_PERCENT || most <= BOUND_PERCENT;
    let bound = Bound::AtMost(BOUND_PERCENT);
    judgement.figure("throughput lost", lost, "%", if is_told { bound } else { Bound::Shown });
    judgement.remark(format!(
        "Nine times of ten the loss lies between {least:.1} and {most:.1} %; the load generator's own work for the diagnostics is \
         part of it where it shares the machine."
    ));
    match alone {
        Some(percent) => {
            let what = "server's CPU for diagnostics alone, of the machine";
            judgement.figure(what, percent, "%", bound);
        }
        None if !is_told => {
            judgement
                .leaves_out("the loss is smaller than what this machine varies by, and the server's CPU is not known");
        }
        None => {}
    }
    judgement.figure("currentOp answered", asked.latency.count as f64, "", Bound::AtLeast(1.0));
    judgement.figure("currentOp, p99", asked.latency.p99 / 1e3, "ms", Bound::Shown);
    if let (Some(calm), Some(busy)) = (without.last(), with.last()) {
        judgement.evidence("Clients alone", calm);
        judgement.evidence("Clients with 100 currentOp a second", busy);
    }
    Ok(vec![judgement])
}

async fn clients(rig: &mut Rig) -> Result<PhaseResult, LabError> {
    let changes = [("documents", rig.documents.to_string()), ("seconds", (rig.seconds / 2.0).to_string())];
    only_phase(rig.run(MIXED_CLIENTS, &changes).await?)
}

/// What the diagnostics take of the machine while the server does nothing else, in percent: the middle of several
/// differences, as the server's background work comes and goes.
async fn alone(rig: &Rig) -> Result<Option<f64>, LabError> {
    for _ in 0..RESTS_MAX {
        if used(rig).await.is_none_or(|percent| percent < REST_PERCENT) {
            break;
        }
    }
    let mut differences = Vec::new();
    for _ in 0..ALONE_ROUNDS {
        let Some(idle) = used(rig).await else { return Ok(None) };
        let probes = start(rig).await?;
        let asked = used(rig).await;
        finish(probes).await?;
        let Some(asked) = asked else { return Ok(None) };
        differences.push(asked - idle);
    }
    Ok(Some(median(differences.into_iter()).max(0.0)))
}

/// CPU that the server uses in a while, in percent of the machine.
async fn used(rig: &Rig) -> Option<f64> {
    let processors = std::thread::available_parallelism().map_or(1, usize::from) as f64;
    let process = rig.server_process()?;
    let before = process.thread_times();
    tokio::time::sleep(ALONE).await;
    let after = process.thread_times();
    let ran = |(thread, time): (&u64, &u64)| time.saturating_sub(before.get(thread).copied().unwrap_or(0));
    let nanoseconds: u64 = after.iter().map(ran).sum();
    (!after.is_empty()).then(|| nanoseconds as f64 / 1e9 / ALONE.as_secs_f64() / processors * 100.0)
}

async fn start(rig: &Rig) -> Result<[Probe; 2], LabError> {
    let (operations, scrapes) =
        (rig.new_client(1).await?.database("admin"), rig.new_client(1).await?.database("admin"));
    Ok([
        Probe::start(CURRENT_OP_PAUSE, move |_| {
            let database = operations.clone();
            async move {
                let stage = doc! { "$currentOp": { "allUsers": true } };
                let command = doc! { "aggregate": 1, "pipeline": [stage], "cursor": {} };
                database.run_command(command).await.map(drop).map_err(LabError::command("$currentOp"))
            }
        }),
        Probe::start(SCRAPE_PAUSE, move |_| {
            let database = scrapes.clone();
            async move {
                let command = doc! { "serverStatus": 1 };
                database.run_command(command).await.map(drop).map_err(LabError::command("serverStatus"))
            }
        }),
    ])
}

/// Gives the record of currentOp.
async fn finish(probes: [Probe; 2]) -> Result<ProbeRecord, LabError> {
    let [operations, scrapes] = probes;
    let record = operations.finish().await?;
    scrapes.finish().await?;
    Ok(record)
}
