//! Runs a scenario: prepares the collections, runs phase after phase on the lanes while observing the server, and keeps what
//! was measured whatever happens.
//!
//! ```text
//! lane threads (driver clients) ── record ──► merged at the end of a phase ─┐
//! observer (own connection, /proc) ── a look each 0.25 s ───────────────────┴─► PhaseResult ─► result.json
//! ```

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

use bson::{Document, doc};
use mongodb::Database;
use tokio::sync::{Notify, mpsc, oneshot, watch};

use super::Scenario;
use super::lane::{ClientSeat, Lane, PhaseShared, PhaseTimes, lock};
use super::measured::Measured;
use super::observer::{OBSERVATION_INTERVAL, Observations, Observer};
use super::plan::{Plan, PlannedPhase, Work};
use super::recorder::{Live, Record};
use super::stolen_time::StolenTimeWatch;
use crate::error::LabError;
use crate::output::{OutputDirectory, time_now};
use crate::progress::{Extent, Progress};
use crate::result::{FORMAT, Machine, PhaseResult, RunResult};
use crate::server_counters::whole_number;
use crate::server_process::{MachineSample, ServerProcess};
use crate::target::{Target, drop_existing};

mod interrupt;
mod sampling;
mod storage;

use interrupt::Interrupt;

/// The nice value of threads that give way: a tenth of the weight of the others.
const GIVES_WAY_NICE: i32 = 10;
/// How long operations may take after their phase has ended, before they are given up as unanswered.
const GRACE: Duration = Duration::from_secs(30);
/// A server from which nothing but errors of connection has come for so long has died.
const SILENCE_MAX: Duration = Duration::from_secs(15);
/// How long the driver looks for a server before an operation fails.
const SELECTION_TIMEOUT: Duration = Duration::from_secs(5);

/// How a scenario is to be run. `RunOptions::new` gives the usual way.
#[derive(Debug, Clone)]
pub struct RunOptions {
    /// Connection string.
    pub target: String,
    /// The server's process; found when it listens on this machine.
    pub pid: Option<u32>,
    /// Where `result.json`, `series.jsonl`, `latency.hlog` and `report.html` go; nothing is written when there is none.
    pub output: Option<PathBuf>,
    /// Threads of the load generator, unless own waits are left out; as many as processors when there is none.
    pub lanes: Option<usize>,
    /// Threads of the load generator give way to everything else on the machine, as far as the system lets them: for clients that
    /// stand for other machines, so that others do not wait for a processor behind them.
    pub gives_way: bool,
    /// What the threads of the load generator waited for a processor is no part of latencies, and is told beside them. So that it is known
    /// for whom they waited, each client has a lane.
    pub leaves_out_own_waits: bool,
    /// Of all random numbers.
    pub seed: u64,
    /// Whether progress is shown on standard error.
    pub progress: bool,
    /// Sample the server, with perf or what serves in its place: profiles of the run and of its stalls.
    pub profile: bool,
    /// Leave the collections in place at the end.
    pub keep: bool,
    /// Ends the run early when it becomes true; what was measured is kept and marked.
    pub stop: Option<watch::Receiver<bool>>,
}

impl RunOptions {
    /// Against a server, writing nothing, showing nothing.
    pub fn new(target: &str) -> Self {
        let target = target.to_owned();
        Self {
            target,
            pid: None,
            output: None,
            lanes: None,
            gives_way: false,
            leaves_out_own_waits: false,
            seed: 1,
            progress: false,
            profile: false,
            keep: false,
            stop: None,
        }
    }
}

/// What a run gave.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// Its figures; `complete` says whether it reached its end.
    pub result: RunResult,
    /// Where they were written.
    pub directory: Option<PathBuf>,
}

/// Runs a scenario to its end, or to the first thing that ends it. Wants a tokio runtime with time and I/O enabled.
///
/// # Errors
/// When nothing was measured: the target cannot be used or reached, or results cannot be written. A run that is cut short
/// is an [`Outcome`] whose result is not `complete` and says why.
pub async fn run(scenario: &Scenario, options: RunOptions) -> Result<Outcome, LabError> {
    let mut target = Target::connect_to(&options.target, options.pid, 1).await?;
    target.options.server_selection_timeout.get_or_insert(SELECTION_TIMEOUT);
    let output = match &options.output {
        Some(directory) => Some(OutputDirectory::create_at(directory)?),
        None => None,
    };
    let lines = output.as_ref().map(|output| output.lines("series")).transpose()?;
    let observer = Observer { client: target.observing_client.clone(), process: target.process, lines };
    let interrupt = Interrupt::new(options.stop.clone());
    let plan = &scenario.plan;
    let result = RunResult {
        format: FORMAT,
        scenario: plan.name.clone(),
        description: plan.description.clone(),
        started_at: time_now(),
        parameters: plan.parameters.clone(),
        target: target.description.clone(),
        machine: Machine::this(),
        client: concat!("plimsoll ", env!("CARGO_PKG_VERSION"), ", official Rust driver").to_owned(),
        lanes: lanes_of(plan, &options),
        ..RunResult::default()
    };
    let mut run = Run { plan, target, observer, interrupt, options: &options, result };
    let sampler = sampling::start(&options, &run.target, output.as_ref()).await?;
    let outcome = run.phases().await;
    run.result.failure = outcome.err().map(|error| error.to_string());
    run.result.complete = run.result.failure.is_none();
    if let Some(output) = &output {
        // What perf sampled can take minutes to read: the figures are safe before.
        output.write_result(&run.result)?;
        let pictures = match sampler {
            Some(sampler) => sampling::finish(sampler, output, &mut run.result).await,
            None => Vec::new(),
        };
        output.write_result(&run.result)?;
        output.write("report.html", &crate::report::bench(&run.result, &pictures))?;
    }
    if run.result.complete && !options.keep {
        let database = run.target.client.database(&plan.database);
        drop_existing(&database, &plan.collection_names()).await?;
    }
    Ok(Outcome { result: run.result, directory: options.output.clone() })
}

struct Run<'r> {
    plan: &'r Plan,
    target: Target,
    observer: Observer,
    interrupt: Interrupt,
    options: &'r RunOptions,
    result: RunResult,
}

impl Run<'_> {
    async fn phases(&mut self) -> Result<(), LabError> {
        prepare(&self.target.client.database(&self.plan.database), self.plan).await?;
        for phase in &self.plan.phases {
            let done = self.phase(phase).await?;
            let stopped = done.failure.clone().map(|failure| LabError::Stopped { phase: done.name.clone(), failure });
            self.result.phases.push(done);
            if let Some(stopped) = stopped {
                return Err(stopped);
            }
        }
        Ok(())
    }

    async fn phase(&mut self, phase: &PlannedPhase) -> Result<PhaseResult, LabError> {
        let shared = Arc::new(shared_of(phase));
        let lanes = self.start_lanes(phase, &shared)?;
        let progress = self.options.progress.then(|| Progress::new(&phase.name, extent(phase)));
        let mut observations = Observations::new(phase.name.clone(), counted_as(phase), progress);
        let mut running = lanes.all_connected().await?;
        let stolen = StolenTimeWatch::start(Arc::clone(&shared.live.stolen))?;
        let begin = Instant::now();
        let series_start = begin + Duration::from_secs_f64(phase.warm_up_seconds);
        let deadline = phase.seconds.map(|seconds| series_start + Duration::from_secs_f64(seconds));
        let _ = shared.times.set(PhaseTimes { begin, series_start, deadline });
        let client_before = ServerProcess::own().sample().unwrap_or_default();
        let machine_before = MachineSample::now().unwrap_or_default();
        self.observer.observe(series_start, &shared, &mut observations).await;
        running.begin.send_replace(true);
        let failure = self.watch(series_start, deadline, &shared, &mut observations).await.err();
        shared.stop_clients();
        let length = Instant::now().saturating_duration_since(series_start);
        let grace = if failure.is_some() { Duration::from_secs(1) } else { GRACE };
        let (record, unanswered) = running.end(grace, Record::new(series_start, deadline, steps_of(phase))).await;
        drop(stolen);
        self.observer.observe(series_start, &shared, &mut observations).await;
        let client_after = ServerProcess::own().sample().unwrap_or_default();
        let machine_after = MachineSample::now().unwrap_or_default();
        let storage_bytes = storage::bytes(&self.target.observing_client, &self.plan.database).await;
        let failure = failure.or_else(|| unanswered.filter(|_| record.unanswered > 0)).map(|failure| {
            let is_effect = failure.is_connection_loss() && observations.process_has_ended();
            if is_effect { LabError::ServerEnded } else { failure }
        });
        let measured = Measured {
            phase,
            record,
            live: &shared.live,
            observations: &observations,
            length: deadline.filter(|_| failure.is_none()).map_or(length, |end| end.duration_since(series_start)),
            failure,
            client: (client_before, client_after),
            machine: (machine_before, machine_after),
            storage_bytes,
            started_monotonic_seconds: monotonic_seconds(series_start),
        };
        let result = measured.result();
        if let Some(progress) = observations.progress.take() {
            progress.finish(&result.in_one_line());
        }
        Ok(result)
    }

    /// Returns when the phase's work is done or its time is over.
    async fn watch(
        &mut self,
        series_start: Instant,
        deadline: Option<Instant>,
        shared: &PhaseShared,
        observations: &mut Observations,
    ) -> Result<(), LabError> {
        let mut ticks = tokio::time::interval(OBSERVATION_INTERVAL);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let has_bounded = shared.bounded_left.load(Ordering::Relaxed) > 0;
        loop {
            let over = async {
                match deadline {
                    Some(deadline) => tokio::time::sleep_until(deadline.into()).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = over => return Ok(()),
                () = shared.bounded_ended.notified(), if has_bounded => {
                    return lock(&shared.failure).take().map_or(Ok(()), Err);
                }
                () = shared.failed.notified() => {
                    return Err(lock(&shared.failure).take().unwrap_or(LabError::Interrupted));
                }
                () = self.interrupt.wait() => return Err(LabError::Interrupted),
                _ = ticks.tick() => {
                    self.observer.observe(series_start, shared, observations).await;
                    is_alive(shared, series_start, observations)?;
                }
            }
        }
    }

    fn start_lanes(&self, phase: &PlannedPhase, shared: &Arc<PhaseShared>) -> Result<StartingLanes, LabError> {
        let seats = seats_of(phase);
        let seat_count = seats.len().max(1);
        let lanes = self.result.lanes.clamp(1, seat_count);
        let (begin, begin_seen) = watch::channel(false);
        let (abandon, abandon_seen) = watch::channel(false);
        let (ready, ready_seen) = mpsc::unbounded_channel();
        let mut records = Vec::new();
        for number in 0..lanes {
            let seats: Vec<ClientSeat> = seats.iter().skip(number).step_by(lanes).cloned().collect();
            let mut options = self.target.options.clone();
            let connections = u32::try_from(seats.len()).unwrap_or(u32::MAX);
            options.max_pool_size = Some(options.max_pool_size.unwrap_or(0).max(connections.saturating_add(2)));
            options.max_connecting = Some(options.max_connecting.unwrap_or(0).max(16));
            let lane = Lane {
                seats,
                options,
                database: self.plan.database.clone(),
                steps: steps_of(phase),
                seed: self.options.seed,
                shared: Arc::clone(shared),
                begin: begin_seen.clone(),
                abandon: abandon_seen.clone(),
                leaves_out_own_waits: self.options.leaves_out_own_waits,
            };
            let (done, record) = oneshot::channel();
            let ready = ready.clone();
            let thread = std::thread::Builder::new().name(format!("lane-{number}"));
            let gives_way = self.options.gives_way;
            let spawned = thread.spawn(move || {
                if gives_way {
                    give_way();
                }
                // The receiver is gone only when the run is.
                let _ = done.send(lane.run(|| ready.send(()).unwrap_or_default()));
            });
            spawned.map_err(|error| LabError::Worker(format!("cannot start a thread: {error}")))?;
            records.push(record);
        }
        Ok(StartingLanes { begin, abandon, ready: ready_seen, records })
    }
}

/// Has the calling thread's clients give way to the server and to other clients, for good.
pub(crate) fn give_way() {
    // Of this thread alone, on Linux; where it is refused the run is as it would be without.
    let _ = rustix::process::nice(GIVES_WAY_NICE);
}

struct StartingLanes {
    begin: watch::Sender<bool>,
    abandon: watch::Sender<bool>,
    ready: mpsc::UnboundedReceiver<()>,
    records: Vec<oneshot::Receiver<Result<Record, LabError>>>,
}

struct RunningLanes {
    begin: watch::Sender<bool>,
    abandon: watch::Sender<bool>,
    records: Vec<oneshot::Receiver<Result<Record, LabError>>>,
}

impl StartingLanes {
    async fn all_connected(mut self) -> Result<RunningLanes, LabError> {
        for _ in 0..self.records.len() {
            if self.ready.recv().await.is_none() {
                break;
            }
        }
        Ok(RunningLanes { begin: self.begin, abandon: self.abandon, records: self.records })
    }
}

impl RunningLanes {
    /// Waits for the lanes and merges what they recorded; after the grace they must end. Gives a failure of the lanes
    /// themselves, or what to say of operations without an answer.
    async fn end(&mut self, grace: Duration, mut merged: Record) -> (Record, Option<LabError>) {
        let mut failure = None;
        let until = tokio::time::Instant::now() + grace;
        let abandon = &self.abandon;
        let mut is_abandoned = false;
        for record in &mut self.records {
            if !is_abandoned && tokio::time::timeout_at(until, wait(record)).await.is_err() {
                is_abandoned = true;
                abandon.send_replace(true);
            }
        }
        for record in self.records.drain(..) {
            match record.await {
                Ok(Ok(record)) => merged.merge(record),
                Ok(Err(error)) => failure = Some(error),
                Err(_) => failure = Some(LabError::Worker("a lane ended without a record".to_owned())),
            }
        }
        let silent = || LabError::Silent { operations: merged.unanswered, seconds: grace.as_secs() };
        let failure = failure.or_else(|| (merged.unanswered > 0).then(silent));
        (merged, failure)
    }
}

/// Until something was sent, without taking it.
async fn wait(record: &mut oneshot::Receiver<Result<Record, LabError>>) {
    while record.is_empty() && !record.is_terminated() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

fn shared_of(phase: &PlannedPhase) -> PhaseShared {
    let bounded = phase.groups.iter().filter(|group| group.is_bounded()).map(|group| u64::from(group.threads)).sum();
    PhaseShared {
        live: Live::default(),
        times: OnceLock::new(),
        stop: AtomicBool::new(false),
        stopped: Notify::new(),
        failure: Mutex::new(None),
        failed: Notify::new(),
        bounded_left: AtomicU64::new(bounded),
        bounded_ended: Notify::new(),
        numbers: phase.groups.iter().map(|_| AtomicU64::new(0)).collect(),
        last_error: Mutex::new(None),
    }
}

/// Threads of the load generator; a phase with fewer clients has fewer.
fn lanes_of(plan: &Plan, options: &RunOptions) -> usize {
    if options.leaves_out_own_waits {
        plan.phases.iter().map(|phase| seats_of(phase).len()).max().unwrap_or(1)
    } else {
        options.lanes.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from))
    }
}

fn seats_of(phase: &PlannedPhase) -> Vec<ClientSeat> {
    let mut seats = Vec::new();
    let mut first_step = 0;
    for (group_number, group) in phase.groups.iter().enumerate() {
        for thread in 0..group.threads {
            let seat = seats.len() as u64;
            seats.push(ClientSeat { group: Arc::clone(group), group_number, first_step, thread, seat });
        }
        first_step += steps_of_work(&group.work);
    }
    seats
}

fn steps_of(phase: &PlannedPhase) -> usize {
    phase.groups.iter().map(|group| steps_of_work(&group.work)).sum()
}

fn steps_of_work(work: &Work) -> usize {
    match work {
        Work::Load { .. } => 1,
        Work::Mix { steps, .. } => steps.len(),
    }
}

/// The server's counter that follows a phase: that of its only kind of change.
fn counted_as(phase: &PlannedPhase) -> Option<&'static str> {
    let mut kinds = phase.groups.iter().flat_map(|group| match &group.work {
        Work::Load { .. } => vec![Some("inserted")],
        Work::Mix { steps, .. } => steps.iter().map(super::operation::Step::counted_as).collect(),
    });
    let first = kinds.next()??;
    kinds.all(|kind| kind == Some(first)).then_some(first)
}

fn extent(phase: &PlannedPhase) -> Extent {
    match (phase.documents_expected(), phase.operations_expected(), phase.seconds) {
        (Some(documents), ..) => Extent::Count(documents),
        (None, Some(operations), _) if counted_as(phase).is_none() => Extent::Count(operations),
        (_, _, Some(seconds)) => Extent::Seconds(seconds + phase.warm_up_seconds),
        _ => Extent::Unknown,
    }
}

/// Drops what a run before left and creates the collections with their indexes, empty.
async fn prepare(database: &Database, plan: &Plan) -> Result<(), LabError> {
    drop_existing(database, &plan.collection_names()).await?;
    for collection in plan.collections.values() {
        for name in &collection.names {
            let mut command = doc! { "create": name };
            command.extend(collection.options.clone());
            database.run_command(command).await.map_err(LabError::command(format!("create {name}")))?;
            if !collection.indexes.is_empty() {
                let created = database.collection::<Document>(name).create_indexes(collection.indexes.clone()).await;
                created.map_err(LabError::command(format!("createIndexes on {name}")))?;
            }
        }
    }
    Ok(())
}

/// Fails when the server's process has ended, or nothing but lost connections has been heard of the server for long.
fn is_alive(shared: &PhaseShared, series_start: Instant, observations: &Observations) -> Result<(), LabError> {
    if observations.process_has_ended() {
        return Err(LabError::ServerEnded);
    }
    let since = Instant::now().saturating_duration_since(series_start).saturating_sub(shared.live.last_success());
    let error = lock(&shared.last_error).clone();
    match error {
        Some(error) if since >= SILENCE_MAX => Err(LabError::NoAnswer { seconds: since.as_secs(), error }),
        _ => Ok(()),
    }
}

/// The machine's monotonic clock at a moment.
fn monotonic_seconds(moment: Instant) -> f64 {
    crate::profile::monotonic_seconds() - moment.elapsed().as_secs_f64()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// With another number of threads than clients, it would not be known who waited.
    #[test]
    fn each_client_whose_own_waits_are_left_out_has_a_lane() {
        let readers = include_str!("../../scenarios/certify/readers.yaml");
        let foreground = include_str!("../../scenarios/certify/foreground.yaml");
        for (scenario, clients) in [(readers, 4), (foreground, 32)] {
            let scenario = Scenario::parse(scenario, &[]).unwrap();
            let mut options = RunOptions { lanes: Some(2), ..RunOptions::new("") };
            assert_eq!(lanes_of(&scenario.plan, &options), 2);
            options.leaves_out_own_waits = true;
            assert_eq!(lanes_of(&scenario.plan, &options), clients);
        }
    }
}
