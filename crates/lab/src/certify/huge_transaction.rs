//! G7: a transaction far larger than the cache, beside clients whose p99 must not feel it. It commits, or fails once and says
//! that it is too large.

use std::time::Duration;

use bson::{Document, doc};
use mongodb::error::Error as DriverError;

use super::judgement::{Bound, Judgement};
use super::rig::{DATABASE, Rig, error_name};
use super::storm::{self, LOAD};
use crate::error::LabError;

/// Of the full test.
const BYTES: u64 = 10 << 30;
const DOCUMENT_BYTES: usize = 4000;
const BATCH: u64 = 500;
const TOO_LARGE: &str = "TransactionTooLargeForCache";
/// How long the others may have to wait for its end.
const PATIENCE: Duration = Duration::from_secs(3600);

pub(super) async fn judge(rig: &mut Rig) -> Result<Vec<Judgement>, LabError> {
    let rate = rig.sustainable().await? * LOAD;
    let bytes = rig.scaled(BYTES);
    let mut judgement = rig.judgement("G7");
    let collection = rig.client.database(DATABASE).collection::<Document>("huge");
    collection.drop().await.map_err(LabError::command("drop"))?;
    rig.command(doc! { "create": "huge" }).await?;
    if let Err(error) = small_transaction(rig).await {
        judgement.breaks(format!("not supported by this server: a transaction of one document fails: {error}"));
        return Ok(vec![judgement]);
    }
    // A server without this parameter has no such limit.
    let _ = rig.admin(doc! { "setParameter": 1, "transactionLifetimeLimitSeconds": 3600 }).await;
    let alone = storm::alone(rig, rate).await?;
    let client = rig.new_client(2).await?;
    let storm = storm::beside(rig, rate, PATIENCE, async move { insert_all(&client, bytes).await }).await?;
    let Some(storm) = storm else {
        judgement.breaks(format!("the transaction had not ended after {} s", PATIENCE.as_secs()));
        return Ok(vec![judgement]);
    };
    match &storm.outcome {
        Ok(()) => {
            judgement.figure("it committed after", storm.seconds, "s", Bound::Shown);
        }
        Err(error) if error_name(error) == Some(TOO_LARGE) => {
            judgement.remark("It failed once, with TransactionTooLargeForCache.");
        }
        Err(error) => {
            judgement.breaks(format!("the transaction failed: {error}"));
        }
    }
    storm::judge_others(&mut judgement, "beside it", &alone, &storm);
    judgement.figure("size of the transaction", bytes as f64 / 1_048_576.0, "MiB", Bound::Shown);
    if bytes < BYTES {
        judgement.leaves_out(format!("a transaction of {} MiB in place of 10 GiB", bytes >> 20));
    }
    judgement.evidence("Others alone", &alone);
    for phase in storm.beside.iter().take(2) {
        judgement.evidence("Others beside the transaction", phase);
    }
    collection.drop().await.map_err(LabError::command("drop"))?;
    Ok(vec![judgement])
}

/// Whether the server has transactions at all.
async fn small_transaction(rig: &Rig) -> Result<(), LabError> {
    let client = rig.new_client(1).await?;
    let failed = |what: &'static str| move |error: DriverError| LabError::command(what)(error);
    let mut session = client.start_session().await.map_err(failed("startSession"))?;
    session.start_transaction().await.map_err(failed("startTransaction"))?;
    let collection = client.database(DATABASE).collection::<Document>("huge");
    collection.insert_one(doc! { "small": true }).session(&mut session).await.map_err(failed("insert"))?;
    session.commit_transaction().await.map_err(failed("commitTransaction"))
}

async fn insert_all(client: &mongodb::Client, bytes: u64) -> Result<(), LabError> {
    let mut session = client.start_session().await.map_err(LabError::command("startSession"))?;
    session.start_transaction().await.map_err(LabError::command("startTransaction"))?;
    let collection = client.database(DATABASE).collection::<Document>("huge");
    let text = "y".repeat(DOCUMENT_BYTES);
    for batch in 0..bytes / (BATCH * DOCUMENT_BYTES as u64) {
        let documents = (0..BATCH).map(|number| doc! { "batch": batch as i64, "number": number as i64, "text": &text });
        let documents: Vec<Document> = documents.collect();
        let inserted = collection.insert_many(documents).session(&mut session).await;
        inserted.map_err(LabError::command("insertMany in the transaction"))?;
    }
    session.commit_transaction().await.map_err(LabError::command("commitTransaction"))
}
