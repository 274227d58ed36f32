//! The life of one connection: idle in the reactor, active on a thread of its own.
//!
//! ```text
//!            bytes arrive                       whole frame
//!   Idle ───────────────────▶ Active (thread) ───────────────▶ answer ──┐
//!    ▲  (async task, no        │  ▲   ▲  blocking read,                 │
//!    │   buffers, no thread)   │  │   └──────────── reply sent ──────────┤
//!    └─ nothing came for a ────┘  │                                      │
//!       little while              └── topology changed or time over ── Waiting (async task)
//!   any state ── client closes, malformed frame, server stops ──▶ Ended
//! ```
//!
//! While requests keep coming, a connection costs one `read` and one `write` for each and no thread switch that the
//! client's own waiting does not cause; a command may block as long as it likes, for it has the thread to itself. A connection
//! on which nothing comes goes back to the reactor and costs a small task and its socket. The reasons and figures:
//! `docs/decisions/0002-execution-model.md`.

use std::io;
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;

use platform::MemoryUse;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use crate::exchange::{Answer, Exchange, ExchangeError};
use crate::read_buffer::{Incoming, ReadBuffer, ReadError};
use crate::service::{Attempt, CommandService};

/// How long a thread waits for the next request of a connection that was idle for longer than [`LINGER_WHEN_BUSY`].
/// Short, so that thousands of connections that send a heartbeat now and then share few threads.
const LINGER_AT_FIRST: Duration = Duration::from_millis(10);
/// How long it waits when the connection has proved busy, or was idle for less than this.
const LINGER_WHEN_BUSY: Duration = Duration::from_millis(500);
/// Requests in one spell of activity after which a connection counts as busy.
const BUSY_AFTER_REQUESTS: u32 = 16;

/// One connection, moved between its async task and the thread that serves it.
pub(crate) struct Connection<S: CommandService> {
    input: ReadBuffer,
    exchange: Exchange<S>,
    linger_at_first: Duration,
}

/// Why a thread has let go of a connection.
enum Pause {
    /// Nothing came for a while.
    Idle,
    /// The request at the front of the input waits for the topology to change from this generation.
    Waiting { generation: u64, longest: Duration },
}

/// Why a connection ended.
#[derive(Debug, thiserror::Error)]
enum End {
    #[error("closed by the client")]
    ClosedByClient,
    #[error("the server is stopping")]
    Stopping,
    #[error(transparent)]
    Read(#[from] ReadError),
    #[error(transparent)]
    Exchange(#[from] ExchangeError),
    #[error("cannot wait for the socket: {0}")]
    Reactor(io::Error),
}

impl<S: CommandService> Connection<S> {
    pub(crate) fn new(exchange: Exchange<S>) -> Self {
        let memory = exchange.shared.memory.reservation(MemoryUse::Connections);
        Self { input: ReadBuffer::new(memory), exchange, linger_at_first: LINGER_AT_FIRST }
    }

    /// Serves the connection until it ends. Spawned as a task by `listener`.
    pub(crate) async fn drive(self) {
        let socket = Arc::clone(&self.exchange.socket);
        let handle = self.exchange.shared.handle.clone();
        let mut connection = Box::new(self);
        let mut pause = Pause::Idle;
        let mut is_new = true;
        loop {
            let wake = match pause {
                Pause::Idle => {
                    let idle_since = tokio::time::Instant::now();
                    let woken = readable(&socket).await;
                    let soon = !std::mem::take(&mut is_new) && idle_since.elapsed() < LINGER_WHEN_BUSY;
                    connection.linger_at_first = if soon { LINGER_WHEN_BUSY } else { LINGER_AT_FIRST };
                    woken.map(|()| Attempt::First).map_err(End::Reactor)
                }
                Pause::Waiting { generation, longest } => tokio::select! {
                    () = handle.topology_other_than(generation) => Ok(Attempt::AfterWait),
                    () = tokio::time::sleep(longest) => Ok(Attempt::AfterWait),
                    end = closed_by_client(&socket) => Err(end),
                },
            };
            // A panic has been logged by the panic hook and has dropped the connection.
            let served = tokio::task::spawn_blocking(move || match wake {
                Ok(attempt) => connection.serve(attempt),
                Err(end) => {
                    connection.log_end(&end);
                    None
                }
            });
            match served.await {
                Ok(Some((returned, next))) => (connection, pause) = (returned, next),
                Ok(None) | Err(_) => return,
            }
        }
    }

    /// Serves on this thread while requests keep coming; `None` when the connection has ended.
    fn serve(mut self: Box<Self>, first: Attempt) -> Option<(Box<Self>, Pause)> {
        match self.serve_requests(first) {
            Ok(pause) => {
                self.input.release();
                self.exchange.release_buffers();
                Some((self, pause))
            }
            Err(end) => {
                self.log_end(&end);
                None
            }
        }
    }

    fn serve_requests(&mut self, first: Attempt) -> Result<Pause, End> {
        let mut attempt = first;
        let mut answered: u32 = 0;
        self.linger(self.linger_at_first)?;
        loop {
            let length = match self.input.next_frame(&self.exchange.socket) {
                Ok(Incoming::Frame(length)) => length,
                Ok(Incoming::Nothing) => return Ok(Pause::Idle),
                Ok(Incoming::Closed) => return Err(End::ClosedByClient),
                Err(error) => return Err(error.into()),
            };
            let generation = self.exchange.shared.handle.topology_generation();
            match self.exchange.answer(self.input.front(length), attempt)? {
                Answer::Done => self.input.consume(length),
                Answer::Waits { longest } => return Ok(Pause::Waiting { generation, longest }),
            }
            if self.exchange.shared.handle.is_stopping() {
                return Err(End::Stopping);
            }
            attempt = Attempt::First;
            answered = answered.saturating_add(1);
            if answered == BUSY_AFTER_REQUESTS && self.linger_at_first != LINGER_WHEN_BUSY {
                self.linger(LINGER_WHEN_BUSY)?;
            }
        }
    }

    fn linger(&self, duration: Duration) -> Result<(), End> {
        self.exchange.socket.set_read_timeout(Some(duration)).map_err(|error| End::Read(ReadError::Receive(error)))
    }

    /// Says why the connection ends. Dropping it then closes it.
    fn log_end(&self, end: &End) {
        let info = &self.exchange.info;
        let (remote, connection_id) = (info.remote, info.id);
        let malformed = matches!(end, End::Read(ReadError::Malformed(_)) | End::Exchange(ExchangeError::Malformed(_)));
        if malformed {
            tracing::warn!(target: "network", %remote, connection_id, reason = %end, "connection closed by the server");
        } else {
            let stopping = self.exchange.shared.handle.is_stopping();
            let end = if stopping { &End::Stopping } else { end };
            tracing::info!(target: "network", %remote, connection_id, reason = %end, "connection ended");
        }
    }
}

/// Registers the socket with the reactor until the result is dropped: only as long as something waits for it, so that
/// a thread that serves the connection wakes nobody else.
#[allow(deprecated, reason = "its unsafe replacement guards against types whose descriptor changes; this one's cannot")]
fn watch(socket: &Arc<TcpStream>) -> io::Result<AsyncFd<Arc<TcpStream>>> {
    AsyncFd::with_interest(Arc::clone(socket), Interest::READABLE)
}

/// Waits until something can be read from the socket, or its end.
async fn readable(socket: &Arc<TcpStream>) -> io::Result<()> {
    watch(socket)?.readable().await?.retain_ready();
    Ok(())
}

/// Waits until the client closes its side. Bytes that it sends before are left for later.
async fn closed_by_client(socket: &Arc<TcpStream>) -> End {
    let watched = match watch(socket) {
        Ok(watched) => watched,
        Err(error) => return End::Reactor(error),
    };
    loop {
        match watched.readable().await {
            Ok(guard) if guard.ready().is_read_closed() => return End::ClosedByClient,
            // Edge-triggered: the next event comes with more bytes or with the end.
            Ok(mut guard) => guard.clear_ready(),
            Err(error) => return End::Reactor(error),
        }
    }
}
