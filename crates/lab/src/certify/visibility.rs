//! G13: while 100,000 documents are inserted by one command, how long after it was sent is another's single insert seen by
//! others? A hole in the oplog would hide it, or hold its acknowledgement back, until the large command is through.

use std::time::{Duration, Instant};

use bson::{Bson, Document, doc};
use mongodb::options::{Acknowledgment, ReadConcern, WriteConcern};

use super::judgement::{Bound, Judgement};
use super::probe::Probe;
use super::rig::{DATABASE, FOREGROUND, Rig, only_phase};
use crate::error::LabError;

/// Documents of the one command; a small document each, so that all fit into one message.
const DOCUMENTS: u64 = 100_000;
const PAUSE: Duration = Duration::from_millis(20);
/// Of the sustainable rate.
const LOAD: f64 = 0.2;

pub(super) async fn judge(rig: &mut Rig) -> Result<Vec<Judgement>, LabError> {
    let rate = rig.sustainable().await? * LOAD;
    let mut judgement = rig.judgement("G13");
    let count = rig.scaled(DOCUMENTS).max(20_000);
    if count < DOCUMENTS {
        judgement.leaves_out(format!("insertMany of {count} documents in place of {DOCUMENTS}"));
    }
    let foreground = rig.plan_run(
        FOREGROUND,
        &[("documents", rig.documents.to_string()), ("rate", rate.to_string()), ("seconds", rig.seconds.to_string())],
    )?;
    let foreground = foreground.watched();
    let alone = start_probe(rig, "alone").await?;
    tokio::time::sleep(Duration::from_secs(2)).await;
    let alone = alone.finish().await?;
    let probe = start_probe(rig, "beside").await?;
    let (foreground, inserted) = tokio::join!(foreground.run(), insert_again_and_again(rig, count));
    let (record, foreground) = (probe.finish().await?, only_phase(foreground?)?);
    let inserted = inserted?;
    judgement
        .figure("from sent to seen by another client, longest", record.latency.maximum / 1e3, "ms", Bound::Below(100.0))
        .figure("p99", record.latency.p99 / 1e3, "ms", Bound::Shown)
        .figure("without load, longest", alone.latency.maximum / 1e3, "ms", Bound::Shown)
        .figure("single inserts watched", record.latency.count as f64, "", Bound::AtLeast(10.0))
        .figure("insertMany meanwhile", inserted.len() as f64, "", Bound::AtLeast(1.0))
        .figure("the longest of them", inserted.iter().fold(0.0, |longest, took| took.max(longest)), "s", Bound::Shown);
    if record.failed() > 0 {
        judgement.breaks(format!("single inserts failed: {}", record.last_failure.unwrap_or_default()));
    }
    judgement.evidence("Clients beside the large inserts", &foreground);
    Ok(vec![judgement])
}

/// Inserts by one command until a phase is over; gives how long each took.
async fn insert_again_and_again(rig: &Rig, count: u64) -> Result<Vec<f64>, LabError> {
    let collection = rig.client.database(DATABASE).collection::<Document>("many");
    collection.drop().await.map_err(LabError::command("drop"))?;
    let until = Instant::now() + Duration::from_secs_f64(rig.seconds * 0.9);
    let mut took = Vec::new();
    while Instant::now() < until {
        let documents =
            (0..count).map(|number| Bson::Document(doc! { "number": number as i64, "text": "x".repeat(60) }));
        let command = doc! { "insert": "many", "documents": documents.collect::<Vec<_>>() };
        let sent = Instant::now();
        rig.command(command).await?;
        took.push(sent.elapsed().as_secs_f64());
    }
    collection.drop().await.map_err(LabError::command("drop"))?;
    Ok(took)
}

/// One client inserts a document, another looks for it until it is there.
async fn start_probe(rig: &Rig, name: &'static str) -> Result<Probe, LabError> {
    let (writer, reader) = (rig.new_client(1).await?, rig.new_client(1).await?);
    let collection = writer.database(DATABASE).collection::<Document>("single");
    collection.drop().await.map_err(LabError::command("drop"))?;
    // Connects both before it counts.
    collection.insert_one(doc! { "_id": "first" }).await.map_err(LabError::command("insertOne"))?;
    let seen = reader.database(DATABASE).collection::<Document>("single");
    seen.find_one(doc! {}).await.map_err(LabError::command("findOne"))?;
    Ok(Probe::start(PAUSE, move |number| {
        let (collection, seen) = (collection.clone(), seen.clone());
        async move {
            let id = format!("{name} {number}");
            let insert = collection
                .insert_one(doc! { "_id": &id })
                .write_concern(WriteConcern::builder().w(Acknowledgment::Nodes(1)).build());
            insert.await.map_err(LabError::command("insertOne"))?;
            loop {
                let find = seen.find_one(doc! { "_id": &id }).read_concern(ReadConcern::local());
                if find.await.map_err(LabError::command("findOne"))?.is_some() {
                    return Ok(());
                }
            }
        }
    }))
}
