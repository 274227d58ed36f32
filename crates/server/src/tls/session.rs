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

use super::distinguished_name::subject_of_certificate;
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
    /// After an error nothing more is said.
    is_broken: bool,
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
    /// What was to be written is encrypted.
    Written,
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
            is_broken: false,
        })
    }

    /// Goes on with the handshake as far as that is possible without waiting.
    pub(super) fn advance(&mut self, socket: &Socket) -> io::Result<Handshake> {
        loop {
            let progress = self.process(None);
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
                        Progress::Plain | Progress::Empty | Progress::Written => return Ok(Handshake::Done),
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
        subject_of_certificate(certificate).map(Some).map_err(io::Error::other)
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
            match self.process(None)? {
                Progress::Plain => continue,
                Progress::Closed => return Ok(0),
                Progress::InHandshake | Progress::Empty | Progress::Written => {}
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

    /// Goes through what has been received, until there are plain bytes or nothing is left to do; with something to write, until that is encrypted.
    ///
    /// The library must always be given what is left of what has been received: it remembers where in it the next message is.
    fn process(&mut self, content: Option<Traffic<'_>>) -> io::Result<Progress> {
        if self.is_broken {
            return Err(ErrorKind::ConnectionAborted.into());
        }
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
                    (content.is_none() && !self.plain.is_empty()).then_some(Progress::Plain)
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
                Ok(ConnectionState::PeerClosed) => {
                    self.is_closed_by_client = true;
                    content.is_none().then_some(Progress::Closed)
                }
                Ok(ConnectionState::Closed) => Some(Progress::Closed),
                Ok(ConnectionState::WriteTraffic(mut traffic)) if content.is_some() => {
                    match content {
                        Some(Traffic::Bytes(bytes)) => {
                            let size = bytes.len() + ADDED_BYTES;
                            append(&mut self.outgoing, size, |room| Ok(traffic.encrypt(bytes, room)?))?;
                        }
                        _ => append(&mut self.outgoing, ADDED_BYTES, |room| Ok(traffic.queue_close_notify(room)?))?,
                    }
                    Some(Progress::Written)
                }
                Ok(ConnectionState::WriteTraffic(_)) if self.is_closed_by_client => Some(Progress::Closed),
                Ok(ConnectionState::WriteTraffic(_)) => Some(Progress::Empty),
                Ok(ConnectionState::BlockedHandshake) => Some(Progress::InHandshake),
                Ok(other) => return Err(io::Error::other(format!("a state that cannot be: {other:?}"))),
                Err(error) => {
                    self.start = (self.start + discard).min(self.end);
                    self.is_broken = true;
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

    /// What tells the client why it goes no further. The library may be asked once after an error, and says it then.
    fn append_alert(&mut self) {
        let received = self.incoming.get_mut(self.start..self.end).unwrap_or_default();
        if let Ok(ConnectionState::EncodeTlsData(mut encode)) = self.connection.process_tls_records(received).state {
            // What matters is the error; the alert is a courtesy.
            let _ = append(&mut self.outgoing, ADDED_BYTES, |room| Ok(encode.encode(room)?));
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
        self.process(Some(Traffic::Bytes(bytes)))?;
        Ok(())
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
        if self.is_broken || self.has_unsent() || self.connection.is_handshaking() {
            return;
        }
        if self.process(Some(Traffic::End)).is_ok() {
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

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;

    use rustls::pki_types::pem::PemObject;
    use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
    use rustls::{ClientConfig, ClientConnection, RootCertStore};

    use super::*;

    /// Both sides' configurations.
    fn configurations() -> (Arc<ServerConfig>, Arc<ClientConfig>) {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let own = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
        let key = PrivateKeyDer::from_pem_slice(own.signing_key.serialize_pem().as_bytes()).unwrap();
        let chain: Vec<CertificateDer<'static>> = vec![own.cert.der().clone()];
        let mut roots = RootCertStore::empty();
        roots.add(own.cert.der().clone()).unwrap();
        let verifier =
            rustls::server::WebPkiClientVerifier::builder_with_provider(Arc::new(roots.clone()), provider.clone());
        let server = ServerConfig::builder_with_provider(provider.clone())
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_client_cert_verifier(verifier.allow_unauthenticated().build().unwrap())
            .with_single_cert(chain, key)
            .unwrap();
        let client = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        (Arc::new(server), Arc::new(client))
    }

    /// The server's side of a conversation whose bytes `change` may change, which is told how many have gone before.
    fn converse(seed: u64, mut change: impl FnMut(&mut Vec<u8>, usize)) -> io::Result<usize> {
        let (server_config, client_config) = configurations();
        let (mut remote, local) = UnixStream::pair().unwrap();
        remote.set_nonblocking(true).unwrap();
        let socket = Socket::from(std::os::fd::OwnedFd::from(local));
        let mut client = ClientConnection::new(client_config, ServerName::try_from("localhost").unwrap()).unwrap();
        client.writer().write_all(&[7; 40_000]).unwrap();
        let mut session = TlsSession::new(server_config).unwrap();
        let (mut is_done, mut received, mut gone, mut state) = (false, 0, 0, seed);
        let mut pending: Vec<u8> = Vec::new();
        let mut room = [0; 3000];
        for _ in 0..400 {
            let _ = client.read_tls(&mut remote);
            // An error of the client's is what it sends next.
            let _ = client.process_new_packets();
            let mut bytes = Vec::new();
            while client.wants_write() && client.write_tls(&mut bytes).is_ok() {}
            change(&mut bytes, gone);
            gone += bytes.len();
            pending.append(&mut bytes);
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let some = pending.len().min((state >> 50) as usize % 5000 + 1);
            if remote.write_all(&pending[..some]).is_err() {
                return Ok(received);
            }
            pending.drain(..some);
            if !is_done {
                is_done = session.advance(&socket)? == Handshake::Done;
                continue;
            }
            match session.receive(&socket, &mut room, Wait::No) {
                Ok(more) => {
                    received += more;
                    assert!(room[..more].iter().all(|byte| *byte == 7));
                    session.send(&socket, &[8; 100])?;
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => session.release_buffers(),
                Err(error) => return Err(error),
            }
        }
        session.say_goodbye(&socket);
        assert!(session.incoming.len() <= INCOMING_BYTES_MAX);
        Ok(received)
    }

    #[test]
    fn what_comes_in_pieces_is_put_together() {
        for seed in 0..5 {
            assert_eq!(converse(seed, |_, _| {}).unwrap(), 40_000);
        }
    }

    #[test]
    fn what_is_changed_on_the_way_is_an_error_and_nothing_else() {
        for seed in 0..150_u64 {
            let position =
                (seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 48) as usize % if seed % 2 == 0 { 700 } else { 42_000 };
            let mut changed = false;
            let outcome = converse(seed, |bytes, gone| {
                if let Some(byte) = position.checked_sub(gone).and_then(|position| bytes.get_mut(position)) {
                    *byte ^= 1 << (seed % 8);
                    changed = true;
                }
            });
            assert!(!changed || !matches!(outcome, Ok(40_000)), "{seed} {position}: {outcome:?}");
        }
    }
}
