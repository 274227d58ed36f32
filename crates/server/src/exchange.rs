//! One request and its reply on one connection, blocking. Called by `connection` with a whole frame.
//!
//! ```text
//! frame ─ decompress? ─ parse ─┬─ refuse (server's own error document) ─┐
//!                              └─ CommandService::run ──────────────────┴─ finish ─ compress? ─ one write
//! ```
//!
//! A request whose client allows it (`exhaustAllowed`) may have more replies, each run by `connection` with the same frame. Each is a reply
//! to the one before: that one's number stands where the request's number stood.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use platform::{MemoryBudget, MemoryReservation, MemoryUse, OverBudget};
use wire_protocol::{BEGINNING_SIZE_BYTES, Compressor, FrameHeader, ReplyBuilder, ReplyError, ReplyTo, WireError};

use crate::before_login::{self, Excess};
use crate::channel::Channel;
use crate::connection_memory::{BUFFER_COUNTED_BYTES, BUFFER_KEPT_BYTES, ConnectionMemory, wait_for_memory};
use crate::connection_threads::ConnectionThreads;
use crate::crowd::{Crowd, command_waits};
use crate::handle::{Registration, ServerHandle};
use crate::refusal::{Refusal, command_of_msg, command_of_query};
use crate::reply_writing::{ReplyWritingError, write_reply};
use crate::service::{Attempt, CommandService, Completion, ConnectionInfo, Next, Protocol, ReplyWanted, Standing};
use crate::tls::Tls;

/// A compressed message's content up to which the crowd's reader looks into it.
const SMALL_BYTES: usize = 64 * 1024;

/// Replies to these are never compressed, as they carry what tells about secrets or come before negotiation.
const NEVER_COMPRESSED: [&str; 8] =
    ["hello", "isMaster", "ismaster", "saslStart", "saslContinue", "authenticate", "createUser", "updateUser"];

/// What all connections share.
pub(crate) struct Shared<S: CommandService> {
    pub(crate) service: Arc<S>,
    pub(crate) handle: ServerHandle,
    pub(crate) compressors: Vec<Compressor>,
    pub(crate) memory: Arc<MemoryBudget>,
    pub(crate) crowd: Arc<Crowd<S>>,
    pub(crate) threads: Arc<ConnectionThreads>,
    pub(crate) tls: Option<Arc<Tls>>,
}

/// How one request ended.
pub(crate) enum Answer {
    /// Its reply is sent, or none was wanted.
    Done,
    /// It waits for a topology change.
    Waits { longest: Duration },
    /// A reply is sent, and the client waits for the next one.
    GoesOn(Next),
}

/// Why the connection ends.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ExchangeError {
    #[error("malformed message: {0}")]
    Malformed(#[from] WireError),
    #[error(transparent)]
    BeforeLogin(#[from] Excess),
    #[error("no memory for a message: {0}")]
    OverBudget(OverBudget),
    #[error(transparent)]
    Send(#[from] ReplyWritingError),
    #[error("the command closed it")]
    CommandClosed,
}

/// Whether what a compressed frame says of its content is little enough to decompress it beside other work.
fn is_small_when_decompressed(frame: &[u8]) -> bool {
    wire_protocol::decompressed_length(frame).is_ok_and(|length| length <= SMALL_BYTES)
}

/// One connection's means of answering: its socket, the service's state for it, and buffers.
pub(crate) struct Exchange<S: CommandService> {
    pub(crate) shared: Arc<Shared<S>>,
    pub(crate) channel: Channel,
    pub(crate) info: ConnectionInfo,
    /// Taken only when the connection is dropped.
    client: Option<S::Client>,
    reply: ReplyBuilder,
    decompressed: Vec<u8>,
    compressed: Vec<u8>,
    /// What it takes of the budget, the three buffers above included as far as they are large.
    pub(crate) memory: ConnectionMemory,
    /// Counts a compressed request's content while its command runs.
    content_memory: MemoryReservation,
    replies_sent: i32,
    /// Dropped last: whoever waits for the connection's end waits for its state's, too.
    _registration: Registration,
}

impl<S: CommandService> Exchange<S> {
    pub(crate) fn new(
        shared: Arc<Shared<S>>,
        channel: Channel,
        info: ConnectionInfo,
        registration: Registration,
        memory: ConnectionMemory,
    ) -> Self {
        let client = Some(shared.service.connected(&info));
        let content_memory = shared.memory.reservation(MemoryUse::Connections);
        Self {
            shared,
            channel,
            info,
            client,
            reply: ReplyBuilder::default(),
            decompressed: Vec::new(),
            compressed: Vec::new(),
            memory,
            content_memory,
            replies_sent: 0,
            _registration: registration,
        }
    }

    /// Answers a frame that was not kept, by its beginning: there was no memory for it.
    pub(crate) fn refuse_large(&mut self, beginning: &[u8], over_budget: OverBudget) -> Result<(), ExchangeError> {
        let header = beginning.first_chunk().map(FrameHeader::parse).transpose()?;
        let (Some(header), Some(flags)) = (header, wire_protocol::flags_of_beginning(beginning)) else {
            return Err(ExchangeError::OverBudget(over_budget));
        };
        let (remote, connection_id) = (self.info.remote, self.info.id);
        tracing::warn!(target: "network", %remote, connection_id, reason = %over_budget, "no memory for a message");
        if flags.more_to_come {
            return Ok(());
        }
        let reply_to = ReplyTo::Msg { checksum: flags.checksum_present };
        self.reply.begin(reply_to);
        self.refuse(&Refusal::no_memory(format!("there is no memory for the message: {over_budget}")), Protocol::Msg);
        self.send(Protocol::Msg, reply_to, header.request_id, None)
    }

    /// Whether the client still has to say who it is.
    pub(crate) fn standing(&self) -> Standing {
        self.client.as_ref().map_or(Standing::Known, |client| self.shared.service.standing(client))
    }

    /// Answers one whole frame.
    pub(crate) fn answer(&mut self, frame: &[u8], attempt: Attempt) -> Result<Answer, ExchangeError> {
        if attempt == Attempt::First {
            self.shared.handle.request_received(frame.len());
        }
        if !matches!(wire_protocol::FrameHeader::of_frame(frame)?.op_code, wire_protocol::OpCode::Compressed) {
            return self.answer_plain(frame, None, attempt);
        }
        if self.standing() != Standing::Known {
            before_login::check_length(wire_protocol::decompressed_length(frame)?)?;
        }
        let mut plain = std::mem::take(&mut self.decompressed);
        if let Err(over_budget) = self.reserve_content(frame)? {
            self.decompressed = plain;
            let beginning = frame.get(..BEGINNING_SIZE_BYTES).unwrap_or(frame);
            return self.refuse_large(beginning, over_budget).map(|()| Answer::Done);
        }
        let compressor = wire_protocol::decompress(frame, &self.shared.compressors, &mut plain)?;
        if attempt == Attempt::First {
            self.shared.handle.decompressed(frame.len(), plain.len());
        }
        let answer = self.answer_plain(&plain, Some(compressor), attempt);
        self.content_memory.shrink(0);
        if plain.capacity() <= BUFFER_KEPT_BYTES {
            self.decompressed = plain;
        }
        answer
    }

    /// Counts what a compressed frame's content will take, before it does. While memory is short the client waits a little, then is refused.
    fn reserve_content(&mut self, frame: &[u8]) -> Result<Result<(), OverBudget>, ExchangeError> {
        let length = wire_protocol::decompressed_length(frame)?;
        if length <= BUFFER_COUNTED_BYTES || self.content_memory.resize_leaving_some(length as u64).is_ok() {
            return Ok(Ok(()));
        }
        command_waits();
        Ok(wait_for_memory(&mut self.content_memory, length as u64))
    }

    /// What the command of a whole frame needs before it may run; `None`: nothing, or it finds out itself.
    pub(crate) fn need(&mut self, frame: &[u8]) -> Option<S::Need> {
        match wire_protocol::FrameHeader::of_frame(frame).ok()?.op_code {
            wire_protocol::OpCode::Msg => self.need_of_plain(frame),
            wire_protocol::OpCode::Compressed if is_small_when_decompressed(frame) => {
                let mut plain = std::mem::take(&mut self.decompressed);
                let decompressed = wire_protocol::decompress(frame, &self.shared.compressors, &mut plain);
                let need = decompressed.ok().and_then(|_| self.need_of_plain(&plain));
                self.decompressed = plain;
                need
            }
            _ => None,
        }
    }

    fn need_of_plain(&self, frame: &[u8]) -> Option<S::Need> {
        match wire_protocol::Request::parse(frame).ok()? {
            wire_protocol::Request::Msg(msg) => {
                let request = command_of_msg(&msg, Attempt::First).ok()?;
                self.shared.service.need(&request, self.client.as_ref()?)
            }
            wire_protocol::Request::Query(_) => None,
        }
    }

    /// The next command has waited for its place: this is what came of it.
    pub(crate) fn permit(&mut self, permission: S::Permission) {
        if let Some(client) = &mut self.client {
            self.shared.service.permit(client, permission);
        }
    }

    /// Whether connections such as this one are too many for a thread each.
    pub(crate) fn is_crowded(&self) -> bool {
        self.client.as_ref().is_some_and(|client| self.shared.service.is_crowded(client))
    }

    /// Gives the buffers' memory back, before the connection is left idle, or because memory is short.
    pub(crate) fn release_buffers(&mut self) {
        self.reply = ReplyBuilder::default();
        self.decompressed = Vec::new();
        self.compressed = Vec::new();
        self.channel.release_buffers();
    }

    /// Brings what is counted in step with what the buffers take.
    fn count_buffers(&mut self) {
        let own = self.reply.buffer().capacity() + self.decompressed.capacity() + self.compressed.capacity();
        self.memory.count_buffers(own + self.channel.buffer_bytes());
    }

    fn answer_plain(
        &mut self,
        frame: &[u8],
        compressor: Option<Compressor>,
        attempt: Attempt,
    ) -> Result<Answer, ExchangeError> {
        let parsed = wire_protocol::Request::parse(frame)?;
        let (header, protocol, reply_to, takes_more, request) = match &parsed {
            wire_protocol::Request::Msg(msg) => {
                let reply_to = ReplyTo::Msg { checksum: msg.flags.checksum_present };
                (msg.header, Protocol::Msg, reply_to, msg.flags.exhaust_allowed, command_of_msg(msg, attempt))
            }
            wire_protocol::Request::Query(query) => {
                (query.header, Protocol::Query, ReplyTo::Query, false, command_of_query(query, attempt))
            }
        };
        self.reply.begin(reply_to);
        let mut compressor = compressor;
        let mut reply_wanted = ReplyWanted::Yes;
        let mut next = None;
        match request {
            Ok(request) => {
                reply_wanted = request.reply_wanted;
                if NEVER_COMPRESSED.contains(&request.command) {
                    compressor = None;
                }
                match self.run(&request) {
                    Completion::Reply => {}
                    Completion::ReplyAndMore(follows) => {
                        next = Some(follows).filter(|_| takes_more && reply_wanted == ReplyWanted::Yes);
                    }
                    Completion::CloseConnection => return Err(ExchangeError::CommandClosed),
                    Completion::WaitForTopologyChange { longest } if attempt == Attempt::First => {
                        return Ok(Answer::Waits { longest });
                    }
                    Completion::WaitForTopologyChange { .. } => {}
                }
            }
            Err(refusal) => {
                if matches!(&parsed, wire_protocol::Request::Msg(msg) if msg.flags.more_to_come) {
                    reply_wanted = ReplyWanted::No;
                }
                self.refuse(&refusal, protocol);
            }
        }
        self.count_buffers();
        if next.is_some() {
            self.reply.mark_more_to_come();
        }
        if reply_wanted == ReplyWanted::Yes {
            let response_to = if attempt == Attempt::Following { self.replies_sent } else { header.request_id };
            self.send(protocol, reply_to, response_to, compressor)?;
        }
        // A refusal that was sent in place of the reply says that nothing follows.
        let next = next.filter(|_| self.reply.has_more_to_come());
        if self.reply.give_back_large() {
            self.count_buffers();
        }
        Ok(next.map_or(Answer::Done, Answer::GoesOn))
    }

    fn run(&mut self, request: &crate::service::Request<'_>) -> Completion {
        let Some(client) = &mut self.client else { return Completion::CloseConnection };
        let _running = self.shared.handle.command_begins();
        self.shared.service.run(request, client, &mut self.reply)
    }

    fn refuse(&mut self, refusal: &Refusal, protocol: Protocol) {
        self.reply.replace(&refusal.to_document(protocol));
        self.reply.mark_query_failure();
    }

    fn send(
        &mut self,
        protocol: Protocol,
        reply_to: ReplyTo,
        response_to: i32,
        compressor: Option<Compressor>,
    ) -> Result<(), ExchangeError> {
        self.replies_sent = self.replies_sent.wrapping_add(1);
        if let Err(error) = self.reply.finish(self.replies_sent, response_to) {
            tracing::error!(target: "network", connection_id = self.info.id, %error, "a command built no valid reply");
            let refusal = match error {
                ReplyError::TooLong(_) => Refusal::reply_too_large(error.to_string()),
                ReplyError::NotOneDocument(_) => Refusal::internal_error(error.to_string()),
            };
            self.reply.begin(reply_to);
            self.refuse(&refusal, protocol);
            self.reply
                .finish(self.replies_sent, response_to)
                .map_err(|error| ReplyWritingError::Send(io::Error::other(error)))?;
        }
        let mut bytes = self.reply.finished();
        // Without memory for it the reply goes as it is.
        let counted = self.content_memory.bytes() + bytes.len() as u64;
        let compressor =
            compressor.filter(|_| bytes.len() <= BUFFER_COUNTED_BYTES || self.content_memory.cover(counted).is_ok());
        if let Some(compressor) = compressor {
            wire_protocol::compress(bytes, compressor, &mut self.compressed)?;
            self.shared.handle.compressed(bytes.len(), self.compressed.len());
            bytes = &self.compressed;
        }
        self.shared.handle.reply_sent(bytes.len());
        write_reply(&mut self.channel, bytes, &self.shared.memory)?;
        if self.compressed.capacity() > BUFFER_KEPT_BYTES {
            self.compressed = Vec::new();
        }
        Ok(())
    }
}

impl<S: CommandService> Drop for Exchange<S> {
    fn drop(&mut self) {
        if let Some(client) = self.client.take() {
            self.shared.service.disconnected(client);
        }
    }
}
