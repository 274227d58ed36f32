//! `plimsoll check SOURCE`: what of a server's use Plimsoll would refuse, before anybody moves.
//!
//! Called by the lab's binary, which starts a throw-away Plimsoll for it. Nothing is looked up in a list: what the source
//! has and does is tried there, on empty collections, and the answer is what Plimsoll itself says.
//!
//! ```text
//! definitions   collections, indexes and views, made anew
//! names         commands, stages and operators that the source's counters know
//! queries       those of its profile and of log files, each kind once
//! ```

mod findings;
mod names;
mod queries;

use std::path::PathBuf;
use std::process::ExitCode;

use bson::{Document, doc};
use clap::Args;
use mongodb::Client;

use self::findings::Findings;
use self::queries::Queries;
use crate::catalog::{self, Kind, Listed};
use crate::copy::connect;
use crate::definitions;
use crate::error::CopyError;
use crate::report::Report;
use crate::selection::Selection;

/// Something would be refused.
const REFUSED: u8 = 3;

/// Options of `plimsoll check`.
#[derive(Debug, Clone, Args)]
pub struct CheckArguments {
    /// Connection string of the server to look at; it is only read
    source: String,
    /// What is looked at: DATABASE, DATABASE.COLLECTION or DATABASE.PREFIX*; may be repeated, or be a list with commas [default: everything but admin,
    /// config and local]
    #[arg(long, value_name = "PATTERN", value_delimiter = ',')]
    namespaces: Vec<String>,
    /// Log of the server, in MongoDB's JSON lines: the slow queries in it are tried, too; may be repeated
    #[arg(long, value_name = "FILE")]
    log: Vec<PathBuf>,
}

/// Runs `plimsoll check`. `trial` is the connection string of an empty Plimsoll that nobody else uses.
///
/// # Errors
/// A server cannot be reached, or the source does not tell what it has.
pub async fn run(arguments: CheckArguments, trial: &str) -> Result<ExitCode, CopyError> {
    let selection = Selection::new(&arguments.namespaces).map_err(CopyError::Refusal)?;
    let (source, _) = connect("SOURCE", &arguments.source, "plimsoll check").await?;
    let (trial, _) = connect("the server that things are tried on", trial, "plimsoll check").await?;
    let mut findings = Findings::default();
    look_at_topology(&source, &mut findings).await?;
    let all = catalog::list(&source, &selection).await?;
    try_definitions(&trial, &all, &mut findings).await?;
    names::try_all(&source, &trial, &mut findings).await?;
    let mut queries = Queries::default();
    let mut databases: Vec<&str> = all.iter().map(|listed| listed.database.as_str()).collect();
    databases.dedup();
    for database in databases {
        queries.take_profile(&source, database, &selection, &mut findings).await;
    }
    for log in &arguments.log {
        queries.take_log(log, &selection, &mut findings)?;
    }
    queries.try_all(&trial, &mut findings).await?;
    print!("{}", findings.in_text());
    Ok(if findings.is_clear() { ExitCode::SUCCESS } else { ExitCode::from(REFUSED) })
}

/// What the source is, beside what it has.
async fn look_at_topology(source: &Client, findings: &mut Findings) -> Result<(), CopyError> {
    let hello = source.database("admin").run_command(doc! { "hello": 1 }).await;
    let hello = hello.map_err(CopyError::command("ask the source what it is"))?;
    // A router answers this. That `hello` says "isdbgrid" means little: Plimsoll itself does, so that sessions work without a set.
    if source.database("admin").run_command(doc! { "listShards": 1 }).await.is_ok() {
        let why = "collections are not spread over shards: all of them are on one server".to_owned();
        findings.refused(findings::TOPOLOGY, "a sharded cluster".to_owned(), why);
    }
    let hosts = hello.get_array("hosts").map_or(0, Vec::len);
    if hosts > 1 {
        findings.note(format!("the source is a replica set of {hosts} members; Plimsoll is a set of one"));
    }
    Ok(())
}

/// Makes everything anew. What is refused with its options is made without, so that queries can be tried on it.
async fn try_definitions(trial: &Client, all: &[Listed], findings: &mut Findings) -> Result<(), CopyError> {
    let mut report = Report::default();
    for listed in all.iter().filter(|listed| listed.kind != Kind::View) {
        if !definitions::create(trial, listed, &mut report).await? {
            let plain = Listed { options: Document::new(), ..listed.clone() };
            // What is refused even so has been told.
            let _ = definitions::create(trial, &plain, &mut Report::default()).await;
        }
        definitions::build_indexes(trial, listed, &mut report).await?;
        findings.looked_at.collections += 1;
        findings.looked_at.indexes += listed.indexes.len();
    }
    for view in all.iter().filter(|listed| listed.kind == Kind::View) {
        definitions::create_view(trial, view, &mut report).await?;
        findings.looked_at.views += 1;
    }
    for (what, why) in report.into_left() {
        findings.refused(findings::DEFINITIONS, what, why);
    }
    Ok(())
}
