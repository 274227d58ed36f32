//! The binary `plimsoll-lab`: what `plimsoll bench`, `profile`, `compare`, `history`, `layout`, `certify`, `diagnose`,
//! `status`, `top`, `copy`, `check` and `backup` run.
//!
//! It is called as `plimsoll` is, with the same words, by `plimsoll` itself or by hand. So a server is built without the
//! driver that the lab needs, and a lab where no server is wanted.

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use lab::{
    BackupArguments, BenchArguments, CertifyArguments, CompareArguments, DiagnoseArguments, EphemeralServer,
    HistoryArguments, LabError, LayoutArguments, ProfileArguments, StatusArguments, TopArguments,
};
use migration::{CheckArguments, CopyArguments, CopyError};

/// Measures and tests any server that speaks the MongoDB wire protocol.
#[derive(Parser)]
#[command(name = "plimsoll-lab", bin_name = "plimsoll", version)]
struct CommandLine {
    #[command(subcommand)]
    command: Command,
}

// What these say of themselves, `plimsoll --help` says too (crates/server/src/lab_command.rs).
#[derive(Subcommand)]
enum Command {
    /// Run a workload against any MongoDB-compatible server and measure it
    Bench {
        /// Which workload
        #[command(subcommand)]
        scenario: BenchArguments,
    },
    /// Sample a server process, or read profiles that others made: top functions, flame graphs
    Profile(ProfileArguments),
    /// Is B better or worse than A, and why: result directories, servers or server programs
    #[command(
        after_help = "Exit code: 0 when nothing is worse, 3 when something is, 1 when the two could not be compared."
    )]
    Compare(CompareArguments),
    /// When did figures change over many results, worst first
    History(HistoryArguments),
    /// How linear does a capped collection lie on disk, as SERVER-17561 measures it
    Layout(LayoutArguments),
    /// Are the guarantees kept? Tests each against any server, or against one that is started for it
    #[command(
        after_help = "Exit code: 0 when no guarantee that was judged is broken, 3 when one is, 1 when nothing could be tested."
    )]
    Certify(CertifyArguments),
    /// What a server went through, from the figures in its data directory: one report, with what to do
    Diagnose(DiagnoseArguments),
    /// What a server does now and what is wrong with it, once
    Status(StatusArguments),
    /// The same again and again, with the busiest collections and the longest operations
    Top(TopArguments),
    /// Copy a running server's data to a place for backups; `backup list`, `verify` and `prune` are about those that are there
    #[command(
        after_help = "About backups that are there: `plimsoll backup list`, `verify` and `prune`, each with `--help`. `plimsoll backup --data DIR --to URL` copies the directory of a stopped server. `plimsoll restore` makes a data directory of one."
    )]
    Backup(BackupArguments),
    /// Copy databases from one MongoDB-compatible server to another, and follow what changes meanwhile
    #[command(
        after_help = "Exit code: 0 when everything was carried over, 3 when something was not, 1 when the copy ended early."
    )]
    Copy(CopyArguments),
    /// What of a MongoDB-compatible server's use would be refused here, before anybody moves
    #[command(
        after_help = "What the server has and has done is tried on an empty Plimsoll in memory. Exit code: 0 when none of it is refused, 3 when something is, 1 when it could not be looked at."
    )]
    Check(CheckArguments),
}

#[tokio::main]
async fn main() -> ExitCode {
    run(CommandLine::parse().command).await.unwrap_or_else(|error| {
        eprintln!("plimsoll: {error}");
        ExitCode::FAILURE
    })
}

async fn run(command: Command) -> Result<ExitCode, LabError> {
    match command {
        Command::Bench { scenario } => lab::run(scenario).await,
        Command::Profile(arguments) => lab::profile(arguments).await,
        Command::Compare(arguments) => lab::compare(arguments).await,
        Command::History(arguments) => lab::history(arguments).await,
        Command::Layout(arguments) => lab::layout(arguments).await,
        Command::Certify(arguments) => lab::certify(arguments).await,
        Command::Diagnose(arguments) => lab::diagnose(arguments).await,
        Command::Status(arguments) => lab::status(arguments).await,
        Command::Top(arguments) => lab::top(arguments).await,
        Command::Backup(arguments) => lab::backup(arguments).await,
        Command::Copy(arguments) => migration::copy(arguments).await.map_err(failed),
        Command::Check(arguments) => {
            let trial = EphemeralServer::start().await?;
            migration::check(arguments, trial.uri()).await.map_err(failed)
        }
    }
}

fn failed(error: CopyError) -> LabError {
    LabError::Unsupported(error.to_string())
}
