//! G8: a transaction that nobody goes on with holds a snapshot while everything is updated. Others must not feel it; what it
//! holds, and who holds it, must be told; and read on at last, it must show what was there when it was taken.

use super::held_snapshot::{HeldSnapshot, change_witnesses, write_witnesses};
use super::judgement::{Bound, Judgement};
use super::rig::{Rig, WRITERS, only_phase};
use super::statistic::median;
use crate::error::LabError;
use crate::result::PhaseResult;

/// Rounds of both.
const ROUNDS: usize = 3;
/// Bytes of old versions: ours, WiredTiger's.
const HELD: [&[&str]; 2] = [
    &["plimsoll.history.memoryBytes", "plimsoll.history.spilledBytes"],
    &["wiredTiger.cache.history store table on-disk size"],
];

pub(super) async fn judge(rig: &mut Rig) -> Result<Vec<Judgement>, LabError> {
    rig.load().await?;
    write_witnesses(rig).await?;
    let mut judgement = rig.judgement("G8");
    if let Err(error) = HeldSnapshot::take(rig).await {
        judgement.breaks(format!("not supported by this server: nothing holds a snapshot: {error}"));
        return Ok(vec![judgement]);
    }
    let (mut without, mut with) = (Vec::new(), Vec::new());
    let (mut held_bytes, mut is_owner_named, mut changed) = (None, false, 0);
    // Fills the cache, which otherwise only the first would do.
    writers(rig).await?;
    for round in 0..ROUNDS {
        for holds in if round % 2 == 0 { [false, true] } else { [true, false] } {
            if !holds {
                without.push(writers(rig).await?);
                continue;
            }
            let snapshot = HeldSnapshot::take(rig).await?;
            change_witnesses(rig).await?;
            with.push(writers(rig).await?);
            held_bytes = held(rig).await.or(held_bytes);
            is_owner_named |= snapshot.is_named(rig).await;
            changed += snapshot.let_go().await?;
        }
    }
    let rate = |phases: &[PhaseResult]| median(phases.iter().map(|phase| phase.operations_per_second));
    judgement
        .figure("updates/s with the snapshot / without", rate(&with) / rate(&without).max(1.0), "", Bound::AtLeast(0.9))
        .figure("updates/s without, median of the rounds", rate(&without), "", Bound::Shown)
        .figure("updates/s with, median of the rounds", rate(&with), "", Bound::Shown)
        .figure("documents that the snapshot showed as they were later", changed as f64, "", Bound::AtMost(0.0));
    match held_bytes {
        Some(bytes) => {
            judgement.figure("old versions held, as told", bytes / 1_048_576.0, "MiB", Bound::Shown);
        }
        None => {
            judgement.leaves_out("this server does not tell how many bytes of old versions it keeps");
        }
    }
    if !is_owner_named {
        judgement
            .breaks("neither serverStatus nor currentOp (with idle cursors and sessions) names who holds the snapshot");
    }
    if let (Some(calm), Some(held)) = (without.last(), with.last()) {
        judgement.evidence("Updates, no snapshot", calm);
        judgement.evidence("Updates, a snapshot held", held);
    }
    Ok(vec![judgement])
}

async fn writers(rig: &mut Rig) -> Result<PhaseResult, LabError> {
    let changes = [
        ("documents", rig.documents.to_string()),
        ("seconds", (rig.seconds / 2.0).to_string()),
        ("warm_up", "1".to_owned()),
    ];
    only_phase(rig.run(WRITERS, &changes).await?)
}

/// Bytes of old versions, as the server tells them.
async fn held(rig: &Rig) -> Option<f64> {
    for paths in HELD {
        let mut total = None;
        for path in paths {
            total = rig.number(path).await.map(|bytes| total.unwrap_or(0.0) + bytes).or(total);
        }
        if total.is_some() {
            return total;
        }
    }
    None
}
