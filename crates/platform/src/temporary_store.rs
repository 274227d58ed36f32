//! Runs of records on temporary files: where sorts and groups put what exceeds their share of memory.
//!
//! Called by `executor` (SORT) and, through `commands`, by the stages of `aggregation`. Each run is a file in the directory
//! `temporary` of the data directory. Its name is removed as soon as it is open, so that its space returns when the writer
//! or reader is dropped and nothing is left after a crash. It relies on `Disk`; nothing is ever synced.
//!
//! A record is its length (4 bytes, little endian) and its bytes.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::disk::{Disk, File, OpenMode};

/// Bytes that are read or written at once.
const BUFFER_BYTES: usize = 64 << 10;
/// What a run has beyond so many bytes is sent to the disk soon. Gigabytes that only wait in the system's memory would go all at once, when the system
/// finds them too many, and hold up everybody's writes and syncs meanwhile.
const HELD_BYTES_MAX: u64 = 4 << 20;
/// It is sent in pieces of so many.
const SENT_BYTES: u64 = 1 << 20;
/// What a passing reader has behind it is given back in pieces of so many.
const GIVEN_BACK_BYTES: u64 = 512 << 10;

/// The directory of temporary files.
pub struct TemporaryStore {
    disk: Arc<dyn Disk>,
    directory: PathBuf,
    next: AtomicU64,
    bytes_written: AtomicU64,
    runs: AtomicU64,
}

impl TemporaryStore {
    /// The files in `directory`, which is made, and emptied of what an earlier process left.
    ///
    /// # Errors
    /// Those of the disk.
    pub fn open(disk: Arc<dyn Disk>, directory: &Path) -> io::Result<Arc<TemporaryStore>> {
        disk.create_directory(directory)?;
        for name in disk.list(directory)? {
            disk.remove(&directory.join(name))?;
        }
        Ok(Arc::new(TemporaryStore {
            disk,
            directory: directory.to_owned(),
            next: AtomicU64::new(1),
            bytes_written: AtomicU64::new(0),
            runs: AtomicU64::new(0),
        }))
    }

    /// Begins a run.
    ///
    /// # Errors
    /// Those of the disk.
    pub fn begin_run(self: &Arc<Self>) -> io::Result<RunWriter> {
        let path = self.directory.join(format!("{}.run", self.next.fetch_add(1, Ordering::Relaxed)));
        let file = self.disk.open(&path, OpenMode::CreateNew)?;
        self.disk.remove(&path)?;
        self.runs.fetch_add(1, Ordering::Relaxed);
        Ok(RunWriter { store: self.clone(), file, buffer: Vec::with_capacity(BUFFER_BYTES), offset: 0, sent: 0 })
    }

    /// Runs begun and bytes written since the start.
    pub fn totals(&self) -> (u64, u64) {
        (self.runs.load(Ordering::Relaxed), self.bytes_written.load(Ordering::Relaxed))
    }
}

/// Writes a run.
pub struct RunWriter {
    store: Arc<TemporaryStore>,
    file: Arc<dyn File>,
    buffer: Vec<u8>,
    offset: u64,
    /// Up to here it has been sent to the disk.
    sent: u64,
}

impl RunWriter {
    /// Appends a record that is given in parts.
    ///
    /// # Errors
    /// Those of the disk, and `InvalidInput` for 4 GiB.
    pub fn append(&mut self, parts: &[&[u8]]) -> io::Result<()> {
        let length: usize = parts.iter().map(|part| part.len()).sum();
        let length = u32::try_from(length).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
        self.buffer.extend_from_slice(&length.to_le_bytes());
        for part in parts {
            self.buffer.extend_from_slice(part);
        }
        if self.buffer.len() >= BUFFER_BYTES { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.write_all_at(&self.buffer, self.offset)?;
        self.offset += self.buffer.len() as u64;
        if self.offset >= HELD_BYTES_MAX && self.offset - self.sent >= SENT_BYTES {
            self.file.begin_write_back(self.sent, self.offset - self.sent);
            self.sent = self.offset;
        }
        self.store.bytes_written.fetch_add(self.buffer.len() as u64, Ordering::Relaxed);
        self.buffer.clear();
        if self.buffer.capacity() > 4 * BUFFER_BYTES {
            self.buffer = Vec::with_capacity(BUFFER_BYTES);
        }
        Ok(())
    }

    /// Ends the run.
    ///
    /// # Errors
    /// Those of the disk.
    pub fn finish(mut self) -> io::Result<RunReader> {
        self.flush()?;
        Ok(RunReader {
            file: self.file,
            length: self.offset,
            offset: 0,
            buffer: Vec::new(),
            start: 0,
            given_back: None,
        })
    }
}

/// Reads a run from its beginning.
pub struct RunReader {
    file: Arc<dyn File>,
    length: u64,
    /// Where in the file the buffer ends.
    offset: u64,
    buffer: Vec<u8>,
    /// Where in the buffer the next record begins.
    start: usize,
    /// Up to here the file's space has been given back; `None`: it is kept.
    given_back: Option<u64>,
}

impl RunReader {
    /// Gives the file's space back while it is read, so that it cannot be read again. Where the file system passes on to the disk what becomes free, gigabytes
    /// at once hold up everybody's reads for seconds; so they go as slowly as they are read.
    pub fn give_back_behind(&mut self) {
        self.given_back = Some(0);
    }

    /// Puts the next record into `record`, replacing its content; `false` at the end.
    ///
    /// # Errors
    /// Those of the disk, and `UnexpectedEof` when the file was cut.
    pub fn next(&mut self, record: &mut Vec<u8>) -> io::Result<bool> {
        record.clear();
        let Some(length) = self.length_of_next()? else { return Ok(false) };
        let mut missing = length;
        while missing > 0 {
            if self.start == self.buffer.len() {
                self.fill()?;
            }
            let available = self.buffer.get(self.start..).unwrap_or_default();
            let taken = available.len().min(missing);
            record.extend_from_slice(available.get(..taken).unwrap_or_default());
            self.start += taken;
            missing -= taken;
        }
        Ok(true)
    }

    /// Goes back to the first record. Not when the space behind is given back.
    pub fn restart(&mut self) {
        debug_assert!(self.given_back.is_none(), "what was given back cannot be read again");
        self.offset = 0;
        self.buffer.clear();
        self.start = 0;
    }

    /// Goes to the record that begins at this byte of the run: each takes four bytes and its own. Not when the space
    /// behind is given back.
    ///
    /// # Errors
    /// `UnexpectedEof` beyond the end.
    pub fn seek(&mut self, position: u64) -> io::Result<()> {
        debug_assert!(self.given_back.is_none(), "what was given back cannot be read again");
        if position > self.length {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let buffered = self.offset - self.buffer.len() as u64;
        if (buffered..=self.offset).contains(&position) {
            self.start = (position - buffered) as usize;
        } else {
            self.offset = position;
            self.buffer.clear();
            self.start = 0;
        }
        Ok(())
    }

    fn length_of_next(&mut self) -> io::Result<Option<usize>> {
        if self.start == self.buffer.len() && self.offset == self.length {
            return Ok(None);
        }
        let mut bytes = [0; 4];
        for byte in &mut bytes {
            if self.start == self.buffer.len() {
                self.fill()?;
            }
            *byte = self.buffer.get(self.start).copied().unwrap_or_default();
            self.start += 1;
        }
        Ok(Some(u32::from_le_bytes(bytes) as usize))
    }

    fn fill(&mut self) -> io::Result<()> {
        let left = usize::try_from(self.length - self.offset).unwrap_or(usize::MAX);
        if left == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.give_back();
        self.buffer.resize(left.min(BUFFER_BYTES), 0);
        self.file.read_exact_at(&mut self.buffer, self.offset)?;
        self.offset += self.buffer.len() as u64;
        self.start = 0;
        Ok(())
    }

    /// The buffer has been read to its end, and all before it.
    fn give_back(&mut self) {
        let Some(given_back) = self.given_back.filter(|from| self.offset - from >= GIVEN_BACK_BYTES) else { return };
        // A file system that cannot do it frees all when the file is closed.
        let done = self.file.punch_hole(given_back, self.offset - given_back);
        self.given_back = done.is_ok().then_some(self.offset);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{RealDisk, SimulatedDisk};

    #[test]
    fn records_are_found_by_where_they_begin() {
        let disk = Arc::new(SimulatedDisk::new(2));
        let store = TemporaryStore::open(disk, Path::new("temporary")).unwrap();
        let records: Vec<Vec<u8>> = (0..2_000_u32).map(|n| n.to_le_bytes().repeat(1 + n as usize % 300)).collect();
        let (mut writer, mut positions, mut end) = (store.begin_run().unwrap(), Vec::new(), 0);
        for record in &records {
            writer.append(&[record]).unwrap();
            positions.push(end);
            end += 4 + record.len() as u64;
        }
        let (mut reader, mut found) = (writer.finish().unwrap(), Vec::new());
        for step in 0..3_000 {
            let number = (step * 7_919) % records.len();
            reader.seek(positions[number]).unwrap();
            for record in records.iter().skip(number).take(3) {
                assert!(reader.next(&mut found).unwrap());
                assert_eq!(&found, record);
            }
        }
        reader.seek(end).unwrap();
        assert!(!reader.next(&mut found).unwrap());
        assert!(reader.seek(end + 1).is_err());
    }

    #[test]
    fn records_come_back_in_order_whatever_their_size() {
        let disk = Arc::new(SimulatedDisk::new(1));
        let store = TemporaryStore::open(disk, Path::new("temporary")).unwrap();
        let records: Vec<Vec<u8>> = [0, 1, BUFFER_BYTES - 5, 3, BUFFER_BYTES, 2, 5 * BUFFER_BYTES, 7]
            .iter()
            .map(|size| vec![*size as u8; *size])
            .collect();
        let mut writer = store.begin_run().unwrap();
        for record in &records {
            let (front, back) = record.split_at(record.len() / 2);
            writer.append(&[front, back]).unwrap();
        }
        let mut reader = writer.finish().unwrap();
        let (mut read, mut record) = (Vec::new(), Vec::new());
        while reader.next(&mut record).unwrap() {
            read.push(record.clone());
        }
        assert_eq!(read, records);
        assert!(!reader.next(&mut record).unwrap());
        reader.restart();
        assert!(reader.next(&mut record).unwrap() && reader.next(&mut record).unwrap());
        assert_eq!(record, records[1]);
        let mut none = store.begin_run().unwrap().finish().unwrap();
        assert!(!none.next(&mut record).unwrap());
    }

    #[test]
    fn a_passing_reader_gives_the_space_behind_it_back() {
        let directory = tempfile::tempdir().unwrap();
        let disks: [Arc<dyn Disk>; 2] =
            [Arc::new(SimulatedDisk::new(1)), Arc::new(RealDisk::new(directory.path()).unwrap())];
        for disk in disks {
            let store = TemporaryStore::open(disk, Path::new("temporary")).unwrap();
            let mut writer = store.begin_run().unwrap();
            let records = 3 * GIVEN_BACK_BYTES / 1000;
            for number in 0..records {
                writer.append(&[&number.to_le_bytes(), &[7; 992]]).unwrap();
            }
            let mut reader = writer.finish().unwrap();
            reader.give_back_behind();
            let mut record = Vec::new();
            for number in 0..records {
                assert!(reader.next(&mut record).unwrap());
                assert!(record.starts_with(&number.to_le_bytes()) && record.ends_with(&[7; 992]));
            }
            assert!(!reader.next(&mut record).unwrap());
            let mut first = [7; 8];
            reader.file.read_exact_at(&mut first, 0).unwrap();
            assert_eq!(first, [0; 8]);
        }
    }

    #[test]
    fn nothing_is_left_in_the_directory() {
        let directory = tempfile::tempdir().unwrap();
        let disk = Arc::new(RealDisk::new(directory.path()).unwrap());
        disk.create_directory(Path::new("temporary")).unwrap();
        disk.open(Path::new("temporary/old.run"), OpenMode::CreateNew).unwrap();
        let store = TemporaryStore::open(disk.clone(), Path::new("temporary")).unwrap();
        let mut writer = store.begin_run().unwrap();
        writer.append(&[b"record"]).unwrap();
        let mut reader = writer.finish().unwrap();
        assert!(disk.list(Path::new("temporary")).unwrap().is_empty());
        let mut record = Vec::new();
        assert!(reader.next(&mut record).unwrap());
        assert_eq!(record, b"record");
    }
}
