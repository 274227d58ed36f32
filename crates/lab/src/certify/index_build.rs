//! G15: an index over all of the working set is built beside clients; then the server is killed in the middle of a build.

use std::time::{Duration, Instant};

use bson::{Document, doc};
use mongodb::Client;

use super::judgement::{Bound, Judgement};
use super::rig::{DATABASE, Rig};
use super::storm::{self, LOAD, Storm};
use crate::error::LabError;
use crate::launch::Stop;

const INDEX: &str = "state_1";
/// How long a build may take at all.
const PATIENCE: Duration = Duration::from_secs(1800);
/// Seconds after which a build is killed, at least.
const KILLED_AFTER_MIN: f64 = 0.05;

pub(super) async fn judge(rig: &mut Rig) -> Result<Vec<Judgement>, LabError> {
    let rate = rig.sustainable().await? * LOAD;
    let mut judgement = rig.judgement("G15");
    let alone = storm::alone(rig, rate).await?;
    let client = rig.new_client(1).await?;
    let Some(built) = storm::beside(rig, rate, PATIENCE, async move { build(&client).await }).await? else {
        judgement.breaks(format!("the build had not ended after {} s", PATIENCE.as_secs()));
        return Ok(vec![judgement]);
    };
    storm::judge_others(&mut judgement, "during the build", &alone, &built);
    judgement.figure("time of the build", built.seconds, "s", Bound::Shown);
    if let Err(error) = &built.outcome {
        judgement.breaks(format!("the build failed: {error}"));
    }
    super::memory::judge_peak(rig, &mut judgement, "highest resident memory / budget, after the build");
    judgement.evidence("Others alone", &alone);
    for phase in built.beside.iter().take(2) {
        judgement.evidence("Others beside the build", phase);
    }
    drop_index(rig).await;
    if rig.is_own() {
        resume(rig, &mut judgement, &built).await?;
    } else {
        judgement.leaves_out("resuming after a kill: this server is not the test's own to kill");
    }
    Ok(vec![judgement])
}

pub(super) async fn build(client: &Client) -> Result<(), LabError> {
    let index = doc! { "key": { "state": 1 }, "name": INDEX };
    let command = doc! { "createIndexes": "working_set", "indexes": [index] };
    let built = client.database(DATABASE).run_command(command).await;
    built.map(drop).map_err(LabError::command("createIndexes"))
}

pub(super) async fn drop_index(rig: &Rig) {
    // It is not there when its build failed.
    let _ = rig.command(doc! { "dropIndexes": "working_set", "index": INDEX }).await;
}

/// Kills the server in the middle of a build and looks whether the build goes on by itself.
async fn resume(rig: &mut Rig, judgement: &mut Judgement, built: &Storm<Result<(), LabError>>) -> Result<(), LabError> {
    if !kill_during_build(rig, built.seconds).await? {
        judgement.leaves_out("resuming after a kill: the build was over before it could be killed");
        return Ok(());
    }
    let (restarted, patience) = (Instant::now(), Duration::from_secs_f64(built.seconds * 3.0 + 5.0));
    while restarted.elapsed() < patience {
        if has_index(rig).await? {
            let seconds = restarted.elapsed().as_secs_f64();
            judgement.figure("index complete after kill -9 and restart", seconds, "s", Bound::Shown);
            drop_index(rig).await;
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    judgement.breaks("a build that was under way at kill -9 does not go on after the restart: the index is not there");
    Ok(())
}

/// Begins a build, kills the server and starts it again; `false` when the build was always over before. Without clients beside it, it takes less time than it
/// took with them, nobody knows how much less: it is killed earlier when it was over.
async fn kill_during_build(rig: &mut Rig, seconds: f64) -> Result<bool, LabError> {
    let mut after = (seconds / 4.0).max(4.0 * KILLED_AFTER_MIN);
    while after > KILLED_AFTER_MIN {
        let client = rig.new_client(1).await?;
        let building = tokio::spawn(async move { build(&client).await });
        tokio::time::sleep(Duration::from_secs_f64(after)).await;
        if !building.is_finished() {
            rig.restart(Stop::Kill).await?;
            building.abort();
            return Ok(true);
        }
        drop_index(rig).await;
        after /= 2.0;
    }
    Ok(false)
}

async fn has_index(rig: &Rig) -> Result<bool, LabError> {
    let collection = rig.client.database(DATABASE).collection::<Document>("working_set");
    let names = collection.list_index_names().await.map_err(LabError::command("listIndexes"))?;
    Ok(names.iter().any(|name| name == INDEX))
}
