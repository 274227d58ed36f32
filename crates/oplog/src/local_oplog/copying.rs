//! Pieces of the log as it lies in its segments, to be kept elsewhere and put together again there.
//!
//! Called by `backup`: `copy_durable` for a backup and for the archive, `check_piece` for what comes back, `RestoredOplog` for
//! a restore. A piece is whole entries of one segment, each checked.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use platform::{Disk, OpenMode, Timestamp};

use super::LocalOplog;
use super::segment::{SEGMENT_HEADER_BYTES, SegmentHeader, corrupt, file_offset, not_opened, segment_name};
use super::window::{Found, Window};
use crate::entry::{self, ENTRY_HEADER_BYTES};
use crate::log::{OplogEntry, OplogPosition};
use crate::{Oplog, OplogError, Result, SegmentFacts};

/// Whole entries of one segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OplogPiece {
    /// The segment that they are in.
    pub segment: SegmentFacts,
    /// Position of the first.
    pub start: OplogPosition,
    /// As they lie in the file.
    pub bytes: Vec<u8>,
    /// Timestamp of the last one.
    pub last_timestamp: Timestamp,
}

impl OplogPiece {
    /// The position behind them.
    pub fn end(&self) -> OplogPosition {
        OplogPosition(self.start.0 + self.bytes.len() as u64)
    }
}

impl LocalOplog {
    /// The start of the segment that a position is in.
    ///
    /// # Errors
    /// `PositionTruncated`.
    pub fn segment_of(&self, position: OplogPosition) -> Result<OplogPosition> {
        self.shared.segment_around(position.0).map(|(start, _)| OplogPosition(start))
    }

    /// Durable entries from `from` on, which is the start of one: about `bytes_max` of one segment. `None`: nothing behind it is
    /// durable yet.
    ///
    /// # Errors
    /// `Corrupt`, `PositionTruncated`, `Io`.
    pub fn copy_durable(&self, from: OplogPosition, bytes_max: usize) -> Result<Option<OplogPiece>> {
        let durable = self.durable_position().0;
        if from.0 >= durable {
            return Ok(None);
        }
        let (start, next) = self.shared.segment_around(from.0)?;
        let file = self.shared.store.open(start, OpenMode::Read).map_err(not_opened(start))?;
        let header = SegmentHeader::read(&*file, start)?;
        let limit = next.unwrap_or(durable).min(durable);
        let mut window = Window::new(file, start);
        let (mut end, mut bytes, mut last_timestamp) = (from.0, Vec::new(), Timestamp::MIN);
        while end < limit && (end == from.0 || bytes.len() < bytes_max) {
            let found = window.entry_at(end, limit).map_err(OplogError::io("read a segment"))?;
            let Found::Entry(entry) = found else { return Err(corrupt(start, end, "an entry is damaged")) };
            bytes.extend_from_slice(window.bytes(entry.payload.start - ENTRY_HEADER_BYTES..entry.payload.end));
            (end, last_timestamp) = (entry.end, entry.timestamp);
        }
        let segment = SegmentFacts {
            start: OplogPosition(start),
            previous_timestamp: header.previous_timestamp,
            created_wall_millis: header.created_wall_millis,
        };
        Ok(Some(OplogPiece { segment, start: from, bytes, last_timestamp }))
    }
}

/// Shows each entry of a piece that begins at `start` to `visit`, until that returns `false`; the bytes before the entry at which it
/// did, or all. `Err`: the position of an entry that is not whole.
///
/// # Errors
/// See above.
pub fn check_piece(
    bytes: &[u8],
    start: OplogPosition,
    visit: &mut dyn FnMut(&OplogEntry<'_>) -> bool,
) -> std::result::Result<usize, OplogPosition> {
    let mut offset = 0;
    while offset < bytes.len() {
        let position = start.0 + offset as u64;
        let rest = &bytes[offset..];
        let header = entry::parse(rest, position).filter(|header| header.entry_bytes <= rest.len());
        let header = header.filter(|header| header.payload_is_intact(&rest[..header.entry_bytes]));
        let Some(header) = header else { return Err(OplogPosition(position)) };
        let entry = OplogEntry {
            position: OplogPosition(position),
            end: OplogPosition(position + header.entry_bytes as u64),
            timestamp: header.timestamp,
            payload: &rest[ENTRY_HEADER_BYTES..header.entry_bytes],
        };
        if !visit(&entry) {
            break;
        }
        offset += header.entry_bytes;
    }
    Ok(offset)
}

/// A log that is put together from pieces, in an empty directory.
pub struct RestoredOplog {
    disk: Arc<dyn Disk>,
    directory: PathBuf,
}

impl RestoredOplog {
    /// Begins one.
    ///
    /// # Errors
    /// `Io`.
    pub fn begin(disk: Arc<dyn Disk>, directory: &Path) -> Result<RestoredOplog> {
        disk.create_directory(directory).map_err(OplogError::io("create its directory"))?;
        Ok(RestoredOplog { disk, directory: directory.to_owned() })
    }

    /// Writes whole entries of a segment; those before them in it are written already.
    ///
    /// # Errors
    /// `Io`, `DiskFull`.
    pub fn write(&self, segment: SegmentFacts, start: OplogPosition, entries: &[u8]) -> Result<()> {
        let path = self.directory.join(segment_name(segment.start.0));
        let header = SegmentHeader {
            start: segment.start.0,
            previous_timestamp: segment.previous_timestamp,
            created_wall_millis: segment.created_wall_millis,
        };
        let write = || {
            let file = self.disk.open(&path, OpenMode::Create)?;
            let offset = file_offset(segment.start.0, start.0);
            if offset == SEGMENT_HEADER_BYTES {
                file.write_all_at(&header.encode(), 0)?;
            }
            file.write_all_at(entries, offset)?;
            file.set_length(offset + entries.len() as u64)?;
            file.sync_data()
        };
        write().map_err(|error| match platform::is_disk_full(&error) {
            true => OplogError::DiskFull,
            false => OplogError::io("write a segment")(error),
        })
    }

    /// Makes the names durable.
    ///
    /// # Errors
    /// `Io`.
    pub fn finish(self) -> Result<()> {
        let sync = || {
            self.disk.sync_directory(&self.directory)?;
            self.disk.sync_directory(Path::new(""))
        };
        sync().map_err(OplogError::io("sync its directory"))
    }
}
