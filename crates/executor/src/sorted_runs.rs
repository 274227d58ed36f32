//! Sorted runs of a SORT on temporary files, and their merge.
//!
//! Called by `sort`. A record is a key whose bytes are in order, where the document came from, and the document. Runs are
//! merged when there are many, so that few files are open and each merge reads few streams; a run that was made by
//! merging stands before later ones, as equal keys keep the order in which they came.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;
use std::io;
use std::sync::Arc;

use collection::RecordId;
use document::work;
use platform::{RunReader, RunWriter, TemporaryStore};

use crate::error::{ExecutorError, Result};

/// Runs of one level that are merged into one of the next.
const FAN_IN: usize = 16;
/// What a record without a record id has in its place; ids are positive.
const NO_RECORD_ID: i64 = 0;

/// A document to be sorted.
pub(crate) struct Entry {
    pub(crate) key: Vec<u8>,
    pub(crate) document: Vec<u8>,
    pub(crate) record_id: Option<RecordId>,
}

/// Runs in the order in which they were made.
pub(crate) struct SortedRuns {
    store: Arc<TemporaryStore>,
    runs: Vec<Run>,
    /// Records that a run needs at most.
    limit: usize,
    bytes: u64,
}

struct Run {
    /// How many merges its records have been through.
    level: u32,
    reader: RunReader,
}

impl SortedRuns {
    pub(crate) fn new(store: &Arc<TemporaryStore>, limit: Option<usize>) -> SortedRuns {
        SortedRuns { store: store.clone(), runs: Vec::new(), limit: limit.unwrap_or(usize::MAX), bytes: 0 }
    }

    /// Bytes of what was written, without merges.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Writes sorted entries as a run, and empties them.
    pub(crate) fn push(&mut self, entries: &mut Vec<Entry>) -> Result<()> {
        let mut writer = self.store.begin_run().map_err(temporary_error)?;
        for entry in entries.drain(..) {
            work::done(work::of_bytes(entry.document.len()))?;
            append(&mut writer, &entry).map_err(temporary_error)?;
            self.bytes += (entry.key.len() + entry.document.len()) as u64;
        }
        self.runs.push(Run { level: 0, reader: writer.finish().map_err(temporary_error)? });
        self.merge_levels()
    }

    fn merge_levels(&mut self) -> Result<()> {
        while let Some(last) = self.runs.last() {
            let level = last.level;
            let same = self.runs.iter().rev().take_while(|run| run.level == level).count();
            if same < FAN_IN {
                break;
            }
            let merged: Vec<Run> = self.runs.drain(self.runs.len() - same..).collect();
            let mut merge = RunMerge::new(merged, self.limit)?;
            let mut writer = self.store.begin_run().map_err(temporary_error)?;
            while let Some(entry) = merge.next()? {
                append(&mut writer, &entry).map_err(temporary_error)?;
            }
            self.runs.push(Run { level: level + 1, reader: writer.finish().map_err(temporary_error)? });
        }
        Ok(())
    }

    /// All records in order.
    pub(crate) fn merge(self) -> Result<RunMerge> {
        RunMerge::new(self.runs, self.limit)
    }
}

/// The first records of several runs in order.
pub(crate) struct RunMerge {
    heads: BinaryHeap<Reverse<Head>>,
    runs: Vec<Run>,
    buffer: Vec<u8>,
    left: usize,
}

/// The next record of a run.
struct Head {
    entry: Entry,
    run: usize,
}

impl Ord for Head {
    fn cmp(&self, other: &Head) -> Ordering {
        self.entry.key.cmp(&other.entry.key).then(self.run.cmp(&other.run))
    }
}

impl PartialOrd for Head {
    fn partial_cmp(&self, other: &Head) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Head {
    fn eq(&self, other: &Head) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Head {}

impl RunMerge {
    fn new(runs: Vec<Run>, limit: usize) -> Result<RunMerge> {
        let count = runs.len();
        let mut merge = RunMerge { heads: BinaryHeap::with_capacity(count), runs, buffer: Vec::new(), left: limit };
        for run in 0..count {
            merge.advance(run)?;
        }
        Ok(merge)
    }

    /// The next record.
    pub(crate) fn next(&mut self) -> Result<Option<Entry>> {
        if self.left == 0 {
            return Ok(None);
        }
        let Some(Reverse(head)) = self.heads.pop() else { return Ok(None) };
        self.left -= 1;
        self.advance(head.run)?;
        Ok(Some(head.entry))
    }

    fn advance(&mut self, run: usize) -> Result<()> {
        let Some(source) = self.runs.get_mut(run) else { return Ok(()) };
        if source.reader.next(&mut self.buffer).map_err(temporary_error)? {
            work::done(work::of_bytes(self.buffer.len()))?;
            let entry = parse(&self.buffer).ok_or_else(|| damaged("record"))?;
            self.heads.push(Reverse(Head { entry, run }));
        }
        Ok(())
    }
}

fn append(writer: &mut RunWriter, entry: &Entry) -> io::Result<()> {
    let key_length = (entry.key.len() as u32).to_le_bytes();
    let record_id = entry.record_id.map_or(NO_RECORD_ID, |record_id| record_id.0).to_le_bytes();
    writer.append(&[&key_length, &record_id, &entry.key, &entry.document])
}

fn parse(record: &[u8]) -> Option<Entry> {
    let (key_length, rest) = record.split_first_chunk()?;
    let (record_id, rest) = rest.split_first_chunk()?;
    let (key, document) = rest.split_at_checked(u32::from_le_bytes(*key_length) as usize)?;
    let record_id = i64::from_le_bytes(*record_id);
    let record_id = (record_id != NO_RECORD_ID).then_some(RecordId(record_id));
    Some(Entry { key: key.to_vec(), document: document.to_vec(), record_id })
}

fn damaged(what: &str) -> ExecutorError {
    ExecutorError::Damaged(format!("a temporary file has a {what} that is not whole"))
}

fn temporary_error(error: io::Error) -> ExecutorError {
    ExecutorError::TemporaryFile(error)
}
