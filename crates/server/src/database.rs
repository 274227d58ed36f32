//! A database of this process: opened from its configuration, served or called, and closed.
//!
//! ```text
//!                          ┌─ serve ── to clients, until it is asked to stop ─┐
//! open ── a Database ──────┤                                                  ├─▶ closed
//!                          └─ caller ── commands of this program ── close ────┘
//! ```
//!
//! Called by the binary, which is a process for one of them, and by the crate `plimsoll`, whose programs may have several. So nothing here belongs
//! to the process: its allocator, its limits, where its log goes and what its signals do is the binary's business.

mod direct_calls;
mod facts;
mod opening;

use std::sync::Arc;
use std::time::Duration;

use platform::{DirectoryLockError, SystemClock};

use crate::audit_log::AuditLog;
use crate::configuration::{Configuration, ConfigurationError};
use crate::console::{self, ConsoleOptions};
use crate::database_service::{DatabaseService, Hooks};
use crate::flight_recording::{FlightRecording, Warnings};
use crate::handle::ServerHandle;
use crate::http::HttpEndpoint;
use crate::listener::{ListenError, Listeners};
use crate::memory_plan::MemoryPlan;
use crate::serve::{ServeError, ServeOptions, Signals, serve};
use crate::service::CommandService;
use crate::tls::{Tls, TlsError};
use crate::{metrics, remote_access};

pub use direct_calls::{Caller, DirectClient, IsClosed};

/// Where sorts and groups put what exceeds their memory, inside the data directory.
pub(crate) const TEMPORARY_DIRECTORY: &str = "temporary";

/// Samples the process for a while, so many times a second, and gives folded stacks.
pub type ProfileSampler = fn(Duration, u32) -> Result<String, String>;

/// What a database is given by the program that it runs in, beside its configuration.
pub struct Surroundings {
    /// What stops it and counts its connections, with the log that clients may ask for.
    pub handle: ServerHandle,
    /// The program's arguments, as clients are told them.
    pub arguments: Vec<String>,
    /// Server parameters to set before clients are served, each with its value.
    pub parameters: Vec<(String, String)>,
    /// What takes profiles; `None`: they are refused.
    pub sample_profile: Option<ProfileSampler>,
    /// Whose the signals are.
    pub signals: Signals,
}

/// Why there is no database.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// A setting cannot be.
    #[error(transparent)]
    Configuration(#[from] ConfigurationError),
    /// It cannot listen.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// Its certificates cannot be used.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The data directory cannot be locked; another server may have it.
    #[error(transparent)]
    Lock(#[from] DirectoryLockError),
    /// Something that was written is not there any more. Nothing was changed.
    #[error("{0}")]
    Damaged(String),
    /// The machine's clock is too far ahead of the newest write. Nothing was changed.
    #[error("{0}")]
    ClockAhead(String),
    /// Anything else, in words.
    #[error("{0}")]
    Refused(String),
}

impl From<String> for OpenError {
    fn from(reason: String) -> Self {
        OpenError::Refused(reason)
    }
}

/// How a database ended that did not end well.
#[derive(Debug, thiserror::Error)]
pub enum EndError {
    /// Nobody could be served.
    #[error(transparent)]
    Serve(#[from] ServeError),
    /// Its last checkpoint could not be made. Nothing is lost: the next start recovers from the log.
    #[error("the database could not be closed in order, and the next start recovers: {0}")]
    NotInOrder(String),
}

/// An open database.
pub struct Database {
    service: Arc<DatabaseService>,
    handle: ServerHandle,
    listeners: Listeners,
    options: ServeOptions,
    recording: Option<FlightRecording>,
}

impl Database {
    /// Opens the data directory, which recovers what the last run left.
    ///
    /// # Errors
    /// Those of [`OpenError`]; nothing is open then.
    pub fn open(
        configuration: &Configuration,
        listeners: Listeners,
        surroundings: Surroundings,
    ) -> Result<Self, OpenError> {
        remote_access::check(
            &listeners.addresses(),
            configuration.requires_login,
            configuration.allows_remote_without_login,
            &configuration.data,
        )?;
        let Surroundings { handle, arguments, parameters, sample_profile, signals } = surroundings;
        let tls = configuration.tls.clone().map(Tls::load).transpose()?.map(Arc::new);
        let audit = configuration.audit.as_ref().map(AuditLog::open).transpose()?;
        let plan = MemoryPlan::new(configuration);
        plan.warn_if_tight();
        let options = ServeOptions {
            compressors: configuration.compressors.clone(),
            memory: plan.budget.clone(),
            stop_grace: configuration.stop_grace,
            tls: tls.clone(),
            http: Vec::new(),
            signals,
        };
        let hooks = Hooks::new(handle.clone(), tls, audit, sample_profile);
        let warnings = Arc::clone(&hooks.warnings);
        let facts = facts::server_facts(configuration, &listeners, arguments);
        let service = Arc::new(opening::open_service(configuration, plan, facts, hooks)?);
        let mut database = Database { service, handle, listeners, options, recording: None };
        let prepared = database.prepare(configuration, &parameters);
        if let Err(reason) = prepared {
            // The first reason is the one to tell; trouble with closing is in the log.
            let _ = database.close();
            return Err(reason.into());
        }
        database.handle.log().start_is_over();
        database.recording = begin_recording(configuration, Arc::clone(&database.service), warnings);
        Ok(database)
    }

    fn prepare(&mut self, configuration: &Configuration, parameters: &[(String, String)]) -> Result<(), String> {
        self.options.http = http_endpoints(configuration, &self.service, &self.handle, &self.options)?;
        parameters.iter().try_for_each(|(name, value)| self.service.set_parameter(name, value))
    }

    /// Serves clients until the handle is asked to stop, or a signal says so if they are this database's, and closes it.
    ///
    /// # Errors
    /// When it cannot begin, or is not closed in order.
    pub fn serve(self) -> Result<(), EndError> {
        let outcome = serve(self.listeners, Arc::clone(&self.service), &self.handle, &self.options);
        ended(&self.service, self.recording)?;
        Ok(outcome?)
    }

    /// Closes what nobody serves.
    ///
    /// # Errors
    /// It is not closed in order; the next start recovers.
    pub fn close(self) -> Result<(), EndError> {
        self.service.stopping();
        self.service.stopped();
        ended(&self.service, self.recording)
    }

    /// What runs commands of this program, for as long as the database is open.
    pub fn caller(&self) -> Caller {
        Caller::new(&self.service)
    }
}

fn ended(service: &DatabaseService, recording: Option<FlightRecording>) -> Result<(), EndError> {
    if let Some(recording) = recording {
        recording.stop();
    }
    service.closing_trouble().map_or(Ok(()), |trouble| Err(EndError::NotInOrder(trouble)))
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

/// Without it the server serves all the same.
fn begin_recording(
    configuration: &Configuration,
    service: Arc<DatabaseService>,
    warnings: Warnings,
) -> Option<FlightRecording> {
    let bytes = configuration.flight_recorder_bytes;
    let kept = opening::figures_disk(configuration).map(|disk| disk.filter(|_| bytes > 0).map(|disk| (disk, bytes)));
    let begun = kept.and_then(|kept| FlightRecording::begin(service, Arc::new(SystemClock::new()), kept, warnings));
    begun.inspect_err(|error| tracing::warn!(target: "control", %error, "the server's figures are not recorded")).ok()
}
