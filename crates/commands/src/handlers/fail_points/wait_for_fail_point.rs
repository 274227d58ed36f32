//! `waitForFailPoint`: waits until a fail point has struck so often. Only with `--enable-test-commands`.

use std::time::Duration;

use super::configure_fail_point::{check_switch, unknown};
use crate::DocumentWriter;
use crate::handlers::command::Command;
use crate::request::arguments::{Arguments, required};
use crate::request::declaration::{Declaration, Needs};
use crate::request::error::{CommandError, Result};
use crate::request::privileges::EVERYTHING;
use crate::state::context::ServerFacts;
use crate::state::fail_points::{FailPoint, FailPoints};
use crate::state::operations::Operation;

/// Longest wait between two looks whether the command was killed.
const WAIT_SLICE: Duration = Duration::from_millis(50);

pub(crate) static COMMAND: Command = Command::new(
    |context, arguments, reply| {
        let server = context.server;
        run(&server.fail_points, &server.facts, &context.operation, arguments, reply)
    },
    Declaration {
        is_admin_only: true,
        ..Declaration::new(
            "waitForFailPoint",
            "Waits until a fail point has struck so often; only with --enable-test-commands.",
            Needs::Nothing,
            &[EVERYTHING],
        )
    },
);

/// Runs the command.
pub(crate) fn run(
    fail_points: &FailPoints,
    facts: &ServerFacts,
    operation: &Operation<'_>,
    mut arguments: Arguments<'_>,
    _reply: &mut DocumentWriter<'_>,
) -> Result<()> {
    check_switch(facts, "waitForFailPoint")?;
    let name = arguments.target().ok_or_else(|| CommandError::bad_value("an empty command"))?;
    let name = required(name.string()?, "waitForFailPoint.waitForFailPoint")?;
    let point = FailPoint::named(name).ok_or_else(|| unknown(name))?;
    let mut times = None;
    for field in arguments.fields() {
        match field.name() {
            "timesEntered" => times = field.unsigned()?,
            _ => arguments.generic(field)?,
        }
    }
    let times = required(times, "waitForFailPoint.timesEntered")?;
    let limit = required(arguments.generic.max_time, "waitForFailPoint.maxTimeMS")?;
    operation.set_time_limit(Some(limit))?;
    while !fail_points.wait_until_struck(point, times, WAIT_SLICE) {
        operation.check_interrupt()?;
    }
    Ok(())
}
