//! Single-document operations by `_id` on documents of 190 bytes: findOne, insertOne, updateOne, deleteOne, each for a few
//! seconds over a number of connections. Reports throughput, latency percentiles and the server's CPU time per operation.
//!
//! Two clients send them: `raw`, a thread a connection and messages prepared ahead, so that on a machine shared with the
//! server most of the CPU is the server's; and `driver`, the official Rust driver, as an application would.

use std::path::PathBuf;
use std::process::ExitCode;

use bson::RawDocumentBuf;
use clap::{Args, ValueEnum};
use mongodb::Collection;
use serde::Serialize;

use crate::chart::grouped;
use crate::error::LabError;
use crate::output::{OutputDirectory, default_directory, time_now};
use crate::progress::{Extent, Progress};
use crate::result::{FORMAT, Machine, Overhead, PhaseResult, RunResult, StepResult};
use crate::target::{Target, TargetArguments, TargetDescription, drop_existing};
use crate::throughput::ThroughputSource;

mod driver_connection;
mod keys;
mod listeners;
mod measure;
mod message;
mod raw_connection;

use listeners::{Listened, Listeners};
use measure::{Measurement, OperationReport};

const NAME: &str = "point-ops";
const COLLECTION: &str = "point_ops";
/// Documents of one `insertMany` when the collection is filled.
const BATCH: u32 = 1000;
/// Deletes a second to have documents ready for when nothing has been measured yet.
const DELETES_PER_SECOND_GUESS: f64 = 60_000.0;

/// Options of `plimsoll bench point-ops`.
#[derive(Debug, Clone, Args)]
pub struct PointOperationsArguments {
    #[command(flatten)]
    target: TargetArguments,
    #[command(flatten)]
    settings: Settings,
    /// Directory for the report (JSON)
    #[arg(long, value_name = "DIR", help_heading = "Output")]
    output: Option<PathBuf>,
    /// Leave the collection in place at the end
    #[arg(long, help_heading = "Output")]
    keep: bool,
}

/// What defines the workload; part of the report.
#[derive(Debug, Clone, Args, Serialize)]
pub(crate) struct Settings {
    /// Connections, each with one operation at a time
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..=256))]
    connections: u32,
    /// Seconds to measure each operation for, after half a second of warming up
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=3600))]
    seconds: u32,
    /// Documents that findOne and updateOne choose from at random
    #[arg(long, value_name = "N", default_value_t = 100_000, value_parser = clap::value_parser!(u32).range(1..=100_000_000))]
    documents: u32,
    /// Operations to measure, in this order
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "findOne,insertOne,updateOne,deleteOne")]
    operations: Vec<Operation>,
    /// What sends them
    #[arg(long, value_name = "CLIENT", default_value = "raw")]
    client: ClientKind,
    /// Change streams that are open meanwhile, each with a connection of its own
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u32).range(0..=1000))]
    listeners: u32,
    /// What they listen to
    #[arg(long, value_name = "WHAT", default_value = "all")]
    listened: Listened,
    /// Database for the collection point_ops, which is dropped first
    #[arg(long, value_name = "NAME", default_value = "plimsoll_bench")]
    database: String,
}

/// One kind of operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "camelCase")]
#[allow(clippy::enum_variant_names, reason = "the names that drivers give the operations")]
pub(crate) enum Operation {
    /// find {_id: random}, one document, single batch
    #[value(name = "findOne")]
    FindOne,
    /// insert one document with the next _id
    #[value(name = "insertOne")]
    InsertOne,
    /// update {_id: random} with {$inc: {counter: 1}}
    #[value(name = "updateOne")]
    UpdateOne,
    /// delete {_id: ...} of documents inserted for it
    #[value(name = "deleteOne")]
    DeleteOne,
}

impl Operation {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::FindOne => "findOne",
            Self::InsertOne => "insertOne",
            Self::UpdateOne => "updateOne",
            Self::DeleteOne => "deleteOne",
        }
    }
}

/// What sends the operations.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum ClientKind {
    /// A minimal client: a thread and socket a connection, messages prepared ahead, no session, replies verified
    Raw,
    /// The official Rust driver
    Driver,
}

/// The file `point-ops.json`.
#[derive(Debug, Serialize)]
struct Report {
    benchmark: &'static str,
    complete: bool,
    failure: Option<String>,
    started_at: String,
    settings: Settings,
    document_bytes: usize,
    target: TargetDescription,
    operations: Vec<OperationReport>,
}

/// Runs the benchmark.
///
/// # Errors
/// When it could not start, or its results could not be written. One that stopped early is a failure code.
pub(crate) async fn run(arguments: PointOperationsArguments) -> Result<ExitCode, LabError> {
    let settings = &arguments.settings;
    let target = Target::connect(&arguments.target, settings.connections).await?;
    if settings.client == ClientKind::Raw || settings.listeners > 0 {
        target.only_tcp_address()?;
    }
    let directory = arguments.output.clone().unwrap_or_else(|| default_directory(NAME));
    let output = OutputDirectory::create_at(&directory)?;
    eprintln!("{NAME} against {}", target.description.in_one_line());
    let mut report = Report {
        benchmark: NAME,
        complete: false,
        failure: None,
        started_at: time_now(),
        settings: settings.clone(),
        document_bytes: message::document(0).as_bytes().len(),
        target: target.description.clone(),
        operations: Vec::new(),
    };
    let outcome = tokio::select! {
        outcome = measure_all(&target, settings, &mut report.operations) => outcome,
        Ok(()) = tokio::signal::ctrl_c() => Err(LabError::Interrupted),
    };
    report.failure = outcome.err().map(|error| error.to_string());
    report.complete = report.failure.is_none();
    output.write_json("point-ops.json", &report)?;
    let result = run_result(&report);
    output.write_result(&result)?;
    output.write("report.html", &crate::report::bench(&result, &[]))?;
    print_summary(&report, &output);
    if report.complete && !arguments.keep {
        drop_existing(&target.client.database(&settings.database), &[COLLECTION.to_owned()]).await?;
    }
    Ok(if report.complete { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The same figures in the form that `compare`, `history` and the report read: a phase for each operation.
fn run_result(report: &Report) -> RunResult {
    let phase = |measured: &OperationReport| {
        let latency = measured.latency_microseconds.clone();
        let step = StepResult {
            name: measured.operation.name().to_owned(),
            operations: measured.operations,
            documents: measured.operations,
            latency_microseconds: latency.clone(),
            // Each is sent when it is due.
            service_microseconds: latency.clone(),
            histogram: measured.histogram.clone(),
            ..StepResult::default()
        };
        let client_cpu = measured.client_cpu_microseconds_per_operation.unwrap_or(0.0);
        let client_seconds = client_cpu * measured.operations as f64 / 1e6;
        let machine_seconds = measured.seconds * std::thread::available_parallelism().map_or(1, usize::from) as f64;
        let overhead = Overhead {
            client_cpu_seconds: client_seconds,
            client_cpu_microseconds_per_operation: client_cpu,
            client_share_of_machine: client_seconds / machine_seconds.max(1e-9),
            ..Overhead::default()
        };
        PhaseResult {
            name: step.name.clone(),
            complete: true,
            duration_seconds: measured.seconds,
            operations: measured.operations,
            operations_per_second: measured.operations_per_second,
            goodput_per_second: measured.operations_per_second,
            documents: measured.operations,
            documents_per_second: measured.operations_per_second,
            latency_microseconds: latency,
            steps: vec![step],
            throughput_unit: "operations".to_owned(),
            throughput_source_explanation: ThroughputSource::Acknowledgements.explanation().to_owned(),
            server_cpu_seconds: measured
                .server_cpu_microseconds_per_operation
                .map(|cpu| cpu * measured.operations as f64 / 1e6),
            server_cpu_microseconds_per_unit: measured.server_cpu_microseconds_per_operation,
            server_resident_bytes_maximum: measured.server_resident_bytes,
            overhead,
            clients: u64::from(report.settings.connections),
            ..PhaseResult::default()
        }
    };
    let settings = &report.settings;
    let parameters = [
        ("connections", settings.connections.to_string()),
        ("documents", settings.documents.to_string()),
        ("seconds", settings.seconds.to_string()),
    ];
    RunResult {
        format: FORMAT,
        scenario: NAME.to_owned(),
        description: "Single-document operations by _id".to_owned(),
        complete: report.complete,
        failure: report.failure.clone(),
        started_at: report.started_at.clone(),
        parameters: parameters.into_iter().map(|(name, value)| (name.to_owned(), value)).collect(),
        target: report.target.clone(),
        machine: Machine::this(),
        client: format!("plimsoll {}, {:?} client", env!("CARGO_PKG_VERSION"), settings.client),
        phases: report.operations.iter().map(phase).collect(),
        ..RunResult::default()
    }
}

/// Fills the collection and measures each operation in turn.
async fn measure_all(target: &Target, settings: &Settings, reports: &mut Vec<OperationReport>) -> Result<(), LabError> {
    let database = target.client.database(&settings.database);
    drop_existing(&database, &[COLLECTION.to_owned()]).await?;
    let collection: Collection<RawDocumentBuf> = database.collection(COLLECTION);
    fill(&collection, 0, settings.documents).await?;
    let listeners = match settings.listeners {
        0 => None,
        count => {
            let (host, port) = target.only_tcp_address()?;
            Some(Listeners::open((&host, port), &settings.database, count, settings.listened)?)
        }
    };
    let mut next_id = settings.documents;
    for &operation in &settings.operations {
        let mut measurement = Measurement { target, settings, operation, first_id: next_id, ids: u32::MAX - next_id };
        if operation == Operation::DeleteOne {
            let fastest = reports.iter().map(|report| report.operations_per_second).fold(0.0, f64::max);
            let rate = if fastest > 0.0 { fastest * 1.5 } else { DELETES_PER_SECOND_GUESS };
            measurement.ids = (rate * (f64::from(settings.seconds) + measure::WARM_UP.as_secs_f64())) as u32;
            fill(&collection, next_id, measurement.ids).await?;
        }
        let done = measurement.run().await?;
        next_id = next_id.saturating_add(done.ids_used.max(if operation == Operation::DeleteOne {
            measurement.ids
        } else {
            0
        }));
        eprintln!("{}", done.report.in_one_line());
        reports.push(done.report);
    }
    if let Some(listeners) = &listeners {
        eprintln!("the {} listeners were sent {} bytes", settings.listeners, grouped(listeners.bytes() as f64));
    }
    Ok(())
}

/// Inserts documents with consecutive `_id`s.
async fn fill(collection: &Collection<RawDocumentBuf>, first_id: u32, count: u32) -> Result<(), LabError> {
    let mut progress = Progress::new("fill", Extent::Count(u64::from(count)));
    let started = std::time::Instant::now();
    let mut done = 0;
    while done < count {
        let until = done.saturating_add(BATCH).min(count);
        let batch: Vec<RawDocumentBuf> = (done..until).map(|position| message::document(first_id + position)).collect();
        collection.insert_many(&batch).await.map_err(LabError::command(format!("insertMany into {COLLECTION}")))?;
        done = until;
        progress.show(u64::from(done), f64::from(done) / started.elapsed().as_secs_f64(), "");
    }
    progress.finish(&format!("{} documents in {:.1} s", grouped(f64::from(count)), started.elapsed().as_secs_f64()));
    Ok(())
}

fn print_summary(report: &Report, output: &OutputDirectory) {
    println!(
        "{:<10} {:>10} {:>9} {:>9} {:>9} {:>9} {:>14} {:>14}",
        "", "ops/s", "p50 us", "p99 us", "p99.9 us", "max us", "server us/op", "client us/op"
    );
    for operation in &report.operations {
        let cpu = |microseconds: Option<f64>| {
            microseconds.map_or("-".to_owned(), |microseconds| format!("{microseconds:.1}"))
        };
        println!(
            "{:<10} {:>10} {:>9} {:>9} {:>9} {:>9} {:>14} {:>14}",
            operation.operation.name(),
            grouped(operation.operations_per_second),
            grouped(operation.latency_microseconds.p50),
            grouped(operation.latency_microseconds.p99),
            grouped(operation.latency_microseconds.p99_9),
            grouped(operation.latency_microseconds.maximum),
            cpu(operation.server_cpu_microseconds_per_operation),
            cpu(operation.client_cpu_microseconds_per_operation),
        );
    }
    if let Some(failure) = &report.failure {
        println!("FAILED: {failure}; the results are partial");
    }
    println!("written: {}", output.path("point-ops.json").display());
}
