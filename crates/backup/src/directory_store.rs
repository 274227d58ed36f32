//! Objects as files of a directory, over a `Disk`: written under another name, synced, renamed.
//!
//! Called through `ObjectStore`. What a crash leaves of an object that was being written ends in `.new`, and is none.

use std::collections::HashSet;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use platform::{Disk, OpenMode};

use crate::object_store::ObjectStore;

/// What a name ends in while it is being written.
pub(crate) const NEW: &str = ".new";

/// Bytes written without a rest.
const PIECE_BYTES: usize = 128 << 10;

/// See the module's head.
pub struct DirectoryStore {
    disk: Arc<dyn Disk>,
    /// Folders that this process has made durable.
    folders: Mutex<HashSet<String>>,
    /// What is stored is not kept in the kernel's memory, unless it is read soon.
    has_readers: AtomicBool,
}

impl DirectoryStore {
    /// Objects in the root of `disk`.
    pub fn new(disk: Arc<dyn Disk>) -> DirectoryStore {
        DirectoryStore { disk, folders: Mutex::default(), has_readers: AtomicBool::new(false) }
    }

    fn make_folder(&self, folder: &str) -> io::Result<()> {
        if folder.is_empty() || self.folders.lock().contains(folder) {
            return Ok(());
        }
        self.disk.create_directory(Path::new(folder))?;
        Path::new(folder).ancestors().skip(1).try_for_each(|parent| self.disk.sync_directory(parent))?;
        self.folders.lock().insert(folder.to_owned());
        Ok(())
    }
}

impl ObjectStore for DirectoryStore {
    fn put(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        self.put_resting(name, bytes, &mut || ())
    }

    fn put_resting(&self, name: &str, bytes: &[u8], rest: &mut dyn FnMut()) -> io::Result<()> {
        let folder = name.rsplit_once('/').map_or("", |(folder, _)| folder);
        self.make_folder(folder)?;
        let (new, name) = (format!("{name}{NEW}"), Path::new(name));
        let file = self.disk.open(Path::new(&new), OpenMode::Create)?;
        let has_readers = self.has_readers.load(Ordering::Relaxed);
        file.keep_written(has_readers);
        file.set_length(0)?;
        let mut offset = 0;
        for piece in bytes.chunks(PIECE_BYTES) {
            file.write_all_at(piece, offset)?;
            offset += piece.len() as u64;
            rest();
        }
        file.sync_data()?;
        if !has_readers {
            file.forget_cached(0, bytes.len() as u64);
        }
        drop(file);
        self.disk.rename(Path::new(&new), name)?;
        self.disk.sync_directory(Path::new(folder))
    }

    fn expect_readers(&self) {
        self.has_readers.store(true, Ordering::Relaxed);
    }

    fn size(&self, name: &str) -> io::Result<u64> {
        self.disk.open(Path::new(name), OpenMode::Read)?.length()
    }

    fn get(&self, name: &str) -> io::Result<Vec<u8>> {
        let file = self.disk.open(Path::new(name), OpenMode::Read)?;
        let length = usize::try_from(file.length()?).map_err(io::Error::other)?;
        let mut bytes = vec![0; length];
        file.read_exact_at(&mut bytes, 0)?;
        file.forget_cached(0, length as u64);
        Ok(bytes)
    }

    fn list(&self, folder: &str) -> io::Result<Vec<String>> {
        let folder = Path::new(folder);
        if !self.disk.exists(folder)? {
            return Ok(Vec::new());
        }
        let mut names = self.disk.list(folder)?;
        names.retain(|name| !name.ends_with(NEW));
        Ok(names)
    }

    fn delete(&self, name: &str) -> io::Result<()> {
        match self.disk.remove(Path::new(name)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }
}
