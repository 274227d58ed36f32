//! A disk in memory: for servers that leave nothing behind (`--ephemeral`), as tests of applications want them.
//!
//! Called by the server in place of `RealDisk`. Files are sparse, in blocks; what nobody wrote takes nothing and reads as zeros. It has room for so
//! many bytes and is full then, as a real one. Nothing survives the process, so syncing does nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::{Mutex, RwLock};

use crate::disk::check_relative;
use crate::file_image::{BLOCK_BYTES, Image};
use crate::{Disk, File, OpenMode};

/// See the module's head.
pub struct MemoryDisk {
    names: Mutex<Names>,
    room: Arc<Room>,
}

#[derive(Default)]
struct Names {
    files: BTreeMap<PathBuf, Arc<MemoryFile>>,
    directories: BTreeSet<PathBuf>,
}

/// What there is in bytes, and how many blocks of it are taken.
struct Room {
    all: u64,
    taken: AtomicU64,
}

impl Room {
    /// Takes as many of the blocks as there are.
    fn take(&self, wanted: u64) -> u64 {
        let left = |taken: u64| (self.all / BLOCK_BYTES).saturating_sub(taken).min(wanted);
        let before = self.taken.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |taken| Some(taken + left(taken)));
        // It is always updated.
        before.map_or(0, left)
    }

    fn give_back(&self, blocks: u64) {
        self.taken.fetch_sub(blocks, Ordering::Relaxed);
    }
}

struct MemoryFile {
    image: RwLock<Image>,
    room: Arc<Room>,
}

impl MemoryFile {
    /// Changes the file so that it takes less.
    fn shrink(&self, change: impl FnOnce(&mut Image)) {
        let mut image = self.image.write();
        let before = image.allocated_bytes();
        change(&mut image);
        self.room.give_back((before - image.allocated_bytes()) / BLOCK_BYTES);
    }
}

impl Drop for MemoryFile {
    fn drop(&mut self) {
        self.room.give_back(self.image.get_mut().allocated_bytes() / BLOCK_BYTES);
    }
}

impl MemoryDisk {
    /// An empty disk with room for so many bytes.
    pub fn new(bytes: u64) -> MemoryDisk {
        MemoryDisk { names: Mutex::default(), room: Arc::new(Room { all: bytes, taken: AtomicU64::new(0) }) }
    }

    /// How many bytes of it no file takes.
    pub fn free_bytes(&self) -> u64 {
        self.room.all.saturating_sub(self.room.taken.load(Ordering::Relaxed) * BLOCK_BYTES)
    }
}

fn full() -> io::Error {
    io::Error::new(io::ErrorKind::StorageFull, "the disk in memory is full (--memory says how large it is)")
}

fn absent(path: &Path) -> io::Error {
    io::Error::new(io::ErrorKind::NotFound, format!("there is no {}", path.display()))
}

/// The same name, however it is written.
fn plain(path: &Path) -> io::Result<PathBuf> {
    check_relative(path)?;
    Ok(path.components().filter(|part| matches!(part, std::path::Component::Normal(_))).collect())
}

impl Names {
    fn has_directory(&self, path: &Path) -> bool {
        path.as_os_str().is_empty() || self.directories.contains(path)
    }

    fn check_parent(&self, path: &Path) -> io::Result<()> {
        let parent = path.parent().unwrap_or(Path::new(""));
        if self.has_directory(parent) { Ok(()) } else { Err(absent(parent)) }
    }

    fn is_empty(&self, directory: &Path) -> bool {
        let is_in = |path: &PathBuf| path.parent() == Some(directory);
        !self.files.keys().any(is_in) && !self.directories.iter().any(is_in)
    }
}

impl Disk for MemoryDisk {
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn File>> {
        let path = plain(path)?;
        let mut names = self.names.lock();
        if let Some(file) = names.files.get(&path) {
            return match mode {
                OpenMode::CreateNew => Err(io::ErrorKind::AlreadyExists.into()),
                _ => Ok(file.clone()),
            };
        }
        if matches!(mode, OpenMode::Read | OpenMode::ReadWrite) {
            return Err(absent(&path));
        }
        names.check_parent(&path)?;
        let file = Arc::new(MemoryFile { image: RwLock::default(), room: Arc::clone(&self.room) });
        names.files.insert(path, Arc::clone(&file));
        Ok(file)
    }

    fn create_directory(&self, path: &Path) -> io::Result<()> {
        let path = plain(path)?;
        let mut names = self.names.lock();
        if names.files.contains_key(&path) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        let all: Vec<PathBuf> =
            path.ancestors().filter(|part| !part.as_os_str().is_empty()).map(Path::to_owned).collect();
        names.directories.extend(all);
        Ok(())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let path = plain(path)?;
        let mut names = self.names.lock();
        if names.directories.contains(&path) {
            if !names.is_empty(&path) {
                return Err(io::ErrorKind::DirectoryNotEmpty.into());
            }
            names.directories.remove(&path);
            return Ok(());
        }
        names.files.remove(&path).map(drop).ok_or_else(|| absent(&path))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let (from, to) = (plain(from)?, plain(to)?);
        let mut names = self.names.lock();
        names.check_parent(&to)?;
        let file = names.files.remove(&from).ok_or_else(|| absent(&from))?;
        names.files.insert(to, file);
        Ok(())
    }

    fn rename_new(&self, from: &Path, to: &Path) -> io::Result<()> {
        let (from, to) = (plain(from)?, plain(to)?);
        let mut names = self.names.lock();
        names.check_parent(&to)?;
        if names.files.contains_key(&to) || names.directories.contains(&to) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        let file = names.files.remove(&from).ok_or_else(|| absent(&from))?;
        names.files.insert(to, file);
        Ok(())
    }

    fn list(&self, directory: &Path) -> io::Result<Vec<String>> {
        let directory = plain(directory)?;
        let names = self.names.lock();
        if !names.has_directory(&directory) {
            return Err(absent(&directory));
        }
        let all = names.files.keys().chain(&names.directories).filter(|path| path.parent() == Some(&directory));
        let mut found: Vec<String> = all.filter_map(|path| Some(path.file_name()?.to_str()?.to_owned())).collect();
        found.sort_unstable();
        Ok(found)
    }

    fn exists(&self, path: &Path) -> io::Result<bool> {
        let path = plain(path)?;
        let names = self.names.lock();
        Ok(names.files.contains_key(&path) || names.has_directory(&path))
    }

    fn sync_directory(&self, directory: &Path) -> io::Result<()> {
        let directory = plain(directory)?;
        if self.names.lock().has_directory(&directory) { Ok(()) } else { Err(absent(&directory)) }
    }

    fn available_bytes(&self) -> io::Result<u64> {
        Ok(self.room.all.saturating_sub(self.room.taken.load(Ordering::Relaxed) * BLOCK_BYTES))
    }

    fn total_bytes(&self) -> io::Result<u64> {
        Ok(self.room.all)
    }

    fn check_presence(&self) -> io::Result<()> {
        Ok(())
    }
}

impl File for MemoryFile {
    fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<usize> {
        Ok(self.image.read().read(bytes, offset))
    }

    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        let mut image = self.image.write();
        let length = bytes.len() as u64;
        let taken = self.room.take(image.absent_blocks(offset, length));
        // As on a real disk, what fits is written.
        let fitting = image.bytes_that_fit(offset, length, taken);
        image.write(&bytes[..fitting as usize], offset);
        if fitting == length { Ok(()) } else { Err(full()) }
    }

    fn sync_data(&self) -> io::Result<()> {
        Ok(())
    }

    fn length(&self) -> io::Result<u64> {
        Ok(self.image.read().length())
    }

    fn set_length(&self, length: u64) -> io::Result<()> {
        self.shrink(|image| image.set_length(length));
        Ok(())
    }

    fn punch_hole(&self, offset: u64, length: u64) -> io::Result<()> {
        self.shrink(|image| image.punch_hole(offset, length));
        Ok(())
    }

    /// Takes the room, so that what is written there later finds it. Memory is taken when it is written.
    fn allocate(&self, offset: u64, length: u64) -> io::Result<()> {
        let mut image = self.image.write();
        let wanted = image.absent_blocks(offset, length);
        let taken = self.room.take(wanted);
        if taken < wanted {
            self.room.give_back(taken);
            return Err(full());
        }
        image.allocate(offset, length);
        Ok(())
    }
}

#[cfg(test)]
mod tests;
