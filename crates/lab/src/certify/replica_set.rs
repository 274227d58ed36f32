//! The tests of replica sets, which share a set and its data: G10, G12 and G29.

use super::judgement::Judgement;
use super::rig::Rig;
use super::set_members::{SetMembers, Standing};
use super::{failover, new_member, slow_member};
use crate::error::LabError;

pub(super) async fn judge(rig: &Rig, numbers: &[&'static str]) -> Result<Vec<Judgement>, LabError> {
    let mut members = match SetMembers::of(rig).await? {
        Ok(members) => members,
        Err(missing) => return Ok(numbers.iter().map(|number| Judgement::not_judged(number, &missing)).collect()),
    };
    let mut set = rig.of_set(&members.uri).await?;
    if rig.is_own() {
        Standing::wait_for(&set.client, 3).await?;
    }
    let mut judgements = Vec::new();
    if numbers.contains(&"G10") {
        judgements.push(slow_member::judge(&mut set).await?);
    }
    if numbers.contains(&"G12") {
        judgements.push(new_member::judge(&mut set, &mut members).await?);
    }
    if numbers.contains(&"G29") {
        judgements.push(failover::judge(&mut set, &mut members).await?);
    }
    set.clean_up().await?;
    Ok(judgements)
}
