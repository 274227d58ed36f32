//! `replSetResizeOplog`: for how many bytes and hours the oplog is kept. Stored, so that it holds after a restart, too; `--oplog-min-retention-hours` goes before stored hours.

use std::time::Duration;

use document::Number;
use transaction::Store;

use crate::DocumentWriter;
use crate::handlers::command::Command;
use crate::request::arguments::{Arguments, Field};
use crate::request::audit_events;
use crate::request::declaration::{Changes, Declaration, Needs, WithoutClient};
use crate::request::error::{CommandError, Result};
use crate::request::privileges::{Action, on_cluster};

/// Least size, in megabytes.
const SIZE_MIN: f64 = 990.0;
/// Largest size: 1 PB.
const SIZE_MAX: f64 = (1_u64 << 30) as f64;

pub(crate) static COMMAND: Command = Command::new(
    |context, arguments, reply| run(&context.server.store, arguments, reply),
    Declaration {
        audit: Some(audit_events::as_named),
        is_admin_only: true,
        changes: Changes::Stored,
        without_client: WithoutClient::GoesOn,
        ..Declaration::new(
            "replSetResizeOplog",
            "For how many bytes and hours the oplog is kept.",
            Needs::Nothing,
            &[on_cluster(Action::ReplSetResizeOplog)],
        )
    },
);

/// Runs the command.
pub(crate) fn run(store: &Store, mut arguments: Arguments<'_>, _reply: &mut DocumentWriter<'_>) -> Result<()> {
    let (mut bytes, mut time) = (None, None);
    for field in arguments.fields() {
        match field.name() {
            _ if field.is_null() && ["size", "minRetentionHours"].contains(&field.name()) => {}
            "size" => bytes = Some(size(field)?),
            "minRetentionHours" => time = Some(hours(field)?),
            _ => arguments.generic(field)?,
        }
    }
    if bytes.is_none() && time.is_none() {
        let message = "Either the 'size' or the 'minRetentionHours' option must be given";
        return Err(CommandError::named("InvalidOptions", message));
    }
    Ok(store.set_oplog_retention(bytes, time)?)
}

fn number(field: Field<'_>) -> Result<f64> {
    let number = Number::from_bson(field.value());
    number.map(Number::to_f64).ok_or_else(|| {
        CommandError::type_mismatch(format!("BSON field 'replSetResizeOplog.{}' must be a number", field.name()))
    })
}

fn size(field: Field<'_>) -> Result<u64> {
    let megabytes = number(field)?;
    if !(SIZE_MIN..=SIZE_MAX).contains(&megabytes) {
        let message = format!("BSON field 'size' value must be >= 990 and <= 1 PB, actual value '{megabytes}'");
        return Err(CommandError::bad_value(message));
    }
    Ok((megabytes * f64::from(1 << 20)) as u64)
}

fn hours(field: Field<'_>) -> Result<Duration> {
    let hours = number(field)?;
    if !(0.0..=1e6).contains(&hours) {
        return Err(CommandError::bad_value(format!(
            "BSON field 'minRetentionHours' value must be >= 0, actual value '{hours}'"
        )));
    }
    Ok(Duration::from_secs_f64(hours * 3600.0))
}
