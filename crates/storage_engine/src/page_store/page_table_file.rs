//! Appending checkpoints to the current page-table file, and starting the next file.
//!
//! Owned by the store under its publish lock; called by `checkpoint` and `recovery`. Nothing here decides what a failure
//! means: the functions return the system's error and leave the file's valid length as it was.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use platform::{Disk, File, OpenMode};

use super::address::{PageAddress, PageId};
use super::page_table_record::{
    CheckpointKind, ENTRIES_BYTES_TARGET, EntryEncoder, FILE_HEADER_BYTES, RECORD_ALIGNMENT, RecordHeader, RecordKind,
    append_record, encode_commit, encode_file_header,
};
use super::page_table_scan::ScannedFile;
use super::superblock::FORMAT_VERSION;

/// Name of the directory of the page-table files in the data directory.
pub const PAGE_TABLE_DIRECTORY: &str = "page_table";

/// Bytes of the file that a new store begins with: its header and the commit record of checkpoint 0.
pub(super) const EMPTY_FILE_BYTES: u64 = (FILE_HEADER_BYTES + RECORD_ALIGNMENT) as u64;

/// Bytes collected before they are written.
const WRITE_BYTES: usize = 1 << 20;

/// Where the page-table file of a number is.
pub(super) fn file_path(number: u32) -> PathBuf {
    Path::new(PAGE_TABLE_DIRECTORY).join(format!("{number:08}"))
}

/// The numbers of the page-table files that are there, ascending.
pub(super) fn file_numbers(disk: &dyn Disk) -> io::Result<Vec<u32>> {
    if !disk.exists(Path::new(PAGE_TABLE_DIRECTORY))? {
        return Ok(Vec::new());
    }
    let names = disk.list(Path::new(PAGE_TABLE_DIRECTORY))?;
    let mut numbers: Vec<u32> =
        names.iter().filter(|name| name.len() == 8).filter_map(|name| name.parse().ok()).collect();
    numbers.sort_unstable();
    Ok(numbers)
}

/// A page-table file that checkpoints are appended to.
pub(super) struct PageTableFile {
    pub(super) number: u32,
    file: Arc<dyn File>,
    /// Where the next record goes.
    length: u64,
    sequence: u32,
    base_bytes: u64,
}

impl PageTableFile {
    /// Continues a file after what `scanned` found valid in it.
    pub(super) fn continue_after(file: Arc<dyn File>, scanned: &ScannedFile) -> PageTableFile {
        PageTableFile {
            number: scanned.number,
            file,
            length: scanned.valid_bytes,
            sequence: scanned.valid_records,
            base_bytes: scanned.base_bytes,
        }
    }

    /// Creates a file with the base of checkpoint `number` and makes it durable. On an error it may be there in part.
    pub(super) fn create(
        disk: &dyn Disk,
        uuid: &[u8; 16],
        file_number: u32,
        number: u64,
        mark: &[u8],
        entries: impl Iterator<Item = (PageId, PageAddress)>,
    ) -> io::Result<PageTableFile> {
        let file = disk.open(&file_path(file_number), OpenMode::CreateNew)?;
        let header = encode_file_header(uuid, file_number, FORMAT_VERSION);
        file.write_all_at(&header, 0)?;
        let mut created =
            PageTableFile { number: file_number, file, length: header.len() as u64, sequence: 0, base_bytes: 0 };
        created.append(CheckpointKind::Base, number, mark, entries)?;
        created.base_bytes = created.length;
        created.sync()?;
        disk.sync_directory(Path::new(PAGE_TABLE_DIRECTORY))?;
        Ok(created)
    }

    /// Appends a checkpoint's records, not yet durable. After an error call `roll_back`.
    pub(super) fn append(
        &mut self,
        kind: CheckpointKind,
        number: u64,
        mark: &[u8],
        entries: impl Iterator<Item = (PageId, PageAddress)>,
    ) -> io::Result<()> {
        let mut appender = Appender { file: &*self.file, offset: self.length, buffer: Vec::new() };
        let mut header = RecordHeader {
            record: RecordKind::Entries,
            checkpoint: kind,
            number,
            file_number: self.number,
            sequence: self.sequence,
        };
        let mut encoder = EntryEncoder::default();
        let mut count = 0;
        for (page, address) in entries {
            encoder.push(page, address);
            if encoder.payload.len() >= ENTRIES_BYTES_TARGET {
                appender.append(&mut header, &encoder.payload)?;
                count += encoder.count;
                encoder.clear();
            }
        }
        if encoder.count > 0 {
            appender.append(&mut header, &encoder.payload)?;
            count += encoder.count;
        }
        header.record = RecordKind::Commit;
        appender.append(&mut header, &encode_commit(count, mark))?;
        self.length = appender.flush()?;
        self.sequence = header.sequence;
        Ok(())
    }

    /// Cuts off what a failed `append` may have left.
    pub(super) fn roll_back(&self) -> io::Result<()> {
        self.file.set_length(self.length)
    }

    /// Makes everything appended durable.
    pub(super) fn sync(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    /// Whether the changes behind the base have become longer than it, and than `bytes_min`.
    pub(super) fn has_outgrown_base(&self, bytes_min: u64) -> bool {
        self.length - self.base_bytes > self.base_bytes.max(bytes_min)
    }

    /// Bytes in the file.
    pub(super) fn length(&self) -> u64 {
        self.length
    }

    /// For reading it again.
    pub(super) fn file(&self) -> &dyn File {
        &*self.file
    }
}

struct Appender<'a> {
    file: &'a dyn File,
    offset: u64,
    buffer: Vec<u8>,
}

impl Appender<'_> {
    fn append(&mut self, header: &mut RecordHeader, payload: &[u8]) -> io::Result<()> {
        append_record(&mut self.buffer, *header, payload);
        header.sequence += 1;
        if self.buffer.len() >= WRITE_BYTES {
            self.flush()?;
        }
        Ok(())
    }

    /// Writes what has been collected; returns where the next record goes.
    fn flush(&mut self) -> io::Result<u64> {
        self.file.write_all_at(&self.buffer, self.offset)?;
        self.offset += self.buffer.len() as u64;
        self.buffer.clear();
        Ok(self.offset)
    }
}
