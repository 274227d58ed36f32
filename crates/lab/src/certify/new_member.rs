//! G12: a member without any data joins a set under load, and has caught up in little more than copying takes.

use std::time::{Duration, Instant};

use bson::doc;

use super::judgement::{Bound, Judgement};
use super::rig::Rig;
use super::set_members::{SetMembers, Standing};
use super::storm::{self, SET_LOAD};
use crate::error::LabError;

/// In this time a member must be there.
const PATIENCE: Duration = Duration::from_secs(3600);
const LOOK_PAUSE: Duration = Duration::from_millis(100);

pub(super) async fn judge(set: &mut Rig, members: &mut SetMembers) -> Result<Judgement, LabError> {
    let Some(start) = members.start_options().cloned() else {
        return Ok(Judgement::not_judged("G12", "it needs a set to which the test may add a member"));
    };
    let mut judgement = set.judgement("G12");
    let rate = set.sustainable().await? * SET_LOAD;
    let copying = copy(set).await?;
    let alone = storm::alone(set, rate).await?;
    let before = Standing::of(&set.client).await?.members.len();
    let client = set.new_client(1).await?;
    let joining = async move {
        let member = start.start(before + 1).await?;
        while Standing::of(&client).await?.members.len() <= before {
            tokio::time::sleep(LOOK_PAUSE).await;
        }
        Ok::<_, LabError>(member)
    };
    let Some(storm) = storm::beside(set, rate, PATIENCE, joining).await? else {
        judgement.breaks(format!("the member had not caught up after {} s", PATIENCE.as_secs()));
        return Ok(judgement);
    };
    match storm.outcome {
        Ok(member) => members.add(member),
        Err(error) => {
            judgement.breaks(format!("the member did not join: {error}"));
            return Ok(judgement);
        }
    }
    storm::judge_ratio(&mut judgement, "while a member joins", &alone, &storm.beside, 1.1);
    judgement
        .figure("until the member was listed / a copy's time", storm.seconds / copying, "x", Bound::AtMost(1.3))
        .figure("until the member was listed", storm.seconds, "s", Bound::Shown)
        .figure("a copy of the data takes", copying, "s", Bound::Shown);
    Ok(judgement)
}

/// How long a copy takes, in seconds: a full backup of the server, with nothing beside it.
async fn copy(set: &Rig) -> Result<f64, LabError> {
    let place = set.scratch("copy");
    std::fs::create_dir_all(&place).map_err(LabError::output(&place))?;
    let place = std::fs::canonicalize(&place).map_err(LabError::output(&place))?;
    let began = Instant::now();
    set.admin(doc! { "plimsollBackup": 1, "to": format!("file://{}", place.display()) }).await?;
    let seconds = began.elapsed().as_secs_f64();
    std::fs::remove_dir_all(&place).map_err(LabError::output(&place))?;
    Ok(seconds)
}
