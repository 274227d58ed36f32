//! What stages put into sorted runs on temporary storage.
//!
//! Called by `$sort`, `$group`, `$facet` and `$setWindowFields`; `platform` merges the runs. A record is two BSON documents one after the other: the key it is
//! ordered by, as an array, and what belongs to it.

use std::cmp::Ordering;
use std::sync::Arc;

use bson::raw::{RawBson, RawDocument, RawDocumentBuf};
use document::{array_elements, work};
use platform::{RunFormat, RunMerge, SortedRuns};
use query_language::ErrorKind;
use query_language::growth::{CollectedArray, make_room};

use crate::context::RunContext;
use crate::error::{AggregationError, Result};
use crate::host::{RECORD_LENGTH_BYTES, SpillReader, SpillWriter};

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
    let mut array = CollectedArray::default();
    key.iter().try_for_each(|part| array.push(part.as_raw_bson_ref()))?;
    buffer.clear();
    make_room(buffer, array.bytes() + body.as_bytes().len())?;
    buffer.extend_from_slice(array.array()?.as_bytes());
    buffer.extend_from_slice(body.as_bytes());
    work::done(work::of_bytes(buffer.len()))?;
    writer.append(buffer)
}

/// What a record of so many bytes takes in a run.
pub(crate) fn record_bytes(bytes: usize) -> u64 {
    (RECORD_LENGTH_BYTES + bytes) as u64
}

/// A run that does not have what was put into it.
pub(crate) fn damaged() -> AggregationError {
    AggregationError::new(ErrorKind::InvalidBson, "a spilled record is damaged")
}

/// How keys are ordered.
pub(crate) type KeyOrder = Arc<dyn Fn(&[RawBson], &[RawBson]) -> Ordering + Send + Sync>;

/// How records stand in a run, and are ordered.
#[derive(Clone)]
pub(crate) struct RecordFormat {
    order: KeyOrder,
}

impl RunFormat for RecordFormat {
    type Run = Box<dyn SpillReader>;
    type Record = Record;
    type Error = AggregationError;

    fn read(&self, run: &mut Self::Run, buffer: &mut Vec<u8>, record: &mut Record) -> Result<bool> {
        let is_found = run.next(buffer)?;
        if is_found {
            work::done(work::of_bytes(buffer.len()))?;
            *record = parse(buffer)?;
        }
        Ok(is_found)
    }

    fn compare(&self, left: &Record, right: &Record) -> Ordering {
        (self.order)(&left.key, &right.key)
    }
}

/// Sorted runs in the order in which they were made.
pub(crate) struct Runs(SortedRuns<RecordFormat>);

impl Runs {
    pub(crate) fn new(order: KeyOrder) -> Self {
        Self(SortedRuns::new(RecordFormat { order }, usize::MAX))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds a run, and merges the last ones when there are enough of them.
    pub(crate) fn push(&mut self, reader: Box<dyn SpillReader>, run: &RunContext, stage: &str) -> Result<()> {
        self.0.push(reader, |merge| {
            let (mut writer, mut buffer, mut record) = (begin_run(run, stage)?, Vec::new(), Record::default());
            while merge.next(&mut record)? {
                append(writer.as_mut(), &mut buffer, &record.key, &record.body)?;
            }
            writer.finish()
        })
    }

    /// All records in order; among equal keys those of earlier runs come first.
    pub(crate) fn merge(self) -> Result<RunMerge<RecordFormat>> {
        self.0.merge()
    }
}

/// A record taken apart again.
#[derive(Debug, Default)]
pub(crate) struct Record {
    pub(crate) key: Vec<RawBson>,
    pub(crate) body: RawDocumentBuf,
}

/// Reads one record.
pub(crate) fn parse(bytes: &[u8]) -> Result<Record> {
    let length = bytes.first_chunk::<4>().map(|bytes| u32::from_le_bytes(*bytes) as usize).ok_or_else(damaged)?;
    let (key, body) = bytes.split_at_checked(length).ok_or_else(damaged)?;
    query_language::before_allocating_if_large(bytes.len())?;
    let key = document::raw_array(key).ok_or_else(damaged)?;
    let key = array_elements(key).map(|element| RawBson::from(element.value())).collect();
    Ok(Record { key, body: RawDocumentBuf::from_bytes(body.to_vec())? })
}
