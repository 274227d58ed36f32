//! Bytes received and not yet answered, of one connection. Called by `connection`.
//!
//! It has no memory while the connection is idle, starts small, and grows only as bytes arrive: a frame that says it
//! has 48 MB and sends 20 bytes costs what 20 bytes cost. Large buffers are counted in the memory budget; when it is used
//! up, the client waits a little, then its message is read to its end without being kept, so that it can be told.

use std::io::{self, ErrorKind};
use std::time::Duration;

use platform::{Clock, MemoryReservation, OverBudget, SystemClock};
use wire_protocol::{BEGINNING_SIZE_BYTES, FrameHeader, WireError};

use crate::before_login::{self, BeforeLogin, Excess};
use crate::channel::{Channel, Wait};
use crate::connection_memory::{BUFFER_COUNTED_BYTES as COUNTED_BYTES, wait_for_memory};
use crate::service::Standing;
use crate::tls::HANDSHAKE_BEGINNING;

const INITIAL_BYTES: usize = 8 * 1024;
/// How long the rest of a message that is not kept is waited for.
const SKIPPING_PATIENCE: Duration = Duration::from_secs(10);
/// A larger buffer is given back as soon as the frame that needed it is answered.
const KEPT_BYTES: usize = 1024 * 1024;

/// What reading came to.
pub(crate) enum Incoming {
    /// A whole frame of this length is at the front.
    Frame(usize),
    /// Nothing more arrived within the socket's read timeout.
    Nothing,
    /// A part of a frame for whose rest there is no memory.
    TooLarge(OverBudget),
    /// The client closed its side between two frames.
    Closed,
}

/// What had arrived already.
pub(crate) enum Arrived {
    /// A whole frame of this length is at the front.
    Frame(usize),
    /// A part of a frame so large that memory for it may have to be waited for.
    Large,
    /// Not a whole frame.
    Nothing,
    /// The client closed its side between two frames.
    Closed,
}

/// Why no frame can be read any more.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ReadError {
    #[error("malformed message: {0}")]
    Malformed(#[from] WireError),
    #[error("the client speaks TLS, and the server is not told to (--tls-mode)")]
    Encrypted,
    #[error(transparent)]
    BeforeLogin(#[from] Excess),
    #[error("the client closed the connection inside a message")]
    ClosedInsideMessage,
    #[error("no memory for a message: {0}")]
    OverBudget(OverBudget),
    #[error("cannot receive: {0}")]
    Receive(io::Error),
}

/// The bytes; what is received and not consumed is `storage[start..end]`.
pub(crate) struct ReadBuffer {
    memory: MemoryReservation,
    storage: Vec<u8>,
    start: usize,
    end: usize,
    /// Whether the last reading filled the room that it had, or the end was announced.
    may_have_more: bool,
    /// Until the client has logged in, where it has to.
    before_login: Option<Box<BeforeLogin>>,
}

impl ReadBuffer {
    /// An empty buffer that counts what it takes in `memory`.
    pub(crate) fn new(memory: MemoryReservation) -> Self {
        Self { memory, storage: Vec::new(), start: 0, end: 0, may_have_more: false, before_login: None }
    }

    /// The client of a new connection is this.
    pub(crate) fn opened(&mut self, standing: Standing) {
        self.before_login = (standing != Standing::Known).then(|| Box::new(BeforeLogin::opened()));
    }

    /// A request has come: one too many, perhaps.
    pub(crate) fn count_request(&mut self) -> Result<(), ReadError> {
        Ok(self.before_login.as_mut().map_or(Ok(()), |before| before.count_request())?)
    }

    /// A request has been answered, and the client is this now.
    pub(crate) fn answered(&mut self, standing: Standing) {
        match standing {
            Standing::Known => self.before_login = None,
            _ => self.before_login.get_or_insert_with(|| Box::new(BeforeLogin::opened())).answered(standing),
        }
    }

    /// For how long the client may still be waited for; `None`: for as long as it likes.
    pub(crate) fn time_left(&self) -> Option<Duration> {
        self.before_login.as_ref().and_then(|before| before.time_left())
    }

    /// Reads until a whole frame is there, or nothing comes within the socket's read timeout.
    pub(crate) fn next_frame(&mut self, channel: &mut Channel) -> Result<Incoming, ReadError> {
        loop {
            let needed = self.frame_length()?;
            if let Some(length) = needed.filter(|&length| length <= self.end - self.start) {
                return Ok(Incoming::Frame(length));
            }
            self.watch_before_login()?;
            if let Err(over_budget) = self.make_room(needed.unwrap_or(0)) {
                return Ok(Incoming::TooLarge(over_budget));
            }
            match channel.receive(self.storage.get_mut(self.end..).unwrap_or_default(), Wait::ForBytes) {
                Ok(0) if self.is_empty() => return Ok(Incoming::Closed),
                Ok(0) => return Err(ReadError::ClosedInsideMessage),
                Ok(received) => self.end += received,
                Err(error) => match error.kind() {
                    ErrorKind::Interrupted => {}
                    ErrorKind::WouldBlock | ErrorKind::TimedOut => return Ok(Incoming::Nothing),
                    ErrorKind::ConnectionReset if self.is_empty() => return Ok(Incoming::Closed),
                    _ => return Err(ReadError::Receive(error)),
                },
            }
        }
    }

    /// As `next_frame`, but takes what has arrived already and waits for nothing, neither bytes nor memory.
    pub(crate) fn poll_frame(&mut self, channel: &mut Channel) -> Result<Arrived, ReadError> {
        loop {
            let needed = self.frame_length()?;
            if let Some(length) = needed.filter(|&length| length <= self.end - self.start) {
                return Ok(Arrived::Frame(length));
            }
            if needed.is_some_and(|length| length > COUNTED_BYTES) {
                return Ok(Arrived::Large);
            }
            self.watch_before_login()?;
            self.make_room(needed.unwrap_or(0)).map_err(ReadError::OverBudget)?;
            let room = self.storage.get_mut(self.end..).unwrap_or_default();
            let length = room.len();
            match channel.receive(room, Wait::No) {
                Ok(0) if self.is_empty() => return Ok(Arrived::Closed),
                Ok(0) => return Err(ReadError::ClosedInsideMessage),
                Ok(received) => {
                    self.end += received;
                    self.may_have_more = received == length;
                }
                Err(error) => match error.kind() {
                    ErrorKind::Interrupted => {}
                    ErrorKind::WouldBlock => {
                        self.may_have_more = false;
                        return Ok(Arrived::Nothing);
                    }
                    ErrorKind::ConnectionReset if self.is_empty() => return Ok(Arrived::Closed),
                    _ => return Err(ReadError::Receive(error)),
                },
            }
        }
    }

    /// Reads the frame at the front to its end, and keeps its beginning only, which is given.
    pub(crate) fn skip_frame(&mut self, channel: &mut Channel) -> Result<Vec<u8>, ReadError> {
        let mut left = self.frame_length()?.unwrap_or(0).saturating_sub(self.end - self.start);
        let mut beginning = self.front((self.end - self.start).min(BEGINNING_SIZE_BYTES)).to_vec();
        beginning.shrink_to_fit();
        self.consume(self.end);
        self.release();
        let (clock, mut thrown_away) = (SystemClock::new(), vec![0; INITIAL_BYTES]);
        let mut last_came = clock.monotonic();
        while left > 0 {
            let most = left.min(thrown_away.len());
            match channel.receive(thrown_away.get_mut(..most).unwrap_or_default(), Wait::ForBytes) {
                Ok(0) => return Err(ReadError::ClosedInsideMessage),
                Ok(received) => (left, last_came) = (left - received, clock.monotonic()),
                Err(error) => match error.kind() {
                    ErrorKind::Interrupted => {}
                    ErrorKind::WouldBlock | ErrorKind::TimedOut
                        if clock.monotonic().saturating_sub(last_came) < SKIPPING_PATIENCE => {}
                    _ => return Err(ReadError::Receive(error)),
                },
            }
        }
        Ok(beginning)
    }

    /// Whether there may be bytes, here or at the socket, of which no event will tell.
    pub(crate) fn may_have_more(&self) -> bool {
        self.may_have_more || !self.is_empty()
    }

    /// Notes that the end follows what is there.
    pub(crate) fn note_more(&mut self) {
        self.may_have_more = true;
    }

    /// The first `length` bytes received.
    pub(crate) fn front(&self, length: usize) -> &[u8] {
        self.storage.get(self.start..self.start + length).unwrap_or_default()
    }

    /// Forgets the first `length` bytes received.
    pub(crate) fn consume(&mut self, length: usize) {
        self.start = (self.start + length).min(self.end);
        if self.is_empty() {
            (self.start, self.end) = (0, 0);
            if self.storage.len() > KEPT_BYTES {
                self.storage = Vec::new();
                self.memory.shrink(0);
            }
        }
    }

    /// Whether every byte received has been consumed.
    pub(crate) fn is_empty(&self) -> bool {
        self.start == self.end
    }

    /// Gives back all memory that holds nothing, before the connection is left idle.
    pub(crate) fn release(&mut self) {
        self.storage.truncate(self.end);
        self.storage.drain(..self.start);
        self.storage.shrink_to_fit();
        (self.start, self.end) = (0, self.storage.len());
        self.memory.shrink(self.storage.len() as u64);
    }

    /// The length the first frame declares, once its header is there.
    fn frame_length(&self) -> Result<Option<usize>, ReadError> {
        let received = self.storage.get(self.start..self.end).unwrap_or_default();
        match received.first_chunk() {
            Some(header) => match FrameHeader::parse(header) {
                Ok(header) => {
                    if self.before_login.is_some() {
                        before_login::check_length(header.message_length)?;
                    }
                    Ok(Some(header.message_length))
                }
                Err(_) if received.starts_with(&HANDSHAKE_BEGINNING) => Err(ReadError::Encrypted),
                Err(error) => Err(error.into()),
            },
            None => Ok(None),
        }
    }

    /// More is waited for.
    fn watch_before_login(&mut self) -> Result<(), Excess> {
        let is_empty = self.is_empty();
        let Some(before) = &mut self.before_login else { return Ok(()) };
        if !is_empty {
            before.begins_message();
        }
        before.check_time()
    }

    /// Makes sure that something can be received. Doubling stops at the frame's length, and since it happens only when
    /// the storage is full, the storage is never more than twice what the client has sent.
    fn make_room(&mut self, frame_length: usize) -> Result<(), OverBudget> {
        if self.end < self.storage.len() {
            return Ok(());
        }
        if self.start > 0 {
            self.storage.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
            return Ok(());
        }
        let doubled = self.storage.len() * 2;
        let size = if frame_length > self.storage.len() { doubled.min(frame_length) } else { doubled };
        if size > COUNTED_BYTES {
            wait_for_memory(&mut self.memory, size as u64)?;
        }
        self.storage.resize(size.max(INITIAL_BYTES), 0);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::net::{TcpListener, TcpStream};
    use std::sync::Arc;
    use std::time::Duration;

    use platform::{MemoryBudget, MemoryUse};

    use super::*;

    fn pair() -> (TcpStream, Channel) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (server, _) = listener.accept().unwrap();
        server.set_read_timeout(Some(Duration::from_millis(30))).unwrap();
        (client, Channel::plain(Arc::new(server.into())))
    }

    fn unlimited() -> ReadBuffer {
        ReadBuffer::new(MemoryBudget::unlimited().reservation(MemoryUse::Connections))
    }

    fn frame(length: usize) -> Vec<u8> {
        let header =
            FrameHeader { message_length: length, request_id: 1, response_to: 0, op_code: wire_protocol::OpCode::Msg };
        let mut frame = header.to_bytes().to_vec();
        frame.resize(length, 9);
        frame
    }

    #[test]
    fn frames_in_pieces_and_in_bunches() {
        let (mut client, mut server) = pair();
        let mut buffer = unlimited();
        assert!(matches!(buffer.next_frame(&mut server), Ok(Incoming::Nothing)));
        let bytes = frame(100);
        client.write_all(&bytes[..10]).unwrap();
        assert!(matches!(buffer.next_frame(&mut server), Ok(Incoming::Nothing)));
        client.write_all(&bytes[10..]).unwrap();
        client.write_all(&frame(40)).unwrap();
        assert!(matches!(buffer.next_frame(&mut server), Ok(Incoming::Frame(100))));
        assert_eq!(buffer.front(100), bytes);
        buffer.consume(100);
        assert!(matches!(buffer.next_frame(&mut server), Ok(Incoming::Frame(40))));
        buffer.consume(40);
        buffer.release();
        assert_eq!(buffer.storage.capacity(), 0);
        client.write_all(&frame(40)[..30]).unwrap();
        assert!(matches!(buffer.next_frame(&mut server), Ok(Incoming::Nothing)));
        buffer.release();
        assert_eq!(buffer.storage.len(), 30);
        client.write_all(&frame(40)[30..]).unwrap();
        assert!(matches!(buffer.next_frame(&mut server), Ok(Incoming::Frame(40))));
        assert_eq!(buffer.front(40), frame(40));
        buffer.consume(40);
        drop(client);
        assert!(matches!(buffer.next_frame(&mut server), Ok(Incoming::Closed)));
    }

    #[test]
    fn a_declared_length_alone_allocates_nothing() {
        let (mut client, mut server) = pair();
        let mut buffer = unlimited();
        client.write_all(&frame(40_000_000)[..1000]).unwrap();
        assert!(matches!(buffer.next_frame(&mut server), Ok(Incoming::Nothing)));
        assert_eq!(buffer.storage.len(), INITIAL_BYTES);
        drop(client);
        assert!(matches!(buffer.next_frame(&mut server), Err(ReadError::ClosedInsideMessage)));
    }

    #[test]
    fn a_large_frame_arrives_whole_and_its_memory_goes() {
        let (mut client, mut server) = pair();
        let writer = std::thread::scope(|scope| {
            let sending = scope.spawn(move || {
                client.write_all(&frame(5_000_000)).unwrap();
                client
            });
            let mut buffer = unlimited();
            assert!(matches!(buffer.next_frame(&mut server), Ok(Incoming::Frame(5_000_000))));
            assert_eq!(buffer.storage.len(), 5_000_000);
            assert!(buffer.memory.bytes() >= 5_000_000);
            buffer.consume(5_000_000);
            assert!(buffer.storage.is_empty());
            assert_eq!(buffer.memory.bytes(), 0);
            sending.join().unwrap()
        });
        drop(writer);
    }

    #[test]
    fn a_message_that_memory_has_no_room_for_is_read_and_not_kept() {
        let (mut client, mut server) = pair();
        std::thread::scope(|scope| {
            scope.spawn(move || client.write_all(&frame(5_000_000)).unwrap());
            let mut buffer = ReadBuffer::new(MemoryBudget::new(1_000_000).reservation(MemoryUse::Connections));
            assert!(matches!(buffer.next_frame(&mut server), Ok(Incoming::TooLarge(_))));
            let beginning = buffer.skip_frame(&mut server).unwrap();
            assert_eq!(beginning, frame(5_000_000)[..BEGINNING_SIZE_BYTES]);
            assert!(buffer.is_empty() && buffer.memory.bytes() == 0);
        });
    }

    #[test]
    fn a_malformed_length_is_an_error() {
        let (mut client, mut server) = pair();
        client.write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
        assert!(matches!(unlimited().next_frame(&mut server), Err(ReadError::Malformed(_))));
        let (mut client, mut server) = pair();
        client.write_all(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03hello").unwrap();
        assert!(matches!(unlimited().next_frame(&mut server), Err(ReadError::Encrypted)));
    }
}
