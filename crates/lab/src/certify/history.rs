//! G9: a snapshot is held until the old versions that are kept for it reach their quota. It is given up, and nothing else is.

use bson::doc;

use super::held_snapshot::{HeldSnapshot, WITNESSES, change_witnesses, write_witnesses};
use super::judgement::{Bound, Judgement};
use super::rig::{Rig, WRITERS, error_code, only_phase};
use crate::error::LabError;
use crate::launch::Stop;

/// `SnapshotTooOld`
const TOO_OLD: i32 = 239;
/// Rounds of updates in which the quota must be reached.
const ROUNDS_MAX: u32 = 60;
/// Documents read in each with the snapshot. A server may have read the next hundred already, which are as they should be.
const READ_IN_ROUND: u32 = WITNESSES / ROUNDS_MAX - 1;

pub(super) async fn judge(rig: &mut Rig) -> Result<Vec<Judgement>, LabError> {
    let Some(quota) = rig.history_bytes else {
        let because = "the quota of the history of a server that this test did not start is not known";
        return Ok(vec![Judgement::not_judged("G9", because)]);
    };
    let mut judgement = rig.judgement("G9");
    rig.load().await?;
    write_witnesses(rig).await?;
    // Otherwise the server ends the transaction after a minute. One without this parameter has its own limit.
    let _ = rig.admin(doc! { "setParameter": 1, "transactionLifetimeLimitSeconds": 3600 }).await;
    let mut snapshot = match HeldSnapshot::take(rig).await {
        Ok(snapshot) => snapshot,
        Err(error) => {
            judgement.breaks(format!("not supported by this server: nothing holds a snapshot: {error}"));
            return Ok(vec![judgement]);
        }
    };
    change_witnesses(rig).await?;
    let (mut given_up, mut most) = (None, 0.0_f64);
    for _ in 0..ROUNDS_MAX {
        let changes = [("documents", rig.documents.to_string()), ("seconds", (rig.seconds / 2.0).to_string())];
        let phase = only_phase(rig.run(WRITERS, &changes).await?)?;
        most = most.max(held(rig).await);
        let mut read = Ok(Some(0));
        for _ in 0..READ_IN_ROUND {
            read = if read.is_ok() { snapshot.read_on().await } else { read };
        }
        if let Err(error) = read {
            judgement.evidence("Updates when the snapshot was given up", &phase);
            given_up = Some(error);
            break;
        }
    }
    judgement.figure("most kept of old versions / quota", most / quota, "x", Bound::AtMost(1.1)).figure(
        "quota",
        quota / 1_048_576.0,
        "MiB",
        Bound::Shown,
    );
    match given_up {
        Some(error) if error_code(&error) == Some(TOO_OLD) => {}
        Some(error) => {
            judgement.breaks(format!("the snapshot failed with something else than SnapshotTooOld: {error}"));
        }
        None => {
            judgement.breaks("the snapshot was never given up");
        }
    }
    rig.admin(doc! { "ping": 1 }).await?;
    let took = rig.restart(Stop::Orderly).await?;
    judgement.figure("restart", took.as_secs_f64(), "s", Bound::Shown);
    let checked = rig.command(doc! { "validate": "witnesses" }).await?;
    if !checked.get_bool("valid").unwrap_or(false) {
        judgement.breaks("after the restart validate finds something wrong");
    }
    Ok(vec![judgement])
}

async fn held(rig: &Rig) -> f64 {
    let memory = rig.number("plimsoll.history.memoryBytes").await.unwrap_or(0.0);
    memory + rig.number("plimsoll.history.spilledBytes").await.unwrap_or(0.0)
}
