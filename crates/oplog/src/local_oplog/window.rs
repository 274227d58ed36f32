//! Reading a segment file from front to back: large reads, entries parsed in place.
//!
//! Called by readers and by the scan at start.

use std::io;
use std::ops::Range;
use std::sync::Arc;

use platform::{File, Timestamp};

use super::segment::file_offset;
use crate::entry::{self, ENTRY_HEADER_BYTES};

/// Size of a read.
const READ_BYTES: usize = 1 << 20;

/// A moving view of a segment file.
pub(super) struct Window {
    file: Arc<dyn File>,
    pub(super) segment_start: u64,
    buffer: Vec<u8>,
    /// Position of the first byte of `buffer`.
    start: u64,
    /// Bytes of `buffer` that are filled.
    filled: usize,
}

/// What is at a position.
pub(super) enum Found {
    /// A whole entry.
    Entry(FoundEntry),
    /// No entry, or a damaged one.
    Invalid(&'static str),
}

/// A whole entry in the window.
pub(super) struct FoundEntry {
    pub(super) timestamp: Timestamp,
    pub(super) end: u64,
    pub(super) flush_start: u64,
    /// Where the payload is in `Window::bytes`.
    pub(super) payload: Range<usize>,
}

impl Window {
    pub(super) fn new(file: Arc<dyn File>, segment_start: u64) -> Window {
        Window { file, segment_start, buffer: Vec::new(), start: segment_start, filled: 0 }
    }

    pub(super) fn bytes(&self, range: Range<usize>) -> &[u8] {
        &self.buffer[range]
    }

    /// The entry at `position`, of which nothing at or after `limit` is read.
    pub(super) fn entry_at(&mut self, position: u64, limit: u64) -> io::Result<Found> {
        let header = self.view(position, limit, ENTRY_HEADER_BYTES)?;
        let Some(header) = entry::parse(header, position) else {
            return Ok(Found::Invalid("no valid entry header"));
        };
        let end = position + header.entry_bytes as u64;
        if end > limit {
            return Ok(Found::Invalid("the entry goes beyond the end"));
        }
        if u64::from(header.flush_distance) > position - self.segment_start {
            return Ok(Found::Invalid("the entry names a flush in another segment"));
        }
        let bytes = self.view(position, limit, header.entry_bytes)?;
        if bytes.len() < header.entry_bytes || !header.payload_is_intact(&bytes[..header.entry_bytes]) {
            return Ok(Found::Invalid("the checksum of the payload is wrong"));
        }
        let from = (position - self.start) as usize;
        Ok(Found::Entry(FoundEntry {
            timestamp: header.timestamp,
            end,
            flush_start: position - u64::from(header.flush_distance),
            payload: from + ENTRY_HEADER_BYTES..from + header.entry_bytes,
        }))
    }

    /// The bytes from `position` on: at least `wanted` unless `limit` or the end of the file comes first.
    pub(super) fn view(&mut self, position: u64, limit: u64, wanted: usize) -> io::Result<&[u8]> {
        let inside = position >= self.start && position <= self.start + self.filled as u64;
        if !inside {
            (self.start, self.filled) = (position, 0);
        }
        let held = self.filled - (position - self.start) as usize;
        let wanted = (wanted as u64).min(limit - position) as usize;
        if held < wanted {
            self.read_more(position, limit, wanted)?;
        }
        Ok(&self.buffer[(position - self.start) as usize..self.filled])
    }

    /// Moves the window so that it begins at `position`, and fills it.
    fn read_more(&mut self, position: u64, limit: u64, wanted: usize) -> io::Result<()> {
        self.buffer.copy_within((position - self.start) as usize..self.filled, 0);
        self.filled -= (position - self.start) as usize;
        self.start = position;
        let size = wanted.max(READ_BYTES).min((limit - position) as usize);
        if self.buffer.len() < size {
            self.buffer.resize(size, 0);
        }
        while self.filled < size {
            let offset = file_offset(self.segment_start, self.start + self.filled as u64);
            match self.file.read_unverified_at(&mut self.buffer[self.filled..size], offset)? {
                0 => break,
                count => self.filled += count,
            }
        }
        Ok(())
    }
}
