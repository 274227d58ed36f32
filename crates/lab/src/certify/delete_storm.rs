//! G16: many documents are deleted at once, and many more expire at once, beside clients. G17: nine tenths of the working set
//! are deleted, and the files must shrink by themselves while clients work.

use std::time::{Duration, Instant};

use bson::{DateTime, Document, doc};
use mongodb::Client;
use tokio::sync::oneshot;

use super::judgement::{Bound, Judgement};
use super::rig::{DATABASE, Rig, number_of, only_phase};
use super::statistic::median;
use super::storm::{self, LOAD, foreground};
use crate::error::LabError;
use crate::result::PhaseResult;
use crate::server_counters::ServerStatus;

const VICTIMS: &str = include_str!("../../scenarios/certify/victims.yaml");
const EXPIRED: &str = include_str!("../../scenarios/certify/expired.yaml");
/// Of the working set's documents: so many are deleted, and so many expire.
const SHARE: u64 = 5;
/// Within this lookups must be as before.
const BACK_WITHIN: f64 = 60.0;
/// What counts as before: p99 by p99.
const AS_BEFORE: f64 = 1.25;
/// A TTL monitor wakes once a minute.
const TTL_PATIENCE: Duration = Duration::from_secs(300);
/// In seconds: space may take some minutes to return, however short the phases are.
const MINUTES: f64 = 180.0;
const PATIENCE: Duration = Duration::from_secs(600);
/// What is dropped goes by more than a hundredth of all in this time.
const SETTLING_PAUSE: Duration = Duration::from_secs(5);
/// Between two looks at the size of the files.
const LOOK_PAUSE: Duration = Duration::from_secs(2);

pub(super) async fn judge(rig: &mut Rig, wanted: &[&str]) -> Result<Vec<Judgement>, LabError> {
    let rate = rig.sustainable().await? * LOAD;
    let mut judgements = Vec::new();
    if wanted.contains(&"G16") {
        judgements.push(storms(rig, rate).await?);
    }
    if wanted.contains(&"G17") {
        judgements.push(space(rig, rate).await?);
        rig.forget_working_set();
    }
    Ok(judgements)
}

/// Deletes all that match with one command; how many.
async fn delete(client: &Client, collection: &str, filter: Document) -> Result<f64, LabError> {
    let command = doc! { "delete": collection, "deletes": [{ "q": filter, "limit": 0 }] };
    let reply = client.database(DATABASE).run_command(command).await.map_err(LabError::command("delete"))?;
    match reply.get("writeErrors") {
        Some(errors) => Err(LabError::WrongReply(format!("delete: {errors}"))),
        None => Ok(number_of(&reply, "n").unwrap_or(0.0)),
    }
}

async fn storms(rig: &mut Rig, rate: f64) -> Result<Judgement, LabError> {
    let mut judgement = rig.judgement("G16");
    let documents = (rig.documents / SHARE).max(1000);
    only_phase(rig.run(VICTIMS, &[("documents", documents.to_string())]).await?)?;
    only_phase(rig.run(EXPIRED, &[("documents", documents.to_string())]).await?)?;
    let alone = storm::alone(rig, rate).await?;
    judgement.evidence("Others alone", &alone);
    let client = rig.new_client(1).await?;
    let deletion = async move { delete(&client, "victims", doc! {}).await };
    let Some(deleted) = storm::beside(rig, rate, PATIENCE, deletion).await? else {
        judgement.breaks(format!("the deletion had not ended after {} s", PATIENCE.as_secs()));
        return Ok(judgement);
    };
    let count = match &deleted.outcome {
        Ok(count) => *count,
        Err(error) => {
            judgement.breaks(format!("the deletion failed: {error}"));
            return Ok(judgement);
        }
    };
    storm::judge_others(&mut judgement, "during the deletion", &alone, &deleted);
    judgement.figure("documents deleted by one command", count, "", Bound::AtLeast(documents as f64)).figure(
        "time of the deletion",
        deleted.seconds,
        "s",
        Bound::Shown,
    );
    for phase in deleted.beside.iter().take(2) {
        judgement.evidence("Others beside the deletion", phase);
    }
    let (storm_over, mut after) = (Instant::now(), Vec::new());
    let back = loop {
        let back = storm::back_after(&alone, &deleted, &after, rig.seconds / 2.0, AS_BEFORE);
        if back.is_finite() || storm_over.elapsed().as_secs_f64() > BACK_WITHIN + rig.seconds / 2.0 {
            break back;
        }
        after.push(foreground(rig, rate).await?);
    };
    judgement.figure("p99 back within 1.25 x after", back, "s", Bound::AtMost(BACK_WITHIN));
    expire(rig, rate, &alone, documents, &mut judgement).await?;
    Ok(judgement)
}

/// Makes a TTL index over documents that have expired long ago and over dates at the edges of what there is.
async fn expire(
    rig: &mut Rig,
    rate: f64,
    alone: &PhaseResult,
    documents: u64,
    judgement: &mut Judgement,
) -> Result<(), LabError> {
    let date = |milliseconds: i64| DateTime::from_millis(milliseconds);
    let edges = [
        ("1900", date(-2_208_988_800_000), true),
        ("1969", date(-1), true),
        ("2038 and later", date(2_147_483_648_000), false),
        ("2262 and later", date(9_300_000_000_000), false),
        ("9999", date(253_402_300_799_000), false),
    ];
    let collection = rig.client.database(DATABASE).collection::<Document>("expiring");
    for (name, expires, _) in &edges {
        let inserted = collection.insert_one(doc! { "_id": *name, "expires": *expires }).await;
        inserted.map_err(LabError::command("insertOne"))?;
    }
    let index = doc! { "key": { "expires": 1 }, "name": "expires_1", "expireAfterSeconds": 0 };
    rig.command(doc! { "createIndexes": "expiring", "indexes": [index] }).await?;
    let watched = rig.new_client(1).await?.database(DATABASE).collection::<Document>("expiring");
    let stay = edges.iter().filter(|(_, _, has_expired)| !has_expired).count() as u64;
    let expiry = async move {
        let mut began = None;
        loop {
            // Of the collection's statistics: to count them one by one would be a storm itself.
            let left = watched.estimated_document_count().await.unwrap_or(u64::MAX).saturating_sub(stay);
            if left < documents {
                began.get_or_insert_with(Instant::now);
            }
            if left == 0 {
                return began.map_or(0.0, |began| began.elapsed().as_secs_f64());
            }
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
    };
    let Some(storm) = storm::beside(rig, rate, TTL_PATIENCE, expiry).await? else {
        judgement.breaks(format!("what had expired was still there after {} s", TTL_PATIENCE.as_secs()));
        return Ok(());
    };
    storm::judge_others(judgement, "until all had expired", alone, &storm);
    judgement.figure("documents that expired", documents as f64, "", Bound::Shown).figure(
        "from the first of them gone to the last",
        storm.outcome,
        "s",
        Bound::Shown,
    );
    if let Some(last) = storm.beside.last() {
        judgement.evidence("Others while documents expire", last);
    }
    for (name, _, has_expired) in &edges {
        let found = collection.find_one(doc! { "_id": *name }).await.map_err(LabError::command("findOne"))?;
        if found.is_some() == *has_expired {
            judgement.breaks(format!(
                "a document that expires in {name} {}",
                if *has_expired { "is still there" } else { "is gone" }
            ));
        }
    }
    let status = ServerStatus::fetch(&rig.client).await?;
    if !status.numbers.keys().any(|path| path.to_lowercase().contains("ttl") && path.to_lowercase().contains("lag")) {
        judgement.breaks("serverStatus has no figure for how far TTL deletion lags behind");
    }
    Ok(())
}

/// Bytes of the files, and of what in them is in use where the server says so.
async fn bytes(client: &Client) -> Result<(f64, Option<f64>), LabError> {
    let status = ServerStatus::fetch(client).await?;
    let number = |path: &str| status.numbers.get(path).copied();
    if let Some(backed) = number("plimsoll.pageStore.backedBytes") {
        return Ok((backed, number("plimsoll.pageStore.liveBytes")));
    }
    let stats =
        client.database(DATABASE).run_command(doc! { "dbStats": 1 }).await.map_err(LabError::command("dbStats"))?;
    let part = |name: &str| number_of(&stats, name);
    let total = part("totalSize").or_else(|| Some(part("storageSize")? + part("indexSize")?));
    total.map(|total| (total, None)).ok_or_else(|| LabError::WrongReply("dbStats says no size".to_owned()))
}

/// Bytes of the files and those in use, once what was dropped before is no longer among them.
async fn settled_bytes(rig: &Rig) -> Result<(f64, f64), LabError> {
    let (started, mut last) = (Instant::now(), f64::INFINITY);
    loop {
        // A server that has no fsync settles by itself.
        let _ = rig.admin(doc! { "fsync": 1 }).await;
        let (files, in_use) = bytes(&rig.client).await?;
        let now = in_use.unwrap_or(files);
        if now > last * 0.99 || started.elapsed() > PATIENCE {
            return Ok((files, now));
        }
        last = now;
        tokio::time::sleep(SETTLING_PAUSE).await;
    }
}

/// Clients for a while, and the median of the size of the files meanwhile: they grow from one checkpoint to the next, so one look says little.
async fn foreground_and_size(rig: &mut Rig, rate: f64) -> Result<(PhaseResult, f64), LabError> {
    let client = rig.new_client(1).await?;
    let (end, mut ended) = oneshot::channel::<()>();
    let looking = tokio::spawn(async move {
        let mut sizes = Vec::new();
        loop {
            sizes.push(bytes(&client).await?.0);
            tokio::select! {
                _ = &mut ended => return Ok::<_, LabError>(sizes),
                () = tokio::time::sleep(LOOK_PAUSE) => {}
            }
        }
    });
    let phase = foreground(rig, rate).await?;
    drop(end);
    let sizes = looking.await.map_err(|error| LabError::Worker(error.to_string()))??;
    Ok((phase, median(sizes.into_iter())))
}

async fn space(rig: &mut Rig, rate: f64) -> Result<Judgement, LabError> {
    let mut judgement = rig.judgement("G17");
    let (before, in_use) = settled_bytes(rig).await?;
    let live = in_use / 10.0;
    let client = rig.new_client(1).await?;
    let nine_of_ten = doc! { "_id": { "$not": { "$mod": [10, 0] } } };
    let deletion = async move { delete(&client, "working_set", nine_of_ten).await };
    let Some(deleted) = storm::beside(rig, rate, PATIENCE, deletion).await? else {
        judgement.breaks(format!("the deletion had not ended after {} s", PATIENCE.as_secs()));
        return Ok(judgement);
    };
    if let Err(error) = &deleted.outcome {
        judgement.breaks(format!("the deletion failed: {error}"));
        return Ok(judgement);
    }
    let started = Instant::now();
    let (mut now, mut took) = (before, f64::INFINITY);
    while started.elapsed() < Duration::from_secs_f64((rig.seconds * 5.0).max(MINUTES)) {
        let (phase, size) = foreground_and_size(rig, rate).await?;
        now = size;
        if now <= live * 1.2 {
            took = started.elapsed().as_secs_f64();
            judgement.evidence("Others while space returns", &phase);
            break;
        }
    }
    judgement
        .figure(
            "file (median of a phase) / a tenth of what was in use before",
            now / live.max(1.0),
            "x",
            Bound::AtMost(1.2),
        )
        .figure("after", took.min(started.elapsed().as_secs_f64()), "s", Bound::Shown)
        .figure("file before the deletion", before / 1_048_576.0, "MiB", Bound::Shown)
        .figure("file after it", now / 1_048_576.0, "MiB", Bound::Shown)
        .figure("time of the deletion", deleted.seconds, "s", Bound::Shown);
    for phase in deleted.beside.iter().take(1) {
        judgement.evidence("Others beside the deletion", phase);
    }
    Ok(judgement)
}
