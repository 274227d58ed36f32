//! What a pipeline needs from the server around it, as traits that `commands` implements over the executor.

use std::fmt;
use std::sync::Arc;

use bson::raw::{RawDocument, RawDocumentBuf};
use query_language::expression::Variables;

use crate::context::Namespace;
use crate::error::Result;

/// A stream of documents, pulled one at a time.
pub trait DocumentSource: Send {
    /// The next document, `None` at the end. After the end or an error it is not called again.
    fn next(&mut self) -> Result<Option<RawDocumentBuf>>;
}

/// A source of any kind.
pub type BoxSource = Box<dyn DocumentSource>;

/// The documents of an iterator as a source.
pub fn source_of(documents: impl IntoIterator<Item = RawDocumentBuf, IntoIter: Send + 'static>) -> BoxSource {
    struct Iterated<I>(I);
    impl<I: Iterator<Item = RawDocumentBuf> + Send> DocumentSource for Iterated<I> {
        fn next(&mut self) -> Result<Option<RawDocumentBuf>> {
            Ok(self.0.next())
        }
    }
    Box::new(Iterated(documents.into_iter()))
}

/// A query on another collection, for `$lookup` and `$unionWith`.
#[derive(Debug, Clone)]
pub struct ForeignQuery {
    /// The filter in the language of `find`; empty for all documents.
    pub filter: RawDocumentBuf,
    /// What must be read of each document; `None` for everything. More may be returned.
    pub needed_paths: Option<Vec<String>>,
    /// The variables that expressions in the filter refer to.
    pub variables: Arc<Variables>,
}

/// The server around a pipeline.
///
/// Errors of the host's own are passed as `AggregationError::Host` and come back to it unchanged.
pub trait PipelineHost: Send + Sync {
    /// The documents of a collection that match; none when it does not exist. Called once for each local document of a
    /// `$lookup` by fields, so it must be cheap to start.
    fn find(&self, namespace: &Namespace, query: &ForeignQuery) -> Result<BoxSource>;

    /// Whether an index finds the documents of a collection by the value of a field.
    fn has_index(&self, namespace: &Namespace, path: &str) -> Result<bool>;

    /// The document that `$collStats` gives; `options` is its argument, already checked.
    fn collection_statistics(&self, namespace: &Namespace, options: &RawDocument) -> Result<RawDocumentBuf>;

    /// The documents that `$indexStats` gives, one an index.
    fn index_statistics(&self, namespace: &Namespace) -> Result<Vec<RawDocumentBuf>>;

    /// The documents that `$currentOp` gives: one a running operation, and those of what is idle that are wanted.
    fn current_operations(&self, wanted: IdleOperations) -> Result<Vec<RawDocumentBuf>>;

    /// Begins to replace a collection by what `$out` writes. Nothing is visible before `OutputWriter::finish`.
    fn replace_collection(&self, namespace: &Namespace) -> Result<Box<dyn OutputWriter>>;

    /// Where blocking stages put what exceeds their memory; `None` when the command does not allow disk use.
    fn spill_store(&self) -> Option<&dyn SpillStore>;

    /// Memory for one blocking stage, counted where all memory is.
    fn stage_memory(&self) -> Box<dyn StageMemory>;

    /// An error when the command has been killed or has run out of time. Called now and then.
    fn check_interrupt(&self) -> Result<()>;
}

/// What `$currentOp` gives beside what is running.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct IdleOperations {
    /// Connections on which nothing runs.
    pub connections: bool,
    /// Open transactions between their commands.
    pub sessions: bool,
    /// Cursors between their batches.
    pub cursors: bool,
    /// And whether of all users, not only of one's own.
    pub all_users: bool,
}

impl fmt::Debug for dyn PipelineHost {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("PipelineHost")
    }
}

/// Writes the result of `$out`. Dropped without `finish`, it leaves the target collection as it was.
pub trait OutputWriter: Send {
    /// Adds a document.
    fn write(&mut self, document: &RawDocument) -> Result<()>;

    /// Puts the new collection in the place of the old one, atomically, with the old one's indexes.
    fn finish(self: Box<Self>) -> Result<()>;
}

/// Memory that a stage holds; given back when dropped.
pub trait StageMemory: Send {
    /// Whether the stage may hold so many bytes. `false`: it has to spill or fail.
    fn holds(&mut self, bytes: usize) -> bool;

    /// Gives back what is beyond `bytes`.
    fn shrink(&mut self, bytes: usize);
}

/// Temporary storage for what does not fit a stage's memory.
pub trait SpillStore: Send + Sync {
    /// Begins a run of records. Its space is given back when the writer, or the reader made of it, is dropped.
    fn begin_run(&self) -> Result<Box<dyn SpillWriter>>;
}

/// Writes one run of records.
pub trait SpillWriter: Send {
    /// Appends a record.
    fn append(&mut self, record: &[u8]) -> Result<()>;

    /// Ends the run; the reader starts at its first record.
    fn finish(self: Box<Self>) -> Result<Box<dyn SpillReader>>;
}

/// Reads one run of records in the order in which they were written.
pub trait SpillReader: Send {
    /// Puts the next record into `record`, replacing its content; `false` at the end.
    fn next(&mut self, record: &mut Vec<u8>) -> Result<bool>;

    /// Goes back to the first record.
    fn restart(&mut self);
}
