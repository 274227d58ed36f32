//! Reading page-table files: which checkpoints a file holds, where its valid part ends, what its entries are.
//!
//! Called by `recovery`, `verification` and `inspection`.
//!
//! A checkpoint is synced before the next one is begun, so after a power loss only records of the last one can be
//! missing or damaged: that is a torn tail, and the checkpoint was never published. A damaged record with a whole
//! record of a later checkpoint behind it was durable once: that is corruption, and reported.

use std::io;

use platform::File;

use super::address::{PageAddress, PageId};
use super::error::{PageStoreError, Result};
use super::page_table_file::file_path;
use super::page_table_record::{
    CheckpointKind, FILE_HEADER_BYTES, PAYLOAD_BYTES_MAX, RECORD_ALIGNMENT, RECORD_HEADER_BYTES, RecordHeader,
    RecordKind, decode_commit, decode_entries, is_file_header, is_whole_record, parse_record_header,
};

/// One checkpoint in a page-table file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckpointRecord {
    /// Its number.
    pub number: u64,
    /// Whether it holds all pages or changes.
    pub kind: CheckpointKind,
    /// Where its first record begins, in bytes.
    pub offset: u64,
    /// Bytes of all its records.
    pub bytes: u64,
    /// Pages or changes in it.
    pub entries: u64,
    /// What the engine gave to `publish` with it.
    pub mark: Vec<u8>,
}

/// What a page-table file holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ScannedFile {
    pub(super) number: u32,
    /// Empty when not even the base is whole.
    pub(super) checkpoints: Vec<CheckpointRecord>,
    /// Where the last whole checkpoint ends.
    pub(super) valid_bytes: u64,
    pub(super) valid_records: u32,
    pub(super) base_bytes: u64,
    /// Bytes in the file; more than `valid_bytes` when its tail is torn.
    pub(super) file_bytes: u64,
}

/// Reads a whole page-table file.
///
/// # Errors
/// `CorruptFile` when a damaged record is not just a torn tail.
pub(super) fn scan_file(file: &dyn File, number: u32, uuid: &[u8; 16]) -> Result<ScannedFile> {
    let mut reader = RecordReader::new(file, number)?;
    let mut scanned = ScannedFile {
        number,
        checkpoints: Vec::new(),
        valid_bytes: 0,
        valid_records: 0,
        base_bytes: 0,
        file_bytes: reader.file_bytes,
    };
    if !is_file_header(reader.bytes(0, FILE_HEADER_BYTES)?, uuid, number) {
        reader.refuse_later_checkpoint(FILE_HEADER_BYTES as u64, None)?;
        return Ok(scanned);
    }
    let mut begun = BegunCheckpoint::at(FILE_HEADER_BYTES as u64);
    let mut offset = FILE_HEADER_BYTES as u64;
    let mut sequence = 0;
    while let Some(record) = reader.record(offset)? {
        let last = scanned.checkpoints.last().map(|checkpoint| checkpoint.number);
        check_order(&record.header, sequence, last, begun.number).map_err(|reason| reader.corrupt(offset, reason))?;
        begun.number = Some(record.header.number);
        offset = record.end;
        sequence += 1;
        match record.header.record {
            RecordKind::Entries => begun.entries += record.entry_count().map_err(|r| reader.corrupt(offset, r))?,
            RecordKind::Commit => {
                let checkpoint = begun.commit(&record).map_err(|reason| reader.corrupt(offset, reason))?;
                scanned.checkpoints.push(checkpoint);
                scanned.valid_bytes = offset;
                scanned.valid_records = sequence;
                begun = BegunCheckpoint::at(offset);
            }
        }
    }
    if let Some(base) = scanned.checkpoints.first() {
        scanned.base_bytes = base.offset + base.bytes;
    }
    let last = scanned.checkpoints.last().map(|checkpoint| checkpoint.number);
    reader.refuse_later_checkpoint(offset, last)?;
    Ok(scanned)
}

/// Calls `visit` for each entry of the checkpoints that `scanned` lists, in order.
pub(super) fn read_entries(
    file: &dyn File,
    scanned: &ScannedFile,
    mut visit: impl FnMut(PageId, PageAddress),
) -> Result<()> {
    let mut reader = RecordReader::new(file, scanned.number)?;
    let mut offset = FILE_HEADER_BYTES as u64;
    while offset < scanned.valid_bytes {
        let Some(record) = reader.record(offset)? else {
            return Err(reader.corrupt(offset, "a record changed while it was read"));
        };
        if record.header.record == RecordKind::Entries && decode_entries(&record.payload, &mut visit).is_none() {
            return Err(reader.corrupt(offset, "entries cannot be decoded"));
        }
        offset = record.end;
    }
    Ok(())
}

/// A checkpoint whose commit record has not been reached.
struct BegunCheckpoint {
    offset: u64,
    number: Option<u64>,
    entries: u64,
}

impl BegunCheckpoint {
    fn at(offset: u64) -> BegunCheckpoint {
        BegunCheckpoint { offset, number: None, entries: 0 }
    }

    fn commit(&self, record: &Record) -> std::result::Result<CheckpointRecord, &'static str> {
        let (entries, mark) = decode_commit(&record.payload).ok_or("a commit record is too short")?;
        if entries != self.entries {
            return Err("a commit record counts other entries");
        }
        Ok(CheckpointRecord {
            number: record.header.number,
            kind: record.header.checkpoint,
            offset: self.offset,
            bytes: record.end - self.offset,
            entries,
            mark: mark.to_vec(),
        })
    }
}

fn check_order(
    header: &RecordHeader,
    sequence: u32,
    last: Option<u64>,
    begun: Option<u64>,
) -> std::result::Result<(), &'static str> {
    let kind = if last.is_none() { CheckpointKind::Base } else { CheckpointKind::Delta };
    let expected = begun.or(last.map(|last| last + 1));
    match header.sequence == sequence
        && header.checkpoint == kind
        && expected.is_none_or(|number| number == header.number)
    {
        true => Ok(()),
        false => Err("a record is out of order"),
    }
}

/// A whole record.
struct Record {
    header: RecordHeader,
    payload: Vec<u8>,
    /// Where the next record begins.
    end: u64,
}

impl Record {
    fn entry_count(&self) -> std::result::Result<u64, &'static str> {
        let mut count = 0;
        decode_entries(&self.payload, |_, _| count += 1).ok_or("entries cannot be decoded")?;
        Ok(count)
    }
}

/// Reads a file through a window, front to back.
struct RecordReader<'a> {
    file: &'a dyn File,
    file_number: u32,
    file_bytes: u64,
    window: Vec<u8>,
    window_offset: u64,
}

const WINDOW_BYTES: usize = 2 * (PAYLOAD_BYTES_MAX + RECORD_HEADER_BYTES);

impl<'a> RecordReader<'a> {
    fn new(file: &'a dyn File, file_number: u32) -> Result<RecordReader<'a>> {
        let mut reader = RecordReader { file, file_number, file_bytes: 0, window: Vec::new(), window_offset: 0 };
        reader.file_bytes = file.length().map_err(|cause| reader.io_error("length", cause))?;
        Ok(reader)
    }

    /// The bytes at `offset`: `length` of them, or what there is before the end of the file.
    fn bytes(&mut self, offset: u64, length: usize) -> Result<&[u8]> {
        let length = self.file_bytes.saturating_sub(offset).min(length as u64) as usize;
        let window = self.window_offset..self.window_offset + self.window.len() as u64;
        if offset < window.start || offset + length as u64 > window.end {
            let count = (self.file_bytes - offset.min(self.file_bytes)).min(WINDOW_BYTES as u64) as usize;
            self.window.resize(count, 0);
            self.window_offset = offset;
            let read = self.file.read_exact_unverified_at(&mut self.window, offset);
            read.map_err(|cause| self.io_error("read", cause))?;
        }
        let start = (offset - self.window_offset) as usize;
        Ok(self.window.get(start..start + length).unwrap_or(&[]))
    }

    /// The whole record at `offset`; `None` when there is none.
    fn record(&mut self, offset: u64) -> Result<Option<Record>> {
        let file_number = self.file_number;
        let parsed = parse_record_header(self.bytes(offset, RECORD_HEADER_BYTES)?, file_number);
        let Some((header, payload_bytes)) = parsed else { return Ok(None) };
        let length = RECORD_HEADER_BYTES + payload_bytes;
        let bytes = self.bytes(offset, length)?;
        if bytes.len() != length || !is_whole_record(bytes) {
            return Ok(None);
        }
        let payload = bytes[RECORD_HEADER_BYTES..].to_vec();
        Ok(Some(Record { header, payload, end: offset + length.next_multiple_of(RECORD_ALIGNMENT) as u64 }))
    }

    /// Refuses the file when behind `offset` there is a whole record of a checkpoint that can only have been begun
    /// after the damaged one at `offset` had been published. `last` is the checkpoint before the damaged one.
    fn refuse_later_checkpoint(&mut self, offset: u64, last: Option<u64>) -> Result<()> {
        let mut probe = offset;
        while probe < self.file_bytes {
            if let Some(record) = self.record(probe)? {
                let later = match last {
                    Some(last) => record.header.number > last + 1,
                    None => record.header.checkpoint == CheckpointKind::Delta,
                };
                if later {
                    let reason = format!("a damaged record before checkpoint {}", record.header.number);
                    return Err(self.corrupt(offset, &reason));
                }
            }
            probe += RECORD_ALIGNMENT as u64;
        }
        Ok(())
    }

    fn corrupt(&self, offset: u64, reason: &str) -> PageStoreError {
        PageStoreError::CorruptFile {
            file: file_path(self.file_number).display().to_string(),
            offset,
            reason: reason.to_owned(),
        }
    }

    fn io_error(&self, operation: &'static str, cause: io::Error) -> PageStoreError {
        PageStoreError::Io { operation, file: file_path(self.file_number).display().to_string(), cause }
    }
}
