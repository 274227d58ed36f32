//! The directory of segment files: every file operation of the log except reading and writing entries, and
//! shortening what was removed (`removed_segments`).
//!
//! Called by recovery, the flusher, truncation and readers. It only does what it is told; what a failure means is decided
//! by the caller.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use platform::{Clock, Disk, File, OpenMode, Timestamp};

use super::segment::{SEGMENT_HEADER_BYTES, SPARE_NAME, SegmentFile, SegmentHeader, parse_segment_name, segment_name};
use super::set_aside::aside_name;

/// Files of one log.
pub(super) struct SegmentStore {
    disk: Arc<dyn Disk>,
    clock: Arc<dyn Clock>,
    directory: PathBuf,
}

/// An allocated file of zeros that waits to become a segment.
pub(super) struct SpareFile {
    pub(super) file: Arc<dyn File>,
    pub(super) entry_bytes: u64,
}

impl SegmentStore {
    pub(super) fn new(disk: Arc<dyn Disk>, clock: Arc<dyn Clock>, directory: PathBuf) -> SegmentStore {
        SegmentStore { disk, clock, directory }
    }

    /// Makes sure that the directory is there and will be after a power loss.
    pub(super) fn create_directory(&self) -> io::Result<()> {
        self.disk.create_directory(&self.directory)?;
        for parent in self.directory.ancestors().skip(1) {
            self.disk.sync_directory(parent)?;
        }
        Ok(())
    }

    /// Where a file of the directory is.
    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    pub(super) fn disk(&self) -> &dyn Disk {
        &*self.disk
    }

    /// Start positions of the segments, ascending.
    pub(super) fn list(&self) -> io::Result<Vec<u64>> {
        Ok(self.names()?.iter().filter_map(|name| parse_segment_name(name)).collect())
    }

    /// Names of all files.
    pub(super) fn names(&self) -> io::Result<Vec<String>> {
        self.disk.list(&self.directory)
    }

    pub(super) fn open(&self, start: u64, mode: OpenMode) -> io::Result<Arc<dyn File>> {
        self.disk.open(&self.directory.join(segment_name(start)), mode)
    }

    pub(super) fn remove(&self, start: u64) -> io::Result<()> {
        self.disk.remove(&self.directory.join(segment_name(start)))
    }

    /// Gives a segment a name under which it is none; returns that.
    pub(super) fn set_aside(&self, start: u64) -> io::Result<String> {
        let name = aside_name(start);
        self.disk.rename(&self.directory.join(segment_name(start)), &self.directory.join(&name))?;
        Ok(name)
    }

    pub(super) fn sync_directory(&self) -> io::Result<()> {
        self.disk.sync_directory(&self.directory)
    }

    /// Makes a file that can take `entry_bytes` of entries. Leaves nothing behind when it fails, as space may be short.
    pub(super) fn create_spare(&self, entry_bytes: u64) -> io::Result<SpareFile> {
        // One that is there may hold anything: a crash can undo its renaming but keep what was written into it since.
        self.remove_spare()?;
        let file = self.disk.open(&self.directory.join(SPARE_NAME), OpenMode::CreateNew)?;
        match file.allocate(0, SEGMENT_HEADER_BYTES + entry_bytes) {
            Ok(()) => Ok(SpareFile { file, entry_bytes }),
            Err(error) => {
                drop(file);
                // The first error is the one to report; the next try removes the file as well.
                let _ = self.remove_spare();
                Err(error)
            }
        }
    }

    pub(super) fn remove_spare(&self) -> io::Result<()> {
        let path = self.directory.join(SPARE_NAME);
        match self.disk.exists(&path)? {
            true => self.disk.remove(&path),
            false => Ok(()),
        }
    }

    /// Gives the spare file the name of the segment that begins at `start`.
    pub(super) fn adopt_spare(&self, spare: &SpareFile, start: u64) -> io::Result<SegmentFile> {
        let (from, to) = (self.directory.join(SPARE_NAME), self.directory.join(segment_name(start)));
        self.disk.rename(&from, &to)?;
        Ok(SegmentFile { file: Arc::clone(&spare.file), start, ready: false })
    }

    /// Writes the header of a segment that has none yet.
    pub(super) fn write_header(&self, segment: &SegmentFile, previous_timestamp: Timestamp) -> io::Result<()> {
        let created_wall_millis = self.clock.wall_millis();
        let header = SegmentHeader { start: segment.start, previous_timestamp, created_wall_millis };
        segment.file.write_all_at(&header.encode(), 0)
    }
}
