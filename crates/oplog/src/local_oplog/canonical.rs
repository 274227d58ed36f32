//! The log's bytes as all members of a replica set have them, and entries that come from there.
//!
//! Used by whoever ships the log to a shared one (`read_canonical`), and by a member that lacks entries which that one has (`append_received`). What an entry's
//! header says of its flush is this machine's own business: canonical bytes say zero, with checksums to fit.

use std::time::Duration;

use platform::Timestamp;

use super::LocalOplog;
use super::tail::Attempt;
use crate::entry::{self, ENTRY_HEADER_BYTES};
use crate::{Appended, Oplog, OplogError, OplogPosition, OplogReader, Result};

/// Memory for one entry that is kept for the next.
const ENTRY_BYTES_KEPT: usize = 1 << 20;

/// An entry that another member has logged, in its place here.
#[derive(Clone, Copy, Debug)]
pub struct ReceivedEntry<'b> {
    /// Where it goes.
    pub position: OplogPosition,
    /// Its commit timestamp.
    pub timestamp: Timestamp,
    /// What was logged.
    pub payload: &'b [u8],
    /// Bytes of it, with its framing.
    pub length: usize,
}

/// Reads the log's canonical bytes in order, in pieces of any size.
pub struct CanonicalReader {
    reader: Box<dyn OplogReader>,
    /// An entry of which a part has been given; empty: the next one comes.
    entry: Vec<u8>,
    given: usize,
    position: OplogPosition,
}

impl CanonicalReader {
    /// Where the next byte is.
    pub fn position(&self) -> OplogPosition {
        self.position
    }

    /// Appends bytes to `bytes`, which then has `bytes_max` at most; none at the end of the log. Returns how many of all that are there lie before the end of the
    /// last entry that ends among them; 0: none does.
    ///
    /// # Errors
    /// Those of an `OplogReader`.
    pub fn read(&mut self, bytes: &mut Vec<u8>, bytes_max: usize) -> Result<usize> {
        let mut whole = 0;
        while bytes.len() < bytes_max {
            if self.entry.is_empty() {
                let Some(next) = self.reader.next_entry()? else { break };
                encode(&mut self.entry, next.position, next.timestamp, next.payload);
                self.given = 0;
            }
            let rest = &self.entry[self.given..];
            let piece = &rest[..rest.len().min(bytes_max - bytes.len())];
            bytes.extend_from_slice(piece);
            self.given += piece.len();
            self.position = OplogPosition(self.position.0 + piece.len() as u64);
            if self.given == self.entry.len() {
                self.entry.clear();
                self.entry.shrink_to(ENTRY_BYTES_KEPT);
                whole = bytes.len();
            }
        }
        Ok(whole)
    }
}

fn encode(bytes: &mut Vec<u8>, position: OplogPosition, timestamp: Timestamp, payload: &[u8]) {
    bytes.resize(ENTRY_HEADER_BYTES, 0);
    bytes.extend_from_slice(payload);
    let length = bytes.len();
    entry::begin(bytes, length, position.0, timestamp);
    entry::seal(bytes, position.0, position.0);
}

/// When the entry was logged that begins with these canonical bytes, and how long it is; `None`: they are too few, or no such entry.
pub fn peek_canonical(bytes: &[u8], position: OplogPosition) -> Option<(Timestamp, usize)> {
    entry::parse(bytes, position.0).map(|header| (header.timestamp, header.entry_bytes))
}

impl LocalOplog {
    /// Reads canonical bytes from `position` on, which is where an entry begins or the end of the log.
    ///
    /// # Errors
    /// As `read_from`.
    pub fn read_canonical(&self, position: OplogPosition) -> Result<CanonicalReader> {
        Ok(CanonicalReader { reader: self.read_from(position)?, entry: Vec::new(), given: 0, position })
    }

    /// Appends whole entries that another member has logged, in their canonical bytes, which begin where this log ends. Nobody else appends meanwhile.
    ///
    /// # Errors
    /// `NotAsLogged` when these are no such entries; those before are appended then. As `append` otherwise.
    pub fn append_received(&self, bytes: &[u8]) -> Result<()> {
        let mut rest = bytes;
        while !rest.is_empty() {
            let received = self.next_received(rest)?;
            self.append_one_received(&received, &mut |_, _| {})?;
            rest = &rest[received.length..];
        }
        Ok(())
    }

    /// The first of these entries, which is to be appended next.
    ///
    /// # Errors
    /// `NotAsLogged` when it is no such entry.
    pub fn next_received<'b>(&self, bytes: &'b [u8]) -> Result<ReceivedEntry<'b>> {
        let position = self.end_position();
        let corrupt = |reason| OplogError::NotAsLogged { position, reason };
        let header = entry::parse(bytes, position.0).ok_or_else(|| corrupt("its header is none of this place"))?;
        let entry = bytes.get(..header.entry_bytes).ok_or_else(|| corrupt("it is not whole"))?;
        if !header.payload_is_intact(entry) || header.flush_distance != 0 {
            return Err(corrupt("its checksum is wrong"));
        }
        if header.timestamp <= self.last_timestamp() {
            return Err(corrupt("its timestamp is not after the one before"));
        }
        let payload = &entry[ENTRY_HEADER_BYTES..];
        Ok(ReceivedEntry { position, timestamp: header.timestamp, payload, length: entry.len() })
    }

    /// Appends it. `on_assigned` is called as by `append`.
    ///
    /// # Errors
    /// As `append`.
    pub fn append_one_received(
        &self,
        entry: &ReceivedEntry<'_>,
        on_assigned: &mut dyn FnMut(Timestamp, OplogPosition),
    ) -> Result<Appended> {
        loop {
            let mut tail = self.shared.tail.lock();
            let mut build = |_: Timestamp, bytes: &mut Vec<u8>| bytes.extend_from_slice(entry.payload);
            match tail.try_append_at(entry.timestamp, &mut build, on_assigned)? {
                Attempt::Done { appended, flush, .. } => {
                    drop(tail);
                    if flush {
                        self.shared.signal.request();
                    }
                    self.shared.signal.note_append();
                    return Ok(appended);
                }
                Attempt::Wait => self.shared.wait_for_flusher(tail)?,
            }
        }
    }

    /// Waits until something is behind `position`, at most so long. For one thread.
    pub fn wait_appended(&self, position: OplogPosition, longest: Duration) {
        let mut tail = self.shared.tail.lock();
        if tail.end() <= position.0 {
            tail.is_followed = true;
            self.shared.appended.wait_for(&mut tail, longest);
            tail.is_followed = false;
        }
    }
}
