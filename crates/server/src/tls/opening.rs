//! A connection before its first message: whether it is encrypted, and the handshake. Called by `listener`, on an async task.
//!
//! ```text
//!   accepted ── first bytes ──┬── a message: plain, if the mode lets it ─────────────────────────▶ served
//!       │                     └── a ClientHello ──▶ Handshake: wait for bytes, compute, send ──▶ served
//!       └── 10 s without being through, at any step ──▶ closed
//! ```
//!
//! Who waits for a client holds no thread. Who computes holds one of few: so a thousand clients that begin at once, or begin and say no more, take nothing
//! from those that are in. A session is made when its first byte is there, and counted.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use rustix::net::RecvFlags;
use rustls::ProtocolVersion;
use socket2::Socket;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use super::session::{Handshake, TlsSession};
use super::{Tls, TlsMode, TlsVersion};
use crate::channel::Channel;
use crate::connection_memory::{ConnectionMemory, Holding};

/// How long a client may take until its handshake is through.
const TIME_MAX: Duration = Duration::from_secs(10);
/// A record of a handshake, of any version from 3.0 on. A message that begins so is 66 KB at least, which no client's first is.
pub(crate) const HANDSHAKE_BEGINNING: [u8; 2] = [0x16, 0x03];

/// A connection that can be served.
pub(crate) struct Opened {
    pub(crate) channel: Channel,
    pub(crate) certificate_subject: Option<String>,
}

/// Why a connection is closed before its first message.
#[derive(Debug, thiserror::Error)]
pub(crate) enum OpeningError {
    #[error("the client did not finish the TLS handshake within {} s", TIME_MAX.as_secs())]
    TooSlow,
    #[error("the client speaks without TLS, and the server is told to require it (--tls-mode)")]
    WithoutTls,
    #[error("the client closed the connection before its first message")]
    ClosedByClient,
    #[error("the memory budget has no room for the handshake")]
    NoMemory,
    #[error("the TLS handshake failed: {0}")]
    Failed(io::Error),
}

impl From<io::Error> for OpeningError {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset => OpeningError::ClosedByClient,
            _ => OpeningError::Failed(error),
        }
    }
}

/// Finds out what the client speaks, and goes through its handshake.
pub(crate) async fn open(
    tls: &Tls,
    socket: Arc<Socket>,
    memory: &mut ConnectionMemory,
) -> Result<Opened, OpeningError> {
    match tokio::time::timeout(TIME_MAX, open_in_time(tls, socket, memory)).await {
        Ok(opened) => opened,
        Err(_) => Err(OpeningError::TooSlow),
    }
}

async fn open_in_time(tls: &Tls, socket: Arc<Socket>, memory: &mut ConnectionMemory) -> Result<Opened, OpeningError> {
    let watched = watch(&socket)?;
    if !is_encrypted(&watched).await? {
        return match tls.mode() {
            TlsMode::Require => Err(OpeningError::WithoutTls),
            _ => Ok(Opened { channel: Channel::plain(socket), certificate_subject: None }),
        };
    }
    if !memory.try_hold(Holding::Handshake) {
        return Err(OpeningError::NoMemory);
    }
    let session = TlsSession::new(tls.current.load_full()).map_err(io::Error::other)?;
    let session = shake_hands(tls, &watched, Box::new(session)).await?;
    drop(watched);
    memory.is_encrypted();
    let certificate_subject = session.certificate_subject()?;
    match session.version() {
        Some(ProtocolVersion::TLSv1_2) => tls.count_opened(TlsVersion::V1_2),
        // Nothing else is spoken.
        _ => tls.count_opened(TlsVersion::V1_3),
    }
    tracing::debug!(target: "network", version = ?session.version(), certificate_subject, "a connection is encrypted");
    Ok(Opened { channel: Channel::encrypted(socket, session), certificate_subject })
}

#[allow(deprecated, reason = "its unsafe replacement guards against types whose descriptor changes; this one's cannot")]
fn watch(socket: &Arc<Socket>) -> io::Result<AsyncFd<Arc<Socket>>> {
    AsyncFd::with_interest(Arc::clone(socket), Interest::READABLE | Interest::WRITABLE)
}

/// Looks at the first bytes, and leaves them.
async fn is_encrypted(watched: &AsyncFd<Arc<Socket>>) -> Result<bool, OpeningError> {
    loop {
        let mut guard = watched.readable().await?;
        let is_closed = guard.ready().is_read_closed();
        // Before looking: what comes later is told again.
        guard.clear_ready();
        let mut first = [0; HANDSHAKE_BEGINNING.len()];
        match rustix::net::recv(&**watched.get_ref(), &mut first[..], RecvFlags::DONTWAIT | RecvFlags::PEEK) {
            Ok((_, 0)) => return Err(OpeningError::ClosedByClient),
            Ok((_, length)) if first[..length] != HANDSHAKE_BEGINNING[..length] => return Ok(false),
            Ok((_, length)) if length == first.len() => return Ok(true),
            Ok(_) if is_closed => return Err(OpeningError::ClosedByClient),
            // One byte, which could be either's.
            Ok(_) | Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => {}
            Err(error) => return Err(io::Error::from(error).into()),
        }
    }
}

async fn shake_hands(
    tls: &Tls,
    watched: &AsyncFd<Arc<Socket>>,
    mut session: Box<TlsSession>,
) -> Result<Box<TlsSession>, OpeningError> {
    loop {
        let socket = Arc::clone(watched.get_ref());
        let permit = Arc::clone(&tls.handshakes).acquire_owned().await.map_err(io::Error::other)?;
        let advancing = tokio::task::spawn_blocking(move || {
            let _permit = permit;
            platform::WorkClass::Background.set_for_thread();
            let handshake = session.advance(&socket);
            (session, handshake)
        });
        let (returned, handshake) = advancing.await.map_err(io::Error::other)?;
        session = returned;
        match handshake? {
            Handshake::Done => return Ok(session),
            Handshake::NeedsBytes => watched.readable().await?.clear_ready(),
            Handshake::NeedsRoom => watched.writable().await?.clear_ready(),
        }
    }
}
