//! `replSetStepDown`: the primary gives up the lead, once everything is in the shared log, and names the member that is to take it.
//!
//! Without a shared log nobody could take the place of the only member, and it is refused with that reason.

use std::time::Duration;

use crate::DocumentWriter;
use crate::handlers::command::Command;
use crate::request::arguments::{Arguments, Field};
use crate::request::declaration::{Declaration, Needs};
use crate::request::error::{CommandError, Result};
use crate::request::privileges::{Action, on_cluster};
use crate::state::replica_set::ReplicaSet;
use crate::state::replica_set::members::{StepDown, StepDownRefused};

/// How long a primary waits for others to catch up, if nothing else is said.
const CATCH_UP_SECONDS: i64 = 10;
/// The same when it is forced.
const CATCH_UP_SECONDS_FORCED: i64 = 0;

pub(crate) static COMMAND: Command = Command::new(
    |context, arguments, reply| run(&context.server.replica_set, arguments, reply),
    Declaration {
        is_admin_only: true,
        ..Declaration::new(
            "replSetStepDown",
            "Has the primary of a set with a shared log give up the lead to a member that has caught up.",
            Needs::Nothing,
            &[on_cluster(Action::ReplSetStateChange)],
        )
    },
);

/// Runs the command.
pub(crate) fn run(
    replica_set: &ReplicaSet,
    mut arguments: Arguments<'_>,
    _reply: &mut DocumentWriter<'_>,
) -> Result<()> {
    replica_set.initiated()?;
    let target = arguments.target().ok_or_else(|| CommandError::bad_value("an empty command"))?;
    let (mut is_forced, mut catch_up) = (false, None);
    for field in arguments.fields() {
        match field.name() {
            "force" => is_forced = field.boolean()?,
            "secondaryCatchUpPeriodSecs" => catch_up = field.integer()?,
            _ => arguments.generic(field)?,
        }
    }
    let target_seconds = target.required(Field::integer)?;
    let catch_up = catch_up.unwrap_or(if is_forced { CATCH_UP_SECONDS_FORCED } else { CATCH_UP_SECONDS });
    if target_seconds < 0 {
        return Err(CommandError::bad_value("stepdown period must be a positive integer"));
    }
    if catch_up < 0 {
        return Err(CommandError::bad_value("secondaryCatchUpPeriodSecs period must be a positive or absent"));
    }
    if target_seconds < catch_up {
        return Err(CommandError::bad_value("stepdown period must be longer than secondaryCatchUpPeriodSecs"));
    }
    if let Some(members) = replica_set.members() {
        let seconds = |seconds: i64| Duration::from_secs(seconds.unsigned_abs());
        let how = StepDown { longest: seconds(target_seconds), patience: seconds(catch_up), is_forced };
        return members.step_down(&how).map_err(refused);
    }
    if is_forced {
        let message = "stepping down by force: this is the only member of its replica set, and nobody could write until it is the primary again, which";
        return Err(CommandError::not_implemented(message));
    }
    let message = "No electable secondaries caught up: this is the only member of its replica set, and nobody could take its place";
    Err(CommandError::named("ExceededTimeLimit", message))
}

fn refused(why: StepDownRefused) -> CommandError {
    match why {
        StepDownRefused::NotPrimary => CommandError::named("NotWritablePrimary", "not primary so can't step down"),
        StepDownRefused::NobodyElse => {
            let message =
                "No electable secondaries caught up: no other member is there that has what this one has confirmed";
            CommandError::named("ExceededTimeLimit", message)
        }
        StepDownRefused::StillWriting => {
            let message = "a commit that has begun takes longer than a step-down waits for it; try again";
            CommandError::named("LockTimeout", message)
        }
    }
}
