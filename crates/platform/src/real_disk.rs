//! The machine's disk: `Disk` and `File` over a real directory.
//!
//! Called by the server at start; everything below takes `Arc<dyn Disk>`. One system call per method, and a look at the file's name with each sync
//! (`presence`); no buffering here.

#![allow(clippy::disallowed_methods, reason = "this is the replacement that the ban names")]

pub(crate) mod access;
mod presence;

use std::io;
use std::num::NonZeroU64;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{Advice, FallocateFlags, fadvise, fallocate, statvfs};
use rustix::io::Errno;

use self::presence::{Identity, Root};
use crate::disk::check_relative;
use crate::uncached::{self, Attempt};
use crate::waits::{WaitKind, waiting};
use crate::{Disk, File, OpenMode};

/// Written by one system call: on many kernels nobody interrupts it, and where memory must be found first 16 KiB take 50 us. Smaller calls cost more: with so
/// little, random updates in a small memory took 10 us more of the processor each.
const CALL_BYTES: usize = 128 << 10;
/// Zeros written at a time where the file system cannot allocate.
const ZEROS_BYTES: usize = 1 << 20;

/// A real directory.
pub struct RealDisk {
    root: Arc<Root>,
}

impl RealDisk {
    /// The disk rooted at `root`, which is created if missing. Take a `DirectoryLock` on it first.
    pub fn new(root: impl Into<PathBuf>) -> io::Result<RealDisk> {
        let root = root.into();
        access::create_directory(&root)?;
        Ok(RealDisk { root: Arc::new(Root::new(root)?) })
    }

    /// Takes from everybody but the owner what they may do with what is there already. Gives what could not be changed, with the reason.
    pub fn restrict_access(&self) -> Vec<String> {
        access::restrict(self.root.path())
    }

    fn resolve(&self, path: &Path) -> io::Result<PathBuf> {
        check_relative(path)?;
        Ok(self.root.path().join(path))
    }
}

impl Disk for RealDisk {
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn File>> {
        let mut options = std::fs::OpenOptions::new();
        options.read(true);
        access::restrict_new(&mut options);
        match mode {
            OpenMode::Read => &mut options,
            OpenMode::ReadWrite => options.write(true),
            OpenMode::Create => options.write(true).create(true),
            OpenMode::CreateNew => options.write(true).create_new(true),
        };
        let path = self.resolve(path)?;
        let file = options.open(&path)?;
        let written = match mode {
            OpenMode::Read => None,
            _ => Some((Arc::clone(&self.root), self.root.opened(&file, path)?)),
        };
        Ok(Arc::new(RealFile { file, written, keeps_written: AtomicBool::new(true) }))
    }

    fn create_directory(&self, path: &Path) -> io::Result<()> {
        access::create_directory(&self.resolve(path)?)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let path = self.resolve(path)?;
        match path.is_dir() {
            true => std::fs::remove_dir(path),
            false => self.root.remove(&path),
        }
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.root.rename(&self.resolve(from)?, &self.resolve(to)?)
    }

    fn rename_new(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.root.rename_new(&self.resolve(from)?, &self.resolve(to)?)
    }

    fn list(&self, directory: &Path) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in std::fs::read_dir(self.resolve(directory)?)? {
            let name = entry?.file_name();
            let name = name.into_string().map_err(|name| {
                io::Error::new(io::ErrorKind::InvalidData, format!("file name {name:?} is not UTF-8"))
            })?;
            names.push(name);
        }
        names.sort_unstable();
        Ok(names)
    }

    fn exists(&self, path: &Path) -> io::Result<bool> {
        self.resolve(path)?.try_exists()
    }

    fn sync_directory(&self, directory: &Path) -> io::Result<()> {
        std::fs::File::open(self.resolve(directory)?)?.sync_all()
    }

    fn available_bytes(&self) -> io::Result<u64> {
        let statistics = statvfs(self.root.path())?;
        Ok(statistics.f_bavail.saturating_mul(statistics.f_frsize))
    }

    fn total_bytes(&self) -> io::Result<u64> {
        let statistics = statvfs(self.root.path())?;
        Ok(statistics.f_blocks.saturating_mul(statistics.f_frsize))
    }

    fn check_presence(&self) -> io::Result<()> {
        self.root.check_all()
    }
}

struct RealFile {
    file: std::fs::File,
    /// Of a file that is open for writing: what is known of where it is.
    written: Option<(Arc<Root>, Identity)>,
    /// Whether the kernel keeps in its memory what is written.
    keeps_written: AtomicBool,
}

impl RealFile {
    /// Writes some of `bytes` so that they do not stay in the kernel's memory; `None`: that is not wanted, or not possible.
    fn write_uncached(&self, bytes: &[u8], offset: u64) -> Option<io::Result<usize>> {
        if self.keeps_written.load(Ordering::Relaxed) {
            return None;
        }
        match uncached::write_at(&self.file, bytes, offset) {
            Attempt::Done(result) => Some(result),
            Attempt::Unsupported => {
                self.keeps_written.store(true, Ordering::Relaxed);
                None
            }
        }
    }

    /// What `allocate` does where the file system has no such call: writes zeros behind the end.
    fn extend_with_zeros(&self, end: u64) -> io::Result<()> {
        let zeros = vec![0; ZEROS_BYTES];
        let mut offset = self.length()?;
        while offset < end {
            let count = (end - offset).min(ZEROS_BYTES as u64);
            self.file.write_all_at(&zeros[..count as usize], offset)?;
            offset += count;
        }
        Ok(())
    }

    fn write_piece(&self, mut bytes: &[u8], mut offset: u64) -> io::Result<()> {
        while let Some(written) = self.write_uncached(bytes, offset) {
            match written? {
                0 if !bytes.is_empty() => return Err(io::ErrorKind::WriteZero.into()),
                count if count == bytes.len() => return Ok(()),
                count => (bytes, offset) = (&bytes[count..], offset + count as u64),
            }
        }
        self.file.write_all_at(bytes, offset)
    }
}

impl Drop for RealFile {
    fn drop(&mut self) {
        if let Some((root, identity)) = &self.written {
            root.closed(*identity);
        }
    }
}

impl File for RealFile {
    fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<usize> {
        waiting(WaitKind::Disk, || {
            loop {
                match self.file.read_at(bytes, offset) {
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    result => return result,
                }
            }
        })
    }

    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        let mut calls = bytes.chunks(CALL_BYTES).enumerate();
        let mut write =
            || calls.try_for_each(|(number, bytes)| self.write_piece(bytes, offset + (number * CALL_BYTES) as u64));
        waiting(WaitKind::Disk, &mut write)
    }

    fn keep_written(&self, is_kept: bool) {
        self.keeps_written.store(is_kept, Ordering::Relaxed);
    }

    fn begin_write_back(&self, offset: u64, length: u64) {
        // What is not kept is on its way already.
        if self.keeps_written.load(Ordering::Relaxed) {
            crate::write_back::begin(&self.file, offset, length);
        }
    }

    fn read_nothing_ahead(&self) {
        // A file system that takes no advice reads ahead, which costs and harms nothing.
        let _ = fadvise(&self.file, 0, None, Advice::Random);
    }

    fn begin_read(&self, offset: u64, length: u64) {
        let _ = fadvise(&self.file, offset, NonZeroU64::new(length), Advice::WillNeed);
    }

    fn forget_cached(&self, offset: u64, length: u64) {
        let _ = fadvise(&self.file, offset, NonZeroU64::new(length), Advice::DontNeed);
    }

    fn sync_data(&self) -> io::Result<()> {
        waiting(WaitKind::Disk, || self.file.sync_data())?;
        self.written.as_ref().map_or(Ok(()), |(root, identity)| root.check(*identity))
    }

    fn length(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    fn set_length(&self, length: u64) -> io::Result<()> {
        self.file.set_len(length)
    }

    fn punch_hole(&self, offset: u64, length: u64) -> io::Result<()> {
        if length == 0 {
            return Ok(());
        }
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        retry_interrupted(|| fallocate(&self.file, flags, offset, length))
    }

    fn allocate(&self, offset: u64, length: u64) -> io::Result<()> {
        if length == 0 {
            return Ok(());
        }
        match retry_interrupted(|| fallocate(&self.file, FallocateFlags::empty(), offset, length)) {
            Err(error) if error.raw_os_error() == Some(Errno::OPNOTSUPP.raw_os_error()) => {
                self.extend_with_zeros(offset + length)
            }
            result => result,
        }
    }
}

fn retry_interrupted(call: impl Fn() -> Result<(), Errno>) -> io::Result<()> {
    loop {
        match call() {
            Err(Errno::INTR) => {}
            result => return Ok(result?),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn disk() -> (tempfile::TempDir, RealDisk) {
        let directory = tempfile::tempdir().unwrap();
        let disk = RealDisk::new(directory.path()).unwrap();
        (directory, disk)
    }

    #[test]
    fn files_are_written_read_renamed_listed_and_removed() {
        let (_directory, disk) = disk();
        disk.create_directory(Path::new("a/b")).unwrap();
        let file = disk.open(Path::new("a/b/one"), OpenMode::CreateNew).unwrap();
        file.write_all_at(b"hello", 3).unwrap();
        file.sync_data().unwrap();
        let mut bytes = [9; 8];
        file.read_exact_at(&mut bytes, 0).unwrap();
        assert_eq!(&bytes, b"\0\0\0hello");
        assert_eq!(file.read_exact_at(&mut bytes, 1).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
        disk.rename(Path::new("a/b/one"), Path::new("a/b/two")).unwrap();
        disk.sync_directory(Path::new("a/b")).unwrap();
        assert_eq!(disk.list(Path::new("a/b")).unwrap(), ["two"]);
        assert!(!disk.exists(Path::new("a/b/one")).unwrap());
        disk.open(Path::new("a/b/one"), OpenMode::CreateNew).unwrap();
        let taken = disk.rename_new(Path::new("a/b/one"), Path::new("a/b/two")).unwrap_err();
        assert_eq!(taken.kind(), io::ErrorKind::AlreadyExists);
        file.read_exact_at(&mut bytes, 0).unwrap();
        disk.rename_new(Path::new("a/b/one"), Path::new("a/b/three")).unwrap();
        disk.remove(Path::new("a/b/three")).unwrap();
        disk.remove(Path::new("a/b/two")).unwrap();
        disk.remove(Path::new("a/b")).unwrap();
        assert!(disk.list(Path::new("a")).unwrap().is_empty());
        assert!(disk.available_bytes().unwrap() > 0);
        assert!(disk.available_bytes().unwrap() <= disk.total_bytes().unwrap());
    }

    #[test]
    fn what_is_not_kept_is_read_as_it_was_written() {
        let (_directory, disk) = disk();
        let file = disk.open(Path::new("a"), OpenMode::Create).unwrap();
        let expected: Vec<u8> = (0..100_000_u32).flat_map(|number| number.to_le_bytes()).collect();
        for (number, piece) in expected.chunks(7_777).enumerate() {
            file.keep_written(number % 3 == 0);
            file.write_all_at(piece, number as u64 * 7_777).unwrap();
        }
        file.forget_cached(0, 100_000);
        file.sync_data().unwrap();
        file.forget_cached(50_000, 200_000);
        let mut read = vec![0; expected.len() - 1000];
        file.read_exact_at(&mut read, 1000).unwrap();
        assert_eq!(read, expected[1000..]);
        assert_eq!(file.length().unwrap(), expected.len() as u64);
    }

    #[test]
    fn nobody_else_may_read_what_is_made_or_was_there() {
        use std::os::unix::fs::PermissionsExt;
        let (directory, disk) = disk();
        let mode = |name: &str| directory.path().join(name).metadata().unwrap().permissions().mode() & 0o7777;
        let give = |name: &str, mode| {
            std::fs::set_permissions(directory.path().join(name), std::fs::Permissions::from_mode(mode)).unwrap();
        };
        disk.create_directory(Path::new("inner")).unwrap();
        disk.open(Path::new("inner/file"), OpenMode::Create).unwrap();
        assert_eq!((mode("inner"), mode("inner/file")), (0o700, 0o600));
        give("inner", 0o755);
        give("inner/file", 0o644);
        give("", 0o770);
        assert_eq!(disk.restrict_access(), [""; 0]);
        assert_eq!((mode(""), mode("inner"), mode("inner/file")), (0o700, 0o700, 0o600));
        // A directory that others use stays as it is.
        give("", 0o1777);
        assert!(disk.restrict_access()[0].contains("others use"));
        assert_eq!(mode(""), 0o1777);
        give("", 0o700);
    }

    #[test]
    fn a_sync_fails_once_the_file_cannot_be_found_again() {
        let (directory, disk) = disk();
        disk.create_directory(Path::new("inner")).unwrap();
        let open = |name: &str| disk.open(Path::new(name), OpenMode::Create).unwrap();
        let (file, other) = (open("inner/file"), open("other"));
        disk.rename(Path::new("inner/file"), Path::new("inner/renamed")).unwrap();
        let ours = open("ours");
        disk.remove(Path::new("ours")).unwrap();
        for file in [&file, &other, &ours] {
            file.sync_data().unwrap();
        }
        disk.check_presence().unwrap();
        // Replaced by one of the same name.
        std::fs::remove_file(directory.path().join("other")).unwrap();
        std::fs::write(directory.path().join("other"), b"").unwrap();
        assert!(other.sync_data().unwrap_err().to_string().contains("other is not there any more"));
        assert!(disk.check_presence().is_err());
        drop(other);
        disk.check_presence().unwrap();
        // The whole directory under another name, and back.
        let elsewhere = directory.path().with_extension("elsewhere");
        std::fs::rename(directory.path(), &elsewhere).unwrap();
        assert!(file.sync_data().is_err());
        assert!(disk.check_presence().is_err());
        std::fs::rename(&elsewhere, directory.path()).unwrap();
        file.sync_data().unwrap();
        std::fs::remove_dir_all(directory.path().join("inner")).unwrap();
        assert!(file.sync_data().is_err());
        ours.sync_data().unwrap();
    }

    #[test]
    fn open_modes_keep_their_promises() {
        let (_directory, disk) = disk();
        let path = Path::new("file");
        assert_eq!(disk.open(path, OpenMode::Read).err().unwrap().kind(), io::ErrorKind::NotFound);
        assert_eq!(disk.open(path, OpenMode::ReadWrite).err().unwrap().kind(), io::ErrorKind::NotFound);
        disk.open(path, OpenMode::Create).unwrap().write_all_at(b"kept", 0).unwrap();
        assert_eq!(disk.open(path, OpenMode::Create).unwrap().length().unwrap(), 4);
        assert_eq!(disk.open(path, OpenMode::CreateNew).err().unwrap().kind(), io::ErrorKind::AlreadyExists);
        assert!(disk.open(path, OpenMode::Read).unwrap().write_all_at(b"no", 0).is_err());
    }

    #[test]
    fn allocate_extends_with_zeros_and_punch_hole_keeps_the_length() {
        let (_directory, disk) = disk();
        let file = disk.open(Path::new("file"), OpenMode::Create).unwrap();
        file.write_all_at(&[7; 4096], 0).unwrap();
        file.allocate(0, 16_384).unwrap();
        assert_eq!(file.length().unwrap(), 16_384);
        match file.punch_hole(0, 4096) {
            Ok(()) => {
                let mut bytes = [1; 4096];
                file.read_exact_at(&mut bytes, 0).unwrap();
                assert!(bytes.iter().all(|byte| *byte == 0));
                assert_eq!(file.length().unwrap(), 16_384);
            }
            Err(error) => assert_eq!(error.kind(), io::ErrorKind::Unsupported),
        }
    }

    #[test]
    fn paths_outside_the_root_are_refused() {
        let (_directory, disk) = disk();
        for path in ["/etc/passwd", "../outside", "a/../../outside"] {
            assert_eq!(disk.open(Path::new(path), OpenMode::Read).err().unwrap().kind(), io::ErrorKind::InvalidInput);
        }
    }
}
