//! The file of a ring: a header of 4096 bytes, then the region. Format: `docs/file-format.md`, "Rings".
//!
//! Made by the background when it first writes to the ring; clients only read it.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use platform::{Disk, File, OpenMode};

/// Where rings are, relative to the disk's root.
pub(crate) const DIRECTORY: &str = "rings";
pub(super) const FILE_HEADER_BYTES: u64 = 4096;
const MAGIC: &[u8; 8] = b"PLMSRING";
const VERSION: u32 = 1;

/// A ring's file, opened when it is first needed.
pub(super) struct RingFile {
    disk: Arc<dyn Disk>,
    number: u64,
    open: Mutex<Option<Arc<dyn File>>>,
    /// Whether this process has made its name and its header durable. Those that are found may be there for this machine's memory only: left by a
    /// process that ended before, or because, they could not be synced.
    is_durable: AtomicBool,
    /// Whether it is only read, whatever its header says.
    is_salvage: bool,
}

pub(crate) fn path_of(number: u64) -> PathBuf {
    Path::new(DIRECTORY).join(format!("{number:020}.ring"))
}

/// The number in a file's name.
pub(crate) fn number_of(name: &str) -> Option<u64> {
    name.strip_suffix(".ring")?.parse().ok()
}

impl RingFile {
    pub(super) fn new(disk: Arc<dyn Disk>, number: u64) -> RingFile {
        RingFile { disk, number, open: Mutex::new(None), is_durable: AtomicBool::new(false), is_salvage: false }
    }

    /// Of a damaged directory.
    pub(super) fn for_salvage(disk: Arc<dyn Disk>, number: u64) -> RingFile {
        RingFile { is_salvage: true, ..RingFile::new(disk, number) }
    }

    /// For reading what was written.
    pub(super) fn existing(&self) -> io::Result<Arc<dyn File>> {
        let mut open = self.open.lock();
        if let Some(file) = &*open {
            return Ok(file.clone());
        }
        let mode = if self.is_salvage { OpenMode::Read } else { OpenMode::ReadWrite };
        let file = self.disk.open(&path_of(self.number), mode)?;
        if !self.is_salvage {
            check_header(&*file, self.number)?;
        }
        *open = Some(file.clone());
        Ok(file)
    }

    /// For writing; made if it is missing, durably.
    pub(super) fn or_create(&self) -> io::Result<Arc<dyn File>> {
        if self.is_durable.load(Ordering::Acquire) {
            return self.existing();
        }
        self.disk.create_directory(Path::new(DIRECTORY))?;
        // One whose header is damaged was made just before a crash: nothing that counts is in it.
        let file = self.disk.open(&path_of(self.number), OpenMode::Create)?;
        file.write_all_at(&header(self.number), 0)?;
        file.sync_data()?;
        self.disk.sync_directory(Path::new(DIRECTORY))?;
        self.disk.sync_directory(Path::new(""))?;
        *self.open.lock() = Some(file.clone());
        self.is_durable.store(true, Ordering::Release);
        Ok(file)
    }

    /// Bytes of the region that the file has.
    pub(super) fn region_bytes(&self) -> io::Result<u64> {
        if !self.disk.exists(&path_of(self.number))? {
            return Ok(0);
        }
        Ok(self.existing()?.length()?.saturating_sub(FILE_HEADER_BYTES))
    }
}

/// Why a ring that was written has no file any more; `None`: it has.
pub(super) fn lacks_file(disk: &Arc<dyn Disk>, number: u64) -> io::Result<Option<String>> {
    let checked = disk.open(&path_of(number), OpenMode::Read).and_then(|file| check_header(&*file, number));
    match checked {
        Ok(()) => Ok(None),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Some(format!("ring file {number} is missing"))),
        Err(error) if error.kind() == io::ErrorKind::InvalidData => Ok(Some(error.to_string())),
        Err(error) => Err(error),
    }
}

fn header(number: u64) -> Vec<u8> {
    let mut header = Vec::with_capacity(FILE_HEADER_BYTES as usize);
    header.extend_from_slice(MAGIC);
    header.extend_from_slice(&VERSION.to_le_bytes());
    header.extend_from_slice(&[0; 4]);
    header.extend_from_slice(&number.to_le_bytes());
    header.extend_from_slice(&crc32c::crc32c(&header).to_le_bytes());
    header.resize(FILE_HEADER_BYTES as usize, 0);
    header
}

fn check_header(file: &dyn File, number: u64) -> io::Result<()> {
    let mut found = vec![0; FILE_HEADER_BYTES as usize];
    file.read_exact_unverified_at(&mut found, 0)
        .map_err(|error| if error.kind() == io::ErrorKind::UnexpectedEof { damaged(number) } else { error })?;
    if found == header(number) { Ok(()) } else { Err(damaged(number)) }
}

fn damaged(number: u64) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("the header of ring file {number} is damaged"))
}
