//! A damaged log that nobody's data needs any more: it is put aside under another name, and a new one goes on where it ended.
//!
//! Called by recovery when the log is damaged and a checkpoint is said to have all of it, as after an orderly stop. Without the log nothing that was
//! written is lost then, but those who follow it (change streams, readers of the log, retries of statements) cannot go back before the checkpoint. The damaged
//! files stay, for whoever wants to look at them.
//!
//! Done only when there is certainly nothing behind the checkpoint: the file in which the log ends is there, and has no entry from the checkpoint's position on.
//! The new segment is durable before the old ones lose their names, so a power loss in between leaves either log.

use platform::{OpenMode, Timestamp};

use super::LocalOplog;
use super::recovery::clear;
use super::salvage::next_header;
use super::segment::{SEGMENT_HEADER_BYTES, SegmentFile, file_offset, not_opened, segment_name};
use super::segment_store::SegmentStore;
use super::window::Window;
use crate::{OplogError, OplogPosition, Result};

/// What the names of files that are put aside begin with.
const ASIDE_PREFIX: &str = "damaged-";
/// What those of single entries end with.
const ENTRY_SUFFIX: &str = ".entry";

/// What a checkpoint says of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Checkpointed {
    /// Everything before this is in it.
    pub position: OplogPosition,
    /// It has something of what was logged up to here: a log that ends before has lost something.
    pub oplog_end: OplogPosition,
    /// No entry before `position` is later.
    pub timestamp: Timestamp,
}

/// What was put aside.
#[derive(Clone, Debug)]
pub struct SetAside {
    /// The names that the files have now, in the log's directory.
    pub files: Vec<String>,
    /// The log begins here now.
    pub begins_at: OplogPosition,
    /// After this.
    pub begins_after: Timestamp,
    /// What is wrong with what was put aside.
    pub damage: OplogError,
}

impl Checkpointed {
    /// Whether the checkpoint and everything logged until it was made are the same.
    fn has_all(&self) -> bool {
        self.oplog_end <= self.position
    }
}

/// Puts the log aside because of `damage`, if a checkpoint has all of it; otherwise fails with the damage, and nothing is changed.
pub(super) fn set_aside(
    store: &SegmentStore,
    checkpointed: Checkpointed,
    damage: OplogError,
    entry_bytes: u64,
) -> Result<SetAside> {
    let position = checkpointed.position.0;
    let starts = store.list().map_err(OplogError::io("list its directory"))?;
    if !checkpointed.has_all() || !ends_at(store, &starts, position)? {
        return Err(damage);
    }
    let begin = || begin_at(store, &starts, checkpointed, entry_bytes);
    begin().map_err(|error| match platform::is_disk_full(&error) {
        true => OplogError::DiskFull,
        false => OplogError::io("begin a new log behind the damaged one")(error),
    })?;
    let rename = || {
        // The newest first: what is left in between is a log with a gap, which is put aside at the next start.
        let old = starts.iter().rev().filter(|start| **start != position);
        let files = old.map(|start| store.set_aside(*start)).collect::<std::io::Result<Vec<_>>>()?;
        store.sync_directory()?;
        Ok(files)
    };
    let files = rename().map_err(OplogError::io("put the damaged log aside"))?;
    Ok(SetAside { files, begins_at: checkpointed.position, begins_after: checkpointed.timestamp, damage })
}

/// Whether the file in which `position` lies is there, and nothing from there on is an entry.
fn ends_at(store: &SegmentStore, starts: &[u64], position: u64) -> Result<bool> {
    let Some(last) = starts.iter().copied().filter(|start| *start <= position).max() else { return Ok(false) };
    for start in starts.iter().copied().filter(|start| *start >= last) {
        let file = store.open(start, OpenMode::Read).map_err(not_opened(start))?;
        let length = file.length().map_err(OplogError::io("read the length of a segment"))?;
        let limit = start.saturating_add(length.saturating_sub(SEGMENT_HEADER_BYTES));
        let (from, mut window) = (position.max(start), Window::new(file, start));
        if limit < from || next_header(&mut window, from, limit).is_some() {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Makes an empty segment at the checkpoint's position.
fn begin_at(store: &SegmentStore, starts: &[u64], checkpointed: Checkpointed, entry_bytes: u64) -> std::io::Result<()> {
    let position = checkpointed.position.0;
    let segment = if starts.contains(&position) {
        let file = store.open(position, OpenMode::ReadWrite)?;
        clear(&*file, file_offset(position, position), file.length()?)?;
        SegmentFile { file, start: position, ready: false }
    } else {
        store.adopt_spare(&store.create_spare(entry_bytes)?, position)?
    };
    store.write_header(&segment, checkpointed.timestamp)?;
    segment.file.sync_data()?;
    store.sync_directory()
}

impl LocalOplog {
    /// Keeps the payload of an entry that its reader can make nothing of, in a file that stays when the log has gone on. Gives its name.
    ///
    /// # Errors
    /// `Io`, `DiskFull`.
    pub fn keep_entry_aside(&self, position: OplogPosition, payload: &[u8]) -> Result<String> {
        let store = &self.shared.store;
        let name = format!("{ASIDE_PREFIX}{:020}{ENTRY_SUFFIX}", position.0);
        let write = || {
            let file = store.disk().open(&store.path(&name), OpenMode::Create)?;
            file.write_all_at(payload, 0)?;
            file.sync_data()?;
            store.sync_directory()
        };
        match write() {
            Ok(()) => Ok(name),
            Err(error) if platform::is_disk_full(&error) => Err(OplogError::DiskFull),
            Err(error) => Err(OplogError::io("keep an entry aside")(error)),
        }
    }

    /// The names of the files with entries that were kept aside, in this life or before, and are still there.
    ///
    /// # Errors
    /// `Io`.
    pub fn entries_aside(&self) -> Result<Vec<String>> {
        let mut names = self.shared.store.names().map_err(OplogError::io("list its directory"))?;
        names.retain(|name| name.starts_with(ASIDE_PREFIX) && name.ends_with(ENTRY_SUFFIX));
        names.sort();
        Ok(names)
    }
}

/// What a segment is called once it is put aside.
pub(super) fn aside_name(start: u64) -> String {
    format!("{ASIDE_PREFIX}{}", segment_name(start))
}
