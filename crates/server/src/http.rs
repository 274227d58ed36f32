//! Serving HTTP beside the wire protocol: a bound address, what it answers, and bounds on who calls.
//!
//! Called by `serve`, which runs every endpoint until the server stops. Connections are few and short: who sends no request, or reads no answer,
//! is closed, and there are never more than a fixed number of them.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::{Extension, Router};
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio_rustls::TlsAcceptor;

use crate::tls::Tls;

/// Connections of one endpoint at once. Others wait to be accepted.
const CONNECTIONS_MAX: usize = 64;
/// For how long a request may come, and a connection may be idle.
const REQUEST_WAIT: Duration = Duration::from_secs(30);
/// After this long a connection ends with the answer that it is at.
const CONNECTION_KEPT: Duration = Duration::from_secs(300);
/// For how long the last answer may be read.
const LAST_ANSWER_WAIT: Duration = Duration::from_secs(10);
/// What a request's head may have.
const HEAD_BYTES_MAX: usize = 16 * 1024;
/// After an accept that failed, as when the process has too many files open.
const ACCEPT_AGAIN: Duration = Duration::from_millis(100);

/// For how long a client may take to agree on a key.
const HANDSHAKE_WAIT: Duration = Duration::from_secs(10);

/// An address and what is answered there.
#[derive(Clone)]
pub struct HttpEndpoint {
    listener: Arc<TcpListener>,
    router: Router,
    tls: Option<Arc<Tls>>,
}

/// Both ends of a connection, which requests have as an extension.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ends {
    pub(crate) remote: SocketAddr,
    pub(crate) local: SocketAddr,
}

impl HttpEndpoint {
    /// Binds `address`, `HOST:PORT`.
    ///
    /// # Errors
    /// It cannot be bound; the text says which and why.
    pub fn bind(address: &str) -> Result<Self, String> {
        let cannot = |error: io::Error| format!("cannot listen on {address} for HTTP: {error}");
        let listener = TcpListener::bind(address).map_err(cannot)?;
        listener.set_nonblocking(true).map_err(cannot)?;
        Ok(Self { listener: Arc::new(listener), router: Router::new(), tls: None })
    }

    /// What it answers.
    #[must_use]
    pub fn answering(self, router: Router) -> Self {
        Self { router, ..self }
    }

    /// Has all connections encrypted, if it is given how.
    #[must_use]
    pub fn encrypted(self, tls: Option<Arc<Tls>>) -> Self {
        Self { tls, ..self }
    }

    /// Where it listens.
    pub fn address(&self) -> Option<SocketAddr> {
        self.listener.local_addr().ok()
    }

    /// Accepts for as long as it is polled.
    pub(crate) async fn run(self) -> io::Result<()> {
        let listener = tokio::net::TcpListener::from_std(self.listener.try_clone()?)?;
        let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
        while let Ok(place) = Arc::clone(&places).acquire_owned().await {
            match listener.accept().await {
                Ok((stream, remote)) => {
                    let (endpoint, ends) = (self.clone(), stream.local_addr().map(|local| Ends { remote, local }));
                    tokio::spawn(async move {
                        if let Ok(ends) = ends {
                            endpoint.serve(stream, ends).await;
                        }
                        drop(place);
                    });
                }
                Err(error) => {
                    tracing::warn!(target: "network", %error, "a connection for HTTP could not be accepted");
                    tokio::time::sleep(ACCEPT_AGAIN).await;
                }
            }
        }
        Ok(())
    }

    /// What goes wrong with one connection is its client's business.
    async fn serve(self, stream: TcpStream, ends: Ends) {
        let router = self.router.layer(Extension(ends));
        let Some(tls) = self.tls else { return connection(stream, router).await };
        let handshake = TlsAcceptor::from(tls.current()).accept(stream);
        match tokio::time::timeout(HANDSHAKE_WAIT, handshake).await {
            Ok(Ok(stream)) => connection(stream, router).await,
            Ok(Err(error)) => tracing::debug!(target: "network", remote = %ends.remote, %error, "no TLS for HTTP"),
            Err(_) => {}
        }
    }
}

async fn connection<S: AsyncRead + AsyncWrite>(stream: S, router: Router) {
    let mut connection = pin!(
        http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(REQUEST_WAIT)
            .max_buf_size(HEAD_BYTES_MAX)
            .serve_connection(Box::pin(TokioIo::new(stream)), TowerToHyperService::new(router))
    );
    if tokio::time::timeout(CONNECTION_KEPT, connection.as_mut()).await.is_err() {
        connection.as_mut().graceful_shutdown();
        let _ = tokio::time::timeout(LAST_ANSWER_WAIT, connection).await;
    }
}
