//! The files of recorded figures, in a folder of the data directory. Used by the recorder's writing thread.
//!
//! Nothing is synced: a power loss may cost the last minutes, and never more than the end of a file.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use flight_recorder::file_names::{CURRENT, DIRECTORY, begin, name, outdated};
use flight_recorder::{Chunk, FILE_HEADER, blocks, is_whole};
use platform::{Disk, File, OpenMode};

/// A file that has so much is followed by another.
const FILE_BYTES_MAX: u64 = 4 << 20;
/// A file that a crash left is read if it is no larger.
const CURRENT_BYTES_MAX: u64 = 64 << 20;

/// What is to be written.
pub(super) enum Written {
    /// The chunk as far as it is: takes the place of what was written so before.
    Current(Vec<u8>),
    /// A chunk that is complete.
    Kept { began: i64, block: Vec<u8> },
}

/// See the module's head.
pub(super) struct FigureFiles {
    disk: Arc<dyn Disk>,
    bytes_max: u64,
    open: Option<(Arc<dyn File>, u64)>,
    is_prepared: bool,
}

impl FigureFiles {
    pub(super) fn new(disk: Arc<dyn Disk>, bytes_max: u64) -> Self {
        Self { disk, bytes_max, open: None, is_prepared: false }
    }

    /// Makes the folder, and goes on where the last run ended. Later calls do nothing.
    ///
    /// # Errors
    /// Those of the disk.
    pub(super) fn prepare(&mut self) -> io::Result<()> {
        if !self.is_prepared {
            self.disk.create_directory(Path::new(DIRECTORY))?;
            self.open = self.newest()?;
            self.keep_what_a_crash_left()?;
            self.is_prepared = true;
        }
        Ok(())
    }

    /// # Errors
    /// Those of the disk.
    pub(super) fn write(&mut self, written: &Written) -> io::Result<()> {
        self.prepare()?;
        match written {
            Written::Current(block) => self.write_current(block),
            Written::Kept { began, block } => {
                self.append(*began, block)?;
                self.remove_current()?;
                self.remove_outdated()
            }
        }
    }

    fn write_current(&self, block: &[u8]) -> io::Result<()> {
        // Behind another name, so that a reader never sees half of it.
        let (new, current) = (path("next"), path(CURRENT));
        let file = self.disk.open(&new, OpenMode::Create)?;
        file.set_length(0)?;
        file.write_all_at(FILE_HEADER, 0)?;
        file.write_all_at(block, FILE_HEADER.len() as u64)?;
        self.disk.rename(&new, &current)
    }

    fn append(&mut self, began: i64, block: &[u8]) -> io::Result<()> {
        let (file, end) = match self.open.take().filter(|(_, end)| *end < FILE_BYTES_MAX) {
            Some(open) => open,
            None => {
                let file = self.disk.open(&path(&name(began)), OpenMode::Create)?;
                file.set_length(0)?;
                file.write_all_at(FILE_HEADER, 0)?;
                (file, FILE_HEADER.len() as u64)
            }
        };
        file.write_all_at(block, end)?;
        self.open = Some((file, end + block.len() as u64));
        Ok(())
    }

    fn remove_current(&self) -> io::Result<()> {
        if self.disk.exists(&path(CURRENT))? { self.disk.remove(&path(CURRENT)) } else { Ok(()) }
    }

    fn remove_outdated(&self) -> io::Result<()> {
        let mut files = Vec::new();
        for name in self.disk.list(Path::new(DIRECTORY))? {
            let bytes = self.disk.open(&path(&name), OpenMode::Read)?.length()?;
            files.push((name, bytes));
        }
        outdated(files, self.bytes_max).iter().try_for_each(|name| self.disk.remove(&path(name)))
    }

    /// The newest file, to be gone on with, if there is one that is whole and has room.
    fn newest(&self) -> io::Result<Option<(Arc<dyn File>, u64)>> {
        let names = self.disk.list(Path::new(DIRECTORY))?;
        let Some(name) = names.into_iter().filter(|name| begin(name).is_some()).max_by_key(|name| begin(name)) else {
            return Ok(None);
        };
        let file = self.disk.open(&path(&name), OpenMode::ReadWrite)?;
        let length = file.length()?;
        let is_open = length < FILE_BYTES_MAX && is_whole(&read(&*file, length)?);
        Ok(is_open.then_some((file, length)))
    }

    /// The last minutes before a crash are kept as the others are.
    fn keep_what_a_crash_left(&mut self) -> io::Result<()> {
        let current = path(CURRENT);
        if !self.disk.exists(&current)? {
            return Ok(());
        }
        let file = self.disk.open(&current, OpenMode::Read)?;
        let bytes = read(&*file, file.length()?.min(CURRENT_BYTES_MAX))?;
        let chunks: Result<Vec<_>, _> = blocks(&bytes).collect();
        let first = chunks.ok().and_then(|chunks| Chunk::decode(chunks.first()?).ok());
        if let Some(began) = first.and_then(|chunk| chunk.times.first().copied()) {
            self.append(began, &bytes[FILE_HEADER.len()..])?;
        }
        self.remove_current()
    }
}

/// The files of a data directory with their sizes.
///
/// # Errors
/// Those of the disk.
pub fn recorded_figures(disk: &dyn Disk) -> io::Result<Vec<(String, u64)>> {
    if !disk.exists(Path::new(DIRECTORY))? {
        return Ok(Vec::new());
    }
    let mut files = Vec::new();
    for name in disk.list(Path::new(DIRECTORY))?.into_iter().filter(|name| is_ours(name)) {
        match disk.open(&path(&name), OpenMode::Read) {
            Ok(file) => files.push((name, file.length()?)),
            // The recorder has removed it meanwhile.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    Ok(files)
}

/// A piece of one of them, empty at its end.
///
/// # Errors
/// `NotFound`: it is none of them; those of the disk.
pub fn read_figures(disk: &dyn Disk, name: &str, offset: u64, bytes_max: usize) -> io::Result<Vec<u8>> {
    if !is_ours(name) {
        return Err(io::ErrorKind::NotFound.into());
    }
    let file = disk.open(&path(name), OpenMode::Read)?;
    let left = file.length()?.saturating_sub(offset).min(bytes_max as u64);
    let mut bytes = vec![0; left as usize];
    file.read_exact_at(&mut bytes, offset)?;
    Ok(bytes)
}

fn is_ours(name: &str) -> bool {
    name == CURRENT || begin(name).is_some()
}

fn read(file: &dyn File, length: u64) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; length as usize];
    file.read_exact_at(&mut bytes, 0)?;
    Ok(bytes)
}

fn path(name: &str) -> PathBuf {
    Path::new(DIRECTORY).join(name)
}
