//! What a function gives for the documents of a partition, in their order: in memory, or on temporary storage where the
//! documents are there, too, and it does not fit.
//!
//! Filled by the functions; read by the stage, once.

use bson::raw::{RawBson, RawDocument, RawDocumentBuf, cstr};
use document::work;
use query_language::accumulator::value_bytes;

use super::partition::Partition;
use crate::error::Result;
use crate::host::{SpillReader, SpillWriter};
use crate::spill;

/// See the module's head. `None` where the field is missing.
pub(super) struct Results {
    held: Vec<Option<RawBson>>,
    /// Bytes that were counted for those that are held.
    bytes: usize,
    run: Option<Box<dyn SpillWriter>>,
}

impl Results {
    pub(super) fn new() -> Self {
        Self { held: Vec::new(), bytes: 0, run: None }
    }

    /// Those that a function has counted by itself: numbers.
    pub(super) fn of(held: Vec<Option<RawBson>>) -> Self {
        Self { held, ..Self::new() }
    }

    /// Adds the next one.
    ///
    /// # Errors
    /// It does not fit into memory, where the documents are.
    pub(super) fn push(&mut self, partition: &mut Partition, result: Option<RawBson>) -> Result<()> {
        if self.run.is_none() {
            let bytes = result.as_ref().map_or(size_of::<Option<RawBson>>(), value_bytes);
            self.bytes += bytes;
            self.held.push(result);
            return match partition.hold(bytes) {
                Err(_) if partition.is_spilled() => self.spill(partition),
                held => held,
            };
        }
        self.append(result)
    }

    fn spill(&mut self, partition: &mut Partition) -> Result<()> {
        self.run = Some(partition.begin_run()?);
        std::mem::take(&mut self.held).into_iter().try_for_each(|result| self.append(result))?;
        partition.release(self.bytes);
        Ok(())
    }

    fn append(&mut self, result: Option<RawBson>) -> Result<()> {
        let Some(run) = &mut self.run else { return Ok(()) };
        work::step()?;
        let mut document = RawDocumentBuf::new();
        if let Some(result) = result {
            document.append(cstr!(""), result);
        }
        run.append(document.as_bytes())
    }

    /// Those that are in memory: all, while the documents are there.
    pub(super) fn into_held(self) -> Vec<Option<RawBson>> {
        self.held
    }

    /// All on temporary storage.
    pub(super) fn into_run(mut self, partition: &mut Partition) -> Result<Column> {
        if self.run.is_none() {
            self.spill(partition)?;
        }
        let run = match self.run {
            Some(run) => run.finish()?,
            None => return Err(spill::damaged()),
        };
        Ok(Column { run, buffer: Vec::new() })
    }
}

/// Results that are read one by one.
pub(super) struct Column {
    run: Box<dyn SpillReader>,
    buffer: Vec<u8>,
}

impl Column {
    /// Calls with the next result.
    pub(super) fn next<T>(&mut self, call: impl FnOnce(Option<bson::RawBsonRef<'_>>) -> Result<T>) -> Result<T> {
        if !self.run.next(&mut self.buffer)? {
            return Err(spill::damaged());
        }
        let result = RawDocument::from_bytes(&self.buffer)?;
        call(document::elements(result).next().map(|element| element.value()))
    }
}
