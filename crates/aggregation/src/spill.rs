//! Sorted runs on temporary storage, and their merge.
//!
//! A record is two BSON documents one after the other: the key it is ordered by, as an array, and what belongs to it.
//! Runs are merged when there are many, so that few files are open and a merge holds few records.

use std::cmp::Ordering;
use std::sync::Arc;

use bson::raw::{RawArrayBuf, RawBson, RawDocument, RawDocumentBuf};
use document::{array_elements, work};
use query_language::ErrorKind;

use crate::context::RunContext;
use crate::error::{AggregationError, Result};
use crate::host::{SpillReader, SpillWriter};

/// Begins a run, or says that the stage has run out of memory.
pub(crate) fn begin_run(run: &RunContext, stage: &str) -> Result<Box<dyn SpillWriter>> {
    match run.host.spill_store() {
        Some(store) => store.begin_run(),
        None => {
            let limit = run.pipeline.memory_bytes_max;
            let message = format!(
                "Exceeded memory limit for {stage}, but didn't allow external sort. Pass allowDiskUse:true to opt in. \
                 Memory limit: {limit} bytes"
            );
            Err(AggregationError::new(ErrorKind::QueryExceededMemoryLimitNoDiskUseAllowed, message))
        }
    }
}

/// Writes one record; `buffer` is only reused space.
pub(crate) fn append(
    writer: &mut dyn SpillWriter,
    buffer: &mut Vec<u8>,
    key: &[RawBson],
    body: &RawDocument,
) -> Result<()> {
    let key: RawArrayBuf = key.iter().map(RawBson::as_raw_bson_ref).collect();
    query_language::before_allocating_if_large(
        (key.as_bytes().len() + body.as_bytes().len()).saturating_sub(buffer.capacity()),
    )?;
    buffer.clear();
    buffer.extend_from_slice(key.as_bytes());
    buffer.extend_from_slice(body.as_bytes());
    work::done(work::of_bytes(buffer.len()))?;
    writer.append(buffer)
}

/// Runs of one level that are merged into one of the next.
const FAN_IN: usize = 16;

/// How keys are ordered.
pub(crate) type KeyOrder = Arc<dyn Fn(&[RawBson], &[RawBson]) -> Ordering + Send + Sync>;

/// Sorted runs in the order in which they were made.
pub(crate) struct Runs {
    runs: Vec<Run>,
    compare: KeyOrder,
}

struct Run {
    /// How many merges its records have been through.
    level: u32,
    reader: Box<dyn SpillReader>,
}

impl Runs {
    pub(crate) fn new(compare: KeyOrder) -> Self {
        Self { runs: Vec::new(), compare }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// Adds a run, and merges the last ones when there are enough of them.
    pub(crate) fn push(&mut self, reader: Box<dyn SpillReader>, run: &RunContext, stage: &str) -> Result<()> {
        self.runs.push(Run { level: 0, reader });
        while let Some(last) = self.runs.last() {
            let level = last.level;
            let same = self.runs.iter().rev().take_while(|run| run.level == level).count();
            if same < FAN_IN {
                break;
            }
            let merged = self.runs.drain(self.runs.len() - same..).map(|run| run.reader).collect();
            let mut merge = RunMerge::new(merged, self.compare.clone())?;
            let (mut writer, mut buffer) = (begin_run(run, stage)?, Vec::new());
            while let Some(record) = merge.next()? {
                append(writer.as_mut(), &mut buffer, &record.key, &record.body)?;
            }
            self.runs.push(Run { level: level + 1, reader: writer.finish()? });
        }
        Ok(())
    }

    /// All records in order.
    pub(crate) fn merge(self) -> Result<RunMerge> {
        RunMerge::new(self.runs.into_iter().map(|run| run.reader).collect(), self.compare)
    }
}

/// A record taken apart again.
#[derive(Debug)]
pub(crate) struct Record {
    pub(crate) key: Vec<RawBson>,
    pub(crate) body: RawDocumentBuf,
}

fn read(reader: &mut dyn SpillReader, buffer: &mut Vec<u8>) -> Result<Option<Record>> {
    if !reader.next(buffer)? {
        return Ok(None);
    }
    work::done(work::of_bytes(buffer.len()))?;
    let damaged = || AggregationError::new(ErrorKind::InvalidBson, "a spilled record is damaged");
    let length = buffer.first_chunk::<4>().map(|bytes| u32::from_le_bytes(*bytes) as usize).ok_or_else(damaged)?;
    let (key, body) = buffer.split_at_checked(length).ok_or_else(damaged)?;
    query_language::before_allocating_if_large(body.len())?;
    let key = document::raw_array(key).ok_or_else(damaged)?;
    let key = array_elements(key).map(|element| RawBson::from(element.value())).collect();
    Ok(Some(Record { key, body: RawDocumentBuf::from_bytes(body.to_vec())? }))
}

/// The records of several sorted runs in order; among equal keys those of earlier runs come first.
pub(crate) struct RunMerge {
    compare: KeyOrder,
    /// The next record of each run, greatest first, so that the least is popped.
    heads: Vec<Head>,
    buffer: Vec<u8>,
}

struct Head {
    record: Record,
    run: usize,
    reader: Box<dyn SpillReader>,
}

impl RunMerge {
    fn new(runs: Vec<Box<dyn SpillReader>>, compare: KeyOrder) -> Result<Self> {
        let mut merge = Self { compare, heads: Vec::with_capacity(runs.len()), buffer: Vec::new() };
        for (run, reader) in runs.into_iter().enumerate() {
            merge.advance(run, reader)?;
        }
        Ok(merge)
    }

    /// The next record.
    pub(crate) fn next(&mut self) -> Result<Option<Record>> {
        let Some(Head { record, run, reader }) = self.heads.pop() else { return Ok(None) };
        self.advance(run, reader)?;
        Ok(Some(record))
    }

    /// The key of the next record.
    pub(crate) fn peek(&self) -> Option<&[RawBson]> {
        self.heads.last().map(|head| head.record.key.as_slice())
    }

    /// Reads a run's next record and puts it in its place.
    fn advance(&mut self, run: usize, mut reader: Box<dyn SpillReader>) -> Result<()> {
        if let Some(record) = read(reader.as_mut(), &mut self.buffer)? {
            let position = self
                .heads
                .partition_point(|head| (self.compare)(&head.record.key, &record.key).then(head.run.cmp(&run)).is_gt());
            self.heads.insert(position, Head { record, run, reader });
        }
        Ok(())
    }
}
