//! G18: a hundred thousand collections with three indexes each; the server is started again.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bson::doc;
use tokio::task::JoinSet;

use super::judgement::{Bound, Judgement};
use super::rig::{DATABASE, Rig};
use crate::error::LabError;
use crate::launch::Stop;

const COLLECTIONS: u64 = 100_000;
const CLIENTS: u32 = 8;
const MEGABYTE: f64 = 1_000_000.0;

pub(super) async fn judge(rig: &mut Rig) -> Result<Vec<Judgement>, LabError> {
    if !rig.is_own() {
        return Ok(vec![Judgement::not_judged("G18", "it needs a server that the test may start again")]);
    }
    let mut judgement = Judgement::of("G18");
    let count = rig.scaled(COLLECTIONS);
    if count < COLLECTIONS {
        judgement.leaves_out(format!("{count} collections in place of {COLLECTIONS}"));
    }
    // Only what is asked for is to be opened again, without what the server still has to do with what was dropped before.
    rig.restart(Stop::ForGood).await?;
    rig.forget_working_set();
    eprintln!("making {count} collections of three indexes");
    create(rig, count).await?;
    let took = rig.restart(Stop::Orderly).await?;
    judgement.figure("from the start to the first answer", took.as_secs_f64(), "s", Bound::Below(5.0)).figure(
        "collections",
        count as f64,
        "",
        Bound::Shown,
    );
    match rig.pid().and_then(|pid| fs::read_dir(format!("/proc/{pid}/fd")).ok()) {
        Some(descriptors) => {
            judgement.figure("descriptors", descriptors.count() as f64, "", Bound::Below(200.0));
        }
        None => {
            judgement.leaves_out("the server's descriptors cannot be seen");
        }
    }
    let resident = rig.process().map_or(f64::INFINITY, |process| process.resident_bytes as f64 / MEGABYTE);
    judgement.figure("resident memory after the start", resident, "MB", Bound::Below(300.0));
    match checkpoint_bytes(rig).await? {
        Some(bytes) => {
            let what = "written by a checkpoint after one insert";
            judgement.figure(what, bytes / MEGABYTE, "MB", Bound::Below(1.0));
        }
        None => {
            judgement.leaves_out("this server does not say what its checkpoints write");
        }
    }
    let killed = rig.restart(Stop::Kill).await?;
    judgement.figure("from the start after kill -9 to the first answer", killed.as_secs_f64(), "s", Bound::Below(5.0));
    Ok(vec![judgement])
}

async fn create(rig: &Rig, count: u64) -> Result<(), LabError> {
    let client = rig.new_client(CLIENTS).await?;
    let next = Arc::new(AtomicU64::new(0));
    let mut creators = JoinSet::new();
    for _ in 0..CLIENTS {
        let (database, next) = (client.database(DATABASE), Arc::clone(&next));
        creators.spawn(async move {
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= count {
                    return Ok(());
                }
                let indexes = [
                    doc! { "key": { "a": 1 }, "name": "a_1" },
                    doc! { "key": { "b": 1 }, "name": "b_1" },
                    doc! { "key": { "c": 1, "a": 1 }, "name": "c_1_a_1" },
                ];
                // Makes the collection as well.
                let command = doc! { "createIndexes": format!("collection_{number}"), "indexes": indexes.to_vec() };
                database.run_command(command).await.map_err(LabError::command("createIndexes"))?;
            }
        });
    }
    while let Some(created) = creators.join_next().await {
        created.map_err(|error| LabError::Worker(error.to_string()))??;
    }
    Ok(())
}

/// What a checkpoint writes when one document is new.
async fn checkpoint_bytes(rig: &Rig) -> Result<Option<f64>, LabError> {
    rig.admin(doc! { "fsync": 1 }).await?;
    let before = written(rig).await;
    rig.command(doc! { "insert": "collection_0", "documents": [{ "a": 1 }] }).await?;
    rig.admin(doc! { "fsync": 1 }).await?;
    Ok(written(rig).await.zip(before).map(|(after, before)| after - before))
}

async fn written(rig: &Rig) -> Option<f64> {
    let pages = rig.number("plimsoll.pageStore.bytesWritten").await?;
    Some(pages + rig.number("plimsoll.pageStore.tableBytesWritten").await?)
}
