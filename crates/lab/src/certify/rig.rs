//! What a certification runs on: the server, its own or another, and the working set that most tests share.

use std::path::{Path, PathBuf};
use std::time::Duration;

use bson::{Bson, Document};
use mongodb::Client;
use mongodb::options::ClientOptions;

use super::CertifyArguments;
use super::judgement::Judgement;
use super::set_members::{Standing, process_of};
use crate::error::LabError;
use crate::launch::{LaunchedServer, Stop};
use crate::result::{PhaseResult, RunResult};
use crate::scenario::{RunOptions, Scenario, run as run_scenario};
use crate::server_counters::ServerStatus;
use crate::server_process::{ProcessSample, ServerProcess};
use crate::target::{Target, TargetDescription};

/// Of the founding rig.
const CACHE_BYTES: f64 = 512.0 * 1_048_576.0;
/// Data in the working set, in caches.
const CACHES_OF_DATA: f64 = 10.0;
/// Old versions that our own server may keep, in caches: so few that a test can reach it.
const CACHES_OF_HISTORY: f64 = 4.0;
/// A document of the working set with its index entry.
const DOCUMENT_BYTES: f64 = 1000.0;
/// Of a phase at full length.
const SECONDS: f64 = 60.0;
const SECONDS_MIN: f64 = 8.0;
/// Smallest cache of a server that the rig starts.
const CACHE_BYTES_MIN: f64 = 16.0 * 1_048_576.0;
/// The cache is this part of the memory budget, as our server divides it: of a small budget it leaves so much beside.
const CACHE_SHARE_OF_MEMORY: f64 = 0.6;
const BESIDE_CACHE_BYTES: f64 = 160.0 * 1_048_576.0;
/// Where `serverStatus` says what the server may use, in bytes.
pub(super) const BUDGET: &str = "plimsoll.memory.limitBytes";
/// Database of all scenarios.
pub(super) const DATABASE: &str = "plimsoll_certify";

/// The texts of scenarios, which lie in `scenarios/certify`.
pub(super) const WORKING_SET: &str = include_str!("../../scenarios/certify/working-set.yaml");
pub(super) const WRITERS: &str = include_str!("../../scenarios/certify/writers.yaml");
pub(super) const OFFERED_WRITERS: &str = include_str!("../../scenarios/certify/offered-writers.yaml");
pub(super) const READERS: &str = include_str!("../../scenarios/certify/readers.yaml");
pub(super) const FOREGROUND: &str = include_str!("../../scenarios/certify/foreground.yaml");

/// The server under test and the sizes of the tests.
pub(super) struct Rig {
    uri: String,
    launched: Option<LaunchedServer>,
    pub(super) client: Client,
    pub(super) description: TargetDescription,
    process: Option<ServerProcess>,
    directory: PathBuf,
    /// Of the full counts.
    pub(super) scale: f64,
    /// Of a measured phase.
    pub(super) seconds: f64,
    pub(super) cache_bytes: Option<f64>,
    /// What the server may use, when it is known.
    pub(super) memory_bytes: Option<f64>,
    /// Most that may be kept of old versions, of the rig's own server.
    pub(super) history_bytes: Option<f64>,
    /// In the working set.
    pub(super) documents: u64,
    is_loaded: bool,
    sustainable: Option<f64>,
    runs: u32,
    lanes: Option<usize>,
}

impl Rig {
    /// Connects to the target, or starts this program's own server.
    pub(super) async fn prepare(arguments: &CertifyArguments, directory: &Path) -> Result<Self, LabError> {
        let wanted = arguments.cache_mib.map(|mib| mib as f64 * 1_048_576.0);
        let (uri, launched, started_with) = match &arguments.target {
            Some(uri) => (uri.clone(), None, None),
            None => {
                let cache = wanted.unwrap_or(CACHE_BYTES * arguments.scale).max(CACHE_BYTES_MIN);
                let memory = (cache / CACHE_SHARE_OF_MEMORY).max(cache + BESIDE_CACHE_BYTES);
                let launched = start(arguments, directory, cache, memory).await?;
                (launched.uri.clone(), Some(launched), Some((cache, memory)))
            }
        };
        let target = Target::connect_to(&uri, launched.as_ref().map(LaunchedServer::pid), 8).await?;
        let status = ServerStatus::fetch(&target.observing_client).await.unwrap_or_default();
        let said = status.cache().map(|cache| cache.bytes);
        let cache_bytes = started_with.map(|(cache, _)| cache).or(said).or(wanted);
        let documents = cache_bytes.unwrap_or(CACHE_BYTES) * CACHES_OF_DATA / DOCUMENT_BYTES;
        // The rig's own cache is scaled already; of another server's, only the data can be.
        let documents = if launched.is_some() { documents } else { documents * arguments.scale.min(1.0) };
        let budget = status.numbers.get(BUDGET).copied();
        Ok(Self {
            uri,
            launched,
            client: target.observing_client,
            description: target.description,
            process: target.process,
            directory: directory.to_owned(),
            scale: arguments.scale,
            seconds: arguments.seconds.unwrap_or((SECONDS * arguments.scale).clamp(SECONDS_MIN, SECONDS)),
            cache_bytes,
            memory_bytes: arguments.memory_mib.map(|mib| mib as f64 * 1_048_576.0).or(budget),
            history_bytes: started_with.map(|(cache, _)| cache * CACHES_OF_HISTORY),
            documents: documents as u64,
            is_loaded: false,
            sustainable: None,
            runs: 0,
            lanes: arguments.lanes,
        })
    }

    /// The same sizes for a set of members, at its primary.
    pub(super) async fn of_set(&self, uri: &str) -> Result<Self, LabError> {
        let mut target = Target::connect_to(uri, None, 8).await?;
        let primary = Standing::of(&target.observing_client).await?.primary;
        target.process = primary.as_deref().and_then(process_of);
        let full = self.cache_bytes.unwrap_or(CACHE_BYTES) * CACHES_OF_DATA / DOCUMENT_BYTES;
        let part = if self.is_own() { 1.0 } else { self.scale.min(1.0) };
        Ok(Self {
            uri: uri.to_owned(),
            launched: None,
            client: target.observing_client,
            description: target.description,
            process: target.process,
            directory: self.directory.join("set"),
            documents: (full * part) as u64,
            is_loaded: false,
            sustainable: None,
            runs: 0,
            ..*self
        })
    }

    /// Of the server.
    pub(super) fn uri(&self) -> &str {
        &self.uri
    }

    /// What the rig lacks, for judgements of whole tests.
    pub(super) fn shortcomings(&self) -> Vec<String> {
        let mut lacks = Vec::new();
        let mebibytes = |bytes: f64| bytes / 1_048_576.0;
        match self.cache_bytes {
            None => lacks.push("the server does not say how large its cache is".to_owned()),
            Some(bytes) if (bytes / CACHE_BYTES - 1.0).abs() > 0.1 => {
                lacks.push(format!("a cache of {:.0} MiB in place of 512 MiB", mebibytes(bytes)));
            }
            Some(_) => {}
        }
        let full = self.cache_bytes.unwrap_or(CACHE_BYTES) * CACHES_OF_DATA / DOCUMENT_BYTES;
        if (self.documents as f64) < full * 0.99 {
            lacks.push(format!("data of {:.1} x the cache in place of 10 x", self.documents as f64 / full * 10.0));
        }
        if self.seconds < SECONDS {
            lacks.push(format!("phases of {:.0} s in place of {SECONDS:.0} s", self.seconds));
        }
        lacks
    }

    /// A judgement that knows what the rig lacks.
    pub(super) fn judgement(&self, guarantee: &'static str) -> Judgement {
        let mut judgement = Judgement::of(guarantee);
        for lack in self.shortcomings() {
            judgement.leaves_out(lack);
        }
        judgement
    }

    /// So many of the full count.
    pub(super) fn scaled(&self, full: u64) -> u64 {
        ((full as f64 * self.scale.min(1.0)) as u64).max(1)
    }

    /// Runs a scenario of this program beside whatever else runs, and keeps its result. Its collections stay.
    pub(super) async fn run(&mut self, text: &str, changes: &[(&str, String)]) -> Result<RunResult, LabError> {
        self.plan_run(text, changes)?.run().await
    }

    /// As `run`, with clients that do not give way to the server: who is to be refused must come faster than it works.
    pub(super) async fn run_pressing(&mut self, text: &str, changes: &[(&str, String)]) -> Result<RunResult, LabError> {
        let mut run = self.plan_run(text, changes)?;
        run.options.gives_way = false;
        run.run().await
    }

    /// As `run`, with clients whose latencies are what is looked at.
    pub(super) async fn run_watched(&mut self, text: &str, changes: &[(&str, String)]) -> Result<RunResult, LabError> {
        self.plan_run(text, changes)?.watched().run().await
    }

    /// A run to be started by the caller, beside others.
    pub(super) fn plan_run(&mut self, text: &str, changes: &[(&str, String)]) -> Result<PlannedRun, LabError> {
        let changes: Vec<(String, String)> =
            changes.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
        let scenario = Scenario::parse(text, &changes)?;
        self.runs += 1;
        let output = self.directory.join("runs").join(format!("{:02}-{}", self.runs, scenario.name()));
        let options = RunOptions {
            pid: self.process.map(|process| process.pid),
            output: Some(output),
            lanes: self.lanes,
            keep: true,
            // Many at once stand for other machines: those who are measured beside them do not wait for their processors.
            gives_way: [WRITERS, OFFERED_WRITERS].contains(&text),
            ..RunOptions::new(&self.uri)
        };
        Ok(PlannedRun { scenario, options })
    }

    /// Loads the working set, once.
    pub(super) async fn load(&mut self) -> Result<(), LabError> {
        if self.is_loaded {
            return Ok(());
        }
        eprintln!("loading {} documents of 1 KB", self.documents);
        let documents = self.documents.to_string();
        let loaded = self.run(WORKING_SET, &[("documents", documents)]).await?;
        only_phase(loaded)?;
        self.is_loaded = true;
        Ok(())
    }

    /// The working set is not there any more.
    pub(super) fn forget_working_set(&mut self) {
        self.is_loaded = false;
        self.sustainable = None;
    }

    /// Updates a second that the server takes with its cache full of changed pages, measured once.
    pub(super) async fn sustainable(&mut self) -> Result<f64, LabError> {
        if let Some(rate) = self.sustainable {
            return Ok(rate);
        }
        Ok(self.measure_sustainable().await?.operations_per_second)
    }

    /// Measures it and gives the phase.
    pub(super) async fn measure_sustainable(&mut self) -> Result<PhaseResult, LabError> {
        self.load().await?;
        let changes = [
            ("documents", self.documents.to_string()),
            ("seconds", self.seconds.to_string()),
            ("warm_up", (self.seconds / 2.0).to_string()),
        ];
        let phase = only_phase(self.run(WRITERS, &changes).await?)?;
        self.sustainable = Some(phase.operations_per_second);
        Ok(phase)
    }

    /// A number of `serverStatus` now.
    pub(super) async fn number(&self, path: &str) -> Option<f64> {
        ServerStatus::fetch(&self.client).await.ok()?.numbers.get(path).copied()
    }

    /// Runs a command on the scenarios' database.
    pub(super) async fn command(&self, command: Document) -> Result<Document, LabError> {
        let name = command.keys().next().cloned().unwrap_or_default();
        self.client.database(DATABASE).run_command(command).await.map_err(LabError::command(name))
    }

    /// Runs a command on `admin`.
    pub(super) async fn admin(&self, command: Document) -> Result<Document, LabError> {
        let name = command.keys().next().cloned().unwrap_or_default();
        self.client.database("admin").run_command(command).await.map_err(LabError::command(name))
    }

    /// A client of its own with so many connections, for what is not a scenario.
    pub(super) async fn new_client(&self, connections: u32) -> Result<Client, LabError> {
        let bad_target = |error| LabError::BadTarget(Box::new(error));
        let mut options = ClientOptions::parse(&self.uri).await.map_err(bad_target)?;
        options.max_pool_size = Some(connections);
        options.server_selection_timeout = Some(Duration::from_secs(5));
        options.app_name = Some("plimsoll certify".to_owned());
        Client::with_options(options).map_err(bad_target)
    }

    /// Of the server's process, when it is on this machine.
    pub(super) fn process(&self) -> Option<ProcessSample> {
        self.process.and_then(ServerProcess::sample)
    }

    /// The server's process, when it is on this machine.
    pub(super) fn server_process(&self) -> Option<ServerProcess> {
        self.process
    }

    pub(super) fn pid(&self) -> Option<u32> {
        self.process.map(|process| process.pid)
    }

    /// The program of the rig's own server, of which another may be started.
    pub(super) fn program(&self) -> Option<&str> {
        self.launched.as_ref().map(LaunchedServer::program)
    }

    /// A place for files of a server of that name.
    pub(super) fn scratch(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    /// Whether the rig may stop and start the server.
    pub(super) fn is_own(&self) -> bool {
        self.launched.is_some()
    }

    /// Stops the rig's own server and starts it again; gives the time to its first answer.
    pub(super) async fn restart(&mut self, stop: Stop) -> Result<Duration, LabError> {
        let Some(launched) = &mut self.launched else {
            return Err(LabError::Unsupported("only the rig's own server can be started again".to_owned()));
        };
        let took = launched.restart(stop).await?;
        self.process = Some(ServerProcess { pid: launched.pid() });
        Ok(took)
    }

    /// Drops what the scenarios made and stops the rig's own server.
    pub(super) async fn clean_up(self) -> Result<(), LabError> {
        match self.launched {
            Some(launched) => launched.stop().map(drop),
            None => {
                let database = self.client.database(DATABASE);
                database.drop().await.map_err(LabError::command("dropDatabase"))
            }
        }
    }
}

/// A scenario ready to run.
pub(super) struct PlannedRun {
    scenario: Scenario,
    options: RunOptions,
}

impl PlannedRun {
    /// Its clients' latencies are what is looked at: what their own threads wait for a processor is left out.
    pub(super) fn watched(mut self) -> Self {
        self.options.leaves_out_own_waits = true;
        self.options.gives_way = false;
        self
    }

    pub(super) async fn run(self) -> Result<RunResult, LabError> {
        Ok(run_scenario(&self.scenario, self.options).await?.result)
    }
}

async fn start(
    arguments: &CertifyArguments,
    directory: &Path,
    cache: f64,
    memory: f64,
) -> Result<LaunchedServer, LabError> {
    let program = match &arguments.server {
        Some(program) => program.clone(),
        None => crate::launch::own_server()?,
    };
    let command = format!(
        "{} --cache {} --memory {} --history {} {}",
        crate::launch::DEFAULT_COMMAND,
        cache as u64,
        memory as u64,
        (cache * CACHES_OF_HISTORY) as u64,
        arguments.server_options
    );
    let scratch = directory.join("server");
    LaunchedServer::start(&program, &command, &scratch, false).await
}

/// The last phase of a run that must have reached its end.
pub(super) fn only_phase(result: RunResult) -> Result<PhaseResult, LabError> {
    let stopped = |failure: &str| LabError::Stopped { phase: result.scenario.clone(), failure: failure.to_owned() };
    if let Some(failure) = &result.failure {
        return Err(stopped(failure));
    }
    result.phases.last().cloned().ok_or_else(|| stopped("it has no phase"))
}

/// The code of a command's failure, when the server answered with one.
pub(super) fn error_code(error: &LabError) -> Option<i32> {
    use mongodb::error::{ErrorKind, WriteFailure};
    let LabError::Command { source, .. } = error else { return None };
    match &*source.kind {
        ErrorKind::Command(error) => Some(error.code),
        ErrorKind::Write(WriteFailure::WriteError(error)) => Some(error.code),
        _ => None,
    }
}

/// The name of a command's error, as servers give it beside the code.
pub(super) fn error_name(error: &LabError) -> Option<&str> {
    use mongodb::error::{ErrorKind, WriteFailure};
    let LabError::Command { source, .. } = error else { return None };
    match &*source.kind {
        ErrorKind::Command(error) => Some(&error.code_name),
        ErrorKind::Write(WriteFailure::WriteError(error)) => error.code_name.as_deref(),
        _ => None,
    }
}

/// A number of any type in a reply.
pub(super) fn number_of(reply: &Document, name: &str) -> Option<f64> {
    match reply.get(name)? {
        Bson::Int32(number) => Some(f64::from(*number)),
        Bson::Int64(number) => Some(*number as f64),
        Bson::Double(number) => Some(*number),
        _ => None,
    }
}
