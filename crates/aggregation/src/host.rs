//! What a pipeline needs from the server around it, as traits that `commands` implements over the executor.

use std::borrow::Cow;
use std::fmt;
use std::ops::ControlFlow;
use std::sync::Arc;

use bson::raw::{RawBsonRef, RawDocument, RawDocumentBuf};
use query_language::expression::{FieldPath, Metadata, MetadataUse, Variables};
use query_language::rows::RowReader;
use query_language::update::Update;

use crate::context::Namespace;
use crate::error::Result;

/// A stream of documents, pulled one at a time.
pub trait DocumentSource: Send {
    /// The next document, `None` at the end. After the end or an error it is not called again.
    fn next(&mut self) -> Result<Option<RawDocumentBuf>>;

    /// The same, lent where it lies: for who takes something of it and does not keep it.
    fn lend(&mut self) -> Result<Option<Cow<'_, RawDocument>>> {
        Ok(self.next()?.map(Cow::Owned))
    }

    /// Adds a row for each document until the reader has enough; `false`: there are no more.
    fn fill(&mut self, rows: &mut RowReader) -> Result<bool> {
        while !rows.is_full() {
            match self.lend()? {
                Some(document) => rows.take(&document)?,
                None => return Ok(false),
            }
        }
        Ok(true)
    }

    /// Passes over all documents that are left and says how many they were, if that is quicker than to take each. `None`: it is not,
    /// and they are still there.
    fn count_rest(&mut self) -> Result<Option<u64>> {
        Ok(None)
    }

    /// What is known, beside its fields, of the document that was given last. Stages that pass on documents pass it on.
    fn metadata(&self) -> Metadata {
        Metadata::default()
    }
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
    /// What is read of what is known of the documents beside their fields.
    pub metadata: MetadataUse,
    /// The variables that expressions in the filter refer to.
    pub variables: Arc<Variables>,
}

/// A query for the neighbours of a point, for `$geoNear`.
#[derive(Debug, Clone)]
pub struct NearQuery {
    /// The path of the places; `None` for that of the only index of places.
    pub key: Option<String>,
    /// The point and the limits, as `find` has them at a path: `{$near: ..., $maxDistance: ...}`.
    pub operators: RawDocumentBuf,
    /// What else must hold of the documents; empty for all.
    pub query: RawDocumentBuf,
    /// The variables that expressions in the query refer to.
    pub variables: Arc<Variables>,
}

/// A document with how far it is.
#[derive(Debug)]
pub struct Neighbour {
    /// The document.
    pub document: RawDocumentBuf,
    /// How far the nearest of its places is, and which.
    pub metadata: Metadata,
}

/// A stream of neighbours, pulled one at a time.
pub trait NearSource: Send {
    /// The next one, `None` at the end. After the end or an error it is not called again.
    fn next(&mut self) -> Result<Option<Neighbour>>;
}

/// The server around a pipeline.
///
/// Errors of the host's own are passed as `AggregationError::Host` and come back to it unchanged.
pub trait PipelineHost: Send + Sync {
    /// The documents of a collection that match; none when it does not exist. Called once for each local document of a
    /// `$lookup` by fields, so it must be cheap to start.
    fn find(&self, namespace: &Namespace, query: &ForeignQuery) -> Result<BoxSource>;

    /// Finds documents of a collection by `_id`, if it has them by that; `None`: they are to be asked for by `find`.
    fn by_id(&self, _: &Namespace) -> Result<Option<Box<dyn FindById>>> {
        Ok(None)
    }

    /// The documents of a collection that match, the nearest first; none when it does not exist.
    fn near(&self, namespace: &Namespace, query: &NearQuery) -> Result<Box<dyn NearSource>>;

    /// Whether an index finds the documents of a collection by the value of a field.
    fn has_index(&self, namespace: &Namespace, path: &str) -> Result<bool>;

    /// The document that `$collStats` gives; `options` is its argument, already checked.
    fn collection_statistics(&self, namespace: &Namespace, options: &RawDocument) -> Result<RawDocumentBuf>;

    /// The documents that `$indexStats` gives, one an index.
    fn index_statistics(&self, namespace: &Namespace) -> Result<Vec<RawDocumentBuf>>;

    /// The documents that `$planCacheStats` gives, one a decision.
    fn plan_cache_statistics(&self, namespace: &Namespace) -> Result<Vec<RawDocumentBuf>>;

    /// The documents that `$listClusterCatalog` gives, one a collection or view: of a database, or of all.
    fn cluster_catalog(&self, database: Option<&str>, shows_shards: bool) -> Result<Vec<RawDocumentBuf>>;

    /// The documents that `$querySettings` gives, one a shape.
    fn query_settings(&self, shows_shape: bool) -> Result<Vec<RawDocumentBuf>>;

    /// The documents that `$queryStats` gives; with a key names are what it makes of them.
    fn query_statistics(&self, key: Option<&[u8]>) -> Result<Vec<RawDocumentBuf>>;

    /// The documents that `$currentOp` gives: one a running operation, and those of what is idle that are wanted.
    fn current_operations(&self, wanted: IdleOperations) -> Result<Vec<RawDocumentBuf>>;

    /// The documents that `$listSessions` gives, one a session.
    fn sessions(&self, wanted: &ListedSessions) -> Result<Vec<RawDocumentBuf>>;

    /// Begins to replace a collection by what `$out` writes; `time_series` is what it says of a time-series collection.
    /// Nothing is visible before `OutputWriter::finish`.
    fn replace_collection(
        &self,
        namespace: &Namespace,
        time_series: Option<&RawDocument>,
    ) -> Result<Box<dyn OutputWriter>>;

    /// Begins to write what `$merge` writes, if the collection has what tells documents apart.
    fn begin_merge(&self, rules: &MergeRules) -> Result<Box<dyn MergeWriter>>;

    /// Where blocking stages put what exceeds their memory; `None` when the command does not allow disk use.
    fn spill_store(&self) -> Option<&dyn SpillStore>;

    /// Memory for one blocking stage, counted where all memory is.
    fn stage_memory(&self) -> Box<dyn StageMemory>;

    /// An error when the command has been killed or has run out of time. Called now and then.
    fn check_interrupt(&self) -> Result<()>;
}

/// Documents of one collection by `_id`, for `$lookup`: what `find` gives for an equality, without a query for each.
pub trait FindById: Send {
    /// The document with this `_id`, which is no array, null, undefined or pattern.
    fn find(&mut self, id: RawBsonRef<'_>, moment: Moment) -> Result<Option<&RawDocument>>;

    /// Looks for several, all as of this moment, in an order of its own. `told` is told the number of each and the document,
    /// if there is one, until it breaks off.
    fn find_all(
        &mut self,
        ids: &[RawBsonRef<'_>],
        told: &mut dyn FnMut(usize, Option<&RawDocument>) -> ControlFlow<()>,
    ) -> Result<()>;

    /// Says that it may be a while until the next, which will not be looked for as before.
    fn rest(&mut self);
}

/// When a document is looked for, where nothing says that all is read as of one point in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Moment {
    /// As it is now.
    Now,
    /// As it was when the one before was looked for: for several at once.
    AsBefore,
}

/// Whose sessions are listed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ListedSessions {
    /// Those of who asks.
    OwnOnly,
    /// Those of users by their names and databases.
    Of(Vec<(String, String)>),
    /// Everybody's.
    OfAll,
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

/// What `$merge` does with its documents.
#[derive(Debug, Clone)]
pub struct MergeRules {
    /// Where they go.
    pub target: Namespace,
    /// The fields by which a document of the target is the same; at least one.
    pub on: Vec<FieldPath>,
    /// What becomes of a document that is there.
    pub when_matched: WhenMatched,
    /// What becomes of one that is not.
    pub when_not_matched: WhenNotMatched,
}

/// What `$merge` does where the target has the document.
#[derive(Debug, Clone)]
pub enum WhenMatched {
    /// Updates it, by a pipeline that sees the variables of `MergeWriter::write`.
    Update(Arc<Update>),
    /// Leaves it as it is.
    Keep,
    /// Fails.
    Fail,
}

/// What `$merge` does where the target has no such document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WhenNotMatched {
    /// Inserts it.
    Insert,
    /// Nothing.
    Discard,
    /// Fails.
    Fail,
}

/// Writes what `$merge` is given. What is written stays.
pub trait MergeWriter: Send {
    /// Writes a document; the variables are those of its update.
    fn write(&mut self, document: &RawDocument, variables: Variables) -> Result<()>;
}

/// Memory that a stage holds; given back when dropped.
pub trait StageMemory: Send {
    /// Whether the stage may hold so many bytes. `false`: it has to spill or fail.
    fn holds(&mut self, bytes: usize) -> bool;

    /// Gives back what is beyond `bytes`.
    fn shrink(&mut self, bytes: usize);
}

/// What a record of a run takes beside its own bytes.
pub const RECORD_LENGTH_BYTES: usize = 4;

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

    /// Goes to the record that begins at this byte of the run: each takes [`RECORD_LENGTH_BYTES`] and its own.
    fn seek(&mut self, position: u64) -> Result<()>;
}
