//! What a search keeps in the order in which it came: documents that were found, values that are to be looked for. In
//! memory, or in a run on temporary storage once memory has not sufficed.
//!
//! Used by `search`.

use std::vec::IntoIter;

use bson::raw::RawDocumentBuf;

use super::STAGE;
use crate::context::RunContext;
use crate::error::Result;
use crate::host::{SpillReader, SpillWriter};
use crate::spill;

/// See the module's head. A value is in a document of one field.
#[derive(Default)]
pub(super) struct Kept {
    held: Vec<RawDocumentBuf>,
    /// Those before the ones in memory.
    writer: Option<Box<dyn SpillWriter>>,
}

/// What was kept, from the first on.
#[derive(Default)]
pub(super) struct KeptReading {
    reader: Option<Box<dyn SpillReader>>,
    held: IntoIter<RawDocumentBuf>,
    buffer: Vec<u8>,
}

impl Kept {
    pub(super) fn push(&mut self, document: RawDocumentBuf) {
        self.held.push(document);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.held.is_empty() && self.writer.is_none()
    }

    /// Puts what is in memory on temporary storage.
    pub(super) fn spill(&mut self, run: &RunContext) -> Result<()> {
        if self.held.is_empty() {
            return Ok(());
        }
        let writer = match &mut self.writer {
            Some(writer) => writer,
            none => none.insert(spill::begin_run(run, STAGE)?),
        };
        std::mem::take(&mut self.held).iter().try_for_each(|document| writer.append(document.as_bytes()))
    }

    pub(super) fn read(self) -> Result<KeptReading> {
        let reader = self.writer.map(|writer| writer.finish()).transpose()?;
        Ok(KeptReading { reader, held: self.held.into_iter(), buffer: Vec::new() })
    }
}

impl KeptReading {
    pub(super) fn next(&mut self) -> Result<Option<RawDocumentBuf>> {
        if let Some(reader) = &mut self.reader {
            if reader.next(&mut self.buffer)? {
                return Ok(Some(RawDocumentBuf::from_bytes(std::mem::take(&mut self.buffer))?));
            }
            self.reader = None;
        }
        Ok(self.held.next())
    }
}
