//! G19: collections are created, renamed and dropped without end while writers overload the server; what does it add to
//! their p99?

use std::time::Duration;

use bson::doc;

use super::judgement::{Bound, Judgement};
use super::overload::sent_latency;
use super::probe::{Probe, ProbeRecord};
use super::rig::{DATABASE, OFFERED_WRITERS, Rig, only_phase};
use super::statistic::median;
use crate::error::LabError;
use crate::result::PhaseResult;

const ROUNDS: usize = 3;
/// Of the sustainable rate, as in G2.
const OVERLOAD: f64 = 4.0;
const CLIENTS: u32 = 256;
const PAUSE: Duration = Duration::from_millis(10);

pub(super) async fn judge(rig: &mut Rig) -> Result<Vec<Judgement>, LabError> {
    let rate = rig.sustainable().await? * OVERLOAD;
    let mut judgement = rig.judgement("G19");
    let (mut without, mut with) = (Vec::new(), Vec::new());
    let mut definitions = ProbeRecord::default();
    for round in 0..ROUNDS {
        for defines in if round % 2 == 0 { [false, true] } else { [true, false] } {
            if defines {
                let probe = start(rig).await?;
                let phase = writers(rig, rate).await;
                definitions = probe.finish().await?;
                with.push(phase?);
            } else {
                without.push(writers(rig, rate).await?);
            }
        }
    }
    let p99 = |phases: &[PhaseResult]| median(phases.iter().map(|phase| sent_latency(phase).0));
    judgement
        .figure("added to the writers' p99", p99(&with) - p99(&without), "ms", Bound::AtMost(10.0))
        .figure("p99 without definitions, median of the rounds", p99(&without), "ms", Bound::Shown)
        .figure("p99 with, median of the rounds", p99(&with), "ms", Bound::Shown)
        .figure("create, rename and drop: done in a round", definitions.latency.count as f64, "", Bound::AtLeast(1.0))
        .figure("create, rename and drop: p50 of the three together", definitions.latency.p50 / 1e3, "ms", Bound::Shown)
        .figure("longest of the three together", definitions.latency.maximum / 1e3, "ms", Bound::Shown);
    if definitions.failed() > 0 {
        let reason = definitions.last_failure.clone().unwrap_or_default();
        judgement.breaks(format!("{} definitions failed: {reason}", definitions.failed()));
    }
    if let (Some(calm), Some(busy)) = (without.last(), with.last()) {
        judgement.evidence("Writers overload, no definitions", calm);
        judgement.evidence("Writers overload while collections come and go", busy);
    }
    Ok(vec![judgement])
}

async fn writers(rig: &mut Rig, rate: f64) -> Result<PhaseResult, LabError> {
    let changes = [
        ("documents", rig.documents.to_string()),
        ("threads", CLIENTS.to_string()),
        ("rate", rate.to_string()),
        ("seconds", (rig.seconds / 2.0).to_string()),
        ("warm_up", "1".to_owned()),
    ];
    only_phase(rig.run(OFFERED_WRITERS, &changes).await?)
}

/// A collection with an index, renamed and dropped, again and again.
async fn start(rig: &Rig) -> Result<Probe, LabError> {
    let client = rig.new_client(1).await?;
    Ok(Probe::start(PAUSE, move |number| {
        let client = client.clone();
        async move {
            let (database, admin) = (client.database(DATABASE), client.database("admin"));
            let (name, renamed) = (format!("passing_{number}"), format!("passed_{number}"));
            let failed = |what: &str| LabError::command(what.to_owned());
            database.run_command(doc! { "create": &name }).await.map_err(failed("create"))?;
            let (from, to) = (format!("{DATABASE}.{name}"), format!("{DATABASE}.{renamed}"));
            let rename = admin.run_command(doc! { "renameCollection": from, "to": to }).await;
            rename.map_err(failed("renameCollection"))?;
            database.run_command(doc! { "drop": &renamed }).await.map(drop).map_err(failed("drop"))
        }
    }))
}
