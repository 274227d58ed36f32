//! A connection's bytes, plain or encrypted. Used by `read_buffer`, `reply_writing` and `connection`.
//!
//! Whoever serves the connection owns its channel, and nobody else reads or writes the socket. Others look at it (whether the client is
//! gone) or shut it, which needs no knowledge of what is in it.

use std::io::{self, Read, Write};
use std::sync::Arc;

use rustix::net::RecvFlags;
use socket2::Socket;

use crate::tls::TlsSession;

/// How long a reading waits for bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wait {
    /// As the socket's read timeout says.
    ForBytes,
    /// Not at all.
    No,
}

/// See the module's head.
pub(crate) struct Channel {
    socket: Arc<Socket>,
    tls: Option<Box<TlsSession>>,
}

impl Channel {
    pub(crate) fn plain(socket: Arc<Socket>) -> Self {
        Self { socket, tls: None }
    }

    pub(crate) fn encrypted(socket: Arc<Socket>, session: Box<TlsSession>) -> Self {
        Self { socket, tls: Some(session) }
    }

    pub(crate) fn socket(&self) -> &Arc<Socket> {
        &self.socket
    }

    /// Takes bytes; 0: the client has closed its side. Without any in time the error is `WouldBlock` or `TimedOut`.
    pub(crate) fn receive(&mut self, room: &mut [u8], wait: Wait) -> io::Result<usize> {
        match &mut self.tls {
            Some(session) => session.receive(&self.socket, room, wait),
            None => receive_from(&self.socket, room, wait),
        }
    }

    /// Whether there is something of which no event of the socket will tell.
    pub(crate) fn may_have_more(&self) -> bool {
        self.tls.as_ref().is_some_and(|session| session.may_have_more())
    }

    /// Whether something that was written is not with the socket yet.
    pub(crate) fn has_unsent(&self) -> bool {
        self.tls.as_ref().is_some_and(|session| session.has_unsent())
    }

    /// Gives back all memory that holds nothing.
    pub(crate) fn release_buffers(&mut self) {
        if let Some(session) = &mut self.tls {
            session.release_buffers();
        }
    }

    /// What its buffers take.
    pub(crate) fn buffer_bytes(&self) -> usize {
        self.tls.as_ref().map_or(0, |session| session.buffer_bytes())
    }
}

impl Write for Channel {
    /// Takes some of the bytes; `flush` has them all sent.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.tls {
            Some(session) => session.send(&self.socket, bytes),
            None => (&*self.socket).write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match &mut self.tls {
            Some(session) => session.send_unsent(&self.socket),
            None => Ok(()),
        }
    }
}

impl Drop for Channel {
    fn drop(&mut self) {
        if let Some(session) = self.tls.as_mut().filter(|_| !std::thread::panicking()) {
            session.say_goodbye(&self.socket);
        }
    }
}

/// Takes bytes of the socket as they are.
pub(crate) fn receive_from(mut socket: &Socket, room: &mut [u8], wait: Wait) -> io::Result<usize> {
    match wait {
        Wait::ForBytes => socket.read(room),
        Wait::No => Ok(rustix::net::recv(socket, room, RecvFlags::DONTWAIT)?.1),
    }
}
