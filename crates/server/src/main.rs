#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]
//! The binary `plimsoll`: reads the command line, opens the service, serves.

use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::mpsc::Sender;

use bson::raw::cstr;
use bson::rawdoc;
use clap::{CommandFactory, Parser, Subcommand};
use commands::{Authorization, BuildFacts, Initiation, ReplicaSetFacts, ServerContext, ServerFacts};
use platform::{Disk, Random, RealDisk, SystemClock, SystemRandom, TemporaryStore, WorkingMemory, memory_check};
use server::configuration::{Configuration, ReplicaSet, ReplicaSetInitiation, Settings, machine_memory_bytes};
use server::console::{self, ConsoleOptions};
use server::{
    CommandService, DiagnosticLog, FlightRecording, HttpEndpoint, Listeners, LogDestination, STARTUP_WARNINGS,
    ServeOptions, ServerHandle, Tls, Warnings, metrics,
};
use storage_engine::EngineOptions;
use transaction::{StoreOptions, TransactionError};

use crate::archiving::Archiving;
use crate::audit_log::AuditLog;
use crate::data_disk::DataDisk;
use crate::database_service::{DatabaseService, Hooks, RecentLines, Threads};
use crate::health_command::HealthArguments;
use crate::inspect_command::InspectArguments;
use crate::lab_command::{LabArguments, become_lab};
use crate::memory_plan::MemoryPlan;

mod allocator;
mod archiving;
mod audit_log;
mod backup_command;
mod data_disk;
mod database_service;
mod decoy_secret;
mod descriptor_limit;
mod following;
mod health_command;
mod inspect_command;
mod lab_command;
mod memory_plan;
mod memory_watch;
mod mongod_command;
mod movable_clock;
mod profile_sampler;
mod remote_access;
mod repair_command;
mod restore_command;
mod restore_into;
mod rotate_key_command;
mod small_disk;
mod user_command;
mod whoever_started;

/// Where sorts and groups put what exceeds their memory, inside the data directory.
const TEMPORARY_DIRECTORY: &str = "temporary";
/// Its value is never told.
const SECRET_OPTION: &str = "--tlsCertificateKeyFilePassword";
/// It may have secrets among its arguments.
const SECRET_COMMAND: &str = "--encryption-key-command";
const HIDDEN: &str = "<password>";
/// Seconds until the operator has started the server again.
const ENOUGH_FOR_A_START: i64 = 3600;

/// A document database that speaks the MongoDB wire protocol.
#[derive(Parser)]
#[command(
    name = "plimsoll",
    version,
    after_help = "`plimsoll` alone serves with the defaults. See `plimsoll serve --help` for all settings."
)]
struct CommandLine {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Serve clients until SIGTERM or SIGINT. This is what `plimsoll` does when no command is named
    #[command(
        after_help = "A flag wins over the environment, the environment over the file, the file over the default."
    )]
    Serve(Box<Settings>),
    /// Serve as MongoDB's server is told to by its command line: see `plimsoll mongod --help`. Calling the program by the name mongod does the same
    #[command(disable_help_flag = true)]
    Mongod {
        /// Options of mongod
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<OsString>,
    },
    /// Show what is in a data directory that no server is using: superblocks, checkpoints, trees, a page, the oplog
    Inspect(InspectArguments),
    /// Save what can be read of a damaged data directory into a new one. Ends with 2 when something was lost
    Repair(repair_command::RepairArguments),
    /// Copy a running server's data to a place for backups; `backup list`, `verify` and `prune` are about those that are there
    Backup(LabArguments),
    /// Make a new data directory from a backup and the archive, as of any moment behind it
    Restore(restore_command::RestoreArguments),
    /// Ask a server whether it serves: ends with 0, with 1 and the reason when nothing is written, with 2 when nobody answers
    Health(HealthArguments),
    /// Change the key of a stopped server's encrypted data directory. No data is written
    RotateKey(rotate_key_command::RotateKeyArguments),
    /// Make a user without a login: the first one, or the way out when the last password is lost
    User(user_command::UserArguments),
    /// Print what a shell needs to complete this program's command line
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// Write the manual pages into a directory
    #[command(hide = true)]
    ManualPages {
        /// The directory
        directory: std::path::PathBuf,
    },
    /// Run a workload against any MongoDB-compatible server and measure it
    Bench(LabArguments),
    /// Sample a server process, or read profiles that others made: top functions, flame graphs
    Profile(LabArguments),
    /// Is B better or worse than A, and why: result directories, servers or server programs
    Compare(LabArguments),
    /// When did figures change over many results, worst first
    History(LabArguments),
    /// How linear does a capped collection lie on disk, as SERVER-17561 measures it
    Layout(LabArguments),
    /// Are the guarantees kept? Tests each against any server, or against one that is started for it
    Certify(LabArguments),
    /// What a server went through, from the figures in its data directory: one report, with what to do
    Diagnose(LabArguments),
    /// What a server does now and what is wrong with it, once
    Status(LabArguments),
    /// The same again and again, with the busiest collections and the longest operations
    Top(LabArguments),
    /// Copy databases from one MongoDB-compatible server to another, and follow what changes meanwhile
    Copy(LabArguments),
    /// What of a MongoDB-compatible server's use would be refused here, before anybody moves
    Check(LabArguments),
}

fn main() -> ExitCode {
    let outcome = match CommandLine::parse_from(with_default_command()).command {
        Command::Serve(settings) => serve(*settings, &Running::default()).map(|()| ExitCode::SUCCESS),
        Command::Mongod { arguments } => mongod_command::run(&arguments).map(|()| ExitCode::SUCCESS),
        Command::Backup(arguments) => backup_command::run(arguments),
        Command::Restore(arguments) => restore_command::run(&arguments),
        Command::Inspect(arguments) => inspect_command::run(&arguments).map(|()| ExitCode::SUCCESS),
        Command::Health(arguments) => health_command::run(&arguments),
        Command::RotateKey(arguments) => rotate_key_command::run(&arguments).map(|()| ExitCode::SUCCESS),
        Command::User(arguments) => user_command::run(&arguments).map(|()| ExitCode::SUCCESS),
        Command::Completions { shell } => {
            clap_complete::generate(shell, &mut CommandLine::command(), "plimsoll", &mut std::io::stdout());
            Ok(ExitCode::SUCCESS)
        }
        Command::ManualPages { directory } => clap_mangen::generate_to(CommandLine::command(), &directory)
            .map(|()| ExitCode::SUCCESS)
            .map_err(|error| format!("{}: {error}", directory.display())),
        Command::Bench(arguments) => Err(become_lab("bench", arguments)),
        Command::Profile(arguments) => Err(become_lab("profile", arguments)),
        Command::Compare(arguments) => Err(become_lab("compare", arguments)),
        Command::History(arguments) => Err(become_lab("history", arguments)),
        Command::Layout(arguments) => Err(become_lab("layout", arguments)),
        Command::Certify(arguments) => Err(become_lab("certify", arguments)),
        Command::Diagnose(arguments) => Err(become_lab("diagnose", arguments)),
        Command::Status(arguments) => Err(become_lab("status", arguments)),
        Command::Top(arguments) => Err(become_lab("top", arguments)),
        Command::Copy(arguments) => Err(become_lab("copy", arguments)),
        Command::Check(arguments) => Err(become_lab("check", arguments)),
        Command::Repair(arguments) => {
            repair_command::run(&arguments).map(|is_whole| ExitCode::from(if is_whole { 0 } else { 2 }))
        }
    };
    outcome.unwrap_or_else(|message| {
        eprintln!("plimsoll: {message}");
        ExitCode::FAILURE
    })
}

/// The arguments, with `serve` put in where no command is named, and `mongod` where that is what the program was called.
/// `help COMMAND` becomes `COMMAND --help`: of some commands another program has the help.
fn with_default_command() -> Vec<OsString> {
    let mut arguments: Vec<_> = std::env::args_os().collect();
    let called = arguments.first().map(|program| Path::new(program).file_name() == Some(OsStr::new("mongod")));
    if called == Some(true) {
        arguments.insert(1, "mongod".into());
    }
    let first = arguments.get(1).and_then(|first| first.to_str());
    let of_serve = |first: &str| first.starts_with('-') && !["-h", "--help", "-V", "--version"].contains(&first);
    if first.is_none_or(of_serve) {
        arguments.insert(1.min(arguments.len()), "serve".into());
    }
    if arguments.len() == 3 && arguments[1] == "help" {
        arguments[1] = "--help".into();
        arguments.swap(1, 2);
    }
    arguments
}

/// How the process runs, beside what the server is told.
pub(crate) struct Running {
    /// Where the log goes.
    pub(crate) log: LogDestination,
    /// Server parameters to set before clients are served, each with its value.
    pub(crate) parameters: Vec<(String, String)>,
    /// Gets what stops the server, for whoever runs it on a thread of his own.
    pub(crate) handle: Option<Sender<ServerHandle>>,
}

impl Default for Running {
    fn default() -> Self {
        Self { log: LogDestination::StandardError, parameters: Vec::new(), handle: None }
    }
}

fn serve(settings: Settings, running: &Running) -> Result<(), String> {
    allocator::limit_heaps();
    let machine_bytes = machine_memory_bytes().map_err(|error| error.to_string())?;
    let mut configuration = Configuration::resolve(settings, machine_bytes).map_err(|error| error.to_string())?;
    let mut listeners = Listeners::bind(&configuration.listen).map_err(|error| error.to_string())?;
    if let Some(socket) = &configuration.unix_socket {
        listeners.bind_unix(socket).map_err(|error| error.to_string())?;
    }
    let log = DiagnosticLog::install(configuration.log_format, configuration.log_level.clone(), running.log.clone())
        .map_err(|error| format!("cannot start the diagnostic log: {error}"))?;
    log.set_redaction(configuration.redacts);
    let outcome = serve_logged(&mut configuration, listeners, &log, running);
    log.flush();
    outcome
}

fn serve_logged(
    configuration: &mut Configuration,
    listeners: Listeners,
    log: &DiagnosticLog,
    running: &Running,
) -> Result<(), String> {
    configuration.connections_max = descriptor_limit::connections_possible(configuration.connections_max)?;
    tracing::info!(
        target: "control",
        version = env!("CARGO_PKG_VERSION"),
        data = %configuration.data.display(),
        memory_bytes = configuration.memory_bytes,
        cache_bytes = configuration.cache_bytes,
        connections_max = configuration.connections_max,
        "starting"
    );
    remote_access::check(
        &listeners.addresses(),
        configuration.requires_login,
        configuration.allows_remote_without_login,
        &configuration.data,
    )?;
    let tls = configuration.tls.clone().map(Tls::load).transpose().map_err(|error| error.to_string())?.map(Arc::new);
    let audit = configuration.audit.as_ref().map(AuditLog::open).transpose()?;
    let handle = ServerHandle::new(configuration.connection_limits(), log.clone());
    if let Some(waiting) = &running.handle {
        // Nobody waits for it any more.
        let _ = waiting.send(handle.clone());
    }
    if configuration.checks_memory {
        memory_check::begin_counting();
    }
    let plan = MemoryPlan::new(configuration);
    plan.warn_if_tight();
    allocator::keep_within(configuration.memory_bytes);
    let mut options = ServeOptions {
        compressors: configuration.compressors.clone(),
        memory: plan.budget.clone(),
        stop_grace: configuration.stop_grace,
        tls: tls.clone(),
        http: Vec::new(),
    };
    let hooks = Hooks::new(handle.clone(), tls, audit);
    let warnings = Arc::clone(&hooks.warnings);
    let service = Arc::new(open_service(configuration, plan, &listeners, hooks)?);
    match http_endpoints(configuration, &service, &handle, &options) {
        Ok(endpoints) => options.http = endpoints,
        Err(reason) => return give_up(&service, reason),
    }
    let set = running.parameters.iter().try_for_each(|(name, value)| service.set_parameter(name, value));
    if let Err(refused) = set {
        return give_up(&service, refused);
    }
    log.start_is_over();
    if configuration.stops_with_input {
        whoever_started::stop_with_input(handle.clone())?;
    }
    let recording = begin_recording(configuration, Arc::clone(&service), warnings);
    let outcome = server::serve(listeners, service, &handle, &options).map_err(|error| error.to_string());
    if let Some(recording) = recording {
        recording.stop();
    }
    outcome?;
    tracing::info!(target: "control", "stopped");
    Ok(())
}

/// What is answered over HTTP.
fn http_endpoints(
    configuration: &Configuration,
    service: &Arc<DatabaseService>,
    handle: &ServerHandle,
    options: &ServeOptions,
) -> Result<Vec<HttpEndpoint>, String> {
    let mut endpoints = Vec::new();
    if let Some(address) = &configuration.metrics {
        let figures = metrics::router(Arc::clone(service) as Arc<dyn metrics::StatusSource>);
        endpoints.push(HttpEndpoint::bind(address)?.answering(figures));
    }
    if let Some(listen) = &configuration.console {
        let endpoint = HttpEndpoint::bind(listen)?.encrypted(options.tls.clone());
        let address = endpoint.address().ok_or_else(|| format!("{listen} has no address"))?;
        remote_access::check_console(address, configuration, options.tls.is_some())?;
        let console = ConsoleOptions {
            listen: listen.clone(),
            address,
            is_encrypted: options.tls.is_some(),
            memory: Arc::clone(&options.memory),
            clock: Arc::new(SystemClock::new()),
        };
        endpoints.push(endpoint.answering(console::router(Arc::clone(service), handle.clone(), console)));
    }
    Ok(endpoints)
}

/// Where figures are recorded. Not the store's disk: they have nothing of documents in them, and are read without a key.
fn figures_disk(configuration: &Configuration) -> std::io::Result<Option<Arc<dyn Disk>>> {
    match configuration.ephemeral_bytes {
        Some(_) => Ok(None),
        None => RealDisk::new(&configuration.data).map(|disk| Some(Arc::new(disk) as Arc<dyn Disk>)),
    }
}

/// Without it the server serves all the same.
fn begin_recording(
    configuration: &Configuration,
    service: Arc<DatabaseService>,
    warnings: Warnings,
) -> Option<FlightRecording> {
    let bytes = configuration.flight_recorder_bytes;
    let kept = figures_disk(configuration).map(|disk| disk.filter(|_| bytes > 0).map(|disk| (disk, bytes)));
    let begun = kept.and_then(|kept| FlightRecording::begin(service, Arc::new(SystemClock::new()), kept, warnings));
    begun.inspect_err(|error| tracing::warn!(target: "control", %error, "the server's figures are not recorded")).ok()
}

/// Closes what was opened, since it cannot be served.
fn give_up(service: &DatabaseService, reason: String) -> Result<(), String> {
    service.stopping();
    service.stopped();
    Err(reason)
}

/// Opens the data directory, which recovers what the last run left, and puts the commands on top of it.
fn open_service(
    configuration: &Configuration,
    plan: MemoryPlan,
    listeners: &Listeners,
    mut hooks: Hooks,
) -> Result<DatabaseService, String> {
    let data = &configuration.data;
    let cannot = |what: &str, cause: &dyn std::fmt::Display| format!("{what} {}: {cause}", data.display());
    let DataDisk { disk, memory: disk_in_memory, lock } = data_disk::open_for_server(configuration)?;
    let clock = Arc::clone(&hooks.clock);
    let random = Arc::new(SystemRandom);
    let options = store_options(configuration, &plan, &*random);
    hooks.backup = archiving::facts(configuration)?;
    hooks.figures = figures_disk(configuration).ok().flatten();
    hooks.decoy_secret = decoy_secret::of_directory(&*disk, &*random);
    let temporary = TemporaryStore::open(disk.clone(), Path::new(TEMPORARY_DIRECTORY))
        .map_err(|error| cannot("cannot use the temporary files of", &error))?;
    let (store, following) = following::open_store(configuration, disk, clock.clone(), options, &hooks.handle)
        .map_err(|error| cannot("cannot open the database in", &error) + &way_out(&error, data))?;
    let recovery = store.recovery();
    tracing::info!(target: "storage", ?recovery, "the database is open");
    if let Some(reason) = store.writes_stopped() {
        tracing::warn!(target: STARTUP_WARNINGS, reason, "the server takes no writes");
    }
    if configuration.checks_memory {
        memory_watch::begin(&store, &plan.budget, &plan.reserved, disk_in_memory);
    }
    store.start_background().map_err(|error| cannot("cannot start the background work of", &error))?;
    let archiving = Archiving::begin(configuration, &store, &hooks.backup)?;
    hooks.archive = archiving.as_ref().map(Archiving::watch);
    let facts = server_facts(configuration, listeners);
    let lines = RecentLines { log: hooks.handle.log().clone(), warnings: Arc::clone(&hooks.warnings) };
    let lines = Arc::new(lines);
    let memory = WorkingMemory::new(plan.budget, temporary);
    let clock = store.clock().clone();
    let context = ServerContext::new(store, clock, &*random, facts, Arc::new(hooks), lines, memory);
    context.begin().map_err(|error| cannot("cannot take up the replica set in", &error))?;
    context.redact(configuration.redacts);
    context.audit_itself("startup").map_err(|error| error.message)?;
    context.note_start();
    if let Err(error) = context.store_own_documents() {
        // A disk that is full: everything else works.
        tracing::warn!(target: STARTUP_WARNINGS, %error, "the document of the feature compatibility version could not be stored");
    }
    if let Err(error) = context.drop_abandoned_outputs() {
        tracing::warn!(target: STARTUP_WARNINGS, %error, "what an unfinished $out has left could not be dropped");
    }
    let directory = lock.as_ref().map(|_| data.clone());
    if let Some(data) = &directory {
        user_command::take_in(data, &context);
    }
    Ok(DatabaseService::new(context, lock, plan.reserved, directory, Threads { archiving, following }))
}

fn store_options(configuration: &Configuration, plan: &MemoryPlan, random: &dyn Random) -> StoreOptions {
    let mut database_uuid = [0; 16];
    random.fill(&mut database_uuid);
    let engine = EngineOptions {
        history_memory_bytes: plan.history_bytes,
        history_quota_bytes: configuration.history_bytes,
        ring_buffer_bytes: plan.ring_bytes,
        memory: Arc::clone(&plan.budget),
        cache_bytes: usize::try_from(configuration.cache_bytes).unwrap_or(usize::MAX),
        database_uuid,
        ..EngineOptions::default()
    };
    let mut options = StoreOptions { engine, ..StoreOptions::default() };
    options.clock_drift_max = configuration.clock_drift_max;
    options.oplog_retention_bytes = configuration.oplog_bytes;
    options.oplog_retention_time = configuration.oplog_time;
    options.oplog.buffer_bytes_max = plan.log_bytes;
    if let Some(bytes) = configuration.ephemeral_bytes {
        small_disk::fit(&mut options, bytes);
    }
    options
}

/// What to do about a database that does not open.
fn way_out(error: &TransactionError, data: &Path) -> String {
    let data = data.display();
    if error.is_damage() {
        return format!(
            ". Opening it would lose something, so nothing was changed. `plimsoll repair --data {data} --into NEWDIR` saves everything that can be read \
             into a new directory, and says what cannot"
        );
    }
    if let TransactionError::ClockAhead { ahead_seconds, .. } = error {
        let enough = ahead_seconds + ENOUGH_FOR_A_START;
        return format!(
            ". Nothing was changed. Set the clock right; if it is right, because nobody has written for so long, start once with \
             --max-clock-drift-seconds {enough} (mongod: --setParameter maxAcceptableLogicalClockDriftSecs={enough})"
        );
    }
    String::new()
}

fn server_facts(configuration: &Configuration, listeners: &Listeners) -> ServerFacts {
    let mut listed = bson::RawDocumentBuf::new();
    let addresses = configuration.listen.join(",");
    let (data, memory, cache) =
        (configuration.data.display().to_string(), configuration.memory_bytes, configuration.cache_bytes);
    listed.append(
        cstr!("net"),
        rawdoc! { "listen": addresses, "maxIncomingConnections": configuration.connections_max as i64 },
    );
    listed
        .append(cstr!("storage"), rawdoc! { "dbPath": data, "memoryBytes": memory as i64, "cacheBytes": cache as i64 });
    let host_name = rustix::system::uname().nodename().to_string_lossy().into_owned();
    ServerFacts {
        build: BuildFacts {
            version: env!("CARGO_PKG_VERSION"),
            git_version: option_env!("PLIMSOLL_GIT_VERSION").unwrap_or("unknown"),
        },
        arguments: told_arguments(std::env::args()),
        configuration: listed,
        port: listeners.addresses().first().map_or(0, std::net::SocketAddr::port),
        memory_bytes: memory,
        cache_bytes: cache,
        compressors: configuration.compressors.iter().map(|compressor| compressor.name()).collect(),
        connections_max: configuration.connections_max as u64,
        has_test_commands: configuration.has_test_commands,
        has_scripting: configuration.has_scripting,
        authorization: match (configuration.requires_login, configuration.has_localhost_exception) {
            (false, _) => Authorization::Disabled,
            (true, true) => Authorization::Enabled,
            (true, false) => Authorization::EnabledForAll,
        },
        replica_set: configuration.replica_set.as_ref().map(|set| replica_set_facts(set, listeners, &host_name)),
        host_name,
    }
}

/// The arguments as clients are told them: a passphrase is none of their business.
fn told_arguments(arguments: impl Iterator<Item = String>) -> Vec<String> {
    let mut told = Vec::new();
    let mut is_secret = false;
    for argument in arguments {
        let named = argument.split_once('=').map_or(argument.as_str(), |(name, _)| name);
        let is_name = [SECRET_OPTION, SECRET_COMMAND].contains(&named);
        told.push(match argument.contains('=') {
            _ if is_secret => HIDDEN.to_owned(),
            true if is_name => format!("{named}={HIDDEN}"),
            _ => argument.clone(),
        });
        is_secret = is_name && !argument.contains('=');
    }
    told
}

fn replica_set_facts(set: &ReplicaSet, listeners: &Listeners, host_name: &str) -> ReplicaSetFacts {
    ReplicaSetFacts {
        name: set.name.clone(),
        advertised: set.advertised.clone(),
        address: reachable_address(listeners, host_name),
        initiation: match set.initiation {
            ReplicaSetInitiation::Automatic => Initiation::Automatic,
            ReplicaSetInitiation::OnCommand => Initiation::OnCommand,
        },
    }
}

/// Where others find the first listener: what listens on all addresses is found by the name of the host.
fn reachable_address(listeners: &Listeners, host_name: &str) -> String {
    match listeners.addresses().first() {
        Some(address) if address.ip().is_unspecified() => format!("{host_name}:{}", address.port()),
        Some(address) => address.to_string(),
        None => host_name.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passphrases_are_not_among_the_arguments_that_clients_are_told() {
        let words = ["mongod", "--tlsCertificateKeyFilePassword=se=cret", SECRET_OPTION, "secret", "--port", "1"];
        let command = told_arguments([SECRET_COMMAND, "vault --token secret"].iter().map(|word| (*word).to_owned()));
        assert_eq!(command, [SECRET_COMMAND, HIDDEN]);
        let told = told_arguments(words.iter().map(|word| (*word).to_owned()));
        let hidden = format!("{SECRET_OPTION}={HIDDEN}");
        assert_eq!(told, ["mongod", hidden.as_str(), SECRET_OPTION, HIDDEN, "--port", "1"]);
    }
}
