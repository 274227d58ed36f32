//! What can be read of an oplog that may be damaged: for repair.
//!
//! Called by `transaction`'s repair. Writes nothing. Goes through the segments in order; where an entry is damaged, it looks for the
//! next whole one, which its position in its checksum makes certain.

use std::path::Path;
use std::sync::Arc;

use platform::{Disk, OpenMode, Timestamp};

use super::segment::{SEGMENT_HEADER_BYTES, SegmentHeader, parse_segment_name, segment_name};
use super::window::{Found, Window};
use crate::entry::{self, ENTRY_HEADER_BYTES};
use crate::{OplogEntry, OplogError, OplogPosition, Result};

/// Bytes looked at together behind damage.
const EXAMINED_BYTES: usize = 256 << 10;

/// What a salvage found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SalvagedOplog {
    /// Entries read.
    pub entries: u64,
    /// What is wrong, one line each.
    pub problems: Vec<String>,
    /// The position after the last entry.
    pub end: OplogPosition,
}

/// Calls `visit` with every whole entry at or after `from`, in order, and with whether entries before it are missing.
///
/// # Errors
/// `Io` when the directory cannot be listed; those of `visit`.
pub fn salvage_entries<E: From<OplogError>>(
    disk: &dyn Disk,
    directory: &Path,
    from: OplogPosition,
    mut visit: impl FnMut(OplogEntry<'_>, bool) -> std::result::Result<(), E>,
) -> std::result::Result<SalvagedOplog, E> {
    let mut salvaged = SalvagedOplog::default();
    let starts = list(disk, directory)?;
    let mut place =
        Place { position: starts.first().copied().unwrap_or_default(), last: Timestamp::MIN, has_gap: false };
    // Read from its beginning, it lacks nothing, wherever that is.
    if from.0 > 0 && place.position > from.0 {
        salvaged.problems.push(format!("the oplog begins at {}, after {from}", place.position));
        place.has_gap = true;
    }
    for (number, start) in starts.iter().enumerate() {
        let next = starts.get(number + 1).copied();
        if *start > place.position {
            salvaged.problems.push(format!("the oplog has nothing from {} to {start}", place.position));
            place.has_gap = true;
        }
        place.position = *start;
        salvage_segment(disk, directory, *start, next, from.0, &mut place, &mut salvaged, &mut visit)?;
    }
    salvaged.end = OplogPosition(place.position);
    Ok(salvaged)
}

/// The payload of the entry at a position; `None`: it cannot be read.
pub fn salvage_entry(disk: &dyn Disk, directory: &Path, position: OplogPosition) -> Option<Vec<u8>> {
    let start = list(disk, directory).ok()?.into_iter().filter(|start| *start <= position.0).max()?;
    let file = disk.open(&directory.join(segment_name(start)), OpenMode::Read).ok()?;
    let limit = start + file.length().ok()?.saturating_sub(SEGMENT_HEADER_BYTES);
    let mut window = Window::new(file, start);
    match window.entry_at(position.0, limit) {
        Ok(Found::Entry(entry)) => Some(window.bytes(entry.payload).to_vec()),
        _ => None,
    }
}

struct Place {
    position: u64,
    last: Timestamp,
    has_gap: bool,
}

fn list(disk: &dyn Disk, directory: &Path) -> Result<Vec<u64>> {
    let names = disk.list(directory).map_err(OplogError::io("list its directory"))?;
    Ok(names.iter().filter_map(|name| parse_segment_name(name)).collect())
}

#[allow(
    clippy::too_many_arguments,
    reason = "one segment of one pass: everything is needed and nothing belongs together"
)]
fn salvage_segment<E: From<OplogError>>(
    disk: &dyn Disk,
    directory: &Path,
    start: u64,
    next: Option<u64>,
    from: u64,
    place: &mut Place,
    salvaged: &mut SalvagedOplog,
    visit: &mut impl FnMut(OplogEntry<'_>, bool) -> std::result::Result<(), E>,
) -> std::result::Result<(), E> {
    let name = segment_name(start);
    let opened = disk.open(&directory.join(&name), OpenMode::Read).and_then(|file| Ok((file.length()?, file)));
    let (length, file) = match opened {
        Ok(opened) => opened,
        Err(cause) => {
            salvaged.problems.push(format!("oplog segment {name} cannot be opened: {cause}"));
            place.has_gap = true;
            return Ok(());
        }
    };
    if let Err(error) = SegmentHeader::read(&*file, start) {
        salvaged.problems.push(error.to_string());
    }
    let room = start + length.saturating_sub(SEGMENT_HEADER_BYTES);
    let limit = next.map_or(room, |next| next.min(room));
    let mut window = Window::new(Arc::clone(&file), start);
    while place.position < limit {
        let position = place.position;
        match window.entry_at(position, limit) {
            Ok(Found::Entry(entry)) if entry.timestamp > place.last => {
                (place.position, place.last) = (entry.end, entry.timestamp);
                if position >= from {
                    salvaged.entries += 1;
                    let payload = window.bytes(entry.payload.clone());
                    let end = OplogPosition(entry.end);
                    let entry =
                        OplogEntry { position: OplogPosition(position), end, timestamp: entry.timestamp, payload };
                    visit(entry, place.has_gap)?;
                }
            }
            _ => {
                let Some(found) = next_header(&mut window, position + 1, limit) else { break };
                if found >= from {
                    salvaged.problems.push(format!("oplog segment {name} is damaged from {position} to {found}"));
                    place.has_gap = true;
                }
                place.position = found;
            }
        }
    }
    if next.is_none() && has_bytes(&mut window, place.position, limit) {
        let end = place.position;
        salvaged.problems.push(format!("oplog segment {name}: behind its end at {end} are remains, of a write that power loss tore before it was acknowledged, or of damage"));
    }
    if next.is_some_and(|next| place.position < next) {
        salvaged.problems.push(format!("oplog segment {name} is damaged from {} to its end", place.position));
        place.has_gap = true;
    }
    Ok(())
}

/// Whether anything but zeros is at or after `position`.
fn has_bytes(window: &mut Window, mut position: u64, limit: u64) -> bool {
    while position < limit {
        match window.view(position, limit, EXAMINED_BYTES) {
            Ok([]) | Err(_) => return false,
            Ok(bytes) if bytes.iter().any(|byte| *byte != 0) => return true,
            Ok(bytes) => position += bytes.len() as u64,
        }
    }
    false
}

/// The next place at or after `position` with a whole entry.
pub(super) fn next_header(window: &mut Window, mut position: u64, limit: u64) -> Option<u64> {
    while position + ENTRY_HEADER_BYTES as u64 <= limit {
        let bytes = window.view(position, limit, EXAMINED_BYTES).ok()?.to_vec();
        if bytes.len() < ENTRY_HEADER_BYTES {
            return None;
        }
        let last = bytes.len() - ENTRY_HEADER_BYTES;
        for offset in 0..=last {
            let at = position + offset as u64;
            let is_header =
                bytes.get(offset..).is_some_and(|rest| rest[0..4] != [0; 4] && entry::parse(rest, at).is_some());
            if is_header && matches!(window.entry_at(at, limit), Ok(Found::Entry(_))) {
                return Some(at);
            }
        }
        position += last as u64 + 1;
    }
    None
}
