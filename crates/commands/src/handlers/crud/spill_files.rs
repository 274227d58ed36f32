//! The memory and the temporary files of pipelines, as `aggregation` wants to see them.
//!
//! Used by `pipeline_host`. Both belong to `platform`; here they get the traits that a pipeline knows.

use std::io;
use std::sync::Arc;

use aggregation::{AggregationError, SpillReader, SpillStore, SpillWriter, StageMemory};
use platform::{OperationMemory, RunReader, RunWriter, TemporaryStore};

use super::query_arguments::{host_error, temporary_file_error};
use crate::state::operations::{before_allocating, check_memory};

/// Memory for larger records is asked for.
const LARGE_BYTES: usize = 64 << 10;

/// The temporary files of one pipeline.
pub(super) struct SpillFiles(Arc<TemporaryStore>);

impl SpillFiles {
    pub(super) fn new(store: &Arc<TemporaryStore>) -> Self {
        Self(Arc::clone(store))
    }
}

fn failed(error: io::Error) -> AggregationError {
    host_error(temporary_file_error(&error))
}

impl SpillStore for SpillFiles {
    fn begin_run(&self) -> aggregation::Result<Box<dyn SpillWriter>> {
        Ok(Box::new(Writer(self.0.begin_run().map_err(failed)?)))
    }
}

struct Writer(RunWriter);

impl SpillWriter for Writer {
    fn append(&mut self, record: &[u8]) -> aggregation::Result<()> {
        if record.len() > LARGE_BYTES {
            before_allocating(record.len()).map_err(host_error)?;
        }
        self.0.append(&[record]).map_err(failed)
    }

    fn finish(self: Box<Self>) -> aggregation::Result<Box<dyn SpillReader>> {
        Ok(Box::new(Reader(self.0.finish().map_err(failed)?)))
    }
}

struct Reader(RunReader);

impl SpillReader for Reader {
    fn next(&mut self, record: &mut Vec<u8>) -> aggregation::Result<bool> {
        let is_found = self.0.next(record).map_err(failed)?;
        if record.capacity() > LARGE_BYTES {
            check_memory().map_err(host_error)?;
        }
        Ok(is_found)
    }

    fn restart(&mut self) {
        self.0.restart();
    }

    fn seek(&mut self, position: u64) -> aggregation::Result<()> {
        self.0.seek(position).map_err(failed)
    }
}

/// Memory of one stage, counted in the server's budget.
pub(super) struct CountedMemory(OperationMemory);

impl CountedMemory {
    pub(super) fn new(memory: OperationMemory) -> Self {
        Self(memory)
    }
}

impl StageMemory for CountedMemory {
    fn holds(&mut self, bytes: usize) -> bool {
        self.0.holds(bytes as u64)
    }

    fn shrink(&mut self, bytes: usize) {
        self.0.shrink(bytes as u64);
    }
}
