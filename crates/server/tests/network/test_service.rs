//! A service of a few commands: just enough for drivers to connect, and for tests to see what the server does.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use bson::raw::{CStr, RawDocumentBuf};
use bson::{DateTime, RawBsonRef, cstr, oid::ObjectId, rawdoc};
use platform::{MemoryBudget, SystemClock};
use server::console::{self, ConsoleOptions, ConsoleService};
use server::{
    Attempt, CommandService, Completion, ConnectionInfo, ConnectionLimits, DiagnosticLog, HttpEndpoint, Listeners,
    LogFormat, Next, ReplyWanted, Request, ServeOptions, ServerHandle, Signals, Standing, Tls, serve,
};
use wire_protocol::{Compressor, ReplyBuilder};

use crate::client::HANGS_AFTER;

pub(crate) const COMPRESSORS: [Compressor; 3] = [Compressor::Snappy, Compressor::Zstd, Compressor::Zlib];

/// What the service has seen.
#[derive(Default)]
pub(crate) struct Seen {
    pub(crate) connected: AtomicUsize,
    pub(crate) disconnected: AtomicUsize,
    pub(crate) unacknowledged: AtomicUsize,
    pub(crate) inserted: AtomicUsize,
    pub(crate) stopping: AtomicBool,
    pub(crate) stopped: AtomicBool,
    pub(crate) gate: Gate,
    /// Connections that wait for their clients to go away, and those whose clients have.
    pub(crate) until_gone: Mutex<Vec<u64>>,
    /// Whether clients of the console have to log in, as ada.
    pub(crate) wants_login: AtomicBool,
    pub(crate) gone: Mutex<Vec<u64>>,
}

/// Says that connections are a crowd, and has places for the command `limited`.
#[derive(Default)]
pub(crate) struct Gate {
    pub(crate) is_crowded: AtomicBool,
    /// Whether those who wait have waited for too long.
    pub(crate) refuses: AtomicBool,
    places: Mutex<usize>,
    waiting: Mutex<VecDeque<Told>>,
    /// How often those who run until they are released have been.
    releases: Mutex<u64>,
    released: Condvar,
}

impl Gate {
    /// All that run until they are released end now.
    pub(crate) fn release(&self) {
        *self.releases.lock().unwrap() += 1;
        self.released.notify_all();
    }

    fn wait_until_released(&self) {
        let releases = self.releases.lock().unwrap();
        let before = *releases;
        drop(self.released.wait_timeout_while(releases, HANGS_AFTER, |releases| *releases == before).unwrap());
    }
}

type Told = Box<dyn FnOnce(Permission) + Send>;

/// Of the crowd: a place, or a refusal.
pub(crate) struct Permission(Option<Arc<Seen>>);

impl Drop for Permission {
    fn drop(&mut self) {
        if let Some(seen) = &self.0 {
            seen.let_in(1);
        }
    }
}

impl Seen {
    /// There are so many more places.
    pub(crate) fn let_in(self: &Arc<Self>, places: usize) {
        *self.gate.places.lock().unwrap() += places;
        while let Some(told) = self.next() {
            told(Permission(Some(Arc::clone(self))));
        }
    }

    fn next(&self) -> Option<Told> {
        let mut places = self.gate.places.lock().unwrap();
        let first = if *places == 0 { None } else { self.gate.waiting.lock().unwrap().pop_front() };
        *places -= usize::from(first.is_some());
        first
    }

    /// How many wait for a place.
    pub(crate) fn waiting(&self) -> usize {
        self.gate.waiting.lock().unwrap().len()
    }
}

pub(crate) struct TestService {
    pub(crate) seen: Arc<Seen>,
    process: ObjectId,
}

pub(crate) struct TestClient {
    info: ConnectionInfo,
    commands: i32,
    permission: Option<Permission>,
    batches_left: i32,
    user: Option<String>,
}

impl CommandService for TestService {
    type Client = TestClient;

    fn connected(&self, connection: &ConnectionInfo) -> TestClient {
        self.seen.connected.fetch_add(1, Ordering::SeqCst);
        TestClient { info: connection.clone(), commands: 0, permission: None, batches_left: 0, user: None }
    }

    fn run(&self, request: &Request<'_>, client: &mut TestClient, reply: &mut ReplyBuilder) -> Completion {
        client.commands += 1;
        if request.reply_wanted == ReplyWanted::No {
            self.seen.unacknowledged.fetch_add(1, Ordering::SeqCst);
        }
        let document = match request.command {
            "hello" | "isMaster" | "ismaster" => {
                if let (Some(longest), Attempt::First) = (await_time(request), request.attempt) {
                    return Completion::WaitForTopologyChange { longest };
                }
                reply.append(&self.hello(request, client));
                let next = await_time(request).map(|longest| Next::OnTopologyChange { longest });
                return next.map_or(Completion::Reply, Completion::ReplyAndMore);
            }
            "batches" => {
                if request.attempt == Attempt::First {
                    client.batches_left = request.body.get_i32("batches").unwrap();
                }
                client.batches_left -= 1;
                reply.append(&rawdoc! { "ok": 1.0, "left": client.batches_left });
                let has_more = client.batches_left > 0;
                return if has_more { Completion::ReplyAndMore(Next::AtOnce) } else { Completion::Reply };
            }
            "ping" | "endSessions" => rawdoc! { "ok": 1.0 },
            "insert" => {
                let count = request.sequences.get("documents").map_or(0, |documents| documents.documents().count());
                self.seen.inserted.fetch_add(count, Ordering::SeqCst);
                rawdoc! { "ok": 1.0, "n": i32::try_from(count).unwrap() }
            }
            "count" => rawdoc! { "ok": 1.0, "n": client.commands },
            "echo" => rawdoc! { "ok": 1.0, "echo": request.body.get_str("echo").unwrap() },
            "long" => {
                rawdoc! { "ok": 1.0, "long": "z".repeat(request.body.get_i32("long").unwrap().try_into().unwrap()) }
            }
            "runUntilReleased" => {
                self.seen.gate.wait_until_released();
                rawdoc! { "ok": 1.0 }
            }
            "limited" => match client.permission.take() {
                Some(Permission(None)) => rawdoc! { "ok": 0.0, "code": 462 },
                permission => rawdoc! { "ok": 1.0, "hasPlace": permission.is_some() },
            },
            "untilGone" => {
                let start = Instant::now();
                self.seen.until_gone.lock().unwrap().push(client.info.id);
                while !self.is_gone(client.info.id) && start.elapsed() < HANGS_AFTER {
                    std::thread::sleep(Duration::from_millis(5));
                }
                rawdoc! { "ok": 1.0 }
            }
            "certificate" => {
                rawdoc! { "ok": 1.0, "subject": client.info.certificate_subject.as_deref().unwrap_or("none") }
            }
            "user" => rawdoc! { "ok": 1.0, "user": client.user.as_deref().unwrap_or("nobody") },
            "dropUser" => {
                client.user = None;
                rawdoc! { "ok": 1.0 }
            }
            "nothing" => return Completion::Reply,
            "close" => return Completion::CloseConnection,
            // Without the hook of panics: a trace would first read what the debugger knows of a program of 100 MB.
            "panic" => std::panic::resume_unwind(Box::new("asked to")),
            other => {
                let message = format!("no such command: '{other}'");
                rawdoc! { "ok": 0.0, "errmsg": message, "code": 59, "codeName": "CommandNotFound" }
            }
        };
        reply.append(&document);
        Completion::Reply
    }

    fn standing(&self, client: &TestClient) -> Standing {
        match self.seen.wants_login.load(Ordering::SeqCst) && client.user.is_none() {
            true => Standing::Unknown,
            false => Standing::Known,
        }
    }

    type Need = ();
    type Permission = Permission;

    fn is_crowded(&self, _client: &TestClient) -> bool {
        self.has_crowd()
    }

    fn has_crowd(&self) -> bool {
        self.seen.gate.is_crowded.load(Ordering::SeqCst)
    }

    fn need(&self, request: &Request<'_>, _client: &TestClient) -> Option<()> {
        (request.command == "limited").then_some(())
    }

    fn call_back(&self, (): (), told: Told) {
        self.seen.gate.waiting.lock().unwrap().push_back(told);
        self.seen.let_in(0);
    }

    fn is_granted(permission: &Permission) -> bool {
        permission.0.is_some()
    }

    fn permit(&self, client: &mut TestClient, permission: Permission) {
        client.permission = Some(permission);
    }

    fn refuse_overdue(&self) {
        if self.seen.gate.refuses.load(Ordering::SeqCst) {
            let overdue = std::mem::take(&mut *self.seen.gate.waiting.lock().unwrap());
            overdue.into_iter().for_each(|told| told(Permission(None)));
        }
    }

    fn connections_that_wait(&self, _longer_than: Duration) -> Vec<u64> {
        self.seen.until_gone.lock().unwrap().clone()
    }

    fn client_gone(&self, connection: u64) {
        self.seen.gone.lock().unwrap().push(connection);
    }

    fn disconnected(&self, _client: TestClient) {
        self.seen.disconnected.fetch_add(1, Ordering::SeqCst);
    }

    fn stopping(&self) {
        assert!(!self.seen.stopping.swap(true, Ordering::SeqCst));
    }

    fn stopped(&self) {
        assert!(self.seen.stopping.load(Ordering::SeqCst));
        assert!(!self.seen.stopped.swap(true, Ordering::SeqCst));
    }
}

impl ConsoleService for TestService {
    fn connected_again(&self, known: &TestClient, connection: u64) -> TestClient {
        let info = ConnectionInfo { id: connection, ..known.info.clone() };
        TestClient { user: known.user.clone(), ..self.connected(&info) }
    }

    fn log_in(&self, client: &mut TestClient, user: &str, database: &str, password: &str) -> Result<(), String> {
        match (user, database, password) {
            ("ada", "admin", "secret") => client.user = Some(user.to_owned()),
            _ => return Err("Authentication failed.".to_owned()),
        }
        Ok(())
    }
}

impl TestService {
    fn is_gone(&self, connection: u64) -> bool {
        self.seen.gone.lock().unwrap().contains(&connection)
    }

    fn hello(&self, request: &Request<'_>, client: &TestClient) -> RawDocumentBuf {
        let mut reply = rawdoc! {
            "ok": 1.0,
            "helloOk": true,
            "isWritablePrimary": true,
            "ismaster": true,
            "topologyVersion": { "processId": self.process, "counter": 0_i64 },
            "maxBsonObjectSize": 16_777_216,
            "maxMessageSizeBytes": 48_000_000,
            "maxWriteBatchSize": 100_000,
            "localTime": DateTime::now(),
            "logicalSessionTimeoutMinutes": 30,
            "connectionId": i64::try_from(client.info.id).unwrap(),
            "minWireVersion": 0,
            "maxWireVersion": 21,
            "readOnly": false,
        };
        if let Ok(Some(RawBsonRef::Array(names))) = request.body.get("compression") {
            let agreed: bson::RawArrayBuf = names
                .into_iter()
                .filter_map(|name| name.ok()?.as_str()?.parse_compressor())
                .map(|compressor| compressor.name())
                .collect();
            let key: &CStr = cstr!("compression");
            reply.append(key, agreed);
        }
        reply
    }
}

trait ParseCompressor {
    fn parse_compressor(&self) -> Option<Compressor>;
}

impl ParseCompressor for str {
    fn parse_compressor(&self) -> Option<Compressor> {
        Compressor::from_name(self).filter(|compressor| COMPRESSORS.contains(compressor))
    }
}

/// How long an awaitable hello waits.
fn await_time(request: &Request<'_>) -> Option<Duration> {
    request.body.get_document("topologyVersion").ok()?;
    let millis = match request.body.get("maxAwaitTimeMS").ok()?? {
        RawBsonRef::Int32(millis) => u64::try_from(millis).ok()?,
        RawBsonRef::Int64(millis) => u64::try_from(millis).ok()?,
        _ => return None,
    };
    Some(Duration::from_millis(millis))
}

/// A server on a port of its own.
pub(crate) struct TestServer {
    pub(crate) address: SocketAddr,
    /// Of the console.
    pub(crate) console: SocketAddr,
    pub(crate) handle: ServerHandle,
    pub(crate) seen: Arc<Seen>,
    thread: Option<JoinHandle<()>>,
}

impl TestServer {
    pub(crate) fn start() -> Self {
        Self::with_limits(1000, Duration::from_secs(5))
    }

    /// A server whose connections are a crowd from their second request on.
    pub(crate) fn crowded() -> Self {
        let server = Self::start();
        server.seen.gate.is_crowded.store(true, Ordering::SeqCst);
        server
    }

    pub(crate) fn with_limits(connections_max: usize, stop_grace: Duration) -> Self {
        Self::with_memory(connections_max, stop_grace, MemoryBudget::unlimited())
    }

    pub(crate) fn with_memory(connections_max: usize, stop_grace: Duration, memory: Arc<MemoryBudget>) -> Self {
        Self::with_tls(connections_max, stop_grace, memory, None)
    }

    pub(crate) fn with_tls(
        connections_max: usize,
        stop_grace: Duration,
        memory: Arc<MemoryBudget>,
        tls: Option<Arc<Tls>>,
    ) -> Self {
        let listeners = Listeners::bind(&["127.0.0.1:0".to_owned()]).unwrap();
        let address = listeners.addresses()[0];
        let handle =
            ServerHandle::new(ConnectionLimits::of_all(connections_max), DiagnosticLog::new(LogFormat::Text).unwrap());
        let seen = Arc::new(Seen::default());
        let service = Arc::new(TestService { seen: Arc::clone(&seen), process: ObjectId::new() });
        let endpoint = HttpEndpoint::bind("127.0.0.1:0").unwrap().encrypted(tls.clone());
        let console = endpoint.address().unwrap();
        let told = ConsoleOptions {
            listen: "db.example.com:0".to_owned(),
            address: console,
            is_encrypted: tls.is_some(),
            memory: Arc::clone(&memory),
            clock: Arc::new(SystemClock::new()),
        };
        let endpoint = endpoint.answering(console::router(Arc::clone(&service), handle.clone(), told));
        let options = ServeOptions {
            compressors: COMPRESSORS.to_vec(),
            memory,
            stop_grace,
            tls,
            http: vec![endpoint],
            signals: Signals::OfServer,
        };
        let of_thread = handle.clone();
        let thread = std::thread::spawn(move || serve(listeners, service, &of_thread, &options).unwrap());
        Self { address, console, handle, seen, thread: Some(thread) }
    }

    /// Asks it to stop and waits until it has.
    pub(crate) fn stop(&mut self) {
        self.handle.request_stop();
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap();
        }
    }
}

impl Drop for TestServer {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Waits until something is true, or fails.
pub(crate) fn eventually(what: &str, mut is_true: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is_true() {
        assert!(start.elapsed() < HANGS_AFTER, "never: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}
