//! G1 to G4: four times as many updates are offered as the server takes, with its cache full of changed pages, while others
//! read hot documents and ask for its health.
//!
//! What a client feels is counted from when its operation was sent: four times too much cannot all be answered, so that the
//! queue in the load generator grows without end, whatever the server does. From the due moment it is shown as well.

use std::collections::BTreeMap;
use std::slice::from_ref;
use std::time::Duration;

use bson::{Document, doc};

use super::judgement::{Bound, Judgement};
use super::probe::{Probe, ProbeRecord};
use super::refusals::{OVERLOAD_CODE, OVERLOAD_LABELS, RefusalProbe, Refusals};
use super::rig::{OFFERED_WRITERS, READERS, Rig, WRITERS, only_phase};
use super::statistic::mean;
use crate::error::LabError;
use crate::result::PhaseResult;

/// Of the sustainable rate.
const OVERLOAD: f64 = 4.0;
const CLIENTS: u32 = 256;
/// Clients of the crowd, where some must be refused when the overload was not enough for that.
const CROWD: u32 = 2000;
/// Between two health commands of a kind.
const HEALTH_PAUSE: Duration = Duration::from_millis(100);

/// Counters of pages that clients wrote themselves: ours, WiredTiger's.
const CLIENT_WRITES: [&str; 2] = ["plimsoll.clientPageWrites", "wiredTiger.cache.pages evicted by application threads"];

/// What the load showed.
struct Seen {
    idle_readers: PhaseResult,
    sustainable: PhaseResult,
    writers: PhaseResult,
    readers: PhaseResult,
    health: BTreeMap<&'static str, ProbeRecord>,
    crowd: Option<PhaseResult>,
    /// What clients without a driver were told; or why there were none.
    refusals: Option<Result<Refusals, String>>,
    client_writes: Option<(&'static str, f64)>,
}

pub(super) async fn judge(rig: &mut Rig, wanted: &[&str]) -> Result<Vec<Judgement>, LabError> {
    let refuses = wanted.contains(&"G4");
    let seen = load(rig, refuses).await?;
    let mut judgements = vec![client_threads(rig, &seen), writers(rig, &seen), readers(rig, &seen)];
    if refuses {
        judgements.push(refusals(rig, &seen));
    }
    Ok(judgements)
}

async fn load(rig: &mut Rig, refuses: bool) -> Result<Seen, LabError> {
    rig.load().await?;
    let seconds = ("seconds", rig.seconds.to_string());
    let idle_readers = only_phase(rig.run_watched(READERS, &[seconds.clone(), ("warm_up", "1".to_owned())]).await?)?;
    let sustainable = rig.measure_sustainable().await?;
    let rate = sustainable.operations_per_second * OVERLOAD;
    let warm_up = ("warm_up", (rig.seconds / 4.0).to_string());
    let offered = [
        ("documents", rig.documents.to_string()),
        ("threads", CLIENTS.to_string()),
        ("rate", rate.to_string()),
        seconds.clone(),
        warm_up.clone(),
    ];
    let writers = rig.plan_run(OFFERED_WRITERS, &offered)?;
    let readers = rig.plan_run(READERS, &[seconds, warm_up])?.watched();
    let probes = start_health(rig).await?;
    let (writers, readers) = tokio::join!(writers.run(), readers.run());
    let (writers, readers) = (only_phase(writers?)?, only_phase(readers?)?);
    let (mut crowd, mut refusals) = (None, None);
    if refuses {
        let (phase, told) = crowd_beside_probe(rig).await?;
        (crowd, refusals) = (Some(phase), Some(told));
    }
    let mut health = BTreeMap::new();
    for (name, probe) in probes {
        health.insert(name, probe.finish().await?);
    }
    let mut client_writes = None;
    for path in CLIENT_WRITES {
        let is_counted = rig.number(path).await.is_some();
        let during = writers.counters.get(path).copied().unwrap_or(0.0);
        client_writes = client_writes.or(is_counted.then_some((path, during)));
    }
    Ok(Seen { idle_readers, sustainable, writers, readers, health, crowd, refusals, client_writes })
}

/// The crowd, and what clients are told that try nothing again.
async fn crowd_beside_probe(rig: &mut Rig) -> Result<(PhaseResult, Result<Refusals, String>), LabError> {
    match RefusalProbe::start(rig).await {
        Ok(probe) => {
            let phase = crowd(rig).await;
            let told = probe.finish().await;
            Ok((phase?, Ok(told)))
        }
        Err(error) => Ok((crowd(rig).await?, Err(error.to_string()))),
    }
}

/// Many clients at once, none of which waits between its updates.
async fn crowd(rig: &mut Rig) -> Result<PhaseResult, LabError> {
    let changes = [
        ("documents", rig.documents.to_string()),
        ("threads", CROWD.to_string()),
        ("seconds", "5".to_owned()),
        // Those refused at the first rush count.
        ("warm_up", "0".to_owned()),
    ];
    only_phase(rig.run_pressing(WRITERS, &changes).await?)
}

async fn start_health(rig: &Rig) -> Result<Vec<(&'static str, Probe)>, LabError> {
    let commands: [(&'static str, Document); 4] = [
        ("hello", doc! { "hello": 1 }),
        ("ping", doc! { "ping": 1 }),
        // An operation that does not exist: whatever is answered, it is an answer.
        ("killOp", doc! { "killOp": 1, "op": i32::MAX }),
        ("serverStatus", doc! { "serverStatus": 1 }),
    ];
    let mut probes = Vec::new();
    for (name, command) in commands {
        let database = rig.new_client(1).await?.database("admin");
        // Connects before it counts.
        database.run_command(doc! { "ping": 1 }).await.map_err(LabError::command("ping"))?;
        let probe = Probe::start(HEALTH_PAUSE, move |_| {
            let (database, command) = (database.clone(), command.clone());
            async move {
                let reply = database.run_command(command).await.map_err(LabError::command(name));
                match reply {
                    Err(error) if name != "killOp" || error.is_connection_loss() => Err(error),
                    _ => Ok(()),
                }
            }
        });
        probes.push((name, probe));
    }
    Ok(probes)
}

fn client_threads(rig: &Rig, seen: &Seen) -> Judgement {
    let Some((path, count)) = seen.client_writes else {
        return Judgement::not_judged("G1", "this server does not count the pages that clients' threads write");
    };
    let mut judgement = rig.judgement("G1");
    judgement.figure(&format!("{path} during the overload"), count, "pages", Bound::AtMost(0.0));
    judgement
}

fn writers(rig: &Rig, seen: &Seen) -> Judgement {
    let mut judgement = rig.judgement("G2");
    let (writers, sustainable) = (&seen.writers, &seen.sustainable);
    let latency = sent_latency(writers);
    judgement
        .figure("seconds without commits", writers.seconds_without_progress as f64, "", Bound::AtMost(0.0))
        .figure("p99", latency.0, "ms", Bound::Below(250.0))
        .figure("longest", latency.1, "ms", Bound::Below(2000.0))
        .figure("standard deviation / mean by second", unevenness(writers), "", Bound::Below(0.25))
        .figure(
            "answered within 1 s / sustainable",
            writers.answered_in_time_per_second / sustainable.operations_per_second,
            "",
            Bound::AtLeast(0.9),
        )
        .figure("sustainable", sustainable.operations_per_second, "updates/s", Bound::Shown)
        .figure("offered", writers.offered_per_second.unwrap_or(0.0), "updates/s", Bound::Shown)
        .figure("p99 from the due moment", writers.latency_microseconds.p99 / 1e3, "ms", Bound::Shown);
    if let Some(dirty) = mean(&writers.server_series.cache_dirty_share) {
        judgement.figure("changed pages in the cache, mean", dirty * 100.0, "%", Bound::Shown);
    }
    judgement.remark(
        "Latencies count from when an update was sent and of those that were answered: four times too many cannot all be \
         answered, and what is never sent would wait without end.",
    );
    judgement.evidence("Sustainable: 64 clients, each as fast as it is answered", sustainable);
    judgement.evidence("Four times as much offered, by 256 clients", writers);
    judgement
}

fn readers(rig: &Rig, seen: &Seen) -> Judgement {
    let mut judgement = rig.judgement("G3");
    let (idle, loaded) = (seen.idle_readers.undisturbed_latency(), seen.readers.undisturbed_latency());
    let with_stolen = |phase: &PhaseResult| phase.latency_microseconds.p99 / 1e3;
    judgement
        .figure("p99 / idle p99", loaded.p99 / idle.p99.max(1.0), "x", Bound::AtMost(3.0))
        .figure("p99 while writers overload", loaded.p99 / 1e3, "ms", Bound::Shown)
        .figure("idle p99", idle.p99 / 1e3, "ms", Bound::Shown)
        .figure(
            "p99 while writers overload, with what the host disturbed",
            with_stolen(&seen.readers),
            "ms",
            Bound::Shown,
        )
        .figure("idle p99 with it", with_stolen(&seen.idle_readers), "ms", Bound::Shown)
        .leaves_out_stolen_time([&seen.idle_readers, &seen.readers].into_iter())
        .leaves_out_own_waits(&[
            ("p99 with the load generator's waits", from_ref(&seen.readers)),
            ("idle p99 with them", from_ref(&seen.idle_readers)),
        ]);
    judgement.evidence("Hot reads, the server otherwise idle", &seen.idle_readers);
    judgement.evidence("Hot reads during the overload", &seen.readers);
    shares_the_machine(rig, &mut judgement, &seen.writers);
    judgement
}

fn refusals(rig: &Rig, seen: &Seen) -> Judgement {
    let mut judgement = rig.judgement("G4");
    match &seen.refusals {
        Some(Ok(told)) => {
            judgement
                .figure(
                    "refused with error 462, of clients that try nothing again",
                    told.refused as f64,
                    "updates",
                    Bound::AtLeast(1.0),
                )
                .figure("of these without its labels", told.unlabelled as f64, "updates", Bound::AtMost(0.0))
                .figure("done for such clients", told.done as f64, "updates", Bound::Shown);
            if let Some(failure) = &told.last_failure {
                judgement.breaks(format!("{} of their updates failed in another way: {failure}", told.failed));
            }
        }
        Some(Err(error)) => {
            judgement.breaks(format!(
                "whether it refuses could not be seen: no client without a driver could connect: {error}"
            ));
        }
        None => {}
    }
    for (name, record) in &seen.health {
        judgement.figure(&format!("{name}, longest"), record.latency.maximum / 1e3, "ms", Bound::Below(50.0));
        judgement.figure(&format!("{name}, p99"), record.latency.p99 / 1e3, "ms", Bound::Shown);
        if record.failed() > 0 {
            let reason = record.last_failure.clone().unwrap_or_default();
            judgement.breaks(format!("{name} failed {} times: {reason}", record.failed()));
        }
    }
    if let Some(crowd) = &seen.crowd {
        let (refused, labelled) = refused_by_driver(crowd);
        judgement.figure(
            &format!("refused to the end of a driver's tries, of {CROWD} clients"),
            refused,
            "updates",
            Bound::Shown,
        );
        if !labelled {
            judgement.breaks("error 462 came to a driver without the labels SystemOverloadedError and RetryableError");
        }
        judgement.evidence(&format!("{CROWD} clients, each as fast as it is answered"), crowd);
    }
    shares_the_machine(rig, &mut judgement, &seen.writers);
    judgement
}

/// How often a driver gave up with error 462, and whether that always had its labels.
fn refused_by_driver(phase: &PhaseResult) -> (f64, bool) {
    let refused = phase.errors.iter().filter(|(name, _)| name.starts_with(&OVERLOAD_CODE.to_string()));
    refused.fold((0.0, true), |(count, labelled), (name, more)| {
        let labels = phase.error_labels.get(name);
        let has = |label: &&str| labels.is_some_and(|labels| labels.contains(*label));
        (count + *more as f64, labelled && OVERLOAD_LABELS.iter().all(has))
    })
}

/// p99 and longest in milliseconds, from when operations were sent.
pub(super) fn sent_latency(phase: &PhaseResult) -> (f64, f64) {
    let summaries = || phase.steps.iter().map(|step| &step.service_microseconds);
    let largest = |values: &mut dyn Iterator<Item = f64>| values.fold(0.0, f64::max) / 1e3;
    (largest(&mut summaries().map(|summary| summary.p99)), largest(&mut summaries().map(|summary| summary.maximum)))
}

/// Standard deviation by mean of the whole seconds.
fn unevenness(phase: &PhaseResult) -> f64 {
    let whole: Vec<f64> =
        phase.seconds.iter().filter(|second| second.length_seconds >= 0.99).map(|second| second.per_second).collect();
    match mean(&whole) {
        Some(mean) if whole.len() > 1 && mean > 0.0 => crate::compare::statistics::variance(&whole).sqrt() / mean,
        _ => f64::INFINITY,
    }
}

/// Tells that the load generator runs on the server's machine: what readers and health commands wait for may be it.
fn shares_the_machine(rig: &Rig, judgement: &mut Judgement, phase: &PhaseResult) {
    if rig.pid().is_some() {
        judgement.remark(format!(
            "The load generator took {:.0} % of the machine that the server runs on; waiting for a processor is part of these \
             latencies. The threads of the clients that overload it run at nice 10, alone as with readers, since they stand for \
             other machines.",
            phase.overhead.client_share_of_machine * 100.0
        ));
    }
}
