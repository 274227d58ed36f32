//! One connection of the raw client: a blocking socket, one message out, one reply in. Runs on a thread of its own.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use bson::{RawDocument, rawdoc};

use super::Operation;
use super::message::{PreparedMessage, reply_body, verify};
use crate::error::LabError;
use crate::op_message::length_of;

/// A reply that takes longer means that the server hangs.
const REPLY_TIMEOUT: Duration = Duration::from_secs(120);

/// A connection ready to send one kind of operation.
pub(super) struct RawConnection {
    stream: TcpStream,
    address: String,
    operation: Operation,
    message: PreparedMessage,
    request_id: i32,
    reply: Vec<u8>,
}

impl RawConnection {
    /// Connects and pings: whether the server takes OP_MSG shows here.
    pub(super) fn open(host: &str, port: u16, operation: Operation, database: &str) -> Result<Self, LabError> {
        let address = format!("{host}:{port}");
        let connect = || {
            let stream = TcpStream::connect((host, port))?;
            stream.set_nodelay(true)?;
            stream.set_read_timeout(Some(REPLY_TIMEOUT))?;
            Ok(stream)
        };
        let stream = connect().map_err(|source| LabError::Connection { address: address.clone(), source })?;
        let message = PreparedMessage::new(&rawdoc! { "ping": 1, "$db": "admin" }, None);
        let mut connection = Self { stream, address, operation, message, request_id: 0, reply: vec![0; 4096] };
        let length = connection.exchange(0)?;
        reply_body(connection.reply.get(..length).unwrap_or_default(), connection.request_id)?;
        connection.message = PreparedMessage::of(operation, database);
        Ok(connection)
    }

    /// Does the operation once and checks the reply.
    pub(super) fn operate(&mut self, id: u32) -> Result<(), LabError> {
        let length = self.exchange(id)?;
        let body = reply_body(self.reply.get(..length).unwrap_or_default(), self.request_id)?;
        verify(self.operation, body, id)
    }

    /// Sends any command and waits for its reply, which must not be an error.
    pub(super) fn request(&mut self, command: &RawDocument) -> Result<&RawDocument, LabError> {
        self.message = PreparedMessage::new(command, None);
        let length = self.exchange(0)?;
        reply_body(self.reply.get(..length).unwrap_or_default(), self.request_id)
    }

    fn exchange(&mut self, id: u32) -> Result<usize, LabError> {
        self.request_id = self.request_id.wrapping_add(1).max(1);
        let outcome = self.send_and_receive(id);
        outcome.map_err(|source| LabError::Connection { address: self.address.clone(), source })
    }

    /// The length of the reply, which is then in `reply`.
    fn send_and_receive(&mut self, id: u32) -> std::io::Result<usize> {
        self.stream.write_all(self.message.with(id, self.request_id))?;
        let mut received = 0;
        loop {
            received += match self.stream.read(self.reply.get_mut(received..).unwrap_or_default())? {
                0 => return Err(std::io::ErrorKind::UnexpectedEof.into()),
                bytes => bytes,
            };
            let Some(length) = length_of(self.reply.get(..received).unwrap_or_default())? else { continue };
            if received >= length {
                return Ok(length);
            }
            if self.reply.len() < length {
                self.reply.resize(length, 0);
            }
        }
    }
}
