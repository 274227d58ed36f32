//! The life of one connection: idle in the reactor, active on a thread of its own, or in the crowd.
//!
//! ```text
//!            bytes arrive                       whole frame
//!   Idle ───────────────────▶ Active (thread) ───────────────▶ answer ──┐
//!    ▲  (async task, no        │  ▲   ▲  blocking read,                 │
//!    │   buffers, no thread)   │  │   └──────────── reply sent ──────────┤
//!    └─ nothing came for a ────┘  │                                      │
//!       little while              └── topology changed or time over ── Waiting (async task): for the first reply, or the next of a stream
//!   Active ── there is a crowd of busy connections, or no memory for another thread ──▶ in the crowd (`crowd`) ── it is over, or nothing came ──▶ Active, Idle
//!   any state ── client closes, malformed frame, server stops ──▶ Ended
//! ```
//!
//! While requests keep coming, a connection costs one `read` and one `write` for each and no thread switch that the
//! client's own waiting does not cause; a command may block as long as it likes, for it has the thread to itself. A connection
//! on which nothing comes goes back to the reactor and costs a small task and its socket. The reasons and figures:
//! `docs/decisions/0002-execution-model.md`.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use platform::{MemoryUse, WorkClass};
use socket2::Socket;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::sync::oneshot;

use crate::before_login::Excess;
use crate::connection_memory::Holding;
use crate::crowd::Crowd;
use crate::exchange::{Answer, Exchange, ExchangeError};
use crate::read_buffer::{Arrived, Incoming, ReadBuffer, ReadError};
use crate::reply_writing::ReplyWritingError;
use crate::service::{Attempt, CommandService, Next};

/// How long a thread waits for the next request of a connection that was idle for longer than [`LINGER_WHEN_BUSY`].
/// Short, so that thousands of connections that send a heartbeat now and then share few threads.
const LINGER_AT_FIRST: Duration = Duration::from_millis(10);
/// How long it waits when the connection has proved busy, or was idle for less than this.
pub(crate) const LINGER_WHEN_BUSY: Duration = Duration::from_millis(500);
/// Requests in one spell of activity after which a connection counts as busy.
const BUSY_AFTER_REQUESTS: u32 = 16;

/// One connection, moved between its async task and the thread that serves it.
pub(crate) struct Connection<S: CommandService> {
    input: ReadBuffer,
    exchange: Exchange<S>,
    linger_at_first: Duration,
}

/// Why a thread has let go of a connection.
pub(crate) enum Pause {
    /// Nothing came for a while.
    Idle,
    /// It shall be one of the crowd.
    Crowded,
    /// It need not be one of the crowd any more, and has sent a request.
    Ready,
    /// It has sent a request that only a thread of its own can read.
    Large,
    /// The request at the front of the input waits for the topology to change from this generation, and is then run as this attempt.
    Waiting { generation: u64, longest: Duration, then: Attempt },
    /// The request at the front of the input has another reply.
    GoesOn,
}

/// What came of the request at the front of the input.
enum Front {
    /// It is answered and gone.
    Answered,
    /// It is still there.
    Kept(Pause),
}

/// What the crowd's reader finds on a connection.
pub(crate) enum Polled<N> {
    /// A whole frame, and what its command needs before it may run.
    Frame { length: usize, need: Option<N> },
    /// The beginning of a message that is large enough to be read by a thread of its own.
    Large,
    /// Nothing, or not a whole frame.
    Nothing,
}

/// Why a connection ended.
#[derive(Debug, thiserror::Error)]
pub(crate) enum End {
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
        let mut input = ReadBuffer::new(memory);
        input.opened(exchange.standing());
        Self { input, exchange, linger_at_first: LINGER_AT_FIRST }
    }

    /// Serves the connection until it ends. Spawned as a task by `listener`.
    pub(crate) async fn drive(self) {
        let socket = Arc::clone(self.exchange.channel.socket());
        let handle = self.exchange.shared.handle.clone();
        let mut connection = Box::new(self);
        // Its first request may have come with the end of the handshake.
        let mut pause = if connection.may_have_more() { Pause::Ready } else { Pause::Idle };
        let mut is_new = true;
        loop {
            let wake = match pause {
                Pause::Idle => {
                    let idle_since = tokio::time::Instant::now();
                    let woken = readable_within(&socket, connection.input.time_left()).await;
                    let soon = !std::mem::take(&mut is_new) && idle_since.elapsed() < LINGER_WHEN_BUSY;
                    connection.linger_at_first = if soon { LINGER_WHEN_BUSY } else { LINGER_AT_FIRST };
                    woken.map(|()| Attempt::First)
                }
                Pause::Crowded => {
                    let (leave, left) = oneshot::channel();
                    let crowd = Arc::clone(connection.crowd());
                    crowd.enter(connection, leave);
                    match left.await {
                        Ok(returned) => (connection, pause) = returned,
                        Err(_) => return,
                    }
                    continue;
                }
                Pause::Ready | Pause::Large => Ok(Attempt::First),
                Pause::GoesOn => Ok(Attempt::Following),
                Pause::Waiting { generation, longest, then } => tokio::select! {
                    biased;
                    () = handle.topology_other_than(generation) => Ok(then),
                    () = tokio::time::sleep(longest) => Ok(then),
                    end = closed_by_client(&socket) => Err(end),
                },
            };
            let may_share = wake.is_ok() && matches!(pause, Pause::Idle | Pause::Ready);
            if may_share && !connection.may_have_thread() {
                pause = Pause::Crowded;
                continue;
            }
            connection.exchange.memory.hold(Holding::Active);
            let threads = Arc::clone(&connection.exchange.shared.threads);
            let served = threads.run(move || match wake {
                Ok(attempt) => connection.serve(attempt),
                Err(end) => {
                    connection.log_end(&end);
                    None
                }
            });
            match served.await.flatten() {
                Some((returned, next)) => (connection, pause) = (returned, next),
                // Ended; after a panic, too, which the panic hook has logged.
                None => return,
            }
        }
    }

    /// Serves on this thread while requests keep coming; `None` when the connection has ended.
    fn serve(mut self: Box<Self>, first: Attempt) -> Option<(Box<Self>, Pause)> {
        WorkClass::Interactive.set_for_thread();
        match self.serve_requests(first) {
            Ok(pause) => {
                self.before_pause(&pause);
                Some((self, pause))
            }
            Err(end) => {
                self.log_end(&end);
                None
            }
        }
    }

    /// Gives the buffers back if it may be long until they are needed.
    pub(crate) fn before_pause(&mut self, pause: &Pause) {
        if matches!(pause, Pause::Idle | Pause::Waiting { .. }) {
            self.release_buffers();
            self.exchange.memory.hold(Holding::Idle);
        }
    }

    fn release_buffers(&mut self) {
        self.input.release();
        self.exchange.release_buffers();
    }

    /// As one of the crowd from now on.
    pub(crate) fn enter_crowd(&mut self) {
        self.exchange.memory.hold(Holding::Member);
    }

    /// Whether a thread of its own would find room.
    pub(crate) fn may_have_thread(&self) -> bool {
        self.exchange.memory.may_have_thread()
    }

    fn serve_requests(&mut self, first: Attempt) -> Result<Pause, End> {
        let mut attempt = first;
        let mut answered: u32 = 0;
        self.linger(self.linger_at_first)?;
        loop {
            let length = match self.input.next_frame(&mut self.exchange.channel) {
                Ok(Incoming::Frame(length)) => length,
                Ok(Incoming::Nothing) => return Ok(Pause::Idle),
                Ok(Incoming::TooLarge(over_budget)) => {
                    let beginning = self.input.skip_frame(&mut self.exchange.channel)?;
                    self.exchange.refuse_large(&beginning, over_budget)?;
                    continue;
                }
                Ok(Incoming::Closed) => return Err(End::ClosedByClient),
                Err(error) => return Err(error.into()),
            };
            match self.answer_front(length, attempt)? {
                Front::Answered => {}
                Front::Kept(Pause::GoesOn) => {
                    attempt = Attempt::Following;
                    continue;
                }
                Front::Kept(pause) => return Ok(pause),
            }
            if self.exchange.is_crowded() {
                return Ok(Pause::Crowded);
            }
            attempt = Attempt::First;
            answered = answered.saturating_add(1);
            if answered == BUSY_AFTER_REQUESTS && self.linger_at_first != LINGER_WHEN_BUSY {
                self.linger(LINGER_WHEN_BUSY)?;
            }
        }
    }

    /// Answers the frame at the front of the input.
    fn answer_front(&mut self, length: usize, attempt: Attempt) -> Result<Front, End> {
        if attempt == Attempt::First {
            self.input.count_request()?;
        }
        // Before the command runs: what it says is of this generation, or a later one.
        let generation = self.exchange.shared.handle.topology_generation();
        let front = match self.exchange.answer(self.input.front(length), attempt)? {
            Answer::Done => {
                self.input.consume(length);
                self.input.answered(self.exchange.standing());
                Front::Answered
            }
            Answer::Waits { longest } => {
                return Ok(Front::Kept(Pause::Waiting { generation, longest, then: Attempt::AfterWait }));
            }
            // Who waits for what follows has been greeted.
            Answer::GoesOn(next) => {
                self.input.answered(self.exchange.standing());
                match next {
                    Next::AtOnce => Front::Kept(Pause::GoesOn),
                    Next::OnTopologyChange { longest } => {
                        Front::Kept(Pause::Waiting { generation, longest, then: Attempt::Following })
                    }
                }
            }
        };
        if self.exchange.shared.handle.is_stopping() {
            return Err(End::Stopping);
        }
        Ok(front)
    }

    /// As one of the crowd: answers the frame at the front, whose command has waited for its place already.
    pub(crate) fn answer_permitted(
        &mut self,
        length: usize,
        permission: Option<S::Permission>,
    ) -> Result<Option<Pause>, End> {
        if let Some(permission) = permission {
            self.exchange.permit(permission);
        }
        let front = self.answer_front(length, Attempt::First)?;
        if self.exchange.memory.is_short() {
            self.release_buffers();
        }
        match front {
            Front::Answered => Ok(None),
            Front::Kept(pause) => Ok(Some(pause)),
        }
    }

    /// As one of the crowd: takes what has come, without waiting for anything.
    pub(crate) fn poll_request(&mut self) -> Result<Polled<S::Need>, End> {
        match self.input.poll_frame(&mut self.exchange.channel)? {
            Arrived::Frame(length) => {
                if self.exchange.memory.is_short() {
                    // It may have to wait for its place.
                    self.input.release();
                }
                let need = self.exchange.need(self.input.front(length));
                Ok(Polled::Frame { length, need })
            }
            Arrived::Large => Ok(Polled::Large),
            Arrived::Nothing => Ok(Polled::Nothing),
            Arrived::Closed => Err(End::ClosedByClient),
        }
    }

    /// Whether the socket may have something that `epoll` has told of already.
    pub(crate) fn may_have_more(&self) -> bool {
        self.input.may_have_more() || self.exchange.channel.may_have_more()
    }

    /// Notes that there is something behind the bytes: the end.
    pub(crate) fn note_more(&mut self) {
        self.input.note_more();
    }

    pub(crate) fn crowd(&self) -> &Arc<Crowd<S>> {
        &self.exchange.shared.crowd
    }

    pub(crate) fn id(&self) -> u64 {
        self.exchange.info.id
    }

    pub(crate) fn socket(&self) -> &Socket {
        self.exchange.channel.socket()
    }

    fn linger(&self, duration: Duration) -> Result<(), End> {
        let socket = self.exchange.channel.socket();
        socket.set_read_timeout(Some(duration)).map_err(|error| End::Read(ReadError::Receive(error)))
    }

    /// Says why the connection ends. Dropping it then closes it.
    pub(crate) fn log_end(&self, end: &End) {
        let info = &self.exchange.info;
        let (remote, connection_id) = (info.remote, info.id);
        let malformed = matches!(
            end,
            End::Read(ReadError::Malformed(_) | ReadError::Encrypted | ReadError::BeforeLogin(_))
                | End::Exchange(ExchangeError::Malformed(_) | ExchangeError::BeforeLogin(_))
        );
        let short = matches!(
            end,
            End::Read(ReadError::OverBudget(_))
                | End::Exchange(
                    ExchangeError::OverBudget(_) | ExchangeError::Send(ReplyWritingError::SlowReader { .. })
                )
        );
        if malformed || short {
            tracing::warn!(target: "network", %remote, connection_id, reason = %end, "connection closed by the server");
        } else {
            let stopping = self.exchange.shared.handle.is_stopping();
            let end = if stopping { &End::Stopping } else { end };
            tracing::info!(target: "network", log_id = 22944, %remote, connection_id, reason = %end, "connection ended");
        }
    }
}

/// Registers the socket with the reactor until the result is dropped: only as long as something waits for it, so that
/// a thread that serves the connection wakes nobody else.
#[allow(deprecated, reason = "its unsafe replacement guards against types whose descriptor changes; this one's cannot")]
fn watch(socket: &Arc<Socket>) -> io::Result<AsyncFd<Arc<Socket>>> {
    AsyncFd::with_interest(Arc::clone(socket), Interest::READABLE)
}

/// Waits until something can be read from the socket, or its end.
async fn readable(socket: &Arc<Socket>) -> io::Result<()> {
    watch(socket)?.readable().await?.retain_ready();
    Ok(())
}

/// As `readable`, but for no longer than a client that has not logged in may take.
async fn readable_within(socket: &Arc<Socket>, longest: Option<Duration>) -> Result<(), End> {
    let Some(longest) = longest else { return readable(socket).await.map_err(End::Reactor) };
    match tokio::time::timeout(longest, readable(socket)).await {
        Ok(woken) => woken.map_err(End::Reactor),
        Err(_) => Err(End::Read(ReadError::BeforeLogin(Excess::Time))),
    }
}

/// Waits until the client closes its side. Bytes that it sends before are left for later.
async fn closed_by_client(socket: &Arc<Socket>) -> End {
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
