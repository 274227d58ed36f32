//! What commands work with: the server's state, the client's, and the hooks into what is above.
//!
//! Built by `server` once ([`ServerContext`]) and for each connection ([`ClientContext`]).

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bson::RawDocumentBuf;
use platform::{Clock, WorkingMemory};
use transaction::{Leadership, ReadView, Store};

use crate::request::declaration::Class;
use crate::request::error::CommandError;
use crate::state::access_control::login::{Login, LoginState};
use crate::state::access_control::restrictions::address_of;
use crate::state::access_control::{AccessControl, Authorization};
use crate::state::admission::{Admission, Counted, Need, Permission};
use crate::state::audit::Audit;
use crate::state::backups::Backups;
use crate::state::client_cursors::ClientCursors;
use crate::state::command_table::CommandTable;
use crate::state::default_concerns::DefaultConcerns;
use crate::state::execution_notes::ExecutionNotes;
use crate::state::fail_points::FailPoints;
use crate::state::issued_timestamps::IssuedTimestamps;
pub(crate) use crate::state::operation_counts::{OperationCounts, count};
use crate::state::operations::{Operation, OperationSlot, Operations};
use crate::state::query_settings::QuerySettings;
use crate::state::query_statistics::QueryStatistics;
use crate::state::replica_set::{ReplicaSet, ReplicaSetFacts};
use crate::state::server_hooks::{DiagnosticLog, ServerHooks};
use crate::state::session_end::end_expired;
use crate::state::topology::Topology;
use crate::state::traces::Traces;
use crate::state::writing::Writing;

/// What the build knows of itself.
#[derive(Debug, Clone)]
pub struct BuildFacts {
    /// Version of Plimsoll.
    pub version: &'static str,
    /// Revision it was built from; empty when unknown.
    pub git_version: &'static str,
}

/// What does not change while the server runs.
#[derive(Debug, Clone)]
pub struct ServerFacts {
    /// The build.
    pub build: BuildFacts,
    /// The command line, program first.
    pub arguments: Vec<String>,
    /// The configuration in force, for `getCmdLineOpts`.
    pub configuration: RawDocumentBuf,
    /// Name of the machine.
    pub host_name: String,
    /// Port of the first listener.
    pub port: u16,
    /// Bytes of memory that the server may use.
    pub memory_bytes: u64,
    /// Bytes of the engine's page frames.
    pub cache_bytes: u64,
    /// Compressors that `hello` may agree to, by their names on the wire.
    pub compressors: Vec<&'static str>,
    /// Connections accepted at once.
    pub connections_max: u64,
    /// Whether failures can be made on purpose (`configureFailPoint`).
    pub has_test_commands: bool,
    /// Whether JavaScript of clients is run.
    pub has_scripting: bool,
    /// The replica set that the server is a member of.
    pub replica_set: Option<ReplicaSetFacts>,
    /// Whether users are asked who they are.
    pub authorization: Authorization,
}

/// The server's state, shared by all connections.
pub struct ServerContext {
    pub(crate) store: Arc<Store>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) facts: ServerFacts,
    pub(crate) hooks: Arc<dyn ServerHooks>,
    /// What is told of operations to those who trace them, if anybody does.
    pub(crate) traces: Option<Traces>,
    pub(crate) log: Arc<dyn DiagnosticLog>,
    pub(crate) plan_cache: Arc<planner::PlanCache>,
    pub(crate) index_filters: Arc<planner::IndexFilters>,
    pub(crate) cursors: ClientCursors,
    pub(crate) operations: Operations,
    pub(crate) counts: Arc<OperationCounts>,
    pub(crate) timestamps: Arc<IssuedTimestamps>,
    pub(crate) topology: Topology,
    /// Whether clients have been told that writes have stopped.
    pub(crate) tells_of_stop: AtomicBool,
    pub(crate) figures: crate::state::command_figures::CommandFigures,
    pub(crate) profiler: crate::state::profiler::Profiler,
    pub(crate) fsync_lock: crate::state::fsync_lock::FsyncLock,
    pub(crate) started: Duration,
    /// How long a session lives without being used.
    pub(crate) session_timeout: Duration,
    pub(crate) parameters: Arc<crate::state::parameters::Parameters>,
    pub(crate) usage: crate::state::namespace_usage::NamespaceUsage,
    pub(crate) memory: WorkingMemory,
    pub(crate) admission: Arc<Admission>,
    pub(crate) fail_points: Arc<FailPoints>,
    pub(crate) replica_set: ReplicaSet,
    pub(crate) default_concerns: DefaultConcerns,
    pub(crate) query_settings: QuerySettings,
    pub(crate) query_statistics: QueryStatistics,
    pub(crate) writing: Arc<Writing>,
    pub(crate) access: AccessControl,
    pub(crate) audit: Audit,
    pub(crate) backups: Backups,
}

impl ServerContext {
    /// Takes up the server's role in its replica set. Called once, before clients are served.
    ///
    /// # Errors
    /// InvalidReplicaSetConfig when what is stored is of another set; those of the store.
    pub fn begin(&self) -> Result<(), CommandError> {
        self.replica_set.begin(&self.writing)?;
        if self.replica_set.membership().is_some() {
            self.topology_changed();
        }
        self.default_concerns.load(&self.writing)?;
        self.query_settings.load(&self.writing)
    }

    /// This server's member has come to lead: takes office, which is in the log when this returns. Not the primary's yet to clients.
    ///
    /// # Errors
    /// Those of the store; the lead may be lost again.
    pub fn take_office(&self) -> Result<(), CommandError> {
        self.replica_set.lead(&self.writing)?;
        self.default_concerns.load(&self.writing)?;
        self.query_settings.load(&self.writing)
    }

    /// Another member leads, or somebody has changed what is stored of the set: takes it up, and tells those who wait. Transactions that are open are aborted, as a
    /// secondary commits none.
    ///
    /// # Errors
    /// Those of the store.
    pub fn follow_set(&self) -> Result<(), CommandError> {
        for (session, txn_number) in self.store.expire_transactions(Duration::ZERO) {
            self.cursors.close_of_transaction(session, txn_number);
        }
        let followed = self.replica_set.follow(&self.writing);
        self.topology_changed();
        followed?;
        self.default_concerns.load(&self.writing)
    }

    /// What `hello` says has changed: counts it, and has all that wait for it answered.
    pub fn topology_changed(&self) {
        self.topology.count_change();
        self.hooks.topology_changed();
    }

    /// The store underneath.
    pub fn store(&self) -> &Arc<Store> {
        &self.store
    }

    /// Ends running commands, because the server stops.
    pub fn stop(&self) {
        if let Err(error) = self.audit_itself("shutdown") {
            tracing::warn!(target: "access", %error, "the stop is not in the audit log");
        }
        self.store.keep_index_builds();
        self.operations.stop();
        self.topology_changed();
    }

    /// The connections whose commands have been running for this long and end when their client goes away.
    pub fn connections_that_wait(&self, longer_than: Duration) -> Vec<u64> {
        self.operations.connections_that_wait(longer_than)
    }

    /// The client of a connection has closed it while a command runs: the command ends, unless it changes something.
    pub fn client_gone(&self, connection: u64) {
        self.operations.client_gone(connection);
    }

    /// Ends what has been idle for too long: cursors and sessions. Called every few seconds by the server.
    pub fn close_idle(&self) {
        self.cursors.close_idle(self.parameters.cursor_timeout());
        end_expired(&self.store, &self.cursors, self.session_timeout);
    }

    /// Aborts transactions that have been open for too long. Called every second by the server.
    pub fn expire_transactions(&self) {
        let limit = Duration::from_secs(self.parameters.transaction_lifetime_seconds());
        self.store.release_snapshots(crate::request::read_concern::SNAPSHOT_WINDOW);
        for (session, txn_number) in self.store.expire_transactions(limit) {
            tracing::info!(%session, txn_number, "a transaction was open for too long and is aborted");
            self.cursors.close_of_transaction(session, txn_number);
        }
    }

    /// Tells clients that wait for news once writes have stopped, or are accepted again because the shared log answers. Called every second by the server.
    pub fn look_at_writes(&self) {
        let is_silent = matches!(self.store.leadership(), Leadership::Stalled | Leadership::Lost);
        let is_stopped = self.store.writes_stopped().is_some() || is_silent;
        if self.tells_of_stop.swap(is_stopped, Ordering::AcqRel) != is_stopped {
            self.topology_changed();
        }
    }

    /// Adapts how many commands run at once. Called a few times a second by the server. `false`: none has run since the last call, so the next one may be later.
    pub fn adapt_admission(&self) -> bool {
        self.admission.adapt()
    }

    /// Whether commands that read or write run, or have ended since so many had. `before` becomes how many have.
    pub fn is_used_since(&self, before: &mut u64) -> bool {
        self.admission.is_used_since(before)
    }

    /// `told` is called once: when a place is taken for a request that needs it, or when it has waited for too long; perhaps at once.
    pub fn call_back(&self, need: Need, told: impl FnOnce(Permission) + Send + 'static) {
        let (admission, came) = (Arc::clone(&self.admission), self.clock.monotonic());
        self.admission.call_back(need.class, move |outcome| {
            admission.count_wait(need.class, came);
            told(Permission::new(admission, need, outcome));
        });
    }

    /// Calls back those who have waited for too long. While anybody waits, called every few milliseconds by the server.
    pub fn refuse_overdue(&self) {
        self.admission.refuse_overdue();
    }

    /// Whether connections such as this one, by what it asked for last, are too many to have a thread each.
    pub fn is_crowded(&self, client: &ClientContext) -> bool {
        self.admission.is_crowded(client.class)
    }

    /// Whether there is any such crowd.
    pub fn has_crowd(&self) -> bool {
        self.admission.is_crowded(Class::Read) || self.admission.is_crowded(Class::Write)
    }

    /// State for a new connection.
    pub fn connect(&self, connection: u64, client: String) -> ClientContext {
        let is_local = address_of(&client).is_some_and(|address| address.is_loopback());
        let slot = self.operations.connect(connection, client);
        ClientContext {
            connection,
            slot,
            metadata: None,
            class: Class::Exempt,
            counted: Counted::default(),
            permission: None,
            login: Login::of_client(is_local),
        }
    }

    /// State for another connection of a client who is known: it has logged in as him, and says the same of itself.
    pub fn connect_again(&self, known: &ClientContext, connection: u64) -> ClientContext {
        let mut client = self.connect(connection, known.slot.client.clone());
        client.login = known.login.again();
        client.slot.set_user(client.login.user().cloned());
        client.metadata.clone_from(&known.metadata);
        known.metadata.iter().for_each(|metadata| client.slot.set_metadata(Arc::clone(metadata)));
        client
    }

    /// State for what the server asks of itself: it may do everything.
    pub fn connect_itself(&self, name: &str) -> ClientContext {
        ClientContext { login: Login::of_server(), ..self.connect(0, name.to_owned()) }
    }

    /// Whether a client has logged in, where it has to.
    pub fn login_state(&self, client: &ClientContext) -> LoginState {
        let login = &client.login;
        match login.user().is_some() || login.is_server() || !self.access.is_enforced() {
            true => LoginState::Done,
            false if login.conversation.is_some() => LoginState::UnderWay,
            false => LoginState::Missing,
        }
    }

    /// How long it has been running.
    pub(crate) fn uptime(&self) -> Duration {
        self.clock.monotonic().saturating_sub(self.started)
    }
}

/// The state of one connection.
pub struct ClientContext {
    pub(crate) connection: u64,
    pub(crate) slot: Arc<OperationSlot>,
    /// What the client said of itself in its first `hello`.
    pub(crate) metadata: Option<Arc<RawDocumentBuf>>,
    /// Of its last command that read or wrote documents.
    pub(crate) class: Class,
    pub(crate) counted: Counted,
    /// For its next command, when that has waited already.
    pub(crate) permission: Option<Permission>,
    /// Who it is.
    pub(crate) login: Login,
}

impl ClientContext {
    /// Whether the client is on the server's machine for certain, and at which address of the server it has come in.
    pub fn set_ends(&mut self, is_local: bool, server_address: Option<std::net::SocketAddr>) {
        self.login.is_local = is_local;
        self.login.server_address = server_address.map(|address| address.ip());
        self.login.server_port = server_address.map_or(0, |address| address.port());
    }

    /// Whose certificate the client has shown, which the server has verified: what users of MONGODB-X509 are named by.
    pub fn set_certificate_subject(&mut self, subject: Option<String>) {
        self.login.certificate_subject = subject.map(Arc::from);
    }

    /// The connection's next command need not wait: this is what came of its waiting.
    pub fn permit(&mut self, permission: Permission) {
        self.permission = Some(permission);
    }
}

/// What a handler is given. It says what it uses of it through views, which the other files of `state` make of it.
pub(crate) struct Context<'a> {
    pub(crate) server: &'a Arc<ServerContext>,
    pub(crate) connection: u64,
    pub(crate) metadata: &'a mut Option<Arc<RawDocumentBuf>>,
    pub(crate) login: &'a mut Login,
    pub(crate) slot: &'a Arc<OperationSlot>,
    pub(crate) operation: Operation<'a>,
    pub(crate) session: crate::state::operation_session::OperationSession,
    pub(crate) read_concern: crate::request::read_concern::ReadConcern,
    /// What a read with the concern `snapshot` reads from.
    pub(crate) snapshot: Option<ReadView>,
    /// The layers above.
    pub(crate) commands: &'a dyn CommandTable,
    pub(crate) request: &'a crate::request::command_request::CommandRequest<'a>,
    /// Whether a fail point wants the connection closed in place of a reply.
    pub(crate) closes_connection: Cell<bool>,
    pub(crate) notes: ExecutionNotes,
}
