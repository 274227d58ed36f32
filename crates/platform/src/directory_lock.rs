//! The lock on a data directory: two servers on one directory would destroy it.
//!
//! Taken by the server before it opens anything. An advisory `flock` on a file in the directory, and on the directory itself, which somebody who removes
//! the file does not get rid of: the kernel drops both when the process ends however it ends, so a stale lock cannot stay behind.

use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use crate::real_disk::access;

/// Name of the lock file inside the data directory.
const LOCK_FILE_NAME: &str = "plimsoll.lock";

/// Why a data directory could not be locked.
#[derive(Debug, thiserror::Error)]
pub enum DirectoryLockError {
    /// Another process has it.
    #[error("the data directory {directory} is in use by another server (process {process})")]
    InUse {
        /// The directory.
        directory: PathBuf,
        /// The other's process id as it wrote it into the lock file, or "unknown".
        process: String,
    },
    /// The lock file could not be created, read or locked.
    #[error("the data directory {directory} could not be locked: {cause}")]
    Failed {
        /// The directory.
        directory: PathBuf,
        /// What the system said.
        cause: io::Error,
    },
}

/// Exclusive possession of a data directory; given up when dropped.
#[derive(Debug)]
pub struct DirectoryLock {
    // Held for the locks on their descriptors.
    _file: File,
    _directory: Option<File>,
}

impl DirectoryLock {
    /// Locks `directory` (created if missing) for this process.
    ///
    /// # Errors
    /// `InUse` at once, without waiting, when another process or another lock of this process has it.
    pub fn acquire(directory: &Path) -> Result<DirectoryLock, DirectoryLockError> {
        let failed = |cause| DirectoryLockError::Failed { directory: directory.to_owned(), cause };
        let mut file = open_lock_file(directory).map_err(failed)?;
        let in_use = |file: &mut File| DirectoryLockError::InUse {
            directory: directory.to_owned(),
            process: read_process(file),
        };
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(Errno::WOULDBLOCK) => return Err(in_use(&mut file)),
            Err(error) => return Err(failed(error.into())),
        }
        let opened = open_directory(directory).map_err(failed)?;
        let locked = match flock(&opened, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Some(opened),
            Err(Errno::WOULDBLOCK) => return Err(in_use(&mut file)),
            // Some file systems lock no directories. The file is locked.
            Err(_) => None,
        };
        write_process(&mut file).map_err(failed)?;
        Ok(DirectoryLock { _file: file, _directory: locked })
    }
}

impl DirectoryLock {
    /// The number of the process that has a directory locked, if any has.
    pub fn holder(directory: &Path) -> Option<i32> {
        let mut file = open_existing(directory).ok()?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Err(Errno::WOULDBLOCK) => read_process(&mut file).parse().ok(),
            _ => None,
        }
    }
}

#[allow(clippy::disallowed_methods, reason = "the lock is on a real directory, beneath the Disk trait")]
fn open_existing(directory: &Path) -> io::Result<File> {
    File::options().read(true).write(true).open(directory.join(LOCK_FILE_NAME))
}

#[allow(clippy::disallowed_methods, reason = "the lock is on a real directory, beneath the Disk trait")]
fn open_lock_file(directory: &Path) -> io::Result<File> {
    access::create_directory(directory)?;
    let mut options = File::options();
    access::restrict_new(options.read(true).write(true).create(true).truncate(false));
    options.open(directory.join(LOCK_FILE_NAME))
}

#[allow(clippy::disallowed_methods, reason = "the lock is on a real directory, beneath the Disk trait")]
fn open_directory(directory: &Path) -> io::Result<File> {
    File::open(directory)
}

fn read_process(file: &mut File) -> String {
    let mut text = String::new();
    match file.read_to_string(&mut text) {
        Ok(length) if length > 0 => text.trim().to_owned(),
        _ => "unknown".to_owned(),
    }
}

fn write_process(file: &mut File) -> io::Result<()> {
    file.set_len(0)?;
    file.rewind()?;
    writeln!(file, "{}", std::process::id())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn second_lock_is_refused_by_name_until_the_first_is_dropped() {
        let directory = tempfile::tempdir().unwrap();
        let first = DirectoryLock::acquire(directory.path()).unwrap();
        let message = DirectoryLock::acquire(directory.path()).unwrap_err().to_string();
        assert!(message.contains(&format!("in use by another server (process {})", std::process::id())), "{message}");
        assert_eq!(DirectoryLock::holder(directory.path()), i32::try_from(std::process::id()).ok());
        drop(first);
        assert_eq!(DirectoryLock::holder(directory.path()), None);
        DirectoryLock::acquire(directory.path()).unwrap();
    }

    #[test]
    #[allow(clippy::disallowed_methods, reason = "the hand of an operator")]
    fn removing_the_lock_file_lets_nobody_in() {
        let directory = tempfile::tempdir().unwrap();
        let first = DirectoryLock::acquire(directory.path()).unwrap();
        std::fs::remove_file(directory.path().join(LOCK_FILE_NAME)).unwrap();
        for _ in 0..2 {
            let refused = DirectoryLock::acquire(directory.path()).unwrap_err();
            assert!(refused.to_string().contains("in use by another server (process unknown)"), "{refused}");
        }
        drop(first);
        DirectoryLock::acquire(directory.path()).unwrap();
    }

    #[test]
    fn missing_directory_is_created() {
        let directory = tempfile::tempdir().unwrap();
        DirectoryLock::acquire(&directory.path().join("data/inner")).unwrap();
    }
}
