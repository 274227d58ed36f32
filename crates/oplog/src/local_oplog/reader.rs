//! Reading the log in order, from segment files and from memory.
//!
//! Handed out by `read_from`: replay at start, change streams, replication. Entries that are durable are read from their
//! segment in large pieces and checked; those that are not yet are taken from a batch in flight or copied from the buffer.

use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use platform::{OpenMode, Timestamp};

use super::Shared;
use super::segment::{corrupt, not_opened};
use super::tail::{Batch, Standing, Tail};
use super::window::{Found, Window};
use crate::entry::{self, ENTRY_HEADER_BYTES};
use crate::{OplogEntry, OplogError, OplogPosition, OplogReader, Result};

/// Bytes copied from the buffer at a time, under the log's lock.
const COPIED_BYTES: usize = 64 << 10;

pub(super) struct LocalReader {
    shared: Arc<Shared>,
    position: u64,
    /// Timestamp of the last entry; `None` before the first, when the position may not be the start of an entry.
    last_timestamp: Option<Timestamp>,
    source: Source,
}

/// Where the next entries are.
enum Source {
    None,
    Segment {
        window: Window,
        /// Where the next segment begins; `None` for the last one.
        end: Option<u64>,
    },
    InFlight(Arc<Batch>),
    Copied {
        start: u64,
        bytes: Vec<u8>,
    },
}

/// An entry in the source.
struct Located {
    end: u64,
    timestamp: Timestamp,
    payload: Range<usize>,
}

impl LocalReader {
    pub(super) fn new(shared: Arc<Shared>, position: u64) -> LocalReader {
        LocalReader { shared, position, last_timestamp: None, source: Source::None }
    }

    /// Makes `source` hold the entry at the position; false at the end of the log.
    fn find_source(&mut self) -> Result<bool> {
        if self.source.has_in_memory(self.position) {
            return Ok(true);
        }
        if self.position < self.shared.durable.load(Ordering::Acquire) {
            self.open_segment()?;
            return Ok(true);
        }
        let shared = Arc::clone(&self.shared);
        let mut tail = shared.tail.lock();
        loop {
            let Some(flight) = tail.in_flight.iter().find(|flight| self.position < flight.end) else {
                return self.copy_from_buffer(&tail);
            };
            if self.position < flight.start {
                // It became durable since we looked.
                drop(tail);
                self.open_segment()?;
                return Ok(true);
            }
            if let Some(batch) = &flight.batch {
                self.source = Source::InFlight(Arc::clone(batch));
                return Ok(true);
            }
            if let Standing::Poisoned(cause) = &tail.standing {
                return Err(OplogError::Poisoned { cause: Arc::clone(cause) });
            }
            // The flusher is completing its headers, which takes no longer than reading the bytes once.
            shared.tail_changed.wait(&mut tail);
        }
    }

    fn open_segment(&mut self) -> Result<()> {
        let (start, end) = self.shared.segment_around(self.position)?;
        if let Source::Segment { window, end: known_end } = &mut self.source
            && window.segment_start == start
        {
            *known_end = end;
            return Ok(());
        }
        let file = match self.shared.store.open(start, OpenMode::Read) {
            // Truncated between the look-up and now, if it is not just missing.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                self.shared.segment_around(self.position)?;
                return Err(not_opened(start)(error));
            }
            result => result.map_err(not_opened(start))?,
        };
        self.source = Source::Segment { window: Window::new(file, start), end };
        Ok(())
    }

    /// Copies whole entries from the buffer; false if the position is at its end.
    fn copy_from_buffer(&mut self, tail: &Tail) -> Result<bool> {
        if self.position < tail.buffer_start {
            // Flushed since we looked.
            self.open_segment()?;
            return Ok(true);
        }
        let rest = tail.buffered().get((self.position - tail.buffer_start) as usize..).unwrap_or_default();
        let mut count = 0;
        while let Some((entry_bytes, _)) = entry::unsealed(&rest[count..], self.position + count as u64) {
            if count > 0 && count + entry_bytes > COPIED_BYTES {
                break;
            }
            count += entry_bytes;
        }
        if count == 0 {
            return match self.position == tail.end() {
                true => Ok(false),
                false => Err(self.no_entry(tail.end())),
            };
        }
        let mut bytes = match std::mem::replace(&mut self.source, Source::None) {
            Source::Copied { bytes, .. } => bytes,
            _ => Vec::new(),
        };
        bytes.clear();
        bytes.extend_from_slice(&rest[..count]);
        self.source = Source::Copied { start: self.position, bytes };
        Ok(true)
    }

    /// The entry at the position, in the source.
    fn locate(&mut self) -> Result<Located> {
        let position = self.position;
        let found = match &mut self.source {
            Source::None => None,
            Source::Segment { .. } => return self.locate_in_segment(),
            Source::InFlight(batch) => {
                let from = (position - batch.start) as usize;
                let header = entry::parse(&batch.bytes[from..], position);
                header.map(|header| (from, header.entry_bytes, header.timestamp))
            }
            Source::Copied { start, bytes } => {
                let from = (position - *start) as usize;
                let header = entry::unsealed(&bytes[from..], position);
                header.map(|(entry_bytes, timestamp)| (from, entry_bytes, timestamp))
            }
        };
        let Some((from, entry_bytes, timestamp)) = found else {
            return Err(self.no_entry(self.shared.tail.lock().end()));
        };
        let payload = from + ENTRY_HEADER_BYTES..from + entry_bytes;
        Ok(Located { end: position + entry_bytes as u64, timestamp, payload })
    }

    fn locate_in_segment(&mut self) -> Result<Located> {
        let durable = self.shared.durable.load(Ordering::Acquire);
        let Source::Segment { window, end } = &mut self.source else {
            return Err(self.no_entry(durable));
        };
        let segment_start = window.segment_start;
        let limit = end.map_or(durable, |end| end.min(durable));
        let found = window.entry_at(self.position, limit).map_err(OplogError::io("read a segment"))?;
        let entry = match found {
            Found::Entry(entry) => entry,
            Found::Invalid(_) if self.last_timestamp.is_none() && self.position != segment_start => {
                return Err(self.no_entry(durable));
            }
            Found::Invalid(reason) => {
                // Unless it was truncated since we looked.
                self.shared.segment_around(self.position)?;
                return Err(corrupt(segment_start, self.position, reason));
            }
        };
        if self.last_timestamp.is_some_and(|last| last >= entry.timestamp) {
            return Err(corrupt(segment_start, self.position, "the entry's timestamp is not after the one before"));
        }
        Ok(Located { end: entry.end, timestamp: entry.timestamp, payload: entry.payload })
    }

    fn no_entry(&self, end: u64) -> OplogError {
        OplogError::InvalidPosition { position: OplogPosition(self.position), end: OplogPosition(end) }
    }
}

impl Source {
    fn has_in_memory(&self, position: u64) -> bool {
        match self {
            Source::None | Source::Segment { .. } => false,
            Source::InFlight(batch) => (batch.start..batch.end()).contains(&position),
            Source::Copied { start, bytes } => (*start..*start + bytes.len() as u64).contains(&position),
        }
    }

    fn bytes(&self, range: Range<usize>) -> &[u8] {
        match self {
            Source::None => &[],
            Source::Segment { window, .. } => window.bytes(range),
            Source::InFlight(batch) => &batch.bytes[range],
            Source::Copied { bytes, .. } => &bytes[range],
        }
    }
}

impl OplogReader for LocalReader {
    fn next_entry(&mut self) -> Result<Option<OplogEntry<'_>>> {
        if !self.find_source()? {
            return Ok(None);
        }
        let located = self.locate()?;
        let position = OplogPosition(self.position);
        self.position = located.end;
        self.last_timestamp = Some(located.timestamp);
        Ok(Some(OplogEntry {
            position,
            end: OplogPosition(located.end),
            timestamp: located.timestamp,
            payload: self.source.bytes(located.payload),
        }))
    }

    fn position(&self) -> OplogPosition {
        OplogPosition(self.position)
    }
}
