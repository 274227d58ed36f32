//! Filters, updates, projections, expressions and accumulators over raw BSON: pure functions of documents.
//!
//! Called by the planner, the executor, aggregation, and `collection` (partial indexes, validators). It relies on
//! `document` for comparison and path walking. It must not know storage, collections, commands or sessions.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]

pub mod accumulator;
pub mod depth;
pub mod error;
pub mod expression;
pub mod filter;
pub mod growth;
mod memory_limit;
mod path_budget;
pub mod projection;
mod regular_expression;
pub mod rows;
mod script;
pub mod update;
mod watch;

pub use error::{ErrorKind, QueryError, Result};
pub use memory_limit::{MemoryLimit, before_allocating, before_allocating_if_large, limit_memory};
