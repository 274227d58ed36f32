//! `waitForFailPoint`: waits until a fail point has struck so often. Only with `--enable-test-commands`.

use std::time::Duration;

use super::FailPoint;
use super::configure_fail_point::{check_switch, unknown};
use crate::DocumentWriter;
use crate::arguments::Arguments;
use crate::context::Context;
use crate::error::{CommandError, Result};

/// Longest wait between two looks whether the command was killed.
const WAIT_SLICE: Duration = Duration::from_millis(50);

/// Runs the command.
pub(crate) fn run(
    context: &mut Context<'_>,
    mut arguments: Arguments<'_>,
    _reply: &mut DocumentWriter<'_>,
) -> Result<()> {
    check_switch(context, "waitForFailPoint")?;
    let name = arguments.target().ok_or_else(|| CommandError::bad_value("an empty command"))?.string()?;
    let point = FailPoint::named(name).ok_or_else(|| unknown(name))?;
    let mut times = None;
    for field in arguments.fields() {
        match field.name() {
            "timesEntered" => times = Some(field.unsigned()?),
            _ => arguments.generic(field)?,
        }
    }
    let missing = |name: &str| {
        CommandError::numbered(40414, format!("BSON field 'waitForFailPoint.{name}' is missing but a required field"))
    };
    let times = times.ok_or_else(|| missing("timesEntered"))?;
    let limit = arguments.generic.max_time.ok_or_else(|| missing("maxTimeMS"))?;
    context.operation.set_time_limit(Some(limit))?;
    while !context.server.fail_points.wait_until_struck(point, times, WAIT_SLICE) {
        context.operation.check_interrupt()?;
    }
    Ok(())
}
