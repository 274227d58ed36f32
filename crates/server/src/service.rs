//! The seam between the network and the commands: what a command is given, and what it says back.
//!
//! `server` knows sockets and frames; whoever implements [`CommandService`] knows commands. The implementation that
//! the binary uses is a thin adapter over the `commands` crate; tests bring their own.

use std::time::Duration;

use bson::RawDocument;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use socket2::Socket;
use wire_protocol::{DocumentSequences, ReplyBuilder, ReplyTo};

use crate::peer::Peer;

/// Runs commands. One value serves all connections, from many threads at once.
pub trait CommandService: Send + Sync + 'static {
    /// What the service keeps for each connection: client metadata, authentication, and the like. It exists as long
    /// as the connection, so thousands of idle ones must be small.
    type Client: Send + 'static;

    /// A client has connected. Runs before its first request, on an async thread: must not block.
    fn connected(&self, connection: &ConnectionInfo) -> Self::Client;

    /// Whether the client still has to say who it is. Asked before each request, and cheap.
    fn standing(&self, _client: &Self::Client) -> Standing {
        Standing::Known
    }

    /// Runs one command to its end and appends one reply document (also for an error, also when the client wants no
    /// reply). It has a thread to itself, may block, and delays no other connection.
    fn run(&self, request: &Request<'_>, client: &mut Self::Client, reply: &mut ReplyBuilder) -> Completion;

    /// What a request waits for when many connections are busy, and what it is told in the end.
    type Need: Send + 'static;
    /// A place, or a refusal; given to the connection's state before the request is run. Given back when dropped.
    type Permission: Send + 'static;

    /// Whether connections such as this one, by what it asked for last, are too many to have a thread each. Asked after each reply.
    fn is_crowded(&self, client: &Self::Client) -> bool;

    /// Whether there is any such crowd.
    fn has_crowd(&self) -> bool;

    /// What a client's request must wait for before it is run; `None`: nothing. Must not block.
    fn need(&self, request: &Request<'_>, client: &Self::Client) -> Option<Self::Need>;

    /// Calls `told` once, as soon as there is a place for the request, or none is to be waited for any more; perhaps at once. Must not block.
    fn call_back(&self, need: Self::Need, told: Box<dyn FnOnce(Self::Permission) + Send>);

    /// Whether it is a place. If not, running the request does no more than reply so.
    fn is_granted(permission: &Self::Permission) -> bool;

    /// What the client's next request was told. The request is run at once, and waits for nothing more.
    fn permit(&self, client: &mut Self::Client, permission: Self::Permission);

    /// Tells those who have waited for too long, on the calling thread. Called every few milliseconds while there is a crowd. Must not block.
    fn refuse_overdue(&self);

    /// The connections whose commands have been running for this long and need not go on without their client. Must not block.
    fn connections_that_wait(&self, longer_than: Duration) -> Vec<u64>;

    /// The client of such a connection has closed its side: its command should end soon. Must not block.
    fn client_gone(&self, connection: u64);

    /// Begins a new file of the audit log; `None`: there is none. May block.
    fn rotate_audit_log(&self) -> Option<Result<(), String>> {
        None
    }

    /// The connection is gone; what it held may be released. May block.
    fn disconnected(&self, client: Self::Client);

    /// The server begins to stop: commands that run should end soon, and none starts after the ones that run. Called once.
    fn stopping(&self);

    /// No connection is left: write out what must be, and close. Called once, after [`CommandService::stopping`].
    fn stopped(&self);
}

/// One command as it came in, borrowing from its frame.
#[derive(Debug, Clone, Copy)]
pub struct Request<'a> {
    /// The name of the command: the body's first field.
    pub command: &'a str,
    /// The database it is addressed to (`$db`), not yet checked for being a valid name.
    pub database: &'a str,
    /// The command document. Only its length and the fields' framing are checked: validate it before looking inside.
    pub body: &'a RawDocument,
    /// Fields of the command that came as document sequences; none of them is also in the body.
    pub sequences: DocumentSequences<'a>,
    /// How it came in.
    pub protocol: Protocol,
    /// Which time this request is run.
    pub attempt: Attempt,
    /// Whether the client waits for a reply.
    pub reply_wanted: ReplyWanted,
    /// The client's number for this request.
    pub request_id: i32,
}

/// Whether a client has said who it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// It has, or need not.
    Known,
    /// It has to, and has not begun.
    Unknown,
    /// It is doing so.
    LoggingIn,
}

/// How a request came in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    /// As an `OP_MSG`.
    Msg,
    /// As a legacy `OP_QUERY`: a handshake, `hello` or `isMaster`.
    Query,
}

/// Whether the client waits for a reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReplyWanted {
    /// It waits.
    Yes,
    /// It does not (an unacknowledged write, `moreToCome`); what the command appends is thrown away.
    No,
}

/// Which time a request is run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Attempt {
    /// The first.
    First,
    /// Again after [`Completion::WaitForTopologyChange`]: the topology changed or the time is over. Must reply now.
    AfterWait,
    /// Again after [`Completion::ReplyAndMore`], for the next reply to the same request. Must reply now.
    Following,
}

/// What shall happen when a command has run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Completion {
    /// The reply is sent.
    Reply,
    /// The reply is sent. If the client takes several replies to one request (`exhaustAllowed`), this one says that another follows, and the
    /// request is run again for that.
    ReplyAndMore(Next),
    /// Nothing is sent; the same request is run again when the topology changes (see
    /// `ServerHandle::topology_changed`) or after `longest`, whichever is first. The wait holds no thread. For `hello`
    /// with `maxAwaitTimeMS`.
    WaitForTopologyChange {
        /// The longest wait.
        longest: Duration,
    },
    /// The connection is closed without a reply.
    CloseConnection,
}

/// When a request is run again for its next reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// As soon as this reply is sent. For `getMore`.
    AtOnce,
    /// When the topology changes (see `ServerHandle::topology_changed`) or after `longest`, whichever is first. The wait holds no thread. For
    /// `hello`.
    OnTopologyChange {
        /// The longest wait.
        longest: Duration,
    },
}

/// One accepted connection, as commands see it.
#[derive(Debug, Clone)]
pub struct ConnectionInfo {
    /// Its number, counted from 1; the `connectionId` of `hello`.
    pub id: u64,
    /// The client's address.
    pub remote: Peer,
    /// Our address the client connected to.
    pub local: Peer,
    /// The subject of the certificate that the client has shown and that was verified, as RFC 2253 writes it.
    pub certificate_subject: Option<String>,
}

/// Runs a command as a client. `None`: the connection would be closed in place of a reply.
pub(crate) fn run_on<S: CommandService>(
    service: &S,
    client: &mut S::Client,
    database: &str,
    body: &RawDocument,
) -> Option<ReplyBuilder> {
    let mut reply = ReplyBuilder::default();
    let name = body.iter().next().and_then(Result::ok).map_or("", |(name, _)| name.as_str());
    for attempt in [Attempt::First, Attempt::AfterWait] {
        reply.begin(ReplyTo::Msg { checksum: false });
        let request = Request {
            command: name,
            database,
            body,
            sequences: DocumentSequences::default(),
            protocol: Protocol::Msg,
            attempt,
            reply_wanted: ReplyWanted::Yes,
            request_id: 0,
        };
        match service.run(&request, client, &mut reply) {
            Completion::CloseConnection => return None,
            // Nothing is waited for here.
            Completion::WaitForTopologyChange { .. } => {}
            Completion::Reply | Completion::ReplyAndMore(_) => break,
        }
    }
    Some(reply)
}

/// Whether the client has closed its side, whatever it has sent before. One system call.
pub(crate) fn is_closed_by_client(socket: &Socket) -> bool {
    let mut watched = [PollFd::new(socket, PollFlags::RDHUP)];
    let is_told = poll(&mut watched, Some(&Timespec::default())).is_ok_and(|told| told > 0);
    is_told && watched.iter().any(|socket| !socket.revents().is_empty())
}
