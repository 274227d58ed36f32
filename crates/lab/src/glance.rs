//! `plimsoll status URI` and `plimsoll top URI`: what a server does now, in a terminal.
//!
//! Both ask `serverStatus` twice and show what happened between, for any server that speaks the protocol: what one does not tell is left out. `status`
//! prints once, `top` again and again, with the busiest collections and the longest operations.

mod figures;
mod operations;

use std::io::IsTerminal as _;
use std::process::ExitCode;
use std::time::Duration;

use bson::{Document, RawDocumentBuf, doc};
use clap::Args;
use mongodb::Client;
use mongodb::options::ClientOptions;

use crate::error::LabError;
use crate::output::print;

use figures::{Glance, rows};
use operations::{busiest, longest};

/// Erases the terminal and goes to its beginning.
const CLEAR: &str = "\u{1b}[2J\u{1b}[H";
const COMMAND_WAIT: Duration = Duration::from_secs(10);

/// Options of `plimsoll status`.
#[derive(Debug, Clone, Args)]
pub struct StatusArguments {
    /// Connection string of the server
    #[arg(value_name = "URI", default_value = "mongodb://127.0.0.1:27017/?directConnection=true")]
    uri: String,
    /// For how many seconds figures are taken
    #[arg(long, value_name = "SECONDS", default_value_t = 1.0, value_parser = interval)]
    interval: f64,
}

/// Options of `plimsoll top`.
#[derive(Debug, Clone, Args)]
pub struct TopArguments {
    #[command(flatten)]
    status: StatusArguments,
    /// How many collections and operations are shown
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=1000))]
    lines: u64,
    /// End after so many times [default: with Ctrl-C]
    #[arg(long, value_name = "N")]
    count: Option<u64>,
}

fn interval(text: &str) -> Result<f64, String> {
    let seconds: f64 = text.parse().map_err(|_| format!("'{text}' is no number"))?;
    if (0.1..=3600.0).contains(&seconds) { Ok(seconds) } else { Err("must be from 0.1 to 3600".to_owned()) }
}

/// Runs `plimsoll status`.
///
/// # Errors
/// The server cannot be reached, or does not tell.
pub async fn status(arguments: StatusArguments) -> Result<ExitCode, LabError> {
    let client = connect(&arguments.uri).await?;
    let before = server_status(&client).await?;
    tokio::time::sleep(Duration::from_secs_f64(arguments.interval)).await;
    let after = server_status(&client).await?;
    print(&in_text(&rows(&Glance::new(&before, &after))));
    Ok(ExitCode::SUCCESS)
}

/// Runs `plimsoll top`.
///
/// # Errors
/// The server cannot be reached, or does not tell.
pub async fn top(arguments: TopArguments) -> Result<ExitCode, LabError> {
    let client = connect(&arguments.status.uri).await?;
    let lines = usize::try_from(arguments.lines).unwrap_or(usize::MAX);
    let clear = if std::io::stdout().is_terminal() { CLEAR } else { "" };
    let (mut before, mut totals) = (server_status(&client).await?, totals_of(&client).await);
    let mut shown = 0;
    while arguments.count.is_none_or(|count| shown < count) {
        tokio::time::sleep(Duration::from_secs_f64(arguments.status.interval)).await;
        let (after, totals_now) = (server_status(&client).await?, totals_of(&client).await);
        let running = ask(&client, doc! { "currentOp": 1, "active": true }).await.unwrap_or_default();
        let glance = Glance::new(&before, &after);
        let mut text = in_text(&rows(&glance));
        text += &busiest(&totals, &totals_now, glance.seconds(), lines);
        text += &longest(&running, lines);
        print(&format!("{clear}{text}\n"));
        (before, totals) = (after, totals_now);
        shown += 1;
    }
    Ok(ExitCode::SUCCESS)
}

async fn connect(uri: &str) -> Result<Client, LabError> {
    let bad = |error| LabError::BadTarget(Box::new(error));
    let mut options = ClientOptions::parse(uri).await.map_err(bad)?;
    options.app_name.get_or_insert_with(|| "plimsoll".to_owned());
    options.max_pool_size = Some(1);
    options.server_selection_timeout.get_or_insert(COMMAND_WAIT);
    Client::with_options(options).map_err(bad)
}

async fn server_status(client: &Client) -> Result<RawDocumentBuf, LabError> {
    let reply = ask(client, doc! { "serverStatus": 1 }).await?;
    RawDocumentBuf::try_from(&reply).map_err(|error| LabError::WrongReply(error.to_string()))
}

/// What `top` says of each collection; nothing where it may not be asked.
async fn totals_of(client: &Client) -> Document {
    ask(client, doc! { "top": 1 })
        .await
        .ok()
        .and_then(|reply| reply.get_document("totals").cloned().ok())
        .unwrap_or_default()
}

async fn ask(client: &Client, command: Document) -> Result<Document, LabError> {
    let name = command.keys().next().cloned().unwrap_or_default();
    let reply = client.database("admin").run_command(command).await;
    reply.map_err(|source| LabError::Command { command: name, source: Box::new(source) })
}

/// Rows with their names below each other.
fn in_text(rows: &[(String, String)]) -> String {
    let width = rows.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
    rows.iter().map(|(name, text)| format!("{name:<width$}  {text}\n")).collect()
}

#[cfg(test)]
mod tests;
