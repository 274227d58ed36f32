//! `getLog`: recent lines of the diagnostics log, or the warnings of the start.

use bson::RawBsonRef;

use super::only_generic;
use crate::DocumentWriter;
use crate::handlers::command::Command;
use crate::request::arguments::Arguments;
use crate::request::declaration::{Declaration, Needs};
use crate::request::error::{CommandError, Result};
use crate::request::privileges::{Action, on_cluster};
use crate::state::server_hooks::DiagnosticLog;

/// Bytes of lines in one reply.
const LOG_BYTES_MAX: usize = 15 << 20;

pub(crate) static COMMAND: Command = Command::new(
    |context, arguments, reply| run(&*context.server.log, arguments, reply),
    Declaration {
        is_admin_only: true,
        ..Declaration::new(
            "getLog",
            "Recent lines of the diagnostics log.",
            Needs::Nothing,
            &[on_cluster(Action::GetLog)],
        )
    },
);

/// Runs the command.
pub(crate) fn run(log: &dyn DiagnosticLog, mut arguments: Arguments<'_>, reply: &mut DocumentWriter<'_>) -> Result<()> {
    only_generic(&mut arguments)?;
    let target = arguments.target().ok_or_else(|| CommandError::bad_value("an empty command"))?;
    let RawBsonRef::String(name) = target.value() else {
        let message = format!("Argument to getLog must be of type String; found {}", target.type_name());
        return Err(CommandError::type_mismatch(message));
    };
    match name {
        "*" => {
            reply.array("names", |names| ["global", "startupWarnings"].iter().for_each(|name| names.push_string(name)))
        }
        "global" => {
            let (lines, total) = log.recent();
            write_log(total, newest(&lines), reply);
        }
        "startupWarnings" => {
            let (lines, total) = log.startup_warnings();
            write_log(total, newest(&lines), reply);
        }
        _ => return Err(CommandError::named("OperationFailed", format!("no RamLog named: {name}"))),
    }
    Ok(())
}

/// The newest lines that fit into a reply.
fn newest(lines: &[String]) -> &[String] {
    let mut bytes = 0;
    let fitting = lines.iter().rev().take_while(|line| {
        // With the item's type, name and length.
        bytes += line.len() + 16;
        bytes <= LOG_BYTES_MAX
    });
    let skipped = lines.len() - fitting.count();
    lines.get(skipped..).unwrap_or_default()
}

fn write_log(total: u64, lines: &[String], reply: &mut DocumentWriter<'_>) {
    reply.count("totalLinesWritten", total);
    reply.array("log", |log| lines.iter().for_each(|line| log.push_string(line)));
}
