//! `plimsoll mongod`, or the binary called by the name `mongod`: the command line of MongoDB's server, for whoever starts one by it (test
//! runners, service managers, scripts). Called by `main`.
//!
//! ```text
//! arguments ─┬─ --config FILE ─ configuration_file: its keys as options ─┐
//!            └───────────────────────────────────────────────────────────┴─ Options ─ Settings ─ serve
//! ```
//!
//! An option that names what this server does not do is refused by its name (`refused`), never ignored. The log is in MongoDB's format, on
//! standard output unless `--logpath` says otherwise.

mod background;
mod configuration_file;
mod options;
mod refused;

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Parser;
use server::configuration::{ReplicaSetInitiation, Settings, Size};
use server::{LogDestination, LogFormat};

use self::options::Options;
use crate::Running;

const PORT: u16 = 27017;
const DATA: &str = "/data/db";

/// What else the process is told, in the environment: the settings that MongoDB's command line has no options for.
#[derive(Parser)]
struct Environment {
    #[command(flatten)]
    settings: Settings,
}

/// Runs with the arguments after the program's name.
pub(crate) fn run(arguments: &[OsString]) -> Result<(), String> {
    let options = parse(arguments)?;
    if options.version {
        print!("{}", version());
        return Ok(());
    }
    let data = options.dbpath.clone().unwrap_or_else(|| PathBuf::from(DATA));
    if options.shutdown {
        return background::shut_down(&data);
    }
    if options.fork && !options.forked {
        return background::fork(arguments, &options);
    }
    if options.forked {
        background::detach()?;
    }
    let settings = settings(&options, data)?;
    let running = Running { log: log_destination(&options)?, parameters: parameters(&options)?, handle: None };
    let _pid_file = options.pidfilepath.as_deref().map(background::PidFile::write).transpose()?;
    crate::serve(settings, &running).inspect_err(|error| complain(error))
}

/// The options of the arguments, and of the configuration file that they name.
fn parse(arguments: &[OsString]) -> Result<Options, String> {
    refused::check_arguments(arguments)?;
    let given = read(arguments);
    let Some(file) = &given.config else { return Ok(given) };
    let mut all = configuration_file::read(file)?;
    all.extend_from_slice(arguments);
    Ok(read(&all))
}

/// Ends the process with what is wrong with the arguments, as `--help` does.
fn read(arguments: &[OsString]) -> Options {
    Options::parse_from(std::iter::once(OsString::from("mongod")).chain(arguments.iter().cloned()))
}

/// What wrappers look for when the server cannot start, on standard output in the log's format.
fn complain(error: &str) {
    let cause = if error.starts_with("address in use") {
        format!("SocketException: Address already in use: {error}")
    } else {
        error.to_owned()
    };
    let line = serde_json::json!({
        "s": "E", "c": "CONTROL", "id": 20568, "ctx": "initandlisten", "msg": "Error setting up listener or data directory",
        "attr": { "error": cause },
    });
    println!("{line}");
}

fn version() -> String {
    let announced = commands::ANNOUNCED_VERSION;
    let information = serde_json::json!({
        "version": announced, "gitVersion": option_env!("PLIMSOLL_GIT_VERSION").unwrap_or("unknown"), "modules": [],
        "plimsoll": env!("CARGO_PKG_VERSION"),
    });
    format!("db version v{announced}\nBuild Info: {information:#}\n")
}

/// The settings of `plimsoll serve` that the options stand for.
fn settings(options: &Options, data: PathBuf) -> Result<Settings, String> {
    let environment = Environment::parse_from(["plimsoll"]).settings;
    let is_ephemeral = options.is_ephemeral();
    let given = Settings {
        data: (!is_ephemeral).then_some(data),
        ephemeral: is_ephemeral.then_some(true),
        listen: Some(options.addresses(PORT)),
        auth: options.auth().then_some(true),
        audit: options.audit_path()?,
        audit_filter: options.audit.filter.clone(),
        redact: options.redact_client_log_data.then_some(true),
        insecure_no_authentication: options.noauth.then_some(true),
        cache: options
            .wired_tiger_cache_size_gb
            .map(|gigabytes| bytes("wiredTigerCacheSizeGB", gigabytes, 1 << 30))
            .transpose()?,
        oplog_size: options.oplog_size.map(|megabytes| bytes("oplogSize", megabytes, 1 << 20)).transpose()?,
        oplog_min_retention_hours: options.oplog_min_retention_hours,
        max_connections: options.max_conns,
        encryption_key_file: options.encryption.key_file()?,
        tls_mode: options.tls.mode(),
        tls_certificate_key_file: options.tls.certificate_key_file.clone(),
        tls_certificate_key_password: options.tls.certificate_key_file_password.clone(),
        tls_ca_file: options.tls.ca_file.clone(),
        tls_crl_file: options.tls.crl_file.clone(),
        tls_allow_connections_without_certificates: options.tls.allow_connections_without_certificates.then_some(true),
        tls_disabled_protocols: options.tls.disabled_protocols.clone(),
        unix_socket: options.unix_socket(PORT),
        unix_socket_permissions: options.file_permissions.clone(),
        compressors: options.network_message_compressors.clone(),
        log_format: Some(LogFormat::Json),
        log_level: options.log_level(),
        replica_set: options.repl_set.clone(),
        replica_set_initiation: options.repl_set.is_some().then_some(ReplicaSetInitiation::OnCommand),
        enable_test_commands: enabled_by_parameter(options, TEST_COMMANDS)?,
        no_scripting: options.noscripting.then_some(true),
        localhost_exception: enabled_by_parameter(options, LOCALHOST_EXCEPTION)?,
        max_clock_drift_seconds: clock_drift(options)?,
        ..Settings::default()
    };
    Ok(given.or(environment))
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked to be positive and small enough")]
fn bytes(option: &str, count: f64, unit: u64) -> Result<Size, String> {
    if count > 0.0 && count < 1e9 {
        return Ok(Size::Bytes((count * unit as f64) as u64));
    }
    Err(format!("--{option}: {count} is not a size"))
}

fn log_destination(options: &Options) -> Result<LogDestination, String> {
    match &options.logpath {
        None if options.logappend => Err("--logappend means nothing without --logpath".to_owned()),
        None => Ok(LogDestination::StandardOutput),
        Some(path) => Ok(LogDestination::File { path: path.clone(), appends: options.logappend }),
    }
}

/// The parameters that are settled before the server is there.
const TEST_COMMANDS: &str = "enableTestCommands";
const LOCALHOST_EXCEPTION: &str = "enableLocalhostAuthBypass";
const CLOCK_DRIFT: &str = "maxAcceptableLogicalClockDriftSecs";
/// A switch of what this server has none of: it is off.
const DIAGNOSTIC_DATA: &str = "diagnosticDataCollectionEnabled";

fn enabled_by_parameter(options: &Options, parameter: &str) -> Result<Option<bool>, String> {
    let Some((name, value)) = options.parameters()?.into_iter().find(|(name, _)| name == parameter) else {
        return Ok(None);
    };
    boolean(&value).map(Some).ok_or_else(|| format!("--setParameter {name}: '{value}' is neither true nor false"))
}

fn clock_drift(options: &Options) -> Result<Option<u64>, String> {
    let Some((name, value)) = options.parameters()?.into_iter().find(|(name, _)| name == CLOCK_DRIFT) else {
        return Ok(None);
    };
    let seconds = value.parse().ok().filter(|seconds| *seconds > 0);
    seconds.map(Some).ok_or_else(|| format!("--setParameter {name}: '{value}' is not a number of seconds"))
}

fn boolean(value: &str) -> Option<bool> {
    match value {
        "1" | "true" => Some(true),
        "0" | "false" => Some(false),
        _ => None,
    }
}

/// The parameters that are set, as `setParameter` does, once the server is there.
fn parameters(options: &Options) -> Result<Vec<(String, String)>, String> {
    let mut given = options.parameters()?;
    let is_settled = |name: &str| [TEST_COMMANDS, LOCALHOST_EXCEPTION, CLOCK_DRIFT].contains(&name);
    given.retain(|(name, value)| !is_settled(name) && (name != DIAGNOSTIC_DATA || boolean(value) != Some(false)));
    Ok(given)
}

#[cfg(test)]
mod tests;
