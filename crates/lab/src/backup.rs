//! `plimsoll backup --to URL`: has a server copy itself to a place for backups, and shows how far it is.
//!
//! The server does the work (`plimsollBackup`); its data does not come through here. Another connection asks `currentOp`.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use bson::{Document, doc};
use clap::Args;
use mongodb::Client;
use mongodb::options::ClientOptions;

use crate::error::LabError;
use crate::output::print;

/// Between two lines of progress.
const LINES_APART: Duration = Duration::from_secs(2);
const SELECTION: Duration = Duration::from_secs(10);
const MIB: f64 = 1_048_576.0;

/// Options of `plimsoll backup`.
#[derive(Debug, Clone, Args)]
pub struct BackupArguments {
    /// Where to, as the server sees it: file:///var/backups/plimsoll, s3://bucket/prefix, gs:// or az://
    #[arg(long, value_name = "URL")]
    to: String,
    /// Connection string of the server
    #[arg(long, value_name = "URI", default_value = "mongodb://127.0.0.1:27017/?directConnection=true")]
    server: String,
    /// Store everything anew [default: what earlier backups there do not have]
    #[arg(long)]
    full: bool,
    /// Compress pages once more: smaller, and slower
    #[arg(long)]
    compress: bool,
    /// Fail unless the server encrypts its backups (--backup-key-file, or an encrypted data directory)
    #[arg(long)]
    encrypt: bool,
    /// Read at most so many megabytes a second
    #[arg(long, value_name = "MB", value_parser = clap::value_parser!(u32).range(1..))]
    rate: Option<u32>,
}

/// Runs `plimsoll backup`.
///
/// # Errors
/// The server cannot be reached, or its backup fails.
pub async fn run(arguments: BackupArguments) -> Result<ExitCode, LabError> {
    let client = connect(&arguments.server).await?;
    let mut command = doc! {
        "plimsollBackup": 1, "to": &arguments.to, "full": arguments.full, "compress": arguments.compress, "encrypt": arguments.encrypt,
    };
    if let Some(rate) = arguments.rate {
        command.insert("bytesPerSecond", i64::from(rate) * 1_000_000);
    }
    let admin = client.database("admin");
    let began = Instant::now();
    let mut making = std::pin::pin!(async { admin.run_command(command).await });
    let reply = loop {
        tokio::select! {
            reply = &mut making => break reply.map_err(LabError::command("plimsollBackup"))?,
            () = tokio::time::sleep(LINES_APART) => show(&client, began).await,
        }
    };
    print(&told(&reply));
    Ok(ExitCode::SUCCESS)
}

async fn connect(uri: &str) -> Result<Client, LabError> {
    let bad = |error| LabError::BadTarget(Box::new(error));
    let mut options = ClientOptions::parse(uri).await.map_err(bad)?;
    options.app_name.get_or_insert_with(|| "plimsoll backup".to_owned());
    options.max_pool_size = Some(2);
    options.server_selection_timeout.get_or_insert(SELECTION);
    Client::with_options(options).map_err(bad)
}

/// A line of progress. A user who may back up need not be allowed to look: then there is none.
async fn show(client: &Client, began: Instant) {
    let command = doc! { "currentOp": 1, "$ownOps": true, "command.plimsollBackup": 1 };
    let Ok(reply) = client.database("admin").run_command(command).await else { return };
    let operations = reply.get_array("inprog").ok();
    let operation = operations.and_then(|list| list.iter().find_map(|entry| entry.as_document()));
    let Some((operation, progress)) = operation.and_then(|entry| Some((entry, entry.get_document("progress").ok()?)))
    else {
        return;
    };
    let number = |name: &str| whole(progress, name) / MIB;
    let (done, total, seconds) = (number("done"), number("total"), began.elapsed().as_secs_f64());
    let phase = operation.get_str("msg").unwrap_or_default().split(':').nth(1).unwrap_or_default().trim();
    eprintln!("backup: {phase}: {done:.0} of {total:.0} MiB, {:.0} MiB/s", done / seconds);
}

fn whole(document: &Document, name: &str) -> f64 {
    document.get(name).map_or(0.0, |value| match value {
        bson::Bson::Int32(number) => f64::from(*number),
        bson::Bson::Int64(number) => *number as f64,
        bson::Bson::Double(number) => *number,
        _ => 0.0,
    })
}

/// What was made, in words.
fn told(reply: &Document) -> String {
    let mib = |name: &str| whole(reply, name) / MIB;
    let seconds = whole(reply, "millis") / 1000.0;
    format!(
        "backup {}: {:.1} MiB of pages, {:.1} MiB of them in earlier backups, {:.1} MiB stored, {:.1} s{}\n",
        reply.get_str("id").unwrap_or_default(),
        mib("pageBytes"),
        mib("reusedBytes"),
        mib("storedBytes"),
        seconds,
        if reply.get_bool("encrypted").unwrap_or(false) { ", encrypted" } else { "" }
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_backup_is_told_in_one_line() {
        let reply =
            doc! {"id": "x", "pageBytes": 3_i64 << 20, "reusedBytes": 1 << 20, "storedBytes": 2 << 20, "millis": 500};
        let line = "backup x: 3.0 MiB of pages, 1.0 MiB of them in earlier backups, 2.0 MiB stored, 0.5 s\n";
        assert_eq!(told(&reply), line);
    }
}
