//! G25: one client, then 500, then one: ten seconds later each has what it would have with the best fixed number of clients.

use super::judgement::{Bound, Judgement};
use super::rig::{Rig, only_phase};
use crate::error::LabError;
use crate::result::PhaseResult;

const MIXED_CLIENTS: &str = include_str!("../../scenarios/certify/mixed-clients.yaml");
const RISE_AND_FALL: &str = include_str!("../../scenarios/certify/rise-and-fall.yaml");
/// Numbers of clients among which the best is looked for.
const FIXED: [u32; 5] = [4, 8, 16, 64, 128];

pub(super) async fn judge(rig: &mut Rig) -> Result<Vec<Judgement>, LabError> {
    rig.load().await?;
    let mut judgement = rig.judgement("G25");
    let documents = ("documents", rig.documents.to_string());
    let seconds = ("seconds", (rig.seconds / 2.0).to_string());
    // Fills the cache.
    let clients = |count: u32| [documents.clone(), seconds.clone(), ("threads", count.to_string())];
    rig.run(MIXED_CLIENTS, &clients(16)).await?;
    let mut best: Option<(u32, PhaseResult)> = None;
    for count in FIXED {
        let phase = only_phase(rig.run(MIXED_CLIENTS, &clients(count)).await?)?;
        if best.as_ref().is_none_or(|(_, best)| phase.operations_per_second > best.operations_per_second) {
            best = Some((count, phase));
        }
    }
    let result = rig.run(RISE_AND_FALL, &[documents, seconds]).await?;
    let phase = |name: &str| {
        result.phase(name).cloned().ok_or_else(|| LabError::WrongReply(format!("the phase {name:?} did not run")))
    };
    let (one, many, again) = (phase("one")?, phase("many")?, phase("one again")?);
    let Some((count, best)) = best else { return Ok(vec![Judgement::not_judged("G25", "nothing was measured")]) };
    judgement
        .figure(
            &format!("operations/s of 500 clients / of the best fixed number, {count}"),
            many.operations_per_second / best.operations_per_second.max(1.0),
            "",
            Bound::AtLeast(0.9),
        )
        .figure(
            "operations/s of one client after them / before",
            again.operations_per_second / one.operations_per_second.max(1.0),
            "",
            Bound::AtLeast(0.9),
        )
        .figure("operations/s of the best fixed number", best.operations_per_second, "", Bound::Shown)
        .figure("operations/s of 500 clients", many.operations_per_second, "", Bound::Shown)
        .figure("their p99", many.latency_microseconds.p99 / 1e3, "ms", Bound::Shown);
    judgement.remark("A fixed setting of the server is stood for by a fixed number of clients.");
    judgement.evidence(&format!("{count} clients, the best of {FIXED:?}"), &best);
    judgement.evidence("500 clients, from ten seconds after they came", &many);
    judgement.evidence("One client, from ten seconds after they went", &again);
    Ok(vec![judgement])
}
