//! The binary `plimsoll-lab`: what `plimsoll bench`, `profile`, `compare`, `history`, `layout` and `certify` run.
//!
//! It is called as `plimsoll` is, with the same words, by `plimsoll` itself or by hand. So a server is built without the
//! driver that the lab needs, and a lab where no server is wanted.

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use lab::{
    BenchArguments, CertifyArguments, CompareArguments, HistoryArguments, LabError, LayoutArguments, ProfileArguments,
};

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
    }
}
