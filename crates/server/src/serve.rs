//! The server's run from listening to stopping. Called by `main` once the service is open, and by tests.
//!
//! ```text
//! Listening ─ SIGTERM, SIGINT or ServerHandle::request_stop ─▶ Stopping ─▶ Stopped
//!   Stopping: no more accepting; CommandService::stopping; idle connections end, the others after their command;
//!             after `stop_grace` what is left is cut off
//!   Stopped:  CommandService::stopped
//! ```

use std::io;
use std::net::Shutdown;
use std::sync::Arc;
use std::time::Duration;

use platform::MemoryBudget;
use tokio::runtime::{Builder, Runtime};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::task::JoinSet;
use wire_protocol::Compressor;

use crate::connection_threads::{ConnectionThreads, THREAD_STACK_BYTES};
use crate::crowd::Crowd;
use crate::exchange::Shared;
use crate::handle::ServerHandle;
use crate::http::HttpEndpoint;
use crate::listener::{ListenError, Listener, Listeners, accept};
use crate::readiness;
use crate::service::CommandService;
use crate::tls::Tls;

/// Threads of the reactor. They accept, watch idle connections and keep timers; no command runs on them.
const REACTOR_THREADS: usize = 2;
/// How often clients are looked for that have gone away while their command runs, and how long one runs before it is looked at.
/// Twice this is what a command may go on for without its client.
const CLIENT_CHECK_INTERVAL: Duration = Duration::from_millis(50);
/// Time for threads to come back from sockets that were cut off.
const CUT_OFF_WAIT: Duration = Duration::from_secs(2);

/// How to serve.
#[derive(Clone)]
pub struct ServeOptions {
    /// Compressors that requests may use and `hello` may agree to, in our order of preference.
    pub compressors: Vec<Compressor>,
    /// The budget that requests and replies are counted in.
    pub memory: Arc<MemoryBudget>,
    /// How long running commands may take to end when the server stops.
    pub stop_grace: Duration,
    /// How connections are encrypted, if any are.
    pub tls: Option<Arc<Tls>>,
    /// What is answered over HTTP beside.
    pub http: Vec<HttpEndpoint>,
    /// Whose the process's signals are.
    pub signals: Signals,
}

/// Whose the signals of the process are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Signals {
    /// The server's: they stop it, and have it rotate its logs and certificates. The service manager is told how it is, too.
    OfServer,
    /// The program's that it runs in, which has its own use for them.
    OfProgram,
}

/// Why the server cannot serve.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// It cannot listen.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// The machine refuses threads, descriptors or signal handlers.
    #[error("cannot start the reactor: {0}")]
    Reactor(io::Error),
}

/// Serves until asked to stop, and returns when the service is closed.
///
/// # Errors
/// When it cannot begin; the service is closed then, too.
pub fn serve<S: CommandService>(
    listeners: Listeners,
    service: Arc<S>,
    handle: &ServerHandle,
    options: &ServeOptions,
) -> Result<(), ServeError> {
    let outcome = runtime().map_err(ServeError::Reactor).and_then(|runtime| {
        let threads = ConnectionThreads::new(Arc::clone(&options.memory));
        let crowd = Crowd::new(Arc::clone(&service), Arc::clone(&threads), runtime.handle().clone())
            .map_err(ServeError::Reactor)?;
        let shared = Arc::new(Shared {
            service: Arc::clone(&service),
            handle: handle.clone(),
            compressors: options.compressors.clone(),
            memory: Arc::clone(&options.memory),
            crowd: Arc::clone(&crowd),
            threads: Arc::clone(&threads),
            tls: options.tls.clone(),
        });
        let outcome = runtime.block_on(listen_until_stopped(listeners, &shared, options));
        crowd.stop();
        threads.stop(CUT_OFF_WAIT);
        runtime.shutdown_timeout(CUT_OFF_WAIT);
        outcome
    });
    if outcome.is_err() {
        service.stopping();
    }
    service.stopped();
    outcome
}

fn runtime() -> io::Result<Runtime> {
    Builder::new_multi_thread()
        .worker_threads(REACTOR_THREADS)
        .thread_stack_size(THREAD_STACK_BYTES)
        .thread_name("plimsoll")
        .on_thread_stop(platform::memory_check::thread_ends)
        .enable_all()
        .build()
}

async fn listen_until_stopped<S: CommandService>(
    listeners: Listeners,
    shared: &Arc<Shared<S>>,
    options: &ServeOptions,
) -> Result<(), ServeError> {
    let mut ending = match options.signals {
        Signals::OfServer => Some(EndingSignals::take().map_err(ServeError::Reactor)?),
        Signals::OfProgram => None,
    };
    let mut tasks = JoinSet::new();
    for listener in begin_to_listen(listeners, shared)? {
        tasks.spawn(accept(listener, Arc::clone(shared)));
    }
    shared.handle.begin_serving();
    let endpoints = serve_http(&options.http);
    tasks.spawn(watch_clients(Arc::clone(shared)));
    if ending.is_some() {
        readiness::is_ready();
        tasks.spawn(readiness::tell_that_it_lives());
        tasks.spawn(rotate_logs_on_signal(Arc::clone(shared)));
        if let Some(tls) = shared.tls.clone() {
            tasks.spawn(rotate_certificates_on_signal(tls));
        }
    }
    let reason = tokio::select! {
        signal = EndingSignals::next(ending.as_mut()) => signal,
        () = shared.handle.stop_requested() => "asked by a command",
    };
    tracing::info!(target: "control", reason, "the server is stopping");
    if let Some(mut ending) = ending {
        readiness::is_stopping();
        tokio::spawn(async move {
            ending.recv().await;
            tracing::warn!(target: "control", "a second signal: exiting at once, the next start recovers");
            std::process::exit(130);
        });
    }
    tasks.shutdown().await;
    stop_connections(shared, options.stop_grace).await;
    drop(endpoints);
    Ok(())
}

/// The signals that end a server.
struct EndingSignals {
    terminate: Signal,
    interrupt: Signal,
}

impl EndingSignals {
    fn take() -> io::Result<Self> {
        Ok(Self { terminate: signal(SignalKind::terminate())?, interrupt: signal(SignalKind::interrupt())? })
    }

    async fn recv(&mut self) -> &'static str {
        tokio::select! {
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.interrupt.recv() => "SIGINT",
        }
    }

    /// Where they are not the server's, none ever comes.
    async fn next(signals: Option<&mut Self>) -> &'static str {
        match signals {
            Some(signals) => signals.recv().await,
            None => std::future::pending().await,
        }
    }
}

/// From here on clients are answered.
fn begin_to_listen<S: CommandService>(listeners: Listeners, shared: &Shared<S>) -> Result<Vec<Listener>, ListenError> {
    let (addresses, unix_path) = (listeners.addresses(), listeners.unix_path());
    let listening = listeners.listen()?;
    if let Some(path) = unix_path {
        tracing::info!(target: "network", address = %path.display(), "listening on a socket in the file system");
    }
    let ssl = if shared.tls.is_some() { "on" } else { "off" };
    for address in addresses {
        let port = address.port();
        tracing::info!(target: "network", log_id = 23016, %address, port, ssl, "Waiting for connections");
    }
    Ok(listening)
}

/// Endpoints of HTTP are served for as long as what this gives is kept: also while the server stops, so that who watches sees it.
fn serve_http(endpoints: &[HttpEndpoint]) -> JoinSet<()> {
    let mut serving = JoinSet::new();
    for endpoint in endpoints.iter().cloned() {
        let address = endpoint.address().map_or_else(String::new, |address| address.to_string());
        tracing::info!(target: "network", address, "answering over HTTP");
        serving.spawn(async move {
            if let Err(error) = endpoint.run().await {
                tracing::error!(target: "network", address, %error, "nothing is answered over HTTP");
            }
        });
    }
    serving
}

/// SIGUSR1 asks for new files of the logs that go to files, as programs that rotate logs send it.
async fn rotate_logs_on_signal<S: CommandService>(shared: Arc<Shared<S>>) {
    let Ok(mut asked) = signal(SignalKind::user_defined1()) else { return };
    while asked.recv().await.is_some() {
        let shared = Arc::clone(&shared);
        let rotated = tokio::task::spawn_blocking(move || {
            let (audit, log) = (shared.service.rotate_audit_log(), shared.handle.log().rotate());
            // With an audit log the other one need not be a file.
            audit.unwrap_or(log)
        });
        if let Ok(Err(reason)) = rotated.await {
            tracing::warn!(target: "control", reason, "asked for a new log file by a signal, and there is none");
        }
    }
}

/// SIGHUP has certificates read again, as programs that renew them send it.
async fn rotate_certificates_on_signal(tls: Arc<Tls>) {
    let Ok(mut asked) = signal(SignalKind::hangup()) else { return };
    while asked.recv().await.is_some() {
        let tls = Arc::clone(&tls);
        if let Ok(Err(reason)) = tokio::task::spawn_blocking(move || tls.rotate()).await {
            tracing::warn!(target: "network", %reason, "asked for other certificates by a signal: those that there were stay");
        }
    }
}

/// Has commands ended whose clients have gone away. Looks only at those that have been running for a while, so that it costs others nothing.
async fn watch_clients<S: CommandService>(shared: Arc<Shared<S>>) {
    let mut interval = tokio::time::interval(CLIENT_CHECK_INTERVAL);
    interval.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        shared.handle.connection_is_there().await;
        interval.tick().await;
        if shared.handle.connections().active == 0 {
            continue;
        }
        let waiting = shared.service.connections_that_wait(CLIENT_CHECK_INTERVAL);
        for connection_id in shared.handle.closed_by_client(&waiting) {
            tracing::info!(target: "network", connection_id, "the client has gone away: its command ends");
            shared.service.client_gone(connection_id);
        }
    }
}

async fn stop_connections<S: CommandService>(shared: &Arc<Shared<S>>, stop_grace: Duration) {
    let handle = &shared.handle;
    handle.begin_stopping();
    let service = Arc::clone(&shared.service);
    if tokio::task::spawn_blocking(move || service.stopping()).await.is_err() {
        tracing::error!(target: "control", "the service failed to begin stopping");
    }
    // Ends those that wait for a request; a reply that is being made can still be written.
    handle.shut_connections(Shutdown::Read);
    if tokio::time::timeout(stop_grace, handle.connections_gone()).await.is_ok() {
        return;
    }
    let connections = handle.connections();
    tracing::warn!(target: "control", open = connections.current, running = connections.active, "cutting off connections that did not end in time");
    handle.shut_connections(Shutdown::Both);
    if tokio::time::timeout(CUT_OFF_WAIT, handle.connections_gone()).await.is_err() {
        tracing::warn!(target: "control", running = handle.connections().active, "commands still run while the server stops");
    }
}
