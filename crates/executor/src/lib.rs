//! Plan stages: running plans over a read view, trials between plans, counting, distinct values, explain.
//!
//! Called by `commands` and (through a source of documents) `aggregation`. Relies on `planner` for plans and on
//! `transaction` for views and cursors. Must not know: commands, sessions, the wire.
//!
//! A stage is pulled: `next` moves it, `document` then lends what it is on, from the page copy of a cursor where nothing
//! needs a copy. Updates and deletes read through one view for the whole statement, so a document that the update moves
//! within the index that is being scanned (the Halloween problem) is not met again.
//!
//! Read `stage`, `index_scan`, `fetch`, `query_executor`.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]

mod build;
mod collection_scan;
mod count;
mod covered_projection;
mod distinct;
mod distinct_values;
mod eof;
mod error;
mod explain;
mod fetch;
mod geo_near;
mod id_lookup;
mod index_scan;
mod interrupt;
mod key_filter;
mod limit;
mod or_stage;
mod projection;
mod query_executor;
mod return_key;
mod scan_pieces;
mod second_reader;
mod seen_records;
mod shared_scan;
mod skip;
mod sort;
mod sort_entries;
mod sort_key;
mod sort_merge;
mod sorted_runs;
mod stage;
mod statistics;
#[cfg(test)]
mod tests;
mod text_match;
mod text_or;
mod trial;

pub use count::{count, explain_count};
pub use distinct::{distinct, explain_distinct};
pub use distinct_values::{DistinctValues, ValueList};
pub use error::{ExecutorError, Result};
pub use explain::Verbosity;
pub use id_lookup::IdLookup;
pub use interrupt::{Interrupt, Interruption, Uninterrupted};
pub use query_executor::{QueryExecutor, QueryServices, Row, Target};
pub use shared_scan::ScanSharing;
pub use statistics::ExecutionTotals;
