//! Reading the log's files without opening the log: nothing is written, and what a torn write left stays where it is.
//!
//! Called by the `inspect` subcommand, on a stopped server's directory or a copy.

use std::path::Path;
use std::sync::Arc;

use platform::{Disk, OpenMode};

use super::segment::{SEGMENT_HEADER_BYTES, SegmentHeader, not_opened, parse_segment_name, segment_name};
use super::window::{Found, Window};
use crate::log::{OplogEntry, OplogPosition};
use crate::{OplogError, Result};

/// Shows each entry from the position `from` on to `visit`, in order, until that returns `false`. Gives the position at which
/// the last segment's entries end.
///
/// # Errors
/// `Corrupt` when a segment's header is damaged; `Io`. A damaged entry ends the segment that it is in.
pub fn read_offline(
    disk: &dyn Disk,
    directory: &Path,
    from: OplogPosition,
    visit: &mut dyn FnMut(&OplogEntry<'_>) -> bool,
) -> Result<OplogPosition> {
    let names = disk.list(directory).map_err(OplogError::io("list its directory"))?;
    let starts: Vec<u64> = names.iter().filter_map(|name| parse_segment_name(name)).collect();
    let mut end = starts.last().copied().unwrap_or(0);
    for (index, start) in starts.iter().copied().enumerate() {
        let next = starts.get(index + 1).copied();
        if next.is_some_and(|next| next <= from.0) {
            continue;
        }
        let path = directory.join(segment_name(start));
        let file = disk.open(&path, OpenMode::Read).map_err(not_opened(start))?;
        SegmentHeader::read(&*file, start)?;
        let bytes = file.length().map_err(OplogError::io("ask a segment's length"))?;
        let limit = next.unwrap_or(start + bytes.saturating_sub(SEGMENT_HEADER_BYTES));
        let mut window = Window::new(Arc::clone(&file), start);
        end = start;
        while end < limit {
            let found = window.entry_at(end, limit).map_err(OplogError::io("read a segment"))?;
            let Found::Entry(entry) = found else { break };
            let position = OplogPosition(end);
            end = entry.end;
            let payload = window.bytes(entry.payload);
            if position >= from
                && !visit(&OplogEntry { position, end: OplogPosition(end), timestamp: entry.timestamp, payload })
            {
                return Ok(OplogPosition(end));
            }
        }
    }
    Ok(OplogPosition(end))
}
