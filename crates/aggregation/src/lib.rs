//! Aggregation pipelines: parsed, optimised, and pulled one document at a time, or in batches of rows between stages.
//!
//! Called by `commands` (`aggregate`, and `explain` of it). `Pipeline::parse` checks the stages; `split_pushdown` hands
//! what a query plan does better (filter, sort, skip, limit, needed fields) to the caller; `run` chains the rest over a
//! `DocumentSource`. It relies on `query_language` for filters, projections, expressions and accumulators, and reaches
//! collections only through the `PipelineHost` that its caller implements.
//! Must not know: commands, the wire, sessions, storage.
//!
//! Read `pipeline`, then `stage`, then a stage such as `stages::limit` and `stages::group`.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]

mod context;
mod cursor;
mod document_edit;
mod error;
mod host;
mod optimize;
mod pipeline;
mod pushdown;
pub mod registry;
mod row_stage;
mod spill;
mod stack;
mod stage;
mod stages;

pub use context::{MEMORY_BYTES_MAX_DEFAULT, Namespace, PipelineContext};
pub use cursor::{PipelineCursor, check_document_size};
pub use error::{AggregationError, Result};
pub use host::{
    BoxSource, DocumentSource, FindById, ForeignQuery, IdleOperations, ListedSessions, MergeRules, MergeWriter, Moment,
    NearQuery, NearSource, Neighbour, OutputWriter, PipelineHost, RECORD_LENGTH_BYTES, SpillReader, SpillStore,
    SpillWriter, StageMemory, WhenMatched, WhenNotMatched, source_of,
};
pub use pipeline::{Pipeline, PipelineSource, check_stage_names};
pub use pushdown::Pushdown;
pub use stage::{OneOfEach, Which};
