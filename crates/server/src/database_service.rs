//! The commands behind the network: an adapter from [`crate::CommandService`] to the `commands` crate's dispatcher.
//!
//! Called by `database`, which opens the store and hands it over. Nothing is decided here.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::console::ConsoleService;
use crate::metrics::StatusSource;
use crate::{
    Attempt, CommandService, Completion, ConnectionInfo, DiagnosticLog, Protocol, RecentLog, Request, ServerHandle,
    Standing, Tls, TlsVersion, Warnings,
};
use bson::raw::CString;
use bson::{RawBson, RawDocument, RawDocumentBuf, rawdoc};
use commands::{
    ArchiveFigures, AuditSettings, AuditSink, BackupFacts, ClientContext, CommandRequest, Dispatcher, LogVerbosity,
    LoginState, Need, NetworkFigures, Next, Outcome, PasswordLogin, Permission, SequenceSource, ServerContext,
    ServerHooks, SetMembers, StandingWarning, TraceSettings, TransportCertificate, TransportFigures,
};
use flight_recorder::patterns::Finding;
use parking_lot::{Mutex, RwLock, RwLockReadGuard};
use platform::{Clock, DirectoryLock, Disk, IdlePause, MemoryReservation, SystemClock};
use transaction::Store;
use wire_protocol::{DocumentSequences, ReplyBuilder};

use crate::archiving::{ArchiveWatch, Archiving};
use crate::audit_log::AuditLog;
use crate::database::ProfileSampler;
use crate::decoy_secret::DecoySecret;
use crate::following::Following;
use crate::left_user;
use crate::movable_clock::MovableClock;
use crate::otlp::TraceExport;

/// How often transactions that are open for too long are looked for.
const EXPIRY_INTERVAL: Duration = Duration::from_secs(1);
/// After how many of these times idle cursors and sessions are looked for.
const IDLE_CHECK_ROUNDS: u64 = 10;

/// How often admission is adapted: while commands run, and while none do.
const ADMISSION_INTERVAL: Duration = Duration::from_millis(100);
const ADMISSION_INTERVAL_MAX: Duration = ADMISSION_INTERVAL.saturating_mul(8);

/// Runs commands on a store.
pub(crate) struct DatabaseService {
    dispatcher: Dispatcher,
    store: Arc<Store>,
    /// Keeps other servers out of the data directory for as long as this one uses it.
    lock: Mutex<Option<DirectoryLock>>,
    /// Whether it is closed. Held by commands of the program itself for as long as they run.
    is_closed: RwLock<bool>,
    /// Why it could not be closed in order.
    closing_trouble: Mutex<Option<String>>,
    /// What of the memory budget is taken for as long as the server runs.
    _reserved: Vec<MemoryReservation>,
    threads: Threads,
}

/// What goes on beside the store until it is closed.
pub(crate) struct Threads {
    /// Sends the oplog to the archive, if there is one.
    pub(crate) archiving: Option<Archiving>,
    /// Ships it to the shared log, if there is one.
    pub(crate) following: Option<Following>,
    /// Sends traces of operations, if anybody wants them.
    pub(crate) traces: Option<Arc<TraceExport>>,
}

impl DatabaseService {
    pub(crate) fn new(
        server: Arc<ServerContext>,
        lock: Option<DirectoryLock>,
        reserved: Vec<MemoryReservation>,
        data: Option<PathBuf>,
        threads: Threads,
    ) -> Self {
        let store = server.store().clone();
        close_idle_now_and_then(&server, data);
        adapt_admission(&server);
        Self {
            dispatcher: Dispatcher::new(server),
            store,
            lock: Mutex::new(lock),
            is_closed: RwLock::new(false),
            closing_trouble: Mutex::default(),
            _reserved: reserved,
            threads,
        }
    }

    /// Keeps it from being closed until what this gives is dropped. `None`: it is closed, or is about to be.
    pub(crate) fn keep_open(&self) -> Option<RwLockReadGuard<'_, bool>> {
        let guard = self.is_closed.read();
        (!*guard).then_some(guard)
    }

    /// Why it could not be closed in order, if it could not.
    pub(crate) fn closing_trouble(&self) -> Option<String> {
        self.closing_trouble.lock().clone()
    }

    /// A client who is the program itself.
    pub(crate) fn connect_owner(&self, name: &str) -> ClientContext {
        self.dispatcher.server().connect_itself(name)
    }
}

impl DatabaseService {
    /// Sets a server parameter as a client would, from its text.
    ///
    /// # Errors
    /// It cannot be set, or not to this.
    pub(crate) fn set_parameter(&self, name: &str, value: &str) -> Result<(), String> {
        let refused = |reason: &str| format!("--setParameter {name}={value}: {reason}");
        let mut body = rawdoc! { "setParameter": 1 };
        let key = CString::try_from(name).map_err(|error| refused(&error.to_string()))?;
        body.append(key, parameter_value(value));
        let command = CommandRequest {
            name: "setParameter",
            database: "admin",
            body: &body,
            sequences: &Sequences(DocumentSequences::default()),
            attempt: commands::Attempt::First,
            is_legacy: false,
        };
        let mut client = self.dispatcher.server().connect_itself("the command line");
        let mut reply = Vec::new();
        self.dispatcher.run(&command, &mut client, &mut reply);
        let reply = RawDocument::from_bytes(&reply).map_err(|error| refused(&error.to_string()))?;
        match reply.get_f64("ok") {
            Ok(1.0) => Ok(()),
            _ => Err(refused(reply.get_str("errmsg").unwrap_or("it failed"))),
        }
    }
}

impl StatusSource for DatabaseService {
    fn status(&self) -> Result<RawDocumentBuf, String> {
        self.dispatcher.status()
    }

    fn is_used_since(&self, before: &mut u64) -> bool {
        self.dispatcher.server().is_used_since(before)
    }
}

/// What a parameter's text stands for.
fn parameter_value(text: &str) -> RawBson {
    if let Ok(number) = text.parse::<i64>() {
        return number.into();
    }
    if let Ok(number) = text.parse::<f64>() {
        return number.into();
    }
    text.parse::<bool>().map_or_else(|_| text.into(), RawBson::from)
}

/// Closes idle cursors and sessions, and takes in users whom the operator makes, for as long as the server's state exists.
fn close_idle_now_and_then(server: &Arc<ServerContext>, data: Option<PathBuf>) {
    let server = Arc::downgrade(server);
    let thread = platform::spawn_named("idle-closer", move || {
        let clock = SystemClock::new();
        let mut round: u64 = 0;
        while let Some(server) = server.upgrade() {
            server.expire_transactions();
            server.look_at_writes();
            if let Some(data) = &data {
                left_user::take_in(data, &server);
            }
            if round.is_multiple_of(IDLE_CHECK_ROUNDS) {
                server.close_idle();
            }
            drop(server);
            round += 1;
            clock.sleep(EXPIRY_INTERVAL);
        }
    });
    if let Err(error) = thread {
        tracing::warn!(target: "control", %error, "idle cursors and sessions will not time out");
    }
}

/// Has the number of commands that run at once follow throughput, for as long as the server's state exists.
fn adapt_admission(server: &Arc<ServerContext>) {
    let server = Arc::downgrade(server);
    let thread = platform::spawn_named("admission", move || {
        let (clock, mut pause) = (SystemClock::new(), IdlePause::new(ADMISSION_INTERVAL, ADMISSION_INTERVAL_MAX));
        while let Some(server) = server.upgrade() {
            let is_used = server.adapt_admission();
            drop(server);
            clock.sleep(pause.after(is_used));
        }
    });
    if let Err(error) = thread {
        tracing::warn!(target: "control", %error, "the number of commands that run at once stays as it is");
    }
}

struct Sequences<'a>(DocumentSequences<'a>);

impl SequenceSource for Sequences<'_> {
    fn documents<'a>(&'a self, name: &str) -> Option<Box<dyn Iterator<Item = &'a RawDocument> + 'a>> {
        let sequence = self.0.get(name)?;
        Some(Box::new(sequence.documents()))
    }

    fn names(&self) -> Vec<&str> {
        self.0.iter().map(|sequence| sequence.identifier()).collect()
    }
}

impl CommandService for DatabaseService {
    type Client = ClientContext;
    type Need = Need;
    type Permission = Permission;

    fn connected(&self, connection: &ConnectionInfo) -> ClientContext {
        let mut client = self.dispatcher.server().connect(connection.id, connection.remote.to_string());
        client.set_certificate_subject(connection.certificate_subject.clone());
        client.set_ends(connection.remote.is_local(), connection.local.address());
        client
    }

    fn standing(&self, client: &ClientContext) -> Standing {
        match self.dispatcher.server().login_state(client) {
            LoginState::Done => Standing::Known,
            LoginState::Missing => Standing::Unknown,
            LoginState::UnderWay => Standing::LoggingIn,
        }
    }

    fn run(&self, request: &Request<'_>, client: &mut ClientContext, reply: &mut ReplyBuilder) -> Completion {
        let sequences = Sequences(request.sequences);
        let command = CommandRequest {
            name: request.command,
            database: request.database,
            body: request.body,
            sequences: &sequences,
            attempt: match request.attempt {
                Attempt::First => commands::Attempt::First,
                Attempt::AfterWait => commands::Attempt::AfterWait,
                Attempt::Following => commands::Attempt::Following,
            },
            is_legacy: request.protocol == Protocol::Query,
        };
        match self.dispatcher.run(&command, client, reply.buffer()) {
            Outcome::Reply => Completion::Reply,
            Outcome::ReplyAndMore(Next::AtOnce) => Completion::ReplyAndMore(crate::Next::AtOnce),
            Outcome::ReplyAndMore(Next::OnTopologyChange(longest)) => {
                Completion::ReplyAndMore(crate::Next::OnTopologyChange { longest })
            }
            Outcome::CloseConnection => Completion::CloseConnection,
            Outcome::WaitForTopologyChange(longest) => Completion::WaitForTopologyChange { longest },
        }
    }

    fn is_crowded(&self, client: &ClientContext) -> bool {
        self.dispatcher.server().is_crowded(client)
    }

    fn has_crowd(&self) -> bool {
        self.dispatcher.server().has_crowd()
    }

    fn need(&self, request: &Request<'_>, client: &ClientContext) -> Option<Need> {
        self.dispatcher.need(request.command, request.database, request.body, client)
    }

    fn call_back(&self, need: Need, told: Box<dyn FnOnce(Permission) + Send>) {
        self.dispatcher.server().call_back(need, told);
    }

    fn is_granted(permission: &Permission) -> bool {
        permission.is_granted()
    }

    fn permit(&self, client: &mut ClientContext, permission: Permission) {
        client.permit(permission);
    }

    fn refuse_overdue(&self) {
        self.dispatcher.server().refuse_overdue();
    }

    fn connections_that_wait(&self, longer_than: Duration) -> Vec<u64> {
        self.dispatcher.server().connections_that_wait(longer_than)
    }

    fn client_gone(&self, connection: u64) {
        self.dispatcher.server().client_gone(connection);
    }

    fn rotate_audit_log(&self) -> Option<Result<(), String>> {
        self.dispatcher.server().rotate_audit_log()
    }

    fn disconnected(&self, _client: ClientContext) {}

    fn stopping(&self) {
        self.dispatcher.server().stop();
    }

    fn stopped(&self) {
        // Waits for commands of the program itself. They were told to end.
        *self.is_closed.write() = true;
        if let Some(archiving) = &self.threads.archiving {
            archiving.stop();
        }
        // Others need not find out by its silence.
        self.threads.following.as_ref().into_iter().for_each(Following::hand_over);
        match self.store.shutdown() {
            Ok(()) => tracing::info!(target: "storage", "the store is closed"),
            Err(error) => {
                tracing::error!(target: "storage", %error, "the store could not be closed in order; the next start recovers");
                *self.closing_trouble.lock() = Some(error.to_string());
            }
        }
        // Not before: the last checkpoint waits until all that it has is confirmed.
        if let Some(following) = &self.threads.following {
            following.stop();
        }
        if let Some(traces) = &self.threads.traces {
            traces.stop();
        }
        // A program may go on after this, and open the directory again.
        self.lock.lock().take();
    }
}

impl ConsoleService for DatabaseService {
    fn connected_again(&self, known: &ClientContext, connection: u64) -> ClientContext {
        self.dispatcher.server().connect_again(known, connection)
    }

    fn log_in(&self, client: &mut ClientContext, user: &str, database: &str, password: &str) -> Result<(), String> {
        self.dispatcher.log_in(client, PasswordLogin { user, database, password })
    }
}

/// What commands ask of the running program.
pub(crate) struct Hooks {
    pub(crate) handle: ServerHandle,
    pub(crate) clock: Arc<MovableClock>,
    tls: Option<Arc<Tls>>,
    audit: Option<AuditLog>,
    pub(crate) warnings: Warnings,
    /// Known once the data directory is open.
    pub(crate) backup: BackupFacts,
    /// The data directory, where figures are recorded.
    pub(crate) figures: Option<Arc<dyn Disk>>,
    /// Known once archiving has begun, if it is wanted.
    pub(crate) archive: Option<Arc<ArchiveWatch>>,
    /// Known once the data directory is open.
    pub(crate) decoy_secret: Option<DecoySecret>,
    sample_profile: Option<ProfileSampler>,
    /// Known once they are sent somewhere.
    pub(crate) traces: Option<TraceSettings>,
    /// The replica set, if it follows a shared log. Known once the store is open.
    pub(crate) members: Option<Arc<dyn SetMembers>>,
}

impl Hooks {
    pub(crate) fn new(
        handle: ServerHandle,
        tls: Option<Arc<Tls>>,
        audit: Option<AuditLog>,
        sample_profile: Option<ProfileSampler>,
    ) -> Self {
        Self {
            handle,
            clock: Arc::default(),
            tls,
            audit,
            warnings: Warnings::default(),
            backup: BackupFacts::default(),
            figures: None,
            archive: None,
            decoy_secret: None,
            sample_profile,
            traces: None,
            members: None,
        }
    }
}

impl ServerHooks for Hooks {
    fn backup_facts(&self) -> BackupFacts {
        self.backup.clone()
    }

    fn recorded_figures(&self) -> Result<Vec<(String, u64)>, String> {
        self.figures.as_deref().map_or(Ok(Vec::new()), crate::recorded_figures).map_err(|error| error.to_string())
    }

    fn read_figures(&self, name: &str, offset: u64, bytes_max: usize) -> Result<Vec<u8>, String> {
        let none = || format!("there are no figures {name}");
        let disk = self.figures.as_deref().ok_or_else(none)?;
        crate::read_figures(disk, name, offset, bytes_max).map_err(|error| format!("{}: {error}", none()))
    }

    fn set_members(&self) -> Option<Arc<dyn SetMembers>> {
        self.members.clone()
    }

    fn archive(&self) -> Option<ArchiveFigures> {
        self.archive.as_ref().map(|archive| archive.figures())
    }

    fn traces(&self) -> Option<TraceSettings> {
        self.traces.clone()
    }

    fn decoy_secret(&self) -> Option<DecoySecret> {
        self.decoy_secret
    }

    fn shut_down(&self) {
        self.handle.request_stop();
    }

    fn connections(&self) -> (u64, u64) {
        let counts = self.handle.connections();
        (counts.current as u64, counts.created)
    }

    fn warnings(&self) -> Vec<StandingWarning> {
        let warning = |finding: &Finding| StandingWarning {
            pattern: finding.pattern,
            severity: finding.severity.name(),
            since_millis: finding.from,
            what: finding.what.clone(),
            advice: finding.advice,
        };
        self.warnings.lock().iter().map(warning).collect()
    }

    fn topology_changed(&self) {
        self.handle.topology_changed();
    }

    fn network(&self) -> NetworkFigures {
        let (network, connections) = (self.handle.network(), self.handle.connections());
        NetworkFigures {
            bytes_in: network.logical_bytes_in,
            bytes_out: network.logical_bytes_out,
            physical_bytes_in: network.bytes_in,
            physical_bytes_out: network.bytes_out,
            requests: network.requests,
            connections_refused: connections.refused,
            connections_active: connections.active as u64,
        }
    }

    fn command_waits(&self) {
        crate::command_waits();
    }

    fn audit_settings(&self) -> Option<AuditSettings> {
        self.audit.as_ref().and_then(AuditLog::take_settings)
    }

    fn audit(&self) -> Option<&dyn AuditSink> {
        self.audit.as_ref().map(|audit| audit as &dyn AuditSink)
    }

    fn set_redaction(&self, redacts: bool) {
        self.handle.log().set_redaction(redacts);
    }

    fn transport(&self) -> TransportFigures {
        let Some(tls) = &self.tls else { return TransportFigures::default() };
        let (certificate, has_authority) = tls.certificate();
        TransportFigures {
            tls_1_2: tls.opened(TlsVersion::V1_2),
            tls_1_3: tls.opened(TlsVersion::V1_3),
            certificate: Some(TransportCertificate {
                subject: certificate.subject.clone(),
                expires_millis: i64::try_from(certificate.not_after_seconds.saturating_mul(1000)).unwrap_or(i64::MAX),
                has_authority,
            }),
        }
    }

    fn set_log_verbosity(&self, verbosity: &LogVerbosity) -> Result<(), String> {
        self.handle.log().set_verbosity(verbosity.level, &verbosity.parts, verbosity.is_quiet)
    }

    fn rotate_log(&self) -> Result<(), String> {
        self.handle.log().rotate()
    }

    fn rotate_certificates(&self) -> Result<(), String> {
        match &self.tls {
            Some(tls) => tls.rotate().map_err(|error| error.to_string()),
            None => Err("connections are not encrypted, so there are no certificates (--tls-mode)".to_owned()),
        }
    }

    fn sample_profile(&self, length: Duration, hertz: u32) -> Result<String, String> {
        let Some(sample) = self.sample_profile else {
            return Err("the program that this database runs in takes no profiles".to_owned());
        };
        sample(length, hertz)
    }

    fn set_wall_clock_ahead(&self, millis: i64) {
        self.clock.set_ahead_millis(millis);
    }
}

/// The recent lines of the diagnostics log.
pub(crate) struct RecentLines {
    pub(crate) log: DiagnosticLog,
    pub(crate) warnings: Warnings,
}

impl commands::DiagnosticLog for RecentLines {
    fn recent(&self) -> (Vec<String>, u64) {
        let (total, lines) = self.log.recent(RecentLog::Global);
        (lines, total)
    }

    fn startup_warnings(&self) -> (Vec<String>, u64) {
        let (total, mut lines) = self.log.recent(RecentLog::StartupWarnings);
        // Shells show these to whoever connects: what is wrong now belongs there, too.
        let present = self.warnings.lock();
        lines.extend(present.iter().map(|finding| {
            let message = format!("{}: {}", finding.what, finding.advice);
            DiagnosticLog::line_of_standing_warning(finding.from, message, finding.pattern)
        }));
        (lines, total + present.len() as u64)
    }
}
