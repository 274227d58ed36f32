//! G14: the server's resident memory with a full cache, thousands of connections, a large sort and an index build, and in a control group.

use std::time::Duration;

use bson::doc;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::index_build;
use super::judgement::{Bound, Judgement};
use super::memory_group;
use super::raw_client::RawClient;
use super::rig::Rig;
use crate::error::LabError;

const CONNECTIONS: u64 = 10_000;
const SORTED_BYTES: u64 = 1 << 30;
const DOCUMENT_BYTES: u64 = 1000;
/// Descriptors of this program beside the connections.
const DESCRIPTORS_KEPT: u64 = 200;
const ANSWER_WITHIN: Duration = Duration::from_secs(20);

pub(super) async fn judge(rig: &mut Rig) -> Result<Vec<Judgement>, LabError> {
    if rig.memory_bytes.is_none() || rig.process().is_none() {
        let because =
            "what the server may use is not known (--memory-mib says it), or its process is not on this machine";
        return Ok(vec![Judgement::not_judged("G14", because)]);
    }
    let mut judgement = rig.judgement("G14");
    rig.sustainable().await?;
    judge_peak(rig, &mut judgement, "highest resident memory / budget, cache full");
    connections(rig, &mut judgement).await?;
    judge_peak(rig, &mut judgement, "after the connections");
    sort(rig, &mut judgement).await?;
    judge_peak(rig, &mut judgement, "after the sort");
    let client = rig.new_client(1).await?;
    if let Err(error) = index_build::build(&client).await {
        judgement.breaks(format!("the index could not be built: {error}"));
    }
    index_build::drop_index(rig).await;
    judge_peak(rig, &mut judgement, "after the index build");
    let budget = rig.memory_bytes.unwrap_or(0.0) / 1_048_576.0;
    judgement.figure("budget", budget, "MiB", Bound::Shown);
    memory_group::judge(rig, &mut judgement).await?;
    Ok(vec![judgement])
}

/// Judges the highest resident memory since the server started.
pub(super) fn judge_peak(rig: &Rig, judgement: &mut Judgement, what: &str) {
    match (rig.memory_bytes, rig.process()) {
        (Some(budget), Some(process)) => {
            judgement.figure(what, process.resident_peak_bytes as f64 / budget, "x", Bound::AtMost(1.1));
        }
        _ => {
            judgement.leaves_out("memory: what the server may use is not known, or its process is elsewhere");
        }
    }
}

/// Opens connections that each say hello, and keeps them all.
async fn connections(rig: &Rig, judgement: &mut Judgement) -> Result<(), LabError> {
    let wanted = rig.scaled(CONNECTIONS);
    let possible = descriptors().saturating_sub(DESCRIPTORS_KEPT);
    let count = wanted.min(possible);
    if count < CONNECTIONS {
        judgement.leaves_out(format!("{count} connections in place of {CONNECTIONS}"));
    }
    let address = rig.description.addresses.split(',').next().unwrap_or_default().to_owned();
    let mut open = Vec::new();
    for _ in 0..count {
        match tokio::time::timeout(ANSWER_WITHIN, RawClient::connect(&address)).await {
            Ok(Ok(client)) => open.push(client),
            Ok(Err(error)) => {
                judgement.breaks(format!("connection {} failed: {error}", open.len() + 1));
                break;
            }
            Err(_) => {
                judgement.breaks(format!("connection {} was not answered", open.len() + 1));
                break;
            }
        }
    }
    judgement.figure("connections at once", open.len() as f64, "", Bound::AtLeast(count as f64));
    rig.admin(doc! { "ping": 1 }).await.map(drop)
}

/// How many descriptors this program may have, after asking for as many as there are.
fn descriptors() -> u64 {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    let current = if setrlimit(Resource::Nofile, raised).is_ok() { raised.current } else { limit.current };
    current.unwrap_or(u64::MAX)
}

/// Sorts a large part of the working set by a field without an index.
async fn sort(rig: &Rig, judgement: &mut Judgement) -> Result<(), LabError> {
    let documents = (rig.scaled(SORTED_BYTES) / DOCUMENT_BYTES).min(rig.documents);
    if documents * DOCUMENT_BYTES < SORTED_BYTES / 10 * 9 {
        judgement.leaves_out(format!("a sort of {} MB in place of 1 GB", documents * DOCUMENT_BYTES / 1_000_000));
    }
    let sorted = rig
        .command(doc! {
            "aggregate": "working_set",
            "pipeline": [
                { "$limit": documents as i64 }, { "$sort": { "state": 1 } },
                { "$group": { "_id": null, "documents": { "$sum": 1 } } },
            ],
            "allowDiskUse": true, "cursor": {},
        })
        .await;
    if let Err(error) = sorted {
        judgement.breaks(format!("the sort failed: {error}"));
    }
    Ok(())
}
