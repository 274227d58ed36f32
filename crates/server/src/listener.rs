//! Listening sockets: bound before the data is opened, so that a port in use is said at once, and listening only when
//! the server can answer, so that clients are refused rather than kept waiting until then. Called by `main` and `serve`.

use std::net::{SocketAddr, TcpListener, ToSocketAddrs};
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use rustix::io::Errno;
use socket2::{Domain, Socket, TcpKeepalive, Type};

use crate::channel::Channel;
use crate::configuration::UnixSocketSettings;
use crate::connection::Connection;
use crate::connection_memory::ConnectionMemory;
use crate::exchange::{Exchange, Shared};
use crate::handle::{Registration, TooMany};
use crate::peer::Peer;
use crate::service::{CommandService, ConnectionInfo};
use crate::tls::{self, OpeningError};
use crate::unix_socket::UnixSocket;

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
    /// The socket in the file system.
    #[error("cannot listen on {}: {error}", path.display())]
    UnixSocket {
        /// Its file.
        path: PathBuf,
        /// What is wrong.
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
    unix: Option<(UnixSocket, Socket)>,
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
        Ok(Self { sockets, unix: None })
    }

    /// Binds a socket in the file system, too.
    ///
    /// # Errors
    /// It cannot be made, or somebody uses it.
    pub fn bind_unix(&mut self, settings: &UnixSocketSettings) -> Result<(), ListenError> {
        let failed = |error| ListenError::UnixSocket { path: settings.path.clone(), error };
        self.unix = Some(UnixSocket::bind(settings).map_err(failed)?);
        Ok(())
    }

    /// The addresses bound, with the port the kernel chose where 0 was asked for.
    pub fn addresses(&self) -> Vec<SocketAddr> {
        self.sockets.iter().map(|(address, _)| *address).collect()
    }

    /// The file of the socket in the file system.
    pub(crate) fn unix_path(&self) -> Option<PathBuf> {
        self.unix.as_ref().map(|(file, _)| file.path().to_owned())
    }

    /// Begins to listen. Must run within a tokio runtime.
    pub(crate) fn listen(self) -> Result<Vec<Listener>, ListenError> {
        let listen = |(address, socket): (SocketAddr, Socket)| {
            socket.listen(BACKLOG).map_err(|error| ListenError::of(address, error))?;
            tokio::net::TcpListener::from_std(TcpListener::from(socket))
                .map(Listener::Network)
                .map_err(|error| ListenError::of(address, error))
        };
        let mut listening: Vec<_> = self.sockets.into_iter().map(listen).collect::<Result<_, _>>()?;
        if let Some((file, socket)) = self.unix {
            let path = file.path().to_owned();
            let listener = || {
                socket.listen(BACKLOG)?;
                tokio::net::UnixListener::from_std(OwnedFd::from(socket).into())
            };
            let listener = listener().map_err(|error| ListenError::UnixSocket { path, error })?;
            listening.push(Listener::Unix { listener, _file: file });
        }
        Ok(listening)
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
pub(crate) async fn accept<S: CommandService>(listener: Listener, shared: Arc<Shared<S>>) {
    loop {
        let accepted = match listener.accept().await {
            Ok((socket, remote)) => welcome(socket, remote, &shared),
            Err(error) => Err(error),
        };
        if let Err(error) = accepted {
            tracing::warn!(target: "network", %error, "cannot accept a connection");
            tokio::time::sleep(ACCEPT_RETRY_AFTER).await;
        }
    }
}

/// A socket that listens.
pub(crate) enum Listener {
    Network(tokio::net::TcpListener),
    /// With its file, which goes with it.
    Unix {
        listener: tokio::net::UnixListener,
        _file: UnixSocket,
    },
}

impl Listener {
    async fn accept(&self) -> std::io::Result<(Socket, Peer)> {
        match self {
            Listener::Network(listener) => {
                let (stream, remote) = listener.accept().await?;
                Ok((stream.into_std()?.into(), Peer::Network(remote)))
            }
            Listener::Unix { listener, .. } => {
                let (stream, _) = listener.accept().await?;
                Ok((OwnedFd::from(stream.into_std()?).into(), Peer::Unix))
            }
        }
    }
}

fn welcome<S: CommandService>(socket: Socket, remote: Peer, shared: &Arc<Shared<S>>) -> std::io::Result<()> {
    // The reactor only watches it; reads and writes are blocking, on a thread.
    socket.set_nonblocking(false)?;
    let local = socket.local_addr()?.as_socket().map_or(Peer::Unix, Peer::Network);
    let socket = Arc::new(socket);
    let Some(memory) = ConnectionMemory::accept(&shared.memory) else {
        shared.handle.connection_refused();
        let memory_limit = shared.memory.limit();
        tracing::warn!(target: "network", %remote, memory_limit, "connection refused because the memory budget has no room for another");
        return Ok(());
    };
    let registration = match shared.handle.register(&socket, &remote) {
        Ok(registration) => registration,
        Err(too_many) => {
            let limits = shared.handle.limits();
            let (of_whom, limit) = match too_many {
                TooMany::InAll => ("all clients", limits.all),
                TooMany::OfOneAddress => ("its address", limits.of_one_address),
            };
            tracing::warn!(target: "network", %remote, of_whom, limit, "connection refused because there are too many open connections");
            return Ok(());
        }
    };
    let (connection_id, connection_count) = (registration.id(), shared.handle.connections().current);
    tracing::info!(target: "network", log_id = 22943, %remote, connection_id, connection_count, "connection accepted");
    let info = ConnectionInfo { id: connection_id, remote, local, certificate_subject: None };
    tokio::spawn(serve_connection(Arc::clone(shared), socket, info, registration, memory));
    Ok(())
}

/// What is connected by a socket in the file system is not encrypted: nobody else sees it.
async fn serve_connection<S: CommandService>(
    shared: Arc<Shared<S>>,
    socket: Arc<Socket>,
    mut info: ConnectionInfo,
    registration: Registration,
    mut memory: ConnectionMemory,
) {
    let channel = match &shared.tls {
        Some(tls) if matches!(info.remote, Peer::Network(_)) => match tls::open(tls, socket, &mut memory).await {
            Ok(opened) => {
                info.certificate_subject = opened.certificate_subject;
                opened.channel
            }
            Err(reason) => {
                tell_not_opened(&info, &reason, shared.handle.is_stopping());
                return;
            }
        },
        _ => Channel::plain(socket),
    };
    Connection::new(Exchange::new(shared, channel, info, registration, memory)).drive().await;
}

fn tell_not_opened(info: &ConnectionInfo, reason: &OpeningError, is_stopping: bool) {
    let (remote, connection_id) = (info.remote, info.id);
    if is_stopping || matches!(reason, OpeningError::ClosedByClient) {
        tracing::info!(target: "network", log_id = 22944, %remote, connection_id, %reason, "connection ended");
    } else {
        tracing::warn!(target: "network", %remote, connection_id, %reason, "connection closed by the server");
    }
}
