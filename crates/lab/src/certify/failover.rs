//! G29: a primary dies, and hands the lead over: writes go on within seconds, and nothing that was acknowledged is lost.
//!
//! A client inserts one document after the other, each again until it is acknowledged or there already. What is looked at is the
//! longest time without an acknowledgement.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use bson::{Document, doc};
use mongodb::Collection;
use tokio::sync::watch;

use super::judgement::{Bound, Judgement};
use super::rig::{DATABASE, Rig};
use super::set_members::{SetMembers, Standing, StandsStill, process_of};
use crate::error::LabError;

/// Writes again after this, in seconds.
const AFTER_DEATH: f64 = 8.0;
const AFTER_STEP_DOWN: f64 = 1.0;
/// Deaths of the whole test.
const ROUNDS: u64 = 10;
/// An insert that takes longer is tried again.
const ANSWER_WITHIN: Duration = Duration::from_millis(1500);
const BETWEEN_INSERTS: Duration = Duration::from_millis(5);
/// How long it is looked before anything happens, and after all is well again.
const CALM: Duration = Duration::from_secs(2);
/// By then writes must go on.
const PATIENCE: Duration = Duration::from_secs(60);
/// How long one that gave the lead up does not want it.
const STEP_DOWN_SECONDS: i32 = 20;

pub(super) async fn judge(set: &mut Rig, members: &mut SetMembers) -> Result<Judgement, LabError> {
    let mut judgement = set.judgement("G29");
    let rounds = set.scaled(ROUNDS);
    if rounds < ROUNDS {
        judgement.leaves_out(format!("{rounds} deaths in place of {ROUNDS}"));
    }
    let collection = set.new_client(4).await?.database(DATABASE).collection::<Document>("acknowledged");
    collection.drop().await.map_err(LabError::command("drop"))?;
    let mut pulse = Pulse { collection, next: 0 };
    let (mut longest, mut died) = (0.0_f64, 0);
    for _ in 0..rounds {
        let Some(pause) = one_death(set, members, &mut pulse).await? else { break };
        (longest, died) = (longest.max(pause), died + 1);
    }
    match died {
        0 => {
            judgement.leaves_out("no primary could be stopped: it does not run on this machine");
        }
        _ => {
            let what = "writes again after the primary's death, at the longest";
            judgement.figure(what, longest, "s", Bound::AtMost(AFTER_DEATH));
        }
    }
    let pause = step_down(set, &mut pulse).await?;
    judgement.figure("writes again after a step-down", pause, "s", Bound::AtMost(AFTER_STEP_DOWN));
    let stored = pulse.collection.count_documents(doc! {}).await.map_err(LabError::command("count"))?;
    let lost = pulse.next.saturating_sub(stored as i64);
    judgement.figure("acknowledged inserts that are lost", lost as f64, "", Bound::AtMost(0.0)).figure(
        "acknowledged inserts",
        pulse.next as f64,
        "",
        Bound::Shown,
    );
    Ok(judgement)
}

/// The longest pause around the death of a primary, in seconds; `None` if it cannot be brought about.
async fn one_death(set: &Rig, members: &mut SetMembers, pulse: &mut Pulse) -> Result<Option<f64>, LabError> {
    let count = Standing::of(&set.client).await?.members.len();
    let Some(primary) = Standing::wait_for(&set.client, count).await?.primary else { return Ok(None) };
    let beating = pulse.begin();
    tokio::time::sleep(CALM).await;
    let mut still = None;
    if members.kill(&primary).is_none() {
        still = process_of(&primary).and_then(StandsStill::begin);
        if still.is_none() {
            pulse.end(beating).await?;
            return Ok(None);
        }
    }
    beating.wait_until_it_goes_on().await;
    let pause = pulse.end(beating).await?;
    drop(still);
    members.start_again(&primary).await?;
    Standing::wait_for(&set.client, count).await?;
    Ok(Some(pause))
}

async fn step_down(set: &Rig, pulse: &mut Pulse) -> Result<f64, LabError> {
    let beating = pulse.begin();
    tokio::time::sleep(CALM).await;
    let command = doc! { "replSetStepDown": STEP_DOWN_SECONDS, "secondaryCatchUpPeriodSecs": STEP_DOWN_SECONDS / 2 };
    // Servers that close all connections then do not answer it.
    let _ = set.admin(command).await;
    beating.wait_until_it_goes_on().await;
    pulse.end(beating).await
}

/// The client.
struct Pulse {
    collection: Collection<Document>,
    /// So many are acknowledged.
    next: i64,
}

/// A client at work.
struct Beating {
    is_over: Arc<AtomicBool>,
    last: watch::Receiver<Instant>,
    task: tokio::task::JoinHandle<Vec<Instant>>,
}

impl Pulse {
    fn begin(&self) -> Beating {
        let is_over = Arc::<AtomicBool>::default();
        let (tell, last) = watch::channel(Instant::now());
        let work = insert_on(self.collection.clone(), self.next, is_over.clone(), tell);
        Beating { is_over, last, task: tokio::spawn(work) }
    }

    /// The longest time without an acknowledgement, in seconds.
    async fn end(&mut self, beating: Beating) -> Result<f64, LabError> {
        beating.is_over.store(true, Ordering::Release);
        let at = beating.task.await.map_err(|error| LabError::Worker(error.to_string()))?;
        self.next += at.len() as i64;
        let pauses = at.windows(2).map(|pair| (pair[1] - pair[0]).as_secs_f64());
        Ok(if at.len() < 2 { f64::INFINITY } else { pauses.fold(0.0, f64::max) })
    }
}

impl Beating {
    /// Waits until nothing has stood still for a while, or patience is over.
    async fn wait_until_it_goes_on(&self) {
        let (began, mut calm_since) = (Instant::now(), Instant::now());
        // What happens is not noticed at once.
        while calm_since.elapsed() < CALM * 2 && began.elapsed() < PATIENCE {
            if self.last.borrow().elapsed() > CALM / 4 {
                calm_since = Instant::now();
            }
            tokio::time::sleep(BETWEEN_INSERTS).await;
        }
    }
}

async fn insert_on(
    collection: Collection<Document>,
    from: i64,
    is_over: Arc<AtomicBool>,
    tell: watch::Sender<Instant>,
) -> Vec<Instant> {
    const DUPLICATE_KEY: i32 = 11000;
    let mut acknowledged = Vec::new();
    for number in from.. {
        loop {
            let inserted = tokio::time::timeout(ANSWER_WITHIN, async {
                collection.insert_one(doc! { "_id": number }).await.map_err(LabError::command("insertOne"))
            });
            match inserted.await {
                Ok(Ok(_)) => break,
                Ok(Err(error)) if super::rig::error_code(&error) == Some(DUPLICATE_KEY) => break,
                _ if is_over.load(Ordering::Acquire) => return acknowledged,
                _ => tokio::time::sleep(BETWEEN_INSERTS).await,
            }
        }
        acknowledged.push(Instant::now());
        tell.send_replace(Instant::now());
        if is_over.load(Ordering::Acquire) {
            break;
        }
        tokio::time::sleep(BETWEEN_INSERTS).await;
    }
    acknowledged
}
