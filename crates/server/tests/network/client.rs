//! A client that speaks the protocol by hand.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use bson::RawDocumentBuf;

/// What takes longer does not end: no measure of speed, as a busy machine may stand still for seconds.
pub(crate) const HANGS_AFTER: Duration = Duration::from_secs(60);

pub(crate) struct Client<S = TcpStream> {
    pub(crate) stream: S,
}

/// A reply's frame.
pub(crate) struct Reply {
    pub(crate) op_code: i32,
    pub(crate) request_id: i32,
    pub(crate) response_to: i32,
    pub(crate) bytes: Vec<u8>,
}

impl Reply {
    /// Whether an `OP_MSG` says that another follows.
    pub(crate) fn has_more_to_come(&self) -> bool {
        self.bytes[16] & 0b10 != 0
    }

    /// The document of an uncompressed `OP_MSG` or `OP_REPLY`.
    pub(crate) fn document(&self) -> RawDocumentBuf {
        let start = if self.op_code == 1 { 36 } else { 21 };
        let length = i32::from_le_bytes(self.bytes[start..start + 4].try_into().unwrap());
        let end = start + usize::try_from(length).unwrap();
        RawDocumentBuf::from_bytes(self.bytes[start..end].to_vec()).unwrap()
    }
}

impl Client {
    pub(crate) fn connect(address: SocketAddr) -> Self {
        Self { stream: connect(address) }
    }
}

impl<S: Read + Write> Client<S> {
    pub(crate) fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).unwrap();
    }

    pub(crate) fn receive(&mut self) -> io::Result<Reply> {
        let mut bytes = vec![0; 16];
        self.stream.read_exact(&mut bytes)?;
        let field = |bytes: &[u8], start: usize| i32::from_le_bytes(bytes[start..start + 4].try_into().unwrap());
        bytes.resize(usize::try_from(field(&bytes, 0)).unwrap(), 0);
        self.stream.read_exact(&mut bytes[16..])?;
        let (request_id, response_to) = (field(&bytes, 4), field(&bytes, 8));
        Ok(Reply { op_code: field(&bytes, 12), request_id, response_to, bytes })
    }

    /// Sends a command and gives its reply document.
    pub(crate) fn run(&mut self, command: &RawDocumentBuf) -> RawDocumentBuf {
        self.send(&msg(0, command));
        self.receive().unwrap().document()
    }

    /// Whether the server has closed the connection.
    pub(crate) fn is_closed(&mut self) -> bool {
        matches!(self.receive(), Err(error) if error.kind() != io::ErrorKind::WouldBlock)
    }
}

pub(crate) fn connect(address: SocketAddr) -> TcpStream {
    let start = Instant::now();
    let stream = loop {
        match TcpStream::connect(address) {
            Ok(stream) => break stream,
            // The server is bound and not listening yet.
            Err(_) if start.elapsed() < HANGS_AFTER => std::thread::sleep(Duration::from_millis(1)),
            Err(error) => panic!("{error}"),
        }
    };
    stream.set_nodelay(true).unwrap();
    stream.set_read_timeout(Some(HANGS_AFTER)).unwrap();
    stream
}

pub(crate) fn frame(op_code: i32, content: &[u8]) -> Vec<u8> {
    let mut frame = Vec::new();
    for field in [i32::try_from(content.len() + 16).unwrap(), 77, 0, op_code] {
        frame.extend_from_slice(&field.to_le_bytes());
    }
    frame.extend_from_slice(content);
    frame
}

pub(crate) fn msg(flags: u32, body: &RawDocumentBuf) -> Vec<u8> {
    let mut content = flags.to_le_bytes().to_vec();
    content.push(0);
    content.extend_from_slice(body.as_bytes());
    frame(2013, &content)
}

pub(crate) fn query(namespace: &str, body: &RawDocumentBuf) -> Vec<u8> {
    let mut content = vec![0; 4];
    content.extend_from_slice(namespace.as_bytes());
    content.push(0);
    content.extend_from_slice(&[0; 4]);
    content.extend_from_slice(&(-1_i32).to_le_bytes());
    content.extend_from_slice(body.as_bytes());
    frame(2004, &content)
}
