//! What commands may ask of the running server: counts for `serverStatus`, recent diagnostics for `getLog`, stopping it
//! for `shutdown`. Made before the service and the listeners, and shared by both.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::net::{IpAddr, Shutdown};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, AtomicUsize, Ordering};

use parking_lot::Mutex;
use socket2::Socket;
use tokio::sync::{Notify, watch};

use crate::logging::DiagnosticLog;
use crate::peer::Peer;
use crate::service::is_closed_by_client;

/// A shared handle to the running server.
#[derive(Clone)]
pub struct ServerHandle {
    state: Arc<State>,
}

struct State {
    connections: Mutex<Connections>,
    /// Commands that browsers wait for at the console, by their connections, and whether the browser has gone away.
    calls_of_browsers: Mutex<HashMap<u64, bool>>,
    limits: ConnectionLimits,
    connections_created: AtomicU64,
    connections_refused: AtomicU64,
    commands_running: AtomicUsize,
    bytes_in: AtomicU64,
    bytes_out: AtomicU64,
    /// By how much compressed messages are larger when they are not compressed.
    bytes_saved_in: AtomicI64,
    bytes_saved_out: AtomicI64,
    requests: AtomicU64,
    serving: AtomicBool,
    stopping: AtomicBool,
    stop_requested: Notify,
    /// The server is to begin again once it has stopped.
    reopens: AtomicBool,
    connections_gone: Notify,
    connection_came: Notify,
    topology: watch::Sender<u64>,
    log: DiagnosticLog,
}

/// How many connections there may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConnectionLimits {
    /// In all.
    pub all: usize,
    /// From one address of another machine.
    pub of_one_address: usize,
}

impl ConnectionLimits {
    /// So many in all, of whomever they are.
    pub fn of_all(all: usize) -> Self {
        Self { all, of_one_address: all }
    }
}

/// Those that are open.
#[derive(Default)]
struct Connections {
    sockets: HashMap<u64, Arc<Socket>>,
    /// How many there are of each address beyond this machine.
    by_address: HashMap<IpAddr, usize>,
}

/// Connections, as `serverStatus.connections` gives them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConnectionCounts {
    /// Open now.
    pub current: usize,
    /// How many more would be accepted.
    pub available: usize,
    /// Accepted since the start.
    pub created: u64,
    /// Closed at once because too many were open, or memory has no room for another.
    pub refused: u64,
    /// With a command running now.
    pub active: usize,
}

/// Traffic since the start, as `serverStatus.network` gives it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NetworkCounts {
    /// Bytes received in whole messages, as they came (compressed or not).
    pub bytes_in: u64,
    /// Bytes given to the sockets.
    pub bytes_out: u64,
    /// Bytes of the messages received, decompressed.
    pub logical_bytes_in: u64,
    /// Bytes of the messages sent, before compression.
    pub logical_bytes_out: u64,
    /// Requests received.
    pub requests: u64,
}

impl ServerHandle {
    /// A handle for a server that accepts so many connections.
    pub fn new(limits: ConnectionLimits, log: DiagnosticLog) -> Self {
        let state = State {
            connections: Mutex::default(),
            calls_of_browsers: Mutex::default(),
            limits,
            connections_created: AtomicU64::new(0),
            connections_refused: AtomicU64::new(0),
            commands_running: AtomicUsize::new(0),
            bytes_in: AtomicU64::new(0),
            bytes_out: AtomicU64::new(0),
            bytes_saved_in: AtomicI64::new(0),
            bytes_saved_out: AtomicI64::new(0),
            requests: AtomicU64::new(0),
            serving: AtomicBool::new(false),
            stopping: AtomicBool::new(false),
            stop_requested: Notify::new(),
            reopens: AtomicBool::new(false),
            connections_gone: Notify::new(),
            connection_came: Notify::new(),
            topology: watch::Sender::new(0),
            log,
        };
        Self { state: Arc::new(state) }
    }

    /// Asks the server to stop, as SIGTERM does. Returns at once.
    pub fn request_stop(&self) {
        self.state.stop_requested.notify_one();
    }

    /// Whether clients are let in, or were.
    pub fn has_begun_to_serve(&self) -> bool {
        self.state.serving.load(Ordering::Acquire)
    }

    pub(crate) fn begin_serving(&self) {
        self.state.serving.store(true, Ordering::Release);
    }

    /// Asks the server to stop, and whoever runs it to begin again in the same process: its store is to be opened anew.
    pub fn request_reopening(&self) {
        self.state.reopens.store(true, Ordering::Release);
        self.request_stop();
    }

    /// Whether it is to begin again.
    pub fn wants_reopening(&self) -> bool {
        self.state.reopens.load(Ordering::Acquire)
    }

    /// Whether the server has begun to stop.
    pub fn is_stopping(&self) -> bool {
        self.state.stopping.load(Ordering::Relaxed)
    }

    /// Runs every request that waits for a topology change again, at once: what `hello` says is not what it said before.
    pub fn topology_changed(&self) {
        self.state.topology.send_modify(|generation| *generation += 1);
    }

    /// Connections now and since the start.
    pub fn connections(&self) -> ConnectionCounts {
        let current = self.state.connections.lock().sockets.len();
        ConnectionCounts {
            current,
            available: self.state.limits.all.saturating_sub(current),
            created: self.state.connections_created.load(Ordering::Relaxed),
            refused: self.state.connections_refused.load(Ordering::Relaxed),
            active: self.state.commands_running.load(Ordering::Relaxed),
        }
    }

    /// Traffic since the start.
    pub fn network(&self) -> NetworkCounts {
        let (bytes_in, bytes_out) =
            (self.state.bytes_in.load(Ordering::Relaxed), self.state.bytes_out.load(Ordering::Relaxed));
        NetworkCounts {
            bytes_in,
            bytes_out,
            logical_bytes_in: bytes_in.saturating_add_signed(self.state.bytes_saved_in.load(Ordering::Relaxed)),
            logical_bytes_out: bytes_out.saturating_add_signed(self.state.bytes_saved_out.load(Ordering::Relaxed)),
            requests: self.state.requests.load(Ordering::Relaxed),
        }
    }

    /// The diagnostic log: recent lines, the level.
    pub fn log(&self) -> &DiagnosticLog {
        &self.state.log
    }

    pub(crate) fn limits(&self) -> ConnectionLimits {
        self.state.limits
    }

    /// Waits until there is a connection, or a command of a browser. For one who waits.
    pub(crate) async fn connection_is_there(&self) {
        while self.state.connections.lock().sockets.is_empty() && self.state.calls_of_browsers.lock().is_empty() {
            self.state.connection_came.notified().await;
        }
    }

    /// Registers a connection and gives it its number.
    pub(crate) fn register(&self, socket: &Arc<Socket>, remote: &Peer) -> Result<Registration, TooMany> {
        let address = remote.counted_as().filter(|_| !remote.is_local());
        let mut connections = self.state.connections.lock();
        let of_address = address.map(|address| *connections.by_address.get(&address).unwrap_or(&0));
        let too_many = if connections.sockets.len() >= self.state.limits.all {
            Some(TooMany::InAll)
        } else {
            of_address.filter(|count| *count >= self.state.limits.of_one_address).map(|_| TooMany::OfOneAddress)
        };
        if let Some(too_many) = too_many {
            self.connection_refused();
            return Err(too_many);
        }
        let id = self.number_connection();
        connections.sockets.insert(id, Arc::clone(socket));
        self.state.connection_came.notify_one();
        if let Some(address) = address {
            *connections.by_address.entry(address).or_default() += 1;
        }
        Ok(Registration { handle: self.clone(), id, address })
    }

    /// The number of a new connection.
    pub(crate) fn number_connection(&self) -> u64 {
        self.state.connections_created.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// A browser waits for a command, until what this gives is dropped.
    pub(crate) fn begin_call_of_browser(&self, connection: u64) -> CallOfBrowser {
        self.state.calls_of_browsers.lock().insert(connection, false);
        self.state.connection_came.notify_one();
        CallOfBrowser { handle: self.clone(), connection }
    }

    /// It has gone away; perhaps its command has just ended.
    pub(crate) fn browser_departed(&self, connection: u64) {
        if let Some(is_gone) = self.state.calls_of_browsers.lock().get_mut(&connection) {
            *is_gone = true;
        }
    }

    /// Counts one that is closed at once.
    pub(crate) fn connection_refused(&self) {
        self.state.connections_refused.fetch_add(1, Ordering::Relaxed);
    }

    fn unregister(&self, id: u64, address: Option<IpAddr>) {
        let mut connections = self.state.connections.lock();
        connections.sockets.remove(&id);
        if let Some(Entry::Occupied(mut count)) = address.map(|address| connections.by_address.entry(address)) {
            *count.get_mut() -= 1;
            if *count.get() == 0 {
                count.remove();
            }
        }
        if connections.sockets.is_empty() {
            self.state.connections_gone.notify_waiters();
        }
    }

    pub(crate) fn request_received(&self, bytes: usize) {
        self.state.requests.fetch_add(1, Ordering::Relaxed);
        self.state.bytes_in.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    pub(crate) fn reply_sent(&self, bytes: usize) {
        self.state.bytes_out.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// A message that came compressed.
    pub(crate) fn decompressed(&self, compressed_bytes: usize, plain_bytes: usize) {
        self.state.bytes_saved_in.fetch_add(plain_bytes as i64 - compressed_bytes as i64, Ordering::Relaxed);
    }

    /// A message that is sent compressed.
    pub(crate) fn compressed(&self, plain_bytes: usize, compressed_bytes: usize) {
        self.state.bytes_saved_out.fetch_add(plain_bytes as i64 - compressed_bytes as i64, Ordering::Relaxed);
    }

    pub(crate) fn command_begins(&self) -> RunningCommand<'_> {
        self.state.commands_running.fetch_add(1, Ordering::Relaxed);
        RunningCommand { running: &self.state.commands_running }
    }

    pub(crate) fn topology_generation(&self) -> u64 {
        *self.state.topology.borrow()
    }

    /// How many requests wait for a topology change.
    pub fn waiting_for_topology(&self) -> usize {
        self.state.topology.receiver_count()
    }

    /// Waits until the topology's generation is another than `seen`.
    pub(crate) async fn topology_other_than(&self, seen: u64) {
        let mut receiver = self.state.topology.subscribe();
        // Fails only when the sender is gone, and the sender is in this handle.
        let _ = receiver.wait_for(|generation| *generation != seen).await;
    }

    pub(crate) async fn stop_requested(&self) {
        self.state.stop_requested.notified().await;
    }

    pub(crate) fn begin_stopping(&self) {
        self.state.stopping.store(true, Ordering::Relaxed);
    }

    /// Those of the connections whose client has closed its side.
    pub(crate) fn closed_by_client(&self, connections: &[u64]) -> Vec<u64> {
        let mut closed: Vec<u64> = {
            let open = self.state.connections.lock();
            let is_closed = |id: &&u64| open.sockets.get(id).is_some_and(|socket| is_closed_by_client(socket));
            connections.iter().filter(is_closed).copied().collect()
        };
        let of_browsers = self.state.calls_of_browsers.lock();
        closed.extend(connections.iter().filter(|id| of_browsers.get(id).is_some_and(|is_gone| *is_gone)));
        closed
    }

    /// Shuts one side or both of every connection's socket, which wakes whoever reads or writes it.
    pub(crate) fn shut_connections(&self, how: Shutdown) {
        for socket in self.state.connections.lock().sockets.values() {
            // Fails when the client is gone already, which is what is wanted.
            let _ = socket.shutdown(how);
        }
    }

    /// Waits until no connection is left.
    pub(crate) async fn connections_gone(&self) {
        loop {
            let gone = self.state.connections_gone.notified();
            tokio::pin!(gone);
            gone.as_mut().enable();
            if self.state.connections.lock().sockets.is_empty() {
                return;
            }
            gone.await;
        }
    }
}

/// Why a connection is closed at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TooMany {
    InAll,
    OfOneAddress,
}

/// A connection's place among those that are open, until dropped.
pub(crate) struct Registration {
    handle: ServerHandle,
    id: u64,
    address: Option<IpAddr>,
}

impl Registration {
    pub(crate) fn id(&self) -> u64 {
        self.id
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        self.handle.unregister(self.id, self.address);
    }
}

/// A command that a browser waits for at the console.
pub(crate) struct CallOfBrowser {
    handle: ServerHandle,
    connection: u64,
}

impl CallOfBrowser {
    /// Whether the browser has gone away.
    pub(crate) fn is_gone(&self) -> bool {
        self.handle.state.calls_of_browsers.lock().get(&self.connection).copied().unwrap_or(false)
    }
}

impl Drop for CallOfBrowser {
    fn drop(&mut self) {
        self.handle.state.calls_of_browsers.lock().remove(&self.connection);
    }
}

/// Counts a command as running until dropped.
pub(crate) struct RunningCommand<'a> {
    running: &'a AtomicUsize,
}

impl Drop for RunningCommand<'_> {
    fn drop(&mut self) {
        self.running.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use socket2::{Domain, Type};

    use super::*;
    use crate::logging::LogFormat;

    #[test]
    fn one_address_has_no_more_than_its_share() {
        let limits = ConnectionLimits { all: 6, of_one_address: 2 };
        let handle = ServerHandle::new(limits, DiagnosticLog::new(LogFormat::Text).unwrap());
        let socket = Arc::new(Socket::new(Domain::IPV4, Type::STREAM, None).unwrap());
        let mut port = 0;
        let mut register = |host: &str| {
            port += 1;
            handle.register(&socket, &Peer::Network(format!("{host}:{port}").parse().unwrap()))
        };
        let refused = |registered: Result<Registration, TooMany>| registered.err();
        let first = register("192.0.2.1").ok().unwrap();
        let _mapped = register("[::ffff:192.0.2.1]").ok().unwrap();
        assert_eq!(refused(register("192.0.2.1")), Some(TooMany::OfOneAddress));
        drop(first);
        let _again = register("192.0.2.1").ok().unwrap();
        // Of IPv6 whoever has one address has the whole network.
        let _one = register("[2001:db8:0:1::1]").ok().unwrap();
        let _other = register("[2001:db8:0:1:ffff::2]").ok().unwrap();
        assert_eq!(refused(register("[2001:db8:0:1::3]")), Some(TooMany::OfOneAddress));
        let local: Vec<_> = (0..2).filter_map(|_| register("127.0.0.1").ok()).collect();
        assert_eq!(local.len(), 2);
        assert_eq!(refused(register("127.0.0.1")), Some(TooMany::InAll));
        assert_eq!(handle.connections().refused, 3);
    }
}
