//! The end of a pipeline that its command pulls, and the checks at both ends.

use std::borrow::Cow;
use std::sync::Arc;

use bson::raw::{RawDocument, RawDocumentBuf};
use query_language::ErrorKind;
use query_language::depth::check_document_depth;
use query_language::expression::Metadata;
use query_language::rows::RowReader;

use crate::error::{AggregationError, Result};
use crate::host::{BoxSource, DocumentSource, PipelineHost};

/// Bytes that a document may have when it leaves a pipeline.
const DOCUMENT_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Bytes that a document may have between two stages.
const BUILT_BYTES_MAX: usize = 64 * 1024 * 1024;
/// Documents read between two checks for an interruption.
const DOCUMENTS_PER_CHECK: usize = 128;
/// Bytes of a document that count for one more.
const BYTES_PER_DOCUMENT: usize = 4096;

/// The output of a running pipeline.
pub struct PipelineCursor {
    source: Option<BoxSource>,
    is_tailing: bool,
    passes_large: bool,
}

impl std::fmt::Debug for PipelineCursor {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("PipelineCursor").field("ended", &self.source.is_none()).finish()
    }
}

impl PipelineCursor {
    pub(crate) fn new(source: BoxSource) -> Self {
        Self { source: Some(source), is_tailing: false, passes_large: false }
    }

    /// From now on the end is not the end: more may come from the source later. For pipelines of stages that pass on one document at a time.
    pub fn tail(&mut self) {
        self.is_tailing = true;
    }

    /// From now on documents of any size leave the pipeline: whoever pulls them takes them apart.
    pub fn pass_large_documents(&mut self) {
        self.passes_large = true;
    }

    /// The next document, `None` at the end and ever after. An error ends the pipeline.
    pub fn next_document(&mut self) -> Result<Option<RawDocumentBuf>> {
        let passes_large = self.passes_large;
        let Some(source) = &mut self.source else { return Ok(None) };
        let next = source.next().and_then(|document| match document {
            Some(document) if !passes_large => check_document_size(&document).map(|()| Some(document)),
            document => Ok(document),
        });
        if !(matches!(next, Ok(Some(_))) || self.is_tailing && next.is_ok()) {
            self.source = None;
        }
        next
    }
}

/// Refuses a result that is too large for a document.
///
/// # Errors
/// `BsonObjectTooLarge`.
pub fn check_document_size(document: &RawDocument) -> Result<()> {
    let size = document.as_bytes().len();
    if size <= DOCUMENT_BYTES_MAX {
        return Ok(());
    }
    let message = format!(
        "BSONObj size: {size} (0x{size:X}) is invalid. \
         Size must be between 0 and {DOCUMENT_BYTES_MAX}(16MB)"
    );
    Err(AggregationError::new(ErrorKind::BsonObjectTooLarge, message))
}

/// Of a document with so many bytes it is asked whether there is memory.
const LARGE_BYTES: usize = 64 * 1024;

/// Refuses what a stage has built when it is larger than anything between two stages may be, or there is no memory for it.
///
/// # Errors
/// `BsonObjectTooLarge`, `ExceededMemoryLimit`.
pub(crate) fn check_built(document: &RawDocument) -> Result<()> {
    let size = document.as_bytes().len();
    if size > BUILT_BYTES_MAX {
        let message = format!(
            "BSONObj size: {size} (0x{size:X}) is invalid. \
             Size must be between 0 and {BUILT_BYTES_MAX} between two stages"
        );
        return Err(AggregationError::new(ErrorKind::BsonObjectTooLarge, message));
    }
    if size > LARGE_BYTES { Ok(query_language::before_allocating(0)?) } else { Ok(()) }
}

/// A source that stops when its command is killed.
pub(crate) struct Interruptible {
    source: BoxSource,
    host: Arc<dyn PipelineHost>,
    /// Documents until the next check.
    until_check: usize,
}

impl Interruptible {
    pub(crate) fn new(source: BoxSource, host: Arc<dyn PipelineHost>) -> Self {
        Self { source, host, until_check: 0 }
    }

    fn check(&mut self) -> Result<()> {
        if self.until_check == 0 {
            self.host.check_interrupt()?;
            self.until_check = DOCUMENTS_PER_CHECK;
        }
        Ok(())
    }
}

/// What is left until the next check after a document.
fn less(until_check: usize, document: Option<&RawDocument>) -> usize {
    let bytes = document.map_or(0, |document| document.as_bytes().len());
    until_check.saturating_sub(1 + bytes / BYTES_PER_DOCUMENT)
}

impl DocumentSource for Interruptible {
    fn next(&mut self) -> Result<Option<RawDocumentBuf>> {
        self.check()?;
        let document = self.source.next()?;
        self.until_check = less(self.until_check, document.as_deref());
        Ok(document)
    }

    fn lend(&mut self) -> Result<Option<Cow<'_, RawDocument>>> {
        self.check()?;
        let document = self.source.lend()?;
        self.until_check = less(self.until_check, document.as_deref());
        Ok(document)
    }

    fn fill(&mut self, rows: &mut RowReader) -> Result<bool> {
        // Whoever reads rows counts each as work, which asks, too.
        self.host.check_interrupt()?;
        self.source.fill(rows)
    }

    fn count_rest(&mut self) -> Result<Option<u64>> {
        self.source.count_rest()
    }

    fn metadata(&self) -> Metadata {
        self.source.metadata()
    }
}

/// A source whose documents nest no deeper than documents may.
pub(crate) struct DepthChecked(pub(crate) BoxSource);

impl DocumentSource for DepthChecked {
    fn next(&mut self) -> Result<Option<RawDocumentBuf>> {
        let document = self.0.next()?;
        document.as_deref().map(check_document_depth).transpose()?;
        Ok(document)
    }

    fn metadata(&self) -> Metadata {
        self.0.metadata()
    }
}
