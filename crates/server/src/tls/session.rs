//! One encrypted connection: bytes of the socket in, plain bytes out, and the other way. Used by `channel`, and by `opening` until the handshake is through.
//!
//! ```text
//! socket ─▶ incoming ─ decrypt ─▶ plain ─▶ who reads        who writes ─ encrypt ─▶ outgoing ─▶ socket
//! ```
//!
//! The three buffers are ours, so that an idle connection has none of them: what the library keeps is its keys. Each is bounded: a record has 16 KiB, and
//! a handshake's message 64 KiB.

use std::io::{self, ErrorKind, Write};
use std::sync::Arc;

use rustix::net::SendFlags;
use rustls::ServerConfig;
use rustls::server::UnbufferedServerConnection;
use rustls::unbuffered::{ConnectionState, EncodeError, EncryptError, UnbufferedStatus};
use socket2::Socket;

use super::certificate_fields::CertificateFields;
use super::distinguished_name::to_rfc2253;
use crate::channel::{Wait, receive_from};

const INCOMING_BYTES_AT_FIRST: usize = 4 * 1024;
/// A handshake's longest message, in its records, with the record that is being received.
const INCOMING_BYTES_MAX: usize = 96 * 1024;
/// So much is encrypted at once: two records.
const WRITTEN_AT_ONCE: usize = 32 * 1024;
/// What encryption adds to two records, and a change of keys before them.
const ADDED_BYTES: usize = 256;

/// See the module's head.
pub(crate) struct TlsSession {
    connection: UnbufferedServerConnection,
    /// Received and not decrypted: `incoming[start..end]`.
    incoming: Vec<u8>,
    start: usize,
    end: usize,
    /// Whether the last reading filled the room that it had.
    may_have_more: bool,
    /// Decrypted and not read, from `plain_read` on.
    plain: Vec<u8>,
    plain_read: usize,
    /// Encrypted and not sent, from `sent` on.
    outgoing: Vec<u8>,
    sent: usize,
    is_closed_by_client: bool,
}

/// How far processing what has come went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Progress {
    /// There are plain bytes.
    Plain,
    /// The handshake is not through, and needs more bytes.
    InHandshake,
    /// All is read.
    Empty,
    /// The client has said that nothing follows.
    Closed,
}

/// How far a handshake is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Handshake {
    Done,
    NeedsBytes,
    /// The client takes nothing.
    NeedsRoom,
}

impl TlsSession {
    pub(super) fn new(config: Arc<ServerConfig>) -> Result<Self, rustls::Error> {
        Ok(Self {
            connection: UnbufferedServerConnection::new(config)?,
            incoming: Vec::new(),
            start: 0,
            end: 0,
            may_have_more: false,
            plain: Vec::new(),
            plain_read: 0,
            outgoing: Vec::new(),
            sent: 0,
            is_closed_by_client: false,
        })
    }

    /// Goes on with the handshake as far as that is possible without waiting.
    pub(super) fn advance(&mut self, socket: &Socket) -> io::Result<Handshake> {
        loop {
            let progress = self.process();
            match self.send_now(socket) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    progress?;
                    return Ok(Handshake::NeedsRoom);
                }
                sent => {
                    // An alert is sent where that can be done; what matters is why.
                    let progress = progress?;
                    sent?;
                    match progress {
                        Progress::InHandshake => {}
                        Progress::Plain | Progress::Empty => return Ok(Handshake::Done),
                        Progress::Closed => return Err(ErrorKind::UnexpectedEof.into()),
                    }
                }
            }
            match self.fill(socket, Wait::No) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(Handshake::NeedsBytes),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// The subject of the client's certificate, which has been verified.
    pub(super) fn certificate_subject(&self) -> io::Result<Option<String>> {
        let Some(certificate) = self.connection.peer_certificates().and_then(<[_]>::first) else { return Ok(None) };
        let fields = CertificateFields::parse(certificate).map_err(io::Error::other)?;
        to_rfc2253(fields.subject).map(Some).map_err(io::Error::other)
    }

    /// For the log.
    pub(super) fn version(&self) -> Option<rustls::ProtocolVersion> {
        self.connection.protocol_version()
    }

    /// As `Channel::receive`.
    pub(crate) fn receive(&mut self, socket: &Socket, room: &mut [u8], wait: Wait) -> io::Result<usize> {
        loop {
            if self.plain_read < self.plain.len() {
                return Ok(self.take_plain(room));
            }
            match self.process()? {
                Progress::Plain => continue,
                Progress::Closed => return Ok(0),
                Progress::InHandshake | Progress::Empty => {}
            }
            if self.fill(socket, wait)? == 0 {
                return Ok(0);
            }
        }
    }

    fn take_plain(&mut self, room: &mut [u8]) -> usize {
        let rest = self.plain.get(self.plain_read..).unwrap_or_default();
        let taken = rest.len().min(room.len());
        if let (Some(from), Some(to)) = (rest.get(..taken), room.get_mut(..taken)) {
            to.copy_from_slice(from);
        }
        self.plain_read += taken;
        if self.plain_read == self.plain.len() {
            self.plain.clear();
            self.plain_read = 0;
        }
        taken
    }

    /// Receives into `incoming`.
    fn fill(&mut self, socket: &Socket, wait: Wait) -> io::Result<usize> {
        if self.start > 0 {
            self.incoming.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
        if self.end == self.incoming.len() {
            let size = (self.incoming.len() * 2).clamp(INCOMING_BYTES_AT_FIRST, INCOMING_BYTES_MAX);
            if size <= self.end {
                return Err(io::Error::new(ErrorKind::InvalidData, "a message of the handshake is too large"));
            }
            self.incoming.resize(size, 0);
        }
        let room = self.incoming.get_mut(self.end..).unwrap_or_default();
        let size = room.len();
        let received = receive_from(socket, room, wait);
        self.may_have_more = received.as_ref().is_ok_and(|received| *received == size);
        let received = received?;
        self.end += received;
        Ok(received)
    }

    /// Goes through what has been received, until there are plain bytes or nothing is left to do.
    fn process(&mut self) -> io::Result<Progress> {
        loop {
            let received = self.incoming.get_mut(self.start..self.end).unwrap_or_default();
            let UnbufferedStatus { mut discard, state, .. } = self.connection.process_tls_records(received);
            let progress = match state {
                Ok(ConnectionState::ReadTraffic(mut traffic)) => {
                    while let Some(record) = traffic.next_record() {
                        let record = record.map_err(invalid)?;
                        self.plain.extend_from_slice(record.payload);
                        discard += record.discard;
                    }
                    // A record may be empty.
                    (!self.plain.is_empty()).then_some(Progress::Plain)
                }
                Ok(ConnectionState::EncodeTlsData(mut encode)) => {
                    append(&mut self.outgoing, ADDED_BYTES, |room| Ok(encode.encode(room)?))?;
                    None
                }
                Ok(ConnectionState::TransmitTlsData(transmit)) => {
                    // It is in `outgoing`, which is sent before anything else.
                    transmit.done();
                    None
                }
                Ok(ConnectionState::PeerClosed | ConnectionState::Closed) => {
                    self.is_closed_by_client = true;
                    Some(Progress::Closed)
                }
                Ok(ConnectionState::WriteTraffic(_)) if self.is_closed_by_client => Some(Progress::Closed),
                Ok(ConnectionState::WriteTraffic(_)) => Some(Progress::Empty),
                Ok(ConnectionState::BlockedHandshake) => Some(Progress::InHandshake),
                Ok(other) => return Err(io::Error::other(format!("a state that cannot be: {other:?}"))),
                Err(error) => {
                    self.start = (self.start + discard).min(self.end);
                    self.append_alert();
                    return Err(invalid(error));
                }
            };
            self.start = (self.start + discard).min(self.end);
            if let Some(progress) = progress {
                return Ok(progress);
            }
        }
    }

    /// What tells the client why it goes no further.
    fn append_alert(&mut self) {
        while let UnbufferedStatus { state: Ok(ConnectionState::EncodeTlsData(mut encode)), .. } =
            self.connection.process_tls_records(&mut [])
        {
            if append(&mut self.outgoing, ADDED_BYTES, |room| Ok(encode.encode(room)?)).is_err() {
                return;
            }
        }
    }

    /// As `Channel::write`: takes some of the bytes, which are sent then or later.
    pub(crate) fn send(&mut self, socket: &Socket, bytes: &[u8]) -> io::Result<usize> {
        self.send_unsent(socket)?;
        let some = bytes.get(..WRITTEN_AT_ONCE).unwrap_or(bytes);
        self.encrypt(some)?;
        match self.send_unsent(socket) {
            Err(error) if !matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => Err(error),
            _ => Ok(some.len()),
        }
    }

    fn encrypt(&mut self, bytes: &[u8]) -> io::Result<()> {
        append_traffic(&mut self.connection, &mut self.outgoing, Traffic::Bytes(bytes))
    }

    pub(crate) fn has_unsent(&self) -> bool {
        self.sent < self.outgoing.len()
    }

    /// Sends what is encrypted, as far as the socket's write timeout lets it.
    pub(crate) fn send_unsent(&mut self, mut socket: &Socket) -> io::Result<()> {
        self.send_by(|bytes| socket.write(bytes))
    }

    /// Sends what is encrypted, as far as the socket has room.
    fn send_now(&mut self, socket: &Socket) -> io::Result<()> {
        self.send_by(|bytes| Ok(rustix::net::send(socket, bytes, SendFlags::DONTWAIT | SendFlags::NOSIGNAL)?))
    }

    fn send_by(&mut self, mut send: impl FnMut(&[u8]) -> io::Result<usize>) -> io::Result<()> {
        while let Some(rest) = self.outgoing.get(self.sent..).filter(|rest| !rest.is_empty()) {
            match send(rest) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(more) => self.sent += more,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        self.outgoing.clear();
        self.sent = 0;
        Ok(())
    }

    /// Tells the client that nothing follows, if that needs no waiting.
    pub(crate) fn say_goodbye(&mut self, socket: &Socket) {
        if self.has_unsent() || self.connection.is_handshaking() {
            return;
        }
        if append_traffic(&mut self.connection, &mut self.outgoing, Traffic::End).is_ok() {
            // Fails when the client is gone already.
            let _ = self.send_now(socket);
        }
    }

    /// As `Channel::may_have_more`.
    pub(crate) fn may_have_more(&self) -> bool {
        self.may_have_more || self.start < self.end || self.plain_read < self.plain.len()
    }

    /// Gives back what holds nothing.
    pub(crate) fn release_buffers(&mut self) {
        self.incoming.truncate(self.end);
        self.incoming.drain(..self.start);
        (self.start, self.end) = (0, self.incoming.len());
        self.incoming.shrink_to_fit();
        self.plain.drain(..self.plain_read);
        self.plain_read = 0;
        self.plain.shrink_to_fit();
        self.outgoing.drain(..self.sent);
        self.sent = 0;
        self.outgoing.shrink_to_fit();
    }

    pub(crate) fn buffer_bytes(&self) -> usize {
        self.incoming.capacity() + self.plain.capacity() + self.outgoing.capacity()
    }
}

/// What is encrypted after the handshake.
#[derive(Clone, Copy)]
enum Traffic<'b> {
    Bytes(&'b [u8]),
    /// Nothing follows.
    End,
}

/// Why nothing was appended.
enum Refused {
    NeedsRoom(usize),
    Failed(io::Error),
}

impl From<EncodeError> for Refused {
    fn from(error: EncodeError) -> Self {
        match error {
            EncodeError::InsufficientSize(size) => Refused::NeedsRoom(size.required_size),
            other => Refused::Failed(io::Error::other(other)),
        }
    }
}

impl From<EncryptError> for Refused {
    fn from(error: EncryptError) -> Self {
        match error {
            EncryptError::InsufficientSize(size) => Refused::NeedsRoom(size.required_size),
            other => Refused::Failed(io::Error::other(other)),
        }
    }
}

/// Encrypts behind what the protocol itself has to say first.
fn append_traffic(
    connection: &mut UnbufferedServerConnection,
    outgoing: &mut Vec<u8>,
    content: Traffic<'_>,
) -> io::Result<()> {
    loop {
        match connection.process_tls_records(&mut []).state.map_err(invalid)? {
            ConnectionState::WriteTraffic(mut traffic) => {
                return match content {
                    Traffic::Bytes(bytes) => {
                        append(outgoing, bytes.len() + ADDED_BYTES, |room| Ok(traffic.encrypt(bytes, room)?))
                    }
                    Traffic::End => append(outgoing, ADDED_BYTES, |room| Ok(traffic.queue_close_notify(room)?)),
                };
            }
            ConnectionState::EncodeTlsData(mut encode) => {
                append(outgoing, ADDED_BYTES, |room| Ok(encode.encode(room)?))?;
            }
            ConnectionState::TransmitTlsData(transmit) => transmit.done(),
            ConnectionState::PeerClosed => {}
            other => return Err(io::Error::other(format!("nothing can be sent in the state {other:?}"))),
        }
    }
}

/// Appends what `write` puts into the room that it is given.
fn append(
    outgoing: &mut Vec<u8>,
    mut room: usize,
    mut write: impl FnMut(&mut [u8]) -> Result<usize, Refused>,
) -> io::Result<()> {
    let begin = outgoing.len();
    loop {
        outgoing.resize(begin + room, 0);
        match write(outgoing.get_mut(begin..).unwrap_or_default()) {
            Ok(length) => {
                outgoing.truncate(begin + length);
                return Ok(());
            }
            Err(Refused::NeedsRoom(needed)) if needed > room => room = needed,
            Err(refused) => {
                outgoing.truncate(begin);
                return Err(match refused {
                    Refused::Failed(error) => error,
                    Refused::NeedsRoom(_) => io::Error::other("there is room enough, and more is asked for"),
                });
            }
        }
    }
}

fn invalid(error: rustls::Error) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, error)
}
