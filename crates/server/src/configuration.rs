//! What the server is told: flags before environment before the configuration file before defaults. Called by `main`.

mod audit;
mod encryption;
mod ephemeral;
mod log_place;
mod log_window;
mod otlp;
mod replica_set;
mod settings;
mod size;
mod transport;

use std::path::{Path, PathBuf};
use std::time::Duration;

use tracing_subscriber::filter::Targets;
use wire_protocol::Compressor;

use crate::handle::ConnectionLimits;
use crate::logging::LogFormat;
use crate::tls::TlsSettings;

pub use audit::{AuditConfiguration, AuditDestination, AuditMode};
pub use encryption::KeySource;
pub use log_place::LogPlace;
pub use log_window::LogWindow;
pub use otlp::TraceConfiguration;
pub use platform::machine_memory_bytes;
pub use replica_set::{ReplicaSet, ReplicaSetInitiation};
pub use settings::Settings;
pub use size::Size;
pub use transport::UnixSocketSettings;

const PORT: &str = "27017";
const MEMORY_PERCENT: f64 = 50.0;
const CACHE_PERCENT: f64 = 60.0;
const CACHE_PERCENT_MIN: f64 = 25.0;
/// What a small budget has beside the cache: buffers and what is fixed, 64 MiB, and 96 MiB for commands.
const BESIDE_CACHE_BYTES: u64 = 160 << 20;
/// An explicit cache without an explicit budget raises the budget to this much more than the cache, if it must.
const MEMORY_PER_CACHE_PERCENT: u64 = 125;
const MEMORY_BYTES_MIN: u64 = 32 << 20;
const CACHE_BYTES_MIN: u64 = 4 << 20;
const HISTORY_BYTES: u64 = 16 << 30;
const HISTORY_BYTES_MIN: u64 = 16 << 20;
const OPLOG_BYTES: u64 = 1 << 30;
const FLIGHT_RECORDER_BYTES: u64 = 200 << 20;
const FLIGHT_RECORDER_BYTES_MIN: u64 = 16 << 20;
const CONNECTIONS_MAX: usize = 65_536;
/// What one address of another machine may have of all connections, so that some are left to others.
const CONNECTIONS_PER_ADDRESS_PERCENT: usize = 80;
const STOP_GRACE: Duration = Duration::from_secs(10);
const CLOCK_DRIFT_MAX: Duration = Duration::from_secs(365 * 24 * 3600);

/// Why the configuration cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ConfigurationError {
    /// The file cannot be read.
    #[error("cannot read the configuration file {path}: {error}")]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the system says.
        error: std::io::Error,
    },
    /// The file is not TOML, or has an unknown key, or a value of a wrong type.
    #[error("in the configuration file {path}: {error}")]
    Malformed {
        /// The file.
        path: PathBuf,
        /// Where and what.
        error: Box<toml::de::Error>,
    },
    /// A setting has a value that cannot be.
    #[error("{setting}: {reason}")]
    BadValue {
        /// Name of the setting.
        setting: &'static str,
        /// What is wrong with it.
        reason: String,
    },
}

impl ConfigurationError {
    fn bad_value(setting: &'static str, reason: impl Into<String>) -> Self {
        Self::BadValue { setting, reason: reason.into() }
    }
}

/// Everything settled.
#[derive(Debug, Clone)]
pub struct Configuration {
    /// Directory of the data; nothing is there when the server is ephemeral.
    pub data: PathBuf,
    /// How many bytes of files an ephemeral server has room for in memory; `None`: the data is in the directory.
    pub ephemeral_bytes: Option<u64>,
    /// Addresses to listen on, each `HOST:PORT`.
    pub listen: Vec<String>,
    /// Whether those may be beyond this machine, though nobody has to say who they are.
    pub allows_remote_without_login: bool,
    /// Whether clients have to log in.
    pub requires_login: bool,
    /// Whether the first user can be made from this machine without one.
    pub has_localhost_exception: bool,
    /// The audit log, if there is one.
    pub audit: Option<AuditConfiguration>,
    /// Whether the diagnostics log shows no values of documents.
    pub redacts: bool,
    /// The budget for all memory, in bytes.
    pub memory_bytes: u64,
    /// The part of the budget that caches pages, in bytes.
    pub cache_bytes: u64,
    /// The most that is kept of old versions for open snapshots, in bytes.
    pub history_bytes: u64,
    /// How much of the oplog is kept beyond what recovery needs, in bytes.
    pub oplog_bytes: u64,
    /// For how long it is kept at least.
    pub oplog_time: Option<Duration>,
    /// What diagnostic lines look like.
    pub log_format: LogFormat,
    /// Which diagnostic lines are written.
    pub log_level: Targets,
    /// The most connections at once.
    pub connections_max: usize,
    /// The most connections from one address of another machine; `None`: a share of all.
    pub connections_per_address_max: Option<usize>,
    /// Where the key comes from that the data directory is encrypted with; `None`: it is not.
    pub encryption_key: Option<KeySource>,
    /// Where the key comes from that backups are encrypted with; `None`: that of the data directory, if there is one.
    pub backup_key: Option<KeySource>,
    /// Where the oplog is sent to.
    pub archive: Option<backup::Place>,
    /// How connections are encrypted; `None`: not.
    pub tls: Option<TlsSettings>,
    /// How much is kept of what the server's figures were, in bytes; 0: nothing.
    pub flight_recorder_bytes: u64,
    /// Where figures are told over HTTP, `HOST:PORT`, if they are.
    pub metrics: Option<String>,
    /// Where traces of operations are sent, if they are.
    pub traces: Option<TraceConfiguration>,
    /// Where the console is served, `HOST:PORT`, if it is.
    pub console: Option<String>,
    /// The socket in the file system, if there is one.
    pub unix_socket: Option<UnixSocketSettings>,
    /// Compressors offered to clients, the best first.
    pub compressors: Vec<Compressor>,
    /// How long running commands may take to end when the server stops.
    pub stop_grace: Duration,
    /// Whether it stops when standard input ends.
    pub stops_with_input: bool,
    /// How far the machine's clock may be ahead of the newest write at the start, and jump ahead later.
    pub clock_drift_max: Duration,
    /// Whether clients may make commands fail on purpose.
    pub has_test_commands: bool,
    /// Whether JavaScript of clients is run.
    pub has_scripting: bool,
    /// Whether what is allocated is compared with what the budget accounts for.
    pub checks_memory: bool,
    /// The replica set that the server is a member of.
    pub replica_set: Option<ReplicaSet>,
}

impl Configuration {
    /// Settles the configuration from what flags and environment say and the file they name, on a machine (or in a
    /// container) with `machine_bytes` of memory.
    ///
    /// # Errors
    /// When the file cannot be used, or a value cannot be.
    pub fn resolve(given: Settings, machine_bytes: u64) -> Result<Self, ConfigurationError> {
        let settings = match given.config.clone() {
            Some(path) => given.or(read_file(&path)?),
            None => given,
        };
        let (tls, unix_socket) = (transport::tls(&settings)?, transport::unix_socket(&settings)?);
        let traces = otlp::traces(&settings)?;
        let (audit, encryption_key) = (audit::audit(&settings)?, encryption::key_source(&settings)?);
        let is_ephemeral = ephemeral::check(&settings)?;
        let cache = ephemeral::cache(&settings, is_ephemeral);
        let (memory_bytes, cache_bytes) = memory_and_cache(settings.memory, cache, machine_bytes)?;
        let replica_set = ReplicaSet::resolve(&settings, memory_bytes)?;
        let listen = settings.listen.unwrap_or_else(|| vec![format!("127.0.0.1:{PORT}")]);
        if listen.is_empty() && unix_socket.is_none() {
            return Err(ConfigurationError::bad_value("listen", "at least one address is needed"));
        }
        let connections_max = settings.max_connections.unwrap_or(CONNECTIONS_MAX);
        if connections_max == 0 {
            return Err(ConfigurationError::bad_value("max-connections", "must be at least 1"));
        }
        if settings.max_connections_per_address == Some(0) {
            return Err(ConfigurationError::bad_value("max-connections-per-address", "must be at least 1"));
        }
        let level = settings.log_level.unwrap_or_else(|| "info".to_owned());
        Ok(Self {
            data: settings.data.unwrap_or_else(|| PathBuf::from("data")),
            ephemeral_bytes: is_ephemeral.then(|| ephemeral::file_bytes(memory_bytes, cache_bytes)).transpose()?,
            listen: listen.iter().map(|address| listen_address(address)).collect::<Result<_, _>>()?,
            allows_remote_without_login: settings
                .insecure_no_authentication
                .or(settings.allow_remote_without_login)
                .unwrap_or(false),
            requires_login: settings.auth.unwrap_or(false),
            has_localhost_exception: settings.localhost_exception.unwrap_or(true),
            audit,
            redacts: settings.redact.unwrap_or(false),
            memory_bytes,
            cache_bytes,
            history_bytes: history_bytes(settings.history)?,
            oplog_bytes: oplog_bytes(settings.oplog_size)?,
            oplog_time: oplog_time(settings.oplog_min_retention_hours)?,
            log_format: settings.log_format.unwrap_or(LogFormat::Text),
            log_level: level
                .parse()
                .map_err(|_| ConfigurationError::bad_value("log-level", format!("'{level}' is no level or filter")))?,
            connections_max,
            connections_per_address_max: settings.max_connections_per_address,
            backup_key: settings.backup_key_file.map(KeySource::File),
            archive: settings.archive.as_deref().map(archive).transpose()?,
            encryption_key,
            tls,
            flight_recorder_bytes: match settings.no_flight_recorder {
                Some(true) => 0,
                _ if is_ephemeral => 0,
                _ => flight_recorder_bytes(settings.flight_recorder_size)?,
            },
            metrics: settings.metrics.as_deref().map(|text| http_address("metrics", text)).transpose()?,
            traces,
            console: settings.console.as_deref().map(|text| http_address("console", text)).transpose()?,
            unix_socket,
            compressors: compressors(settings.compressors)?,
            stop_grace: settings.stop_grace_seconds.map_or(STOP_GRACE, Duration::from_secs),
            stops_with_input: settings.stop_with_input.unwrap_or(false),
            clock_drift_max: settings.max_clock_drift_seconds.map_or(CLOCK_DRIFT_MAX, Duration::from_secs),
            has_test_commands: settings.enable_test_commands.unwrap_or(false),
            has_scripting: !settings.no_scripting.unwrap_or(false),
            checks_memory: settings.check_memory.unwrap_or(false),
            replica_set,
        })
    }
}

impl Configuration {
    /// How many connections there may be.
    pub fn connection_limits(&self) -> ConnectionLimits {
        let all = self.connections_max;
        let share = (all * CONNECTIONS_PER_ADDRESS_PERCENT / 100).max(1);
        ConnectionLimits { all, of_one_address: self.connections_per_address_max.unwrap_or(share).min(all) }
    }
}

fn archive(url: &str) -> Result<backup::Place, ConfigurationError> {
    backup::Place::of_url(url).map_err(|error| ConfigurationError::bad_value("archive", error.to_string()))
}

#[allow(clippy::disallowed_methods, reason = "read once, before there is a disk to go through")]
fn read_file(path: &Path) -> Result<Settings, ConfigurationError> {
    let text = std::fs::read_to_string(path)
        .map_err(|error| ConfigurationError::Unreadable { path: path.to_owned(), error })?;
    toml::from_str(&text)
        .map_err(|error| ConfigurationError::Malformed { path: path.to_owned(), error: Box::new(error) })
}

fn memory_and_cache(
    memory: Option<Size>,
    cache: Option<Size>,
    machine_bytes: u64,
) -> Result<(u64, u64), ConfigurationError> {
    let mut memory_bytes = memory.unwrap_or(Size::Percent(MEMORY_PERCENT)).of(machine_bytes);
    let cache_bytes = cache.map_or_else(|| usual_cache_bytes(memory_bytes), |cache| cache.of(memory_bytes));
    if let (None, Some(Size::Bytes(cache_bytes))) = (memory, cache) {
        let enough = cache_bytes.saturating_mul(MEMORY_PER_CACHE_PERCENT) / 100;
        memory_bytes = memory_bytes.max(enough.min(machine_bytes));
    }
    if memory_bytes < MEMORY_BYTES_MIN {
        let reason = format!("{memory_bytes} bytes is below the least possible, {MEMORY_BYTES_MIN}");
        return Err(ConfigurationError::bad_value("memory", reason));
    }
    if memory_bytes > machine_bytes {
        let reason = format!("{memory_bytes} bytes is more than the {machine_bytes} there are");
        return Err(ConfigurationError::bad_value("memory", reason));
    }
    if cache_bytes < CACHE_BYTES_MIN {
        let reason = format!("{cache_bytes} bytes is below the least possible, {CACHE_BYTES_MIN}");
        return Err(ConfigurationError::bad_value("cache", reason));
    }
    if cache_bytes > memory_bytes / 10 * 9 {
        let reason = format!("{cache_bytes} bytes is more than nine tenths of the memory budget, {memory_bytes}");
        return Err(ConfigurationError::bad_value("cache", reason));
    }
    Ok((memory_bytes, cache_bytes))
}

/// The cache when nobody says how large it shall be. Of a small budget it leaves more to commands: a large document takes as much, however small the budget is.
fn usual_cache_bytes(memory_bytes: u64) -> u64 {
    let share = |percent| Size::Percent(percent).of(memory_bytes);
    let beside_commands = memory_bytes.saturating_sub(BESIDE_CACHE_BYTES);
    share(CACHE_PERCENT).min(beside_commands.max(share(CACHE_PERCENT_MIN)))
}

fn history_bytes(size: Option<Size>) -> Result<u64, ConfigurationError> {
    bytes_at_least(HISTORY_BYTES_MIN, "history", size.unwrap_or(Size::Bytes(HISTORY_BYTES)))
}

/// A size in bytes; a share of something means nothing here.
fn bytes_at_least(least: u64, setting: &'static str, size: Size) -> Result<u64, ConfigurationError> {
    match size {
        Size::Bytes(bytes) if bytes >= least => Ok(bytes),
        Size::Bytes(bytes) => {
            let reason = format!("{bytes} bytes is below the least possible, {least}");
            Err(ConfigurationError::bad_value(setting, reason))
        }
        Size::Percent(_) => Err(ConfigurationError::bad_value(setting, "must be a size, not a share")),
    }
}

fn oplog_bytes(size: Option<Size>) -> Result<u64, ConfigurationError> {
    bytes_at_least(0, "oplog-size", size.unwrap_or(Size::Bytes(OPLOG_BYTES)))
}

fn flight_recorder_bytes(size: Option<Size>) -> Result<u64, ConfigurationError> {
    let size = size.unwrap_or(Size::Bytes(FLIGHT_RECORDER_BYTES));
    bytes_at_least(FLIGHT_RECORDER_BYTES_MIN, "flight-recorder-size", size)
}

fn oplog_time(hours: Option<f64>) -> Result<Option<Duration>, ConfigurationError> {
    match hours {
        None => Ok(None),
        Some(hours) if (0.0..=1e6).contains(&hours) => Ok(Some(Duration::from_secs_f64(hours * 3600.0))),
        Some(_) => Err(ConfigurationError::bad_value("oplog-min-retention-hours", "must be from 0 to 1000000")),
    }
}

/// A port alone is one of this machine's own.
fn http_address(setting: &'static str, text: &str) -> Result<String, ConfigurationError> {
    let own = text.trim_start_matches(':');
    if own.parse::<u16>().is_ok() {
        return Ok(format!("127.0.0.1:{own}"));
    }
    let with_port = text.rsplit_once(':').filter(|(host, port)| !host.is_empty() && port.parse::<u16>().is_ok());
    let reason = || format!("'{text}' is not HOST:PORT, [IPV6]:PORT or PORT");
    with_port.map(|_| text.to_owned()).ok_or_else(|| ConfigurationError::bad_value(setting, reason()))
}

/// Adds the port where there is none.
fn listen_address(text: &str) -> Result<String, ConfigurationError> {
    let with_port = match text.rsplit_once(':') {
        Some((host, port)) if !host.is_empty() && (!host.contains(':') || host.ends_with(']')) => {
            port.parse::<u16>().is_ok().then(|| text.to_owned())
        }
        None if !text.is_empty() => Some(format!("{text}:{PORT}")),
        _ if text.ends_with(']') => Some(format!("{text}:{PORT}")),
        _ => None,
    };
    let wrong = || ConfigurationError::bad_value("listen", format!("'{text}' is not HOST:PORT, HOST or [IPV6]:PORT"));
    with_port.ok_or_else(wrong)
}

fn compressors(names: Option<Vec<String>>) -> Result<Vec<Compressor>, ConfigurationError> {
    let Some(names) = names else { return Ok(vec![Compressor::Snappy, Compressor::Zstd, Compressor::Zlib]) };
    if names == ["disabled"] {
        return Ok(Vec::new());
    }
    let compressor = |name: &String| match Compressor::from_name(name) {
        Some(Compressor::Noop) | None => {
            let reason = format!("unknown compressor '{name}'; there are snappy, zstd and zlib, or 'disabled' alone");
            Err(ConfigurationError::bad_value("compressors", reason))
        }
        Some(compressor) => Ok(compressor),
    };
    names.iter().map(compressor).collect()
}

#[cfg(test)]
mod tests;
