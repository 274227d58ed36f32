//! Listening sockets: bound before the data is opened, so that a port in use is said at once, and listening only when
//! the server can answer, so that clients are refused rather than kept waiting until then. Called by `main` and `serve`.

use std::net::{SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::sync::Arc;
use std::time::Duration;

use rustix::io::Errno;
use socket2::{Domain, Socket, TcpKeepalive, Type};

use crate::connection::Connection;
use crate::connection_memory::ConnectionMemory;
use crate::exchange::{Exchange, Shared};
use crate::service::{CommandService, ConnectionInfo};

/// The longest queue of connections that wait to be accepted; the kernel lowers it to `net.core.somaxconn`.
const BACKLOG: i32 = 4096;
/// A client that is gone without a word is noticed after about this much silence.
const KEEPALIVE_AFTER: Duration = Duration::from_secs(120);
/// Pause after a failed accept: out of descriptors or memory, which passes when connections end.
const ACCEPT_RETRY_AFTER: Duration = Duration::from_millis(50);

/// Why the server cannot listen.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    /// Somebody else has the address.
    #[error("address in use: another server runs on {0}")]
    AddressInUse(SocketAddr),
    /// The name has no address.
    #[error("cannot find the address of '{address}': {error}")]
    Unresolved {
        /// As configured.
        address: String,
        /// What the resolver says.
        error: std::io::Error,
    },
    /// Anything else.
    #[error("cannot listen on {address}: {error}")]
    Other {
        /// The address.
        address: SocketAddr,
        /// What the kernel says.
        error: std::io::Error,
    },
}

impl ListenError {
    fn of(address: SocketAddr, error: std::io::Error) -> Self {
        if error.raw_os_error() == Some(Errno::ADDRINUSE.raw_os_error()) {
            return ListenError::AddressInUse(address);
        }
        ListenError::Other { address, error }
    }
}

/// Bound sockets that do not listen yet.
pub struct Listeners {
    sockets: Vec<(SocketAddr, Socket)>,
}

impl Listeners {
    /// Binds every address, each `HOST:PORT`; a name with several addresses binds all of them.
    ///
    /// # Errors
    /// When a name has no address, or an address cannot be bound.
    pub fn bind(addresses: &[String]) -> Result<Self, ListenError> {
        let mut sockets = Vec::new();
        for name in addresses {
            let unresolved = |error| ListenError::Unresolved { address: name.clone(), error };
            for address in name.to_socket_addrs().map_err(unresolved)? {
                let socket = bind(address).map_err(|error| ListenError::of(address, error))?;
                let bound = socket.local_addr().ok().and_then(|bound| bound.as_socket());
                sockets.push((bound.unwrap_or(address), socket));
            }
        }
        Ok(Self { sockets })
    }

    /// The addresses bound, with the port the kernel chose where 0 was asked for.
    pub fn addresses(&self) -> Vec<SocketAddr> {
        self.sockets.iter().map(|(address, _)| *address).collect()
    }

    /// Begins to listen. Must run within a tokio runtime.
    pub(crate) fn listen(self) -> Result<Vec<tokio::net::TcpListener>, ListenError> {
        let listen = |(address, socket): (SocketAddr, Socket)| {
            socket.listen(BACKLOG).map_err(|error| ListenError::of(address, error))?;
            tokio::net::TcpListener::from_std(TcpListener::from(socket))
                .map_err(|error| ListenError::of(address, error))
        };
        self.sockets.into_iter().map(listen).collect()
    }
}

/// Accepted sockets inherit these options from the one that listens, which saves system calls for each of them.
fn bind(address: SocketAddr) -> std::io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, None)?;
    if address.is_ipv6() {
        socket.set_only_v6(true)?;
    }
    socket.set_reuse_address(true)?;
    socket.set_tcp_nodelay(true)?;
    socket.set_tcp_keepalive(&TcpKeepalive::new().with_time(KEEPALIVE_AFTER))?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    Ok(socket)
}

/// Accepts connections until the task is dropped.
pub(crate) async fn accept<S: CommandService>(listener: tokio::net::TcpListener, shared: Arc<Shared<S>>) {
    loop {
        let accepted = match listener.accept().await {
            Ok((stream, remote)) => welcome(stream, remote, &shared),
            Err(error) => Err(error),
        };
        if let Err(error) = accepted {
            tracing::warn!(target: "network", %error, "cannot accept a connection");
            tokio::time::sleep(ACCEPT_RETRY_AFTER).await;
        }
    }
}

fn welcome<S: CommandService>(
    stream: tokio::net::TcpStream,
    remote: SocketAddr,
    shared: &Arc<Shared<S>>,
) -> std::io::Result<()> {
    let stream: TcpStream = stream.into_std()?;
    // The reactor only watches it; reads and writes are blocking, on a thread.
    stream.set_nonblocking(false)?;
    let local = stream.local_addr()?;
    let socket = Arc::new(stream);
    let Some(memory) = ConnectionMemory::accept(&shared.memory) else {
        shared.handle.connection_refused();
        let memory_limit = shared.memory.limit();
        tracing::warn!(target: "network", %remote, memory_limit, "connection refused because the memory budget has no room for another");
        return Ok(());
    };
    let Some(connection_id) = shared.handle.register(&socket) else {
        let connections_max = shared.handle.connections_max();
        tracing::warn!(target: "network", %remote, connections_max, "connection refused because there are too many open connections");
        return Ok(());
    };
    let connection_count = shared.handle.connections().current;
    tracing::info!(target: "network", log_id = 22943, %remote, connection_id, connection_count, "connection accepted");
    let info = ConnectionInfo { id: connection_id, remote, local };
    let connection = Connection::new(Exchange::new(Arc::clone(shared), socket, info, memory));
    tokio::spawn(connection.drive());
    Ok(())
}
