//! Opening the log: from the files of the directory to the state in memory.
//!
//! Called by `LocalOplog::open`. Checks every segment's header and that they follow each other without a gap, scans the
//! last one, cuts off what a torn write left, and makes durable what is valid. Entries of earlier segments are checked
//! when they are read. A damaged log that a checkpoint has all of is put aside (`set_aside`). Damage before the checkpoint's position is passed over otherwise:
//! nobody's data needs what is there.

use std::collections::BTreeSet;
use std::sync::Arc;

use platform::{File, OpenMode, Timestamp};

use super::scan::{Scanned, scan};
use super::segment::{SEGMENT_HEADER_BYTES, SegmentFile, SegmentHeader, corrupt, file_offset, not_opened};
use super::segment_store::SegmentStore;
use super::set_aside::{Checkpointed, SetAside, aside_name, set_aside};
use crate::{OplogError, Result};

/// Bytes copied or zeroed at a time.
const COPIED_BYTES: u64 = 1 << 20;

/// The log as it was found.
pub(super) struct Recovered {
    pub(super) starts: BTreeSet<u64>,
    /// The last segment, which appends continue.
    pub(super) current: SegmentFile,
    /// Position at which it has no more room.
    pub(super) segment_end: u64,
    pub(super) end: u64,
    pub(super) last_timestamp: Timestamp,
    /// What the log was before, if it was damaged and is not needed.
    pub(super) set_aside: Option<SetAside>,
    /// Segments before the checkpoint's that are left out; they keep their names until the caller has recovered without them.
    pub(super) passed_over: Vec<u64>,
}

/// What a recovery leaves out.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Leaves {
    Nothing,
    /// Whatever is before this, which a checkpoint has.
    Before(u64),
}

/// A segment as found on disk.
struct Opened {
    file: Arc<dyn File>,
    header: SegmentHeader,
    /// Position up to which the file has room.
    limit: u64,
}

/// Opens the log, or creates it with a first segment of `entry_bytes`. `checkpointed`: what is known to have been in it.
pub(super) fn recover(store: &SegmentStore, entry_bytes: u64, checkpointed: Option<Checkpointed>) -> Result<Recovered> {
    store.create_directory().map_err(OplogError::io("create its directory"))?;
    store.remove_spare().map_err(OplogError::io("remove an unused segment"))?;
    let (damage, checkpointed) = match (recover_part(store, entry_bytes, checkpointed, Leaves::Nothing), checkpointed) {
        (Err(damage @ OplogError::Corrupt { .. }), Some(checkpointed)) => (damage, checkpointed),
        (recovered, _) => return recovered,
    };
    match set_aside(store, checkpointed, damage, entry_bytes) {
        Ok(set_aside) => {
            let recovered = recover_part(store, entry_bytes, Some(checkpointed), Leaves::Nothing)?;
            Ok(Recovered { set_aside: Some(set_aside), ..recovered })
        }
        Err(damage @ OplogError::Corrupt { .. }) => pass_over(store, entry_bytes, checkpointed, damage),
        Err(error) => Err(error),
    }
}

/// The log without what is before the checkpoint's position, if that is where the damage is.
fn pass_over(
    store: &SegmentStore,
    entry_bytes: u64,
    checkpointed: Checkpointed,
    damage: OplogError,
) -> Result<Recovered> {
    let leaves = Leaves::Before(checkpointed.position.0);
    match recover_part(store, entry_bytes, Some(checkpointed), leaves) {
        Ok(recovered) => {
            let (begins_at, begins_after) = (checkpointed.position, checkpointed.timestamp);
            let files = recovered.passed_over.iter().map(|start| aside_name(*start)).collect();
            let set_aside = SetAside { files, begins_at, begins_after, damage };
            Ok(Recovered { set_aside: Some(set_aside), ..recovered })
        }
        // Something is wrong behind it, too: the first error is the one to be told.
        Err(OplogError::Corrupt { .. }) => Err(damage),
        Err(error) => Err(error),
    }
}

fn recover_part(
    store: &SegmentStore,
    entry_bytes: u64,
    checkpointed: Option<Checkpointed>,
    leaves: Leaves,
) -> Result<Recovered> {
    let mut starts = store.list().map_err(OplogError::io("list its directory"))?;
    let mut passed_over = Vec::new();
    if let Leaves::Before(position) = leaves {
        let first = starts.iter().copied().filter(|start| *start <= position).max().unwrap_or_default();
        passed_over.extend(starts.extract_if(.., |start| *start < first));
    }
    let incomplete = remove_incomplete(store, &mut starts)?;
    let Some(last) = open_all(store, &starts)? else {
        return create_first(store, entry_bytes);
    };
    let from = match leaves {
        Leaves::Before(position) => position.clamp(last.header.start, last.limit),
        Leaves::Nothing => last.header.start,
    };
    let scanned = scan(Arc::clone(&last.file), &last.header, from, last.limit)?;
    if let Some(start) = incomplete.filter(|start| *start != scanned.end) {
        return Err(corrupt(last.header.start, scanned.end.min(start), "entries are missing before the next segment"));
    }
    // Before anything is cleared: what is behind the end is no torn write.
    if checkpointed.is_some_and(|checkpointed| scanned.end < checkpointed.oplog_end.0) {
        return Err(corrupt(last.header.start, scanned.end, "the log ends before what a checkpoint has of it"));
    }
    make_durable(store, &last, &scanned).map_err(OplogError::io("repair the last segment"))?;
    Ok(Recovered {
        starts: starts.into_iter().collect(),
        current: SegmentFile { file: last.file, start: last.header.start, ready: true },
        segment_end: last.limit,
        end: scanned.end,
        last_timestamp: scanned.last_timestamp.max(checkpointed.map_or(Timestamp::MIN, |known| known.timestamp)),
        set_aside: None,
        passed_over,
    })
}

fn create_first(store: &SegmentStore, entry_bytes: u64) -> Result<Recovered> {
    let create = || {
        let spare = store.create_spare(entry_bytes)?;
        let mut segment = store.adopt_spare(&spare, 0)?;
        store.write_header(&segment, Timestamp::MIN)?;
        segment.file.sync_data()?;
        store.sync_directory()?;
        segment.ready = true;
        Ok(segment)
    };
    let current = create().map_err(|error| match platform::is_disk_full(&error) {
        true => OplogError::DiskFull,
        false => OplogError::io("create its first segment")(error),
    })?;
    let starts = BTreeSet::from([0]);
    let last_timestamp = Timestamp::MIN;
    Ok(Recovered {
        starts,
        current,
        segment_end: entry_bytes,
        end: 0,
        last_timestamp,
        set_aside: None,
        passed_over: Vec::new(),
    })
}

/// Removes a last segment whose header never became durable. As entries are written only after that, it has none.
/// Returns where it began.
fn remove_incomplete(store: &SegmentStore, starts: &mut Vec<u64>) -> Result<Option<u64>> {
    let Some(&start) = starts.last() else { return Ok(None) };
    // A lone segment that begins later had a header once, as others were truncated after it was in use.
    if starts.len() == 1 && start != 0 {
        return Ok(None);
    }
    let file = store.open(start, OpenMode::Read).map_err(not_opened(start))?;
    if !matches!(SegmentHeader::read(&*file, start), Err(OplogError::Corrupt { .. })) {
        return Ok(None);
    }
    if has_entries(&*file).map_err(OplogError::io("read the last segment"))? {
        return Ok(None);
    }
    drop(file);
    let remove = || {
        store.remove(start)?;
        store.sync_directory()
    };
    remove().map_err(OplogError::io("remove an unfinished segment"))?;
    starts.pop();
    Ok(Some(start))
}

/// Opens all segments and checks that they follow each other; returns the last one.
fn open_all(store: &SegmentStore, starts: &[u64]) -> Result<Option<Opened>> {
    let mut last: Option<Opened> = None;
    for &start in starts {
        let next = open_segment(store, start)?;
        if let Some(previous) = &last {
            if previous.limit < start {
                return Err(corrupt(
                    previous.header.start,
                    previous.limit,
                    "entries are missing before the next segment",
                ));
            }
            if previous.header.previous_timestamp > next.header.previous_timestamp {
                return Err(corrupt(
                    start,
                    start,
                    "the timestamp of the segment is before the one of the segment before",
                ));
            }
        }
        last = Some(next);
    }
    Ok(last)
}

fn open_segment(store: &SegmentStore, start: u64) -> Result<Opened> {
    let file = store.open(start, OpenMode::ReadWrite).map_err(not_opened(start))?;
    let header = SegmentHeader::read(&*file, start)?;
    let length = file.length().map_err(OplogError::io("read the length of a segment"))?;
    let limit = start.saturating_add(length.saturating_sub(SEGMENT_HEADER_BYTES));
    Ok(Opened { file, header, limit })
}

/// Clears what a torn write left, so that nothing of it is ever taken for an entry, and makes the valid entries durable.
///
/// The header and the last flush are written again before the sync: if their sync failed before the restart, the system
/// may hold them in memory as clean, and a sync alone would not write them.
fn make_durable(store: &SegmentStore, last: &Opened, scanned: &Scanned) -> std::io::Result<()> {
    let start = last.header.start;
    last.file.write_all_at(&last.header.encode(), 0)?;
    rewrite(&*last.file, file_offset(start, scanned.last_flush_start), file_offset(start, scanned.end))?;
    clear(&*last.file, file_offset(start, scanned.end), file_offset(start, scanned.remains_end))?;
    last.file.sync_data()?;
    store.sync_directory()
}

fn rewrite(file: &dyn File, from: u64, to: u64) -> std::io::Result<()> {
    let mut bytes = vec![0; COPIED_BYTES.min(to - from) as usize];
    let mut offset = from;
    while offset < to {
        let count = (to - offset).min(COPIED_BYTES) as usize;
        file.read_exact_at(&mut bytes[..count], offset)?;
        file.write_all_at(&bytes[..count], offset)?;
        offset += count as u64;
    }
    Ok(())
}

pub(super) fn clear(file: &dyn File, from: u64, to: u64) -> std::io::Result<()> {
    let zeros = vec![0; COPIED_BYTES.min(to.saturating_sub(from)) as usize];
    let mut offset = from;
    while offset < to {
        let count = (to - offset).min(COPIED_BYTES) as usize;
        file.write_all_at(&zeros[..count], offset)?;
        offset += count as u64;
    }
    Ok(())
}

/// Whether anything was ever written behind the header.
fn has_entries(file: &dyn File) -> std::io::Result<bool> {
    let mut bytes = vec![0; COPIED_BYTES as usize];
    let mut offset = SEGMENT_HEADER_BYTES;
    loop {
        match file.read_unverified_at(&mut bytes, offset)? {
            0 => return Ok(false),
            count if bytes[..count].iter().any(|byte| *byte != 0) => return Ok(true),
            count => offset += count as u64,
        }
    }
}
