//! The records of a SORT in sorted runs on temporary files.
//!
//! Called by `sort`; `platform` merges the runs. A record is a key whose bytes are in order, where the document came from, and the
//! document.

use std::cmp::Ordering;
use std::io;
use std::sync::Arc;

use collection::RecordId;
use document::work;
use platform::{RunFormat, RunMerge, RunReader, RunWriter, TemporaryStore};

use crate::error::{ExecutorError, Result};
use crate::sort_entries::{NO_RECORD_ID, SortEntries};

/// A document to be sorted, where it lies.
#[derive(Clone, Copy)]
pub(crate) struct EntryRef<'e> {
    pub(crate) key: &'e [u8],
    pub(crate) document: &'e [u8],
    pub(crate) record_id: Option<RecordId>,
    /// What is known of the document beside its fields, as BSON; empty for nothing.
    pub(crate) metadata: &'e [u8],
}

impl EntryRef<'_> {
    /// Bytes of its parts.
    pub(crate) fn bytes(&self) -> usize {
        self.key.len() + self.document.len() + self.metadata.len()
    }
}

/// A document that has been read from a run.
#[derive(Default)]
pub(crate) struct Entry {
    pub(crate) key: Vec<u8>,
    pub(crate) document: Vec<u8>,
    pub(crate) record_id: Option<RecordId>,
    pub(crate) metadata: Vec<u8>,
}

impl Entry {
    pub(crate) fn lent(&self) -> EntryRef<'_> {
        let Entry { key, document, record_id, metadata } = self;
        EntryRef { key, document, record_id: *record_id, metadata }
    }
}

/// How entries stand in a run.
#[derive(Clone, Copy)]
pub(crate) struct EntryFormat;

impl RunFormat for EntryFormat {
    type Run = RunReader;
    type Record = Entry;
    type Error = ExecutorError;

    fn read(&self, run: &mut RunReader, buffer: &mut Vec<u8>, record: &mut Entry) -> Result<bool> {
        let is_found = run.next(buffer).map_err(temporary_error)?;
        if is_found {
            work::done(work::of_bytes(buffer.len()))?;
            query_language::before_allocating_if_large(buffer.len())?;
            *record = parse(buffer).ok_or_else(|| damaged("record"))?;
        }
        Ok(is_found)
    }

    fn compare(&self, left: &Entry, right: &Entry) -> Ordering {
        left.key.cmp(&right.key)
    }
}

/// Sorted runs of entries, and their files.
pub(crate) struct SortedRuns {
    store: Arc<TemporaryStore>,
    runs: platform::SortedRuns<EntryFormat>,
    bytes: u64,
}

impl SortedRuns {
    pub(crate) fn new(store: &Arc<TemporaryStore>, limit: Option<usize>) -> SortedRuns {
        let runs = platform::SortedRuns::new(EntryFormat, limit.unwrap_or(usize::MAX));
        SortedRuns { store: store.clone(), runs, bytes: 0 }
    }

    /// Bytes of what was written, without merges.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Writes sorted entries as a run.
    pub(crate) fn push(&mut self, entries: &SortEntries) -> Result<()> {
        let mut writer = self.store.begin_run().map_err(temporary_error)?;
        for entry in (0..entries.len()).filter_map(|position| entries.get(position)) {
            work::done(work::of_bytes(entry.document.len()))?;
            append(&mut writer, &entry).map_err(temporary_error)?;
            self.bytes += (entry.key.len() + entry.document.len()) as u64;
        }
        let run = writer.finish().map_err(temporary_error)?;
        let store = &self.store;
        self.runs.push(run, |merge| {
            let (mut writer, mut entry) = (store.begin_run().map_err(temporary_error)?, Entry::default());
            while merge.next(&mut entry)? {
                append(&mut writer, &entry.lent()).map_err(temporary_error)?;
            }
            writer.finish().map_err(temporary_error)
        })
    }

    /// All records in order.
    pub(crate) fn merge(self) -> Result<RunMerge<EntryFormat>> {
        self.runs.merge()
    }
}

fn append(writer: &mut RunWriter, entry: &EntryRef<'_>) -> io::Result<()> {
    let key_length = (entry.key.len() as u32).to_le_bytes();
    let record_id = entry.record_id.map_or(NO_RECORD_ID, |record_id| record_id.0).to_le_bytes();
    let metadata_length = (entry.metadata.len() as u32).to_le_bytes();
    writer.append(&[&key_length, &metadata_length, &record_id, entry.key, entry.metadata, entry.document])
}

fn parse(record: &[u8]) -> Option<Entry> {
    let (key_length, rest) = record.split_first_chunk()?;
    let (metadata_length, rest) = rest.split_first_chunk()?;
    let (record_id, rest) = rest.split_first_chunk()?;
    let (key, rest) = rest.split_at_checked(u32::from_le_bytes(*key_length) as usize)?;
    let (metadata, document) = rest.split_at_checked(u32::from_le_bytes(*metadata_length) as usize)?;
    let record_id = i64::from_le_bytes(*record_id);
    let record_id = (record_id != NO_RECORD_ID).then_some(RecordId(record_id));
    Some(Entry { key: key.to_vec(), document: document.to_vec(), record_id, metadata: metadata.to_vec() })
}

fn damaged(what: &str) -> ExecutorError {
    ExecutorError::Damaged(format!("a temporary file has a {what} that is not whole"))
}

fn temporary_error(error: io::Error) -> ExecutorError {
    ExecutorError::TemporaryFile(error)
}
