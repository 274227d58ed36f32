//! G10: a secondary stands still for a while under load, and the primary does not notice.

use std::time::Instant;

use bson::doc;
use mongodb::options::{Acknowledgment, WriteConcern};

use super::judgement::{Bound, Judgement};
use super::rig::{DATABASE, Rig};
use super::set_members::{Standing, StandsStill, process_of};
use super::storm::{self, SET_LOAD};
use crate::error::LabError;

/// Of the whole test, in seconds.
const AWAY: f64 = 3600.0;
/// Phases of clients while it is away.
const PHASES: usize = 4;

pub(super) async fn judge(set: &mut Rig) -> Result<Judgement, LabError> {
    let standing = Standing::of(&set.client).await?;
    let away = standing.secondaries().find_map(|address| process_of(address));
    let Some(away) = away else {
        return Ok(Judgement::not_judged("G10", "it needs a secondary on this machine, which is stopped for a while"));
    };
    let mut judgement = set.judgement("G10");
    let rate = set.sustainable().await? * SET_LOAD;
    let alone = storm::alone(set, rate).await?;
    let memory_before = set.process().map(|process| process.resident_bytes as f64);
    let Some(still) = StandsStill::begin(away) else {
        return Ok(Judgement::not_judged("G10", "the secondary's process may not be stopped by this user"));
    };
    let (began, mut phases) = (Instant::now(), Vec::new());
    for _ in 0..PHASES {
        phases.push(storm::foreground(set, rate).await?);
    }
    let seconds = began.elapsed().as_secs_f64();
    let memory = set.process().map(|process| process.resident_bytes as f64);
    drop(still);
    storm::judge_ratio(&mut judgement, "while a secondary stands still", &alone, &phases, 1.1);
    if let (Some(before), Some(after)) = (memory_before, memory) {
        judgement.figure("the primary's memory / before", after / before, "x", Bound::AtMost(1.1));
    } else {
        judgement.leaves_out("the primary's memory cannot be seen");
    }
    judgement.figure("the secondary was away for", seconds, "s", Bound::Shown);
    if seconds < AWAY {
        judgement.leaves_out(format!("{seconds:.0} s in place of an hour"));
    }
    // Acknowledged when all members have it.
    let back = Instant::now();
    let all = WriteConcern::builder().w(Acknowledgment::Nodes(standing.members.len() as u32)).build();
    let marks = set.client.database(DATABASE).collection("marks");
    let inserted = marks.insert_one(doc! { "of": "G10" }).write_concern(all).await;
    inserted.map_err(LabError::command("insertOne with w of all members"))?;
    judgement.figure("it has caught up after", back.elapsed().as_secs_f64(), "s", Bound::Shown);
    Ok(judgement)
}
