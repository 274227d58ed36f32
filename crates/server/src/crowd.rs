//! Many busy connections, served by few threads.
//!
//! A thread a connection is the cheapest way while connections are few (`connection`). When so many are busy that their threads would only
//! wait for processors and tickets (the service says so), they come here after their next reply, one by one:
//!
//! ```text
//!                    ┌──────────────── reply sent: given back ────────────────┐
//!                    ▼                                                        │
//!   enters ──▶ Waiting for bytes ── a frame, read by the reader ──┬── free ──▶ Running (worker)
//!                    │                                            │            ▲
//!                    │                                            └─ needs a place: At the gate ── place ─┘
//!                    │                                                         └── patience over ──▶ refused by the reader, given back
//!                    └── silent for a while, no crowd any more, a large message ──▶ leaves: its task goes on with it
//! ```
//!
//! So a request that waits for its place costs neither a thread nor a wake-up, and how many wait is known where it is decided who is
//! told to come back later. One thread reads, in batches as `epoll` gives them; `workers` are few.
//!
//! Who holds a connection may use it: the reader's map, a job, or what the gate calls back. Its socket stays registered, edge-triggered; bytes that
//! come while it is away are noted, so that giving it back costs no system call. Lock: `handover` is a leaf.

mod reader;
mod workers;

use std::collections::HashMap;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use rustix::event::{EventfdFlags, epoll, eventfd};
use tokio::runtime::Handle;
use tokio::sync::oneshot;

use self::reader::Reader;
use self::workers::Workers;
pub use self::workers::command_waits;
use crate::connection::{Connection, End, Pause};
use crate::connection_threads::ConnectionThreads;
use crate::service::CommandService;

/// What `epoll` calls our own wake-ups; connections are counted from 1.
const WAKE: u64 = 0;

/// What all members share.
pub(crate) struct Crowd<S: CommandService> {
    service: Arc<S>,
    runtime: Handle,
    epoll: OwnedFd,
    /// An eventfd.
    wake: OwnedFd,
    handover: Mutex<Handover<S>>,
    workers: Arc<Workers<Job<S>>>,
    has_reader: AtomicBool,
    is_stopping: AtomicBool,
}

/// A connection of the crowd, with the way back to its task.
pub(crate) struct Member<S: CommandService> {
    connection: Box<Connection<S>>,
    leave: oneshot::Sender<(Box<Connection<S>>, Pause)>,
}

/// Between the reader and the others.
struct Handover<S: CommandService> {
    /// Given back to the reader, with whether there may be something to read.
    returned: Vec<(Member<S>, Look)>,
    /// Members that the reader does not have, with whether there may be something to read.
    away: HashMap<u64, Look>,
    /// Members that the gate has no place for.
    refused: Vec<Request<S>>,
}

/// Whether there may be something to read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Look {
    /// Not before `epoll` says so.
    Later,
    Now,
}

/// A member whose buffer begins with a whole frame of this length, and what came of its waiting for a place.
struct Request<S: CommandService> {
    member: Member<S>,
    length: usize,
    permission: Option<S::Permission>,
}

enum Job<S: CommandService> {
    Serve(Request<S>),
    End(Member<S>, End),
}

impl<S: CommandService> Crowd<S> {
    pub(crate) fn new(service: Arc<S>, threads: Arc<ConnectionThreads>, runtime: Handle) -> io::Result<Arc<Self>> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let wake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        epoll::add(&epoll, &wake, epoll::EventData::new_u64(WAKE), epoll::EventFlags::IN)?;
        Ok(Arc::new(Self {
            service,
            epoll,
            wake,
            handover: Mutex::new(Handover { returned: Vec::new(), away: HashMap::new(), refused: Vec::new() }),
            workers: Workers::new(threads),
            has_reader: AtomicBool::new(false),
            is_stopping: AtomicBool::new(false),
            runtime,
        }))
    }

    /// Takes a connection in; it comes back by `leave`, which is dropped when the connection ends.
    pub(crate) fn enter(
        self: &Arc<Self>,
        mut connection: Box<Connection<S>>,
        leave: oneshot::Sender<(Box<Connection<S>>, Pause)>,
    ) {
        connection.enter_crowd();
        if !self.has_reader.swap(true, Ordering::SeqCst) {
            let crowd = Arc::clone(self);
            self.runtime.spawn_blocking(move || Reader::new(crowd).run());
        }
        let id = connection.id();
        let flags = epoll::EventFlags::IN | epoll::EventFlags::RDHUP | epoll::EventFlags::ET;
        self.handover.lock().away.insert(id, Look::Later);
        let watched = epoll::add(&self.epoll, connection.socket(), epoll::EventData::new_u64(id), flags);
        let member = Member { connection, leave };
        match watched {
            Ok(()) => {
                self.give_back(member);
                // It may sleep without a clock, as there was no crowd.
                self.wake_reader();
            }
            Err(error) => self.end(member, &End::Reactor(error.into())),
        }
    }

    /// Ends the reader. Called once no connection is left, or those that are have been cut off.
    pub(crate) fn stop(&self) {
        self.is_stopping.store(true, Ordering::SeqCst);
        self.wake_reader();
    }

    fn is_stopping(&self) -> bool {
        self.is_stopping.load(Ordering::SeqCst)
    }

    /// Gives a member to the reader.
    fn give_back(&self, member: Member<S>) {
        let id = member.connection.id();
        let buffered = member.connection.may_have_more();
        let mut handover = self.handover.lock();
        let noted = handover.away.remove(&id).unwrap_or(Look::Later);
        let look = if buffered { Look::Now } else { noted };
        handover.returned.push((member, look));
        drop(handover);
        // The reader takes the others with the next event, or by the clock.
        if look == Look::Now {
            self.wake_reader();
        }
    }

    fn wake_reader(&self) {
        // Fails when the counter is full, and then it wakes, too.
        let _ = rustix::io::write(&self.wake, &1_u64.to_ne_bytes());
    }

    /// The connection's task goes on with it.
    fn leave(&self, member: Member<S>, pause: Pause) {
        self.forget(&member);
        let Member { mut connection, leave } = member;
        connection.before_pause(&pause);
        // Fails when the runtime is gone, and the connection with it.
        let _ = leave.send((connection, pause));
    }

    /// Ends the connection; may block.
    fn end(&self, member: Member<S>, end: &End) {
        self.forget(&member);
        member.connection.log_end(end);
    }

    fn forget(&self, member: &Member<S>) {
        // Fails when it could not be added.
        let _ = epoll::delete(&self.epoll, member.connection.socket());
        self.handover.lock().away.remove(&member.connection.id());
    }

    /// Answers a request, and does with the connection what follows.
    fn serve(&self, request: Request<S>) {
        let Request { mut member, length, permission } = request;
        match member.connection.answer_permitted(length, permission) {
            Ok(None) => self.give_back(member),
            Ok(Some(pause)) => self.leave(member, pause),
            Err(end) => self.end(member, &end),
        }
    }
}

impl<S: CommandService> workers::Job for Job<S> {
    fn run(self) {
        match self {
            Job::Serve(request) => {
                let crowd = Arc::clone(request.member.connection.crowd());
                let lost = Lost { crowd: &crowd, id: request.member.connection.id() };
                crowd.serve(request);
                std::mem::forget(lost);
            }
            Job::End(member, end) => Arc::clone(member.connection.crowd()).end(member, &end),
        }
    }
}

/// Forgets a member that a panic has dropped.
struct Lost<'c, S: CommandService> {
    crowd: &'c Crowd<S>,
    id: u64,
}

impl<S: CommandService> Drop for Lost<'_, S> {
    fn drop(&mut self) {
        self.crowd.handover.lock().away.remove(&self.id);
    }
}
