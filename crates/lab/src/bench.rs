//! `plimsoll bench SCENARIO`: scenarios by their names or files, and the few workloads that are programs of their own.
//!
//! A shipped scenario is registered in `scenario::shipped`. A workload that YAML cannot say is a variant of
//! [`BenchArguments`] with its arm in [`run`], in a module of its own.

use std::ffi::OsString;
use std::process::ExitCode;

use clap::Subcommand;

use crate::error::LabError;
use crate::null_server;
use crate::point_operations::{self, PointOperationsArguments};
use crate::ring_workload::{self, RingWorkloadArguments};

mod scenario_command;

/// What `plimsoll bench` can run.
#[derive(Debug, Subcommand)]
#[command(after_help = scenario_command::listing())]
pub enum BenchArguments {
    /// Single-document operations by `_id` from a minimal client: throughput, latency, server CPU per operation
    #[command(name = "point-ops")]
    PointOperations(PointOperationsArguments),
    /// Serves as a server that does nothing, to find the limit of the load generator itself
    #[command(name = "null-server")]
    NullServer {
        /// Address to listen at
        #[arg(long, default_value = "127.0.0.1:27999")]
        listen: String,
    },
    /// SERVER-17561: documents of mixed sizes in a capped collection, lap after lap; how linear it stays, and what inserts cost
    #[command(name = "server-17561")]
    RingWorkload(RingWorkloadArguments),
    /// A scenario: the name of a shipped one or a .yaml file
    #[command(external_subcommand)]
    Scenario(Vec<OsString>),
}

/// Runs one benchmark to its end. Success means that it completed and every reply was as it must be; a run cut short
/// writes what it measured, marked `"complete": false`, and gives a failure code.
///
/// Wants a multi-threaded tokio runtime with time and I/O enabled.
///
/// # Errors
/// When nothing was measured: a target that cannot be used or reached, options refused, results that cannot be written.
pub async fn run(arguments: BenchArguments) -> Result<ExitCode, LabError> {
    match arguments {
        BenchArguments::PointOperations(arguments) => point_operations::run(arguments).await,
        BenchArguments::NullServer { listen } => {
            null_server::serve_forever(&listen).map_err(|source| LabError::Connection { address: listen, source })?;
            Ok(ExitCode::SUCCESS)
        }
        BenchArguments::RingWorkload(arguments) => ring_workload::run(arguments).await,
        BenchArguments::Scenario(arguments) => scenario_command::run(arguments).await,
    }
}
