//! Measures one kind of operation: starts a worker for each connection, lets them warm up, takes counts and CPU times at the
//! start and end of the window, stops them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bson::RawDocumentBuf;
use mongodb::Collection;
use serde::Serialize;
use tokio::task::JoinSet;

use super::keys::Keys;
use super::raw_connection::RawConnection;
use super::{COLLECTION, ClientKind, Operation, Settings, driver_connection};
use crate::chart::grouped;
use crate::error::LabError;
use crate::latency::{Latencies, LatencySummary};
use crate::server_process::ServerProcess;
use crate::target::Target;

/// Operations before the window, not measured.
pub(super) const WARM_UP: Duration = Duration::from_millis(500);

/// One kind of operation about to be measured.
pub(super) struct Measurement<'a> {
    pub(super) target: &'a Target,
    pub(super) settings: &'a Settings,
    pub(super) operation: Operation,
    /// Where `_id`s for insertOne and deleteOne begin.
    pub(super) first_id: u32,
    /// How many there are.
    pub(super) ids: u32,
}

/// A measurement made.
pub(super) struct Measured {
    pub(super) report: OperationReport,
    /// From `first_id`, how far the `_id`s used may reach.
    pub(super) ids_used: u32,
}

/// The figures of one operation.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct OperationReport {
    pub(crate) operation: Operation,
    /// In the window.
    pub(crate) operations: u64,
    pub(crate) seconds: f64,
    pub(crate) operations_per_second: f64,
    pub(crate) latency_microseconds: LatencySummary,
    pub(crate) server_cpu_microseconds_per_operation: Option<f64>,
    /// Of this program: how much of the machine the client took.
    pub(crate) client_cpu_microseconds_per_operation: Option<f64>,
    pub(crate) server_resident_bytes: Option<u64>,
    /// HDR histogram of the latencies.
    #[serde(skip)]
    pub(crate) histogram: String,
}

/// What workers and the one who measures share.
#[derive(Default)]
struct Shared {
    done: AtomicU64,
    measuring: AtomicBool,
    stop: AtomicBool,
}

/// What a worker leaves.
struct WorkerOutcome {
    latencies: Latencies,
    ids_used: u32,
}

impl Measurement<'_> {
    /// Runs it.
    pub(super) async fn run(&self) -> Result<Measured, LabError> {
        let shared = Arc::new(Shared::default());
        let stop_at_end = StopAtEnd(Arc::clone(&shared));
        let mut workers = JoinSet::new();
        for connection in 0..self.settings.connections {
            self.spawn(&mut workers, connection, Arc::clone(&shared))?;
        }
        let mut outcomes = Vec::new();
        wait(&mut workers, &mut outcomes, WARM_UP).await?;
        let before = Moment::now(&shared, self.target.process);
        shared.measuring.store(true, Ordering::Relaxed);
        wait(&mut workers, &mut outcomes, Duration::from_secs(u64::from(self.settings.seconds))).await?;
        let after = Moment::now(&shared, self.target.process);
        drop(stop_at_end);
        while let Some(outcome) = workers.join_next().await {
            outcomes.push(outcome.map_err(|error| LabError::Worker(error.to_string()))??);
        }
        let steps = outcomes.iter().map(|outcome| outcome.ids_used).max().unwrap_or(0);
        Ok(Measured {
            report: self.report(&before, &after, &outcomes),
            ids_used: steps.saturating_mul(self.settings.connections),
        })
    }

    fn keys(&self, connection: u32) -> Keys {
        match self.operation {
            Operation::FindOne | Operation::UpdateOne => Keys::random(self.settings.documents, connection),
            Operation::InsertOne | Operation::DeleteOne => {
                Keys::sequence(self.first_id, self.ids, connection, self.settings.connections)
            }
        }
    }

    fn spawn(
        &self,
        workers: &mut JoinSet<Result<WorkerOutcome, LabError>>,
        connection: u32,
        shared: Arc<Shared>,
    ) -> Result<(), LabError> {
        let (keys, operation) = (self.keys(connection), self.operation);
        let database = self.settings.database.clone();
        match self.settings.client {
            ClientKind::Raw => {
                let (host, port) = self.target.only_tcp_address()?;
                workers.spawn_blocking(move || {
                    run_raw(RawConnection::open(&host, port, operation, &database)?, keys, &shared)
                });
            }
            ClientKind::Driver => {
                let collection = self.target.client.database(&database).collection(COLLECTION);
                workers.spawn(run_driver(collection, operation, keys, shared));
            }
        }
        Ok(())
    }

    fn report(&self, before: &Moment, after: &Moment, outcomes: &[WorkerOutcome]) -> OperationReport {
        let mut latencies = Latencies::new();
        for outcome in outcomes {
            latencies.merge(&outcome.latencies);
        }
        let operations = after.done - before.done;
        let seconds = after.at.duration_since(before.at).as_secs_f64();
        let per_operation = |before: Option<u64>, after: Option<u64>| {
            (operations > 0).then_some(after?.saturating_sub(before?) as f64 / operations.max(1) as f64)
        };
        OperationReport {
            operation: self.operation,
            operations,
            seconds,
            operations_per_second: operations as f64 / seconds.max(1e-9),
            latency_microseconds: latencies.summary(),
            server_cpu_microseconds_per_operation: per_operation(before.server_cpu, after.server_cpu),
            client_cpu_microseconds_per_operation: per_operation(before.client_cpu, after.client_cpu),
            server_resident_bytes: after.server_resident_bytes,
            histogram: latencies.encoded(),
        }
    }
}

impl OperationReport {
    /// For the terminal.
    pub(super) fn in_one_line(&self) -> String {
        let cpu = self.server_cpu_microseconds_per_operation.map(|cpu| format!(", server CPU {cpu:.1} us/operation"));
        format!("{}: {}/s{}", self.operation.name(), grouped(self.operations_per_second), cpu.unwrap_or_default())
    }
}

/// Stops the workers when the measurement ends in whatever way: threads cannot be aborted.
struct StopAtEnd(Arc<Shared>);

impl Drop for StopAtEnd {
    fn drop(&mut self) {
        self.0.stop.store(true, Ordering::Relaxed);
    }
}

/// Counts and CPU times at one moment.
struct Moment {
    at: Instant,
    done: u64,
    server_cpu: Option<u64>,
    client_cpu: Option<u64>,
    server_resident_bytes: Option<u64>,
}

impl Moment {
    fn now(shared: &Shared, server: Option<ServerProcess>) -> Self {
        let server = server.and_then(ServerProcess::sample);
        Self {
            at: Instant::now(),
            done: shared.done.load(Ordering::Relaxed),
            server_cpu: server.map(|sample| sample.cpu_microseconds),
            client_cpu: ServerProcess::own().sample().map(|sample| sample.cpu_microseconds),
            server_resident_bytes: server.map(|sample| sample.resident_bytes),
        }
    }
}

/// Waits for a time, or until all workers have run out of work. A worker's failure ends it.
async fn wait(
    workers: &mut JoinSet<Result<WorkerOutcome, LabError>>,
    outcomes: &mut Vec<WorkerOutcome>,
    time: Duration,
) -> Result<(), LabError> {
    let until = tokio::time::Instant::now() + time;
    while !workers.is_empty() {
        match tokio::time::timeout_at(until, workers.join_next()).await {
            Ok(Some(outcome)) => outcomes.push(outcome.map_err(|error| LabError::Worker(error.to_string()))??),
            Ok(None) | Err(_) => break,
        }
    }
    Ok(())
}

impl Shared {
    fn finished(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    fn note(&self, sent: Instant, latencies: &mut Latencies) {
        self.done.fetch_add(1, Ordering::Relaxed);
        if self.measuring.load(Ordering::Relaxed) {
            latencies.record(sent.elapsed());
        }
    }
}

fn run_raw(mut connection: RawConnection, mut keys: Keys, shared: &Shared) -> Result<WorkerOutcome, LabError> {
    let mut latencies = Latencies::new();
    while !shared.finished() {
        let Some(id) = keys.next() else { break };
        let sent = Instant::now();
        connection.operate(id)?;
        shared.note(sent, &mut latencies);
    }
    Ok(WorkerOutcome { latencies, ids_used: keys.used() })
}

async fn run_driver(
    collection: Collection<RawDocumentBuf>,
    operation: Operation,
    mut keys: Keys,
    shared: Arc<Shared>,
) -> Result<WorkerOutcome, LabError> {
    let mut latencies = Latencies::new();
    while !shared.finished() {
        let Some(id) = keys.next() else { break };
        let sent = Instant::now();
        driver_connection::operate(&collection, operation, id).await?;
        shared.note(sent, &mut latencies);
    }
    Ok(WorkerOutcome { latencies, ids_used: keys.used() })
}
