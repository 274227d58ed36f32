//! The disk: a directory tree of files with positioned reads and writes.
//!
//! Implemented by `RealDisk` and `SimulatedDisk`; used by the storage engine and the oplog. Paths are relative to the
//! directory that the disk is rooted at; the empty path is that directory.
//!
//! Durability, as on Linux: what was written survives a power loss once `File::sync_data` has returned; a file that was
//! created or renamed is found again once `Disk::sync_directory` of its directory has returned. After a failed sync the
//! unsynced writes must be taken as lost, and a later successful sync says nothing about them.

use std::io;
use std::path::{Component, Path};
use std::sync::Arc;

/// How a file is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenMode {
    /// For reading; the file must exist.
    Read,
    /// For reading and writing; the file must exist.
    ReadWrite,
    /// For reading and writing; created empty if it is missing, otherwise kept as it is.
    Create,
    /// For reading and writing; fails with `AlreadyExists` if it is there.
    CreateNew,
}

/// A tree of directories and files.
pub trait Disk: Send + Sync {
    /// Opens a file.
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn File>>;

    /// Creates a directory and the missing ones above it; fine if it exists.
    fn create_directory(&self, path: &Path) -> io::Result<()>;

    /// Removes a file or an empty directory. Open files stay readable until they are closed.
    fn remove(&self, path: &Path) -> io::Result<()>;

    /// Renames a file, replacing what was called `to`.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Renames a file unless something is called `to`: then it fails with `AlreadyExists`, and nothing has changed. Of several who do it at once
    /// one succeeds, whatever process they belong to.
    fn rename_new(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// The names in a directory, sorted.
    fn list(&self, directory: &Path) -> io::Result<Vec<String>>;

    /// Whether a file or directory is there.
    fn exists(&self, path: &Path) -> io::Result<bool>;

    /// Makes the names in a directory durable.
    fn sync_directory(&self, directory: &Path) -> io::Result<()>;

    /// Bytes that can still be written by us.
    fn available_bytes(&self) -> io::Result<u64>;

    /// Bytes of the whole file system, free or not.
    fn total_bytes(&self) -> io::Result<u64>;

    /// Whether the directory, and what is open for writing in it, can still be found under the names that they have. What is written when they cannot
    /// is lost, though no operation fails but `sync_data`, which looks as well.
    fn check_presence(&self) -> io::Result<()>;
}

/// An open file. All methods may be called from several threads at once.
pub trait File: Send + Sync {
    /// Reads up to `bytes.len()` bytes at `offset`; returns how many, 0 at or after the end.
    fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<usize>;

    /// As `read_at`, for who has checksums of his own. What the disk knows to be damaged is filled in with bytes that were never written, so that
    /// the rest can be used; `read_at` fails for all of it.
    fn read_unverified_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<usize> {
        self.read_at(bytes, offset)
    }

    /// Writes all of `bytes` at `offset`, extending the file if needed. On an error some of them may have been written.
    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()>;

    /// Whether the operating system is to keep in its memory what is written, as it does at first. Promises nothing.
    fn keep_written(&self, is_kept: bool) {
        let _ = is_kept;
    }

    /// Begins to write a range to the disk without waiting, so that little is left to be done when `sync_data` is called, or when the
    /// operating system wants the memory. Promises nothing.
    fn begin_write_back(&self, offset: u64, length: u64) {
        let _ = (offset, length);
    }

    /// Says that reads go here and there: the operating system reads no more than it is asked for. Promises nothing.
    fn read_nothing_ahead(&self) {}

    /// Begins to read a range without waiting, because `read_at` will soon ask for it. Promises nothing.
    fn begin_read(&self, offset: u64, length: u64) {
        let _ = (offset, length);
    }

    /// Says that what was made durable in a range will hardly be read again, so that the operating system need not keep it in its memory.
    /// Promises nothing.
    fn forget_cached(&self, offset: u64, length: u64) {
        let _ = (offset, length);
    }

    /// Makes everything written so far durable (and the length, as far as it is needed to read it back).
    fn sync_data(&self) -> io::Result<()>;

    /// The length in bytes.
    fn length(&self) -> io::Result<u64>;

    /// Cuts the file or extends it with zeros (which take no space).
    fn set_length(&self, length: u64) -> io::Result<()>;

    /// Gives the space of a range back; it reads as zeros afterwards and the length stays. `Unsupported` if the file
    /// system cannot. Nobody reads the file meanwhile, and 64 MiB take some file systems 20 ms and more: who has much to give
    /// back does it in pieces, with rests between them.
    fn punch_hole(&self, offset: u64, length: u64) -> io::Result<()>;

    /// Reserves space for a range, extending the file with zeros if needed; existing bytes stay. Later writes into the
    /// range do not fail for lack of space (on file systems that overwrite in place).
    fn allocate(&self, offset: u64, length: u64) -> io::Result<()>;

    /// Fills all of `bytes` from `offset`; `UnexpectedEof` if the file ends before.
    fn read_exact_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<()> {
        fill(bytes, |bytes, filled| self.read_at(bytes, offset + filled))
    }

    /// As `read_exact_at`, by `read_unverified_at`.
    fn read_exact_unverified_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<()> {
        fill(bytes, |bytes, filled| self.read_unverified_at(bytes, offset + filled))
    }
}

fn fill(bytes: &mut [u8], read: impl Fn(&mut [u8], u64) -> io::Result<usize>) -> io::Result<()> {
    let mut filled = 0;
    while filled < bytes.len() {
        match read(&mut bytes[filled..], filled as u64)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            count => filled += count,
        }
    }
    Ok(())
}

/// Puts `bytes` in place of a small file, or makes it: they are written as `new`, in the same directory, made durable, and
/// renamed. So there is the old file or the new one, whatever ends the process.
///
/// # Errors
/// Those of the disk. Then it is the old one, or, if the disk failed at the very end, either.
pub fn replace_file(disk: &dyn Disk, path: &Path, new: &Path, bytes: &[u8]) -> io::Result<()> {
    // What an earlier try has left.
    if disk.exists(new)? {
        disk.remove(new)?;
    }
    let file = disk.open(new, OpenMode::CreateNew)?;
    file.write_all_at(bytes, 0)?;
    file.sync_data()?;
    disk.rename(new, path)?;
    disk.sync_directory(path.parent().unwrap_or(Path::new("")))
}

/// Whether an error says that there is no space left (disk or quota), which heals when space returns.
pub fn is_disk_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

/// Refuses paths that could leave the directory that the disk is rooted at.
pub(crate) fn check_relative(path: &Path) -> io::Result<()> {
    if path.components().all(|component| matches!(component, Component::Normal(_) | Component::CurDir)) {
        return Ok(());
    }
    let message = format!("path {} is not inside the data directory", path.display());
    Err(io::Error::new(io::ErrorKind::InvalidInput, message))
}
