#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]
//! The binary `plimsoll`: reads the command line, sets the process up, and serves a database (`server::Database`).

use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::process::ExitCode;
use std::sync::mpsc::Sender;

use clap::{CommandFactory, Parser, Subcommand};
use platform::memory_check;
use server::configuration::{Configuration, Settings, machine_memory_bytes};
use server::{Database, DiagnosticLog, EndError, Listeners, LogDestination, ServerHandle, Signals, Surroundings};

use crate::health_command::HealthArguments;
use crate::inspect_command::InspectArguments;
use crate::lab_command::{LabArguments, become_lab};

mod allocator;
mod backup_command;
mod descriptor_limit;
mod health_command;
mod inspect_command;
mod lab_command;
mod log_command;
mod log_create_command;
mod log_restore_command;
mod mongod_command;
mod profile_sampler;
mod repair_command;
mod restore_command;
mod restore_into;
mod rotate_key_command;
mod user_command;
mod whoever_started;

/// Its value is never told.
const SECRET_OPTION: &str = "--tlsCertificateKeyFilePassword";
/// It may have secrets among its arguments.
const SECRET_COMMAND: &str = "--encryption-key-command";
const HIDDEN: &str = "<password>";

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
    /// Look after the shared log of a replica set: make it, check it, have a copy of the data made beside it, trim it
    Log(log_command::LogArguments),
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
        Command::Log(arguments) => log_command::run(&arguments),
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
    let addresses: Vec<String> = listeners.addresses().iter().map(ToString::to_string).collect();
    let mut outcome = serve_logged(&mut configuration, listeners, &log, running);
    // A member of a replica set that was overtaken opens its store anew, where clients have found it.
    while let Ok(Ended::ToBeginAgain) = outcome {
        let bound = Listeners::bind(&addresses).and_then(|mut listeners| {
            configuration.unix_socket.as_ref().map_or(Ok(()), |socket| listeners.bind_unix(socket)).map(|()| listeners)
        });
        outcome = match bound {
            Ok(listeners) => serve_logged(&mut configuration, listeners, &log, running),
            Err(error) => Err(error.to_string()),
        };
    }
    log.flush();
    outcome.map(|_| ())
}

/// How a server has ended.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ended {
    ForGood,
    ToBeginAgain,
}

fn serve_logged(
    configuration: &mut Configuration,
    listeners: Listeners,
    log: &DiagnosticLog,
    running: &Running,
) -> Result<Ended, String> {
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
    let handle = ServerHandle::new(configuration.connection_limits(), log.clone());
    if let Some(waiting) = &running.handle {
        // Nobody waits for it any more.
        let _ = waiting.send(handle.clone());
    }
    if configuration.checks_memory {
        memory_check::begin_counting();
    }
    allocator::keep_within(configuration.memory_bytes);
    let surroundings = Surroundings {
        handle: handle.clone(),
        arguments: told_arguments(std::env::args()),
        parameters: running.parameters.clone(),
        sample_profile: Some(profile_sampler::sample),
        signals: Signals::OfServer,
    };
    let database = Database::open(configuration, listeners, surroundings).map_err(|error| error.to_string())?;
    let watched =
        if configuration.stops_with_input { whoever_started::stop_with_input(handle.clone()) } else { Ok(()) };
    if let Err(reason) = watched {
        // The first reason is the one to tell; trouble with closing is in the log.
        let _ = database.close();
        return Err(reason);
    }
    match database.serve() {
        // It is in the log, and the next start recovers.
        Ok(()) | Err(EndError::NotInOrder(_)) => {}
        Err(error) => return Err(error.to_string()),
    }
    tracing::info!(target: "control", "stopped");
    Ok(if handle.wants_reopening() { Ended::ToBeginAgain } else { Ended::ForGood })
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
