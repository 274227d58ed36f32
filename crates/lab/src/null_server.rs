//! A server that does nothing: it answers every command at once with the smallest reply that a driver accepts.
//!
//! What it measures is the client: `plimsoll bench null-server` serves in a process of its own, so that the load generator's
//! limit can be found and stated; tests run it in a thread, and let it stall, refuse or die on purpose ([`Misbehaviour`]).
//!
//! An acceptor deals the connections out to a few event loops, each a thread: under load a loop finds the next message
//! there already, and nobody pays for waking it. What it answers is in `reply`.

use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::{mpsc, watch};
use tokio::task::LocalSet;

use reply::{Answer, answer, read_i32};

mod reply;

const HEADER_BYTES: usize = 16;
/// Longer messages than a driver may send end the connection.
const MESSAGE_BYTES_MAX: usize = 48_000_000;
const READ_BUFFER_BYTES: usize = 16 << 10;

/// What a server of a test does wrong. The default does nothing wrong.
#[derive(Debug, Clone, Copy, Default)]
pub struct Misbehaviour {
    /// After this many data commands, every connection is closed and none is accepted any more.
    pub dies_after: Option<u64>,
    /// From this moment after the start, for this long, no data command is answered.
    pub stalls: Option<(Duration, Duration)>,
    /// Every so-many-th data command is answered with an error of code 462 and the label `SystemOverloadedError`.
    pub refuses_every: Option<u64>,
}

/// A null server that serves until it is dropped.
pub struct NullServer {
    shared: Arc<Shared>,
}

struct Shared {
    address: SocketAddr,
    started: Instant,
    misbehaviour: Misbehaviour,
    commands: AtomicU64,
    documents_changed: AtomicU64,
    /// Becomes true when all connections are to end.
    stopped: watch::Sender<bool>,
}

impl NullServer {
    /// Listens at an address (port 0 for any free one) and serves, with an event loop for every two processors: the other
    /// half is the client's.
    ///
    /// # Errors
    /// The address cannot be listened at, or an event loop cannot be made.
    pub fn start(address: &str, misbehaviour: Misbehaviour) -> io::Result<Self> {
        let listener = TcpListener::bind(address)?;
        let shared = Arc::new(Shared {
            address: listener.local_addr()?,
            started: Instant::now(),
            misbehaviour,
            commands: AtomicU64::new(0),
            documents_changed: AtomicU64::new(0),
            stopped: watch::Sender::new(false),
        });
        let loops = thread::available_parallelism().map_or(1, usize::from).div_ceil(2);
        let loops = (0..loops).map(|_| start_event_loop(&shared)).collect::<io::Result<Vec<_>>>()?;
        let serving = Arc::clone(&shared);
        thread::spawn(move || {
            for (stream, event_loop) in listener.incoming().flatten().zip(loops.iter().cycle()) {
                // A loop ends only with the server.
                if *serving.stopped.borrow() || event_loop.send(stream).is_err() {
                    break;
                }
            }
        });
        Ok(Self { shared })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.shared.address
    }

    /// Its connection string.
    pub fn uri(&self) -> String {
        format!("mongodb://{}", self.shared.address)
    }

    /// Data commands answered so far.
    pub fn commands(&self) -> u64 {
        self.shared.commands.load(Ordering::Relaxed)
    }
}

impl Drop for NullServer {
    fn drop(&mut self) {
        self.shared.stop();
    }
}

impl Shared {
    fn stop(&self) {
        if !self.stopped.send_replace(true) {
            // Wakes the acceptor, which then sees that it has been stopped.
            drop(TcpStream::connect(self.address));
        }
    }

    /// When data commands are answered again, while they are not.
    fn end_of_stall(&self) -> Option<Instant> {
        let (start, length) = self.misbehaviour.stalls?;
        (start..start + length).contains(&self.started.elapsed()).then(|| self.started + start + length)
    }
}

/// Serves until the process is ended. Prints where it listens.
///
/// # Errors
/// The address cannot be listened at.
pub fn serve_forever(address: &str) -> io::Result<()> {
    let server = NullServer::start(address, Misbehaviour::default())?;
    println!("a null server listens at {}", server.uri());
    loop {
        thread::park();
    }
}

/// A thread that serves the connections that are sent to it.
fn start_event_loop(shared: &Arc<Shared>) -> io::Result<mpsc::UnboundedSender<TcpStream>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let (sender, mut connections) = mpsc::unbounded_channel();
    let shared = Arc::clone(shared);
    let serve = async move {
        while let Some(stream) = connections.recv().await {
            let shared = Arc::clone(&shared);
            let mut stopped = shared.stopped.subscribe();
            tokio::task::spawn_local(async move {
                tokio::select! {
                    // A connection that breaks is the client's affair.
                    _ = serve_connection(stream, &shared) => {}
                    _ = stopped.wait_for(|stopped| *stopped) => {}
                }
            });
        }
    };
    thread::Builder::new().name("null-server".to_owned()).spawn(move || LocalSet::new().block_on(&runtime, serve))?;
    Ok(sender)
}

async fn serve_connection(stream: TcpStream, shared: &Shared) -> io::Result<()> {
    stream.set_nodelay(true)?;
    stream.set_nonblocking(true)?;
    let mut stream = tokio::net::TcpStream::from_std(stream)?;
    let mut received = Vec::with_capacity(READ_BUFFER_BYTES);
    let mut reply = Vec::with_capacity(512);
    while stream.read_buf(&mut received).await? > 0 {
        while let Some(length) = first_message(&received)? {
            reply.clear();
            match answer(received.get(..length).unwrap_or_default(), shared, &mut reply)? {
                Answer::Now => {}
                Answer::At(moment) => tokio::time::sleep_until(moment.into()).await,
                Answer::Never => {
                    shared.stop();
                    return Ok(());
                }
            }
            stream.write_all(&reply).await?;
            received.drain(..length);
        }
    }
    Ok(())
}

/// The length of the first message, when all of it is there.
fn first_message(received: &[u8]) -> io::Result<Option<usize>> {
    if received.len() < HEADER_BYTES {
        return Ok(None);
    }
    let length = usize::try_from(read_i32(received, 0)?).unwrap_or(0);
    if !(HEADER_BYTES..=MESSAGE_BYTES_MAX).contains(&length) {
        return Err(io::ErrorKind::InvalidData.into());
    }
    Ok((received.len() >= length).then_some(length))
}
