//! Documents that belong together, in order: in memory, or in a run on temporary storage when they do not fit.
//!
//! Filled by the stage, document by document; then the functions look at documents by their numbers, mostly near those
//! that they looked at last. What is in a run is read in blocks, of which the last few are kept.

use std::cell::RefCell;
use std::ops::{Deref, Range};
use std::sync::Arc;

use bson::raw::{RawBson, RawDocument, RawDocumentBuf};
use document::work;
use query_language::ErrorKind;
use query_language::expression::{EvaluationContext, Expression, Variables};

use crate::context::{Memory, RunContext};
use crate::error::{AggregationError, Result};
use crate::host::{SpillReader, SpillWriter};
use crate::spill;

const STAGE: &str = "$setWindowFields";
/// The error of what does not fit.
const TOO_LARGE: ErrorKind = ErrorKind::Location(5_643_011);
/// What a document costs beside its bytes.
const DOCUMENT_BYTES: usize = 2 * size_of::<RawDocumentBuf>() + 16;
/// Bytes of documents that are read at once, at least.
const BLOCK_BYTES: usize = 64 << 10;
/// Blocks that are kept: a window's two ends are in one each, and so is the document that it is of.
const BLOCKS: usize = 4;

/// See the module's head.
pub(super) struct Partition {
    documents: Documents,
    pub(super) variables: Arc<Variables>,
    run: RunContext,
    memory: Memory,
    bytes: usize,
}

enum Documents {
    Held(Vec<RawDocumentBuf>),
    Filling { writer: Box<dyn SpillWriter>, layout: Layout },
    Spilled { layout: Layout, reading: RefCell<Reading> },
}

/// Where the blocks of a run are.
#[derive(Default)]
struct Layout {
    /// The number of the first document of each block, and where in the run it is.
    blocks: Vec<(usize, u64)>,
    /// Documents in all, and bytes of records.
    len: usize,
    end: u64,
    /// Bytes of documents in the last block.
    in_last: usize,
}

/// A run, and what was read of it last.
struct Reading {
    reader: Box<dyn SpillReader>,
    /// Blocks by their numbers, the one that was looked at last at the end.
    kept: Vec<(usize, Arc<Vec<RawDocumentBuf>>)>,
}

/// A document of a partition.
pub(super) enum Document<'p> {
    Held(&'p RawDocument),
    /// One of a block, with those before it.
    Read(Arc<Vec<RawDocumentBuf>>, usize),
}

impl Deref for Document<'_> {
    type Target = RawDocument;

    fn deref(&self) -> &RawDocument {
        match self {
            Document::Held(document) => document,
            // `Reading::document` counts within the block.
            Document::Read(block, number) => &block[*number],
        }
    }
}

impl Partition {
    pub(super) fn new(run: &RunContext) -> Self {
        let (variables, memory) = (Arc::clone(run.variables()), run.begin_memory());
        Self { documents: Documents::Held(Vec::new()), variables, run: run.clone(), memory, bytes: 0 }
    }

    pub(super) fn clear(&mut self) {
        self.documents = Documents::Held(Vec::new());
        self.bytes = 0;
        self.memory.clear();
    }

    /// Adds the next document. In memory each is there twice in the end: as it came, and with its new fields.
    ///
    /// # Errors
    /// It does not fit, and may not be put on temporary storage.
    pub(super) fn add(&mut self, document: RawDocumentBuf) -> Result<()> {
        if let Documents::Held(held) = &mut self.documents {
            let bytes = 2 * (DOCUMENT_BYTES + document.as_bytes().len());
            held.push(document);
            return if self.try_hold(bytes) { Ok(()) } else { self.spill() };
        }
        self.append(&document)
    }

    /// Ends the adding.
    pub(super) fn complete(&mut self) -> Result<()> {
        self.documents = match std::mem::replace(&mut self.documents, Documents::Held(Vec::new())) {
            Documents::Filling { writer, layout } => {
                let reading = RefCell::new(Reading { reader: writer.finish()?, kept: Vec::new() });
                Documents::Spilled { layout, reading }
            }
            other => other,
        };
        Ok(())
    }

    pub(super) fn is_spilled(&self) -> bool {
        !matches!(self.documents, Documents::Held(_))
    }

    pub(super) fn may_spill(&self) -> bool {
        self.run.host.spill_store().is_some()
    }

    /// Puts the documents on temporary storage; more may follow.
    pub(super) fn spill(&mut self) -> Result<()> {
        let Documents::Held(held) = &mut self.documents else { return Ok(()) };
        if self.run.host.spill_store().is_none() {
            return Err(too_large(self.bytes));
        }
        let held = std::mem::take(held);
        self.documents = Documents::Filling { writer: self.begin_run()?, layout: Layout::default() };
        self.bytes = 0;
        held.into_iter().try_for_each(|document| self.append(&document))?;
        self.memory.shrink(self.bytes);
        Ok(())
    }

    fn append(&mut self, document: &RawDocument) -> Result<()> {
        let Documents::Filling { writer, layout } = &mut self.documents else { return Ok(()) };
        let bytes = document.as_bytes();
        work::done(work::of_bytes(bytes.len()))?;
        writer.append(bytes)?;
        if layout.add(bytes.len()) { self.hold(size_of::<(usize, u64)>()) } else { Ok(()) }
    }

    /// The documents, which are given away; only while they are in memory.
    pub(super) fn take_held(&mut self) -> Vec<RawDocumentBuf> {
        match &mut self.documents {
            Documents::Held(held) => std::mem::take(held),
            _ => Vec::new(),
        }
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Gives back some of what was counted.
    pub(super) fn release(&mut self, bytes: usize) {
        self.bytes = self.bytes.saturating_sub(bytes);
        self.memory.shrink(self.bytes);
    }

    pub(super) fn begin_run(&self) -> Result<Box<dyn SpillWriter>> {
        spill::begin_run(&self.run, STAGE)
    }

    /// Counts what is held in addition.
    ///
    /// # Errors
    /// It does not fit (5643011).
    pub(super) fn hold(&mut self, bytes: usize) -> Result<()> {
        if self.try_hold(bytes) { Ok(()) } else { Err(too_large(self.bytes)) }
    }

    fn try_hold(&mut self, bytes: usize) -> bool {
        self.bytes += bytes;
        self.memory.holds(self.bytes)
    }

    pub(super) fn len(&self) -> usize {
        match &self.documents {
            Documents::Held(held) => held.len(),
            Documents::Filling { layout, .. } | Documents::Spilled { layout, .. } => layout.len,
        }
    }

    /// The document of this number; `None` beyond the last.
    pub(super) fn document(&self, number: usize) -> Result<Option<Document<'_>>> {
        match &self.documents {
            Documents::Held(held) => Ok(held.get(number).map(|document| Document::Held(document))),
            Documents::Filling { .. } => Ok(None),
            Documents::Spilled { layout, .. } if number >= layout.len => Ok(None),
            Documents::Spilled { layout, reading } => reading.borrow_mut().document(layout, number).map(Some),
        }
    }

    /// Calls with each document of a range, in order.
    pub(super) fn each(&self, range: Range<usize>, mut call: impl FnMut(&RawDocument) -> Result<()>) -> Result<()> {
        for number in range {
            let Some(document) = self.document(number)? else { break };
            call(&document)?;
        }
        Ok(())
    }

    /// What an expression gives for one of the documents; `None` when it is missing.
    pub(super) fn value(&self, expression: &Expression, number: usize) -> Result<Option<RawBson>> {
        let Some(document) = self.document(number)? else { return Ok(None) };
        work::step()?;
        let value = expression.evaluate(&EvaluationContext::new(&document, &self.variables))?;
        value.before_copying()?;
        Ok(value.into_raw_bson())
    }
}

fn too_large(bytes: usize) -> AggregationError {
    let message = format!(
        "Exceeded memory limit in {STAGE}: a partition, and what is computed of it, must fit into memory, but takes \
         {bytes} bytes"
    );
    AggregationError::new(TOO_LARGE, message)
}

/// Whether an error says that something did not fit into memory.
pub(super) fn is_too_large(error: &AggregationError) -> bool {
    matches!(error, AggregationError::Query(error) if error.kind == TOO_LARGE)
}

impl Layout {
    /// Takes note of the next document; whether it begins a block.
    fn add(&mut self, bytes: usize) -> bool {
        let begins = self.blocks.is_empty() || self.in_last >= BLOCK_BYTES;
        if begins {
            self.blocks.push((self.len, self.end));
            self.in_last = 0;
        }
        self.in_last += bytes;
        self.len += 1;
        self.end += spill::record_bytes(bytes);
        begins
    }

    /// The documents of a block.
    fn numbers(&self, block: usize) -> Range<usize> {
        let first = |block: usize| self.blocks.get(block).map_or(self.len, |(first, _)| *first);
        first(block)..first(block + 1)
    }
}

impl Reading {
    fn document(&mut self, layout: &Layout, number: usize) -> Result<Document<'static>> {
        let block = layout.blocks.partition_point(|(first, _)| *first <= number).saturating_sub(1);
        let numbers = layout.numbers(block);
        let documents = match self.kept.iter().position(|(kept, _)| *kept == block) {
            Some(at) => self.kept.remove(at).1,
            None => Arc::new(self.read(layout, block, numbers.len())?),
        };
        if self.kept.len() == BLOCKS {
            self.kept.remove(0);
        }
        self.kept.push((block, Arc::clone(&documents)));
        Ok(Document::Read(documents, number - numbers.start))
    }

    fn read(&mut self, layout: &Layout, block: usize, count: usize) -> Result<Vec<RawDocumentBuf>> {
        let place = layout.blocks.get(block).map_or(0, |(_, place)| *place);
        self.reader.seek(place)?;
        let mut documents = Vec::with_capacity(count);
        for _ in 0..count {
            let mut bytes = Vec::new();
            if !self.reader.next(&mut bytes)? {
                return Err(spill::damaged());
            }
            work::done(work::of_bytes(bytes.len()))?;
            documents.push(RawDocumentBuf::from_bytes(bytes)?);
        }
        Ok(documents)
    }
}
