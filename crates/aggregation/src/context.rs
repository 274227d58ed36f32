//! What a pipeline is parsed and run with.

use std::fmt;
use std::sync::Arc;

use query_language::expression::{ParseContext, Variables};
use query_language::filter::FilterOptions;
use query_language::rows::BATCH_ROWS;

use crate::host::{PipelineHost, StageMemory};

/// Bytes that one blocking stage may hold before it spills, MongoDB's limit.
pub const MEMORY_BYTES_MAX_DEFAULT: usize = 100 * 1024 * 1024;

/// What stands in the place of a collection's name where there is none.
const NO_COLLECTION: &str = "$cmd.aggregate";

/// A collection by name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Namespace {
    /// The database.
    pub database: String,
    /// The collection.
    pub collection: String,
}

impl Namespace {
    /// The collection of a database.
    pub fn new(database: impl Into<String>, collection: impl Into<String>) -> Self {
        Self { database: database.into(), collection: collection.into() }
    }

    /// No collection, but a database: what `{aggregate: 1}` runs on.
    pub fn of_database(database: impl Into<String>) -> Self {
        Self::new(database, NO_COLLECTION)
    }

    /// A collection of the same database; without a name, the database.
    pub(crate) fn beside(&self, collection: Option<&str>) -> Self {
        Self::new(self.database.clone(), collection.unwrap_or(NO_COLLECTION))
    }

    /// Whether there is no collection.
    pub fn is_whole_database(&self) -> bool {
        self.collection == NO_COLLECTION
    }
}

impl fmt::Display for Namespace {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}.{}", self.database, self.collection)
    }
}

/// The command that a pipeline belongs to.
#[derive(Debug, Clone)]
pub struct PipelineContext {
    /// The collection that the pipeline reads; stages name others in the same database.
    pub namespace: Namespace,
    /// The command's `let`, clock readings and random state.
    pub variables: Arc<Variables>,
    /// Bytes that one blocking stage may hold before it spills or fails.
    pub memory_bytes_max: usize,
    /// Rows that stages hand on at once, at most; with 0 they hand on documents.
    pub batch_rows_max: usize,
}

impl PipelineContext {
    /// A context with the default limits.
    pub fn new(namespace: Namespace, variables: Arc<Variables>) -> Self {
        Self { namespace, variables, memory_bytes_max: MEMORY_BYTES_MAX_DEFAULT, batch_rows_max: BATCH_ROWS }
    }

    pub(crate) fn expressions(&self) -> ParseContext {
        ParseContext::for_variables(&self.variables)
    }

    pub(crate) fn filters(&self) -> FilterOptions {
        FilterOptions::new(Arc::clone(&self.variables))
    }

    /// The same with other variables, for a sub-pipeline.
    pub(crate) fn with_variables(&self, variables: Arc<Variables>) -> Self {
        Self { variables, ..self.clone() }
    }
}

/// The memory of one blocking stage: within the pipeline's limit, and counted by the host.
pub(crate) struct Memory {
    counted: Box<dyn StageMemory>,
    bytes_max: usize,
}

impl Memory {
    /// Whether the stage may hold so many bytes.
    pub(crate) fn holds(&mut self, bytes: usize) -> bool {
        bytes <= self.bytes_max && self.counted.holds(bytes)
    }

    /// Gives everything back.
    pub(crate) fn clear(&mut self) {
        self.shrink(0);
    }

    /// Gives back what is beyond `bytes`.
    pub(crate) fn shrink(&mut self, bytes: usize) {
        self.counted.shrink(bytes);
    }
}

/// What the stages of a running pipeline share.
#[derive(Clone)]
pub(crate) struct RunContext {
    pub(crate) pipeline: PipelineContext,
    pub(crate) host: Arc<dyn PipelineHost>,
}

impl RunContext {
    pub(crate) fn variables(&self) -> &Arc<Variables> {
        &self.pipeline.variables
    }

    /// Memory for a blocking stage.
    pub(crate) fn begin_memory(&self) -> Memory {
        Memory { counted: self.host.stage_memory(), bytes_max: self.pipeline.memory_bytes_max }
    }
}
