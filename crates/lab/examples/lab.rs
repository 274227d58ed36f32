//! The lab without the server around it: `cargo run --release -p lab --example lab -- bench server-44991 --target URI`.
//!
//! Takes what `plimsoll bench`, `profile`, `compare`, `history` and `certify` take, so that a lab can be built where no server is wanted.

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use lab::{BenchArguments, CertifyArguments, CompareArguments, HistoryArguments, ProfileArguments};

/// Measures any server that speaks the MongoDB wire protocol.
#[derive(Parser)]
#[command(name = "lab", version)]
struct CommandLine {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run a workload
    Bench {
        #[command(subcommand)]
        scenario: BenchArguments,
    },
    /// Sample a server process or read profiles
    Profile(ProfileArguments),
    /// Compare two sides
    Compare(CompareArguments),
    /// Changes over many results
    History(HistoryArguments),
    /// Test the guarantees; without --target, --server names the program to start
    Certify(CertifyArguments),
}

#[tokio::main]
async fn main() -> ExitCode {
    let outcome = match CommandLine::parse().command {
        Command::Bench { scenario } => lab::run(scenario).await,
        Command::Profile(arguments) => lab::profile(arguments).await,
        Command::Compare(arguments) => lab::compare(arguments).await,
        Command::History(arguments) => lab::history(arguments).await,
        Command::Certify(arguments) => lab::certify(arguments).await,
    };
    outcome.unwrap_or_else(|error| {
        eprintln!("lab: {error}");
        ExitCode::FAILURE
    })
}
