//! The scan of the last segment at start: where the log ends, and whether what follows is a torn write or damage.
//!
//! Called by recovery. Each entry says from where on nothing was known to be durable when it was written: the start of its
//! flush. A power loss can damage only what was not durable (any of it: sectors reach the disk in any order). Hence,
//! behind the first invalid entry:
//!
//! - an entry whose flush began later proves that the invalid one had been durable: the log is damaged, and is not
//!   touched;
//! - anything else was never acknowledged, and is cut off.

use std::sync::Arc;

use platform::{File, Timestamp};

use super::segment::{SegmentHeader, corrupt};
use super::window::{Found, Window};
use crate::entry::{self, ENTRY_HEADER_BYTES};
use crate::{OplogError, Result};

/// Bytes examined at a time behind the end.
const EXAMINED_BYTES: usize = 256 << 10;

/// What the last segment holds.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Scanned {
    /// Position after the last valid entry.
    pub(super) end: u64,
    pub(super) last_timestamp: Timestamp,
    /// Where the last valid entry's flush began; what is behind may not be durable.
    pub(super) last_flush_start: u64,
    /// Behind this, and behind `end`, everything is zero.
    pub(super) remains_end: u64,
}

/// Scans the segment, which has room up to position `limit`, from an entry at `from` on.
pub(super) fn scan(file: Arc<dyn File>, header: &SegmentHeader, from: u64, limit: u64) -> Result<Scanned> {
    let mut window = Window::new(file, header.start);
    let mut scanned = Scanned {
        end: from,
        last_timestamp: header.previous_timestamp,
        last_flush_start: header.start,
        remains_end: from,
    };
    while scanned.end < limit {
        let found = window.entry_at(scanned.end, limit).map_err(OplogError::io("scan the last segment"))?;
        let Found::Entry(entry) = found else { break };
        let continues_flush = (scanned.last_flush_start..=scanned.end).contains(&entry.flush_start);
        if !continues_flush || entry.timestamp <= scanned.last_timestamp {
            break;
        }
        scanned.end = entry.end;
        scanned.last_timestamp = entry.timestamp;
        scanned.last_flush_start = entry.flush_start;
    }
    scanned.remains_end = examine_remains(&mut window, &scanned, limit)?;
    Ok(scanned)
}

/// Looks at what is behind the last valid entry; returns the position behind its last byte that is not zero.
fn examine_remains(window: &mut Window, scanned: &Scanned, limit: u64) -> Result<u64> {
    let mut remains_end = scanned.end;
    let mut position = scanned.end;
    while position < limit {
        let bytes =
            window.view(position, limit, EXAMINED_BYTES).map_err(OplogError::io("scan the end of the last segment"))?;
        // Room that nothing was written to yet is most of a segment.
        if !is_zero(bytes) {
            if let Some(last) = bytes.iter().rposition(|byte| *byte != 0) {
                remains_end = position + last as u64 + 1;
            }
            if contains_later_flush(bytes, position, scanned.end) {
                return Err(corrupt(
                    window.segment_start,
                    scanned.end,
                    "an entry is damaged and later ones are intact",
                ));
            }
        }
        if bytes.len() < ENTRY_HEADER_BYTES {
            break;
        }
        // Headers that begin in the last bytes are looked at with the next bytes.
        position += (bytes.len() - (ENTRY_HEADER_BYTES - 1)) as u64;
    }
    Ok(remains_end)
}

/// Looks at many bytes at once: byte by byte this was most of the time that a start takes.
fn is_zero(bytes: &[u8]) -> bool {
    const ZEROS: &[u8] = &[0; 4096];
    bytes.chunks(ZEROS.len()).all(|chunk| chunk == &ZEROS[..chunk.len()])
}

/// Whether an entry header in `bytes`, which lie at `position`, was written by a flush that began after `end`.
fn contains_later_flush(bytes: &[u8], position: u64, end: u64) -> bool {
    let mut offset = 0;
    while let Some(rest) = bytes.get(offset..).filter(|rest| rest.len() >= ENTRY_HEADER_BYTES) {
        let Some(zeros) = rest.iter().position(|byte| *byte != 0) else {
            return false;
        };
        // The length in a header is not zero, but its first three bytes may be.
        if zeros > 3 {
            offset += zeros - 3;
            continue;
        }
        let at = position + offset as u64;
        if entry::parse(rest, at).is_some_and(|header| at.saturating_sub(u64::from(header.flush_distance)) > end) {
            return true;
        }
        offset += 1;
    }
    false
}
