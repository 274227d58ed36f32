//! Rows: what stages of a pipeline hand on in place of documents, in batches.
//!
//! A [`RowBatch`] has a column for each field that somebody reads, and in it a [`Slot`] for each document. A [`RowReader`]
//! takes them out of stored documents, in one walk over each that ends with the last field that is wanted. Filters,
//! projections and accumulators work on columns (`filter`, `projection`, `states` of `accumulator`); an
//! expression that has no form of its own for that is evaluated row by row, and finds fields by name in its row
//! ([`Row`]). Called by `aggregation`'s row stages. It relies on `document` for the walk and for values.

mod arithmetic;
mod batch;
mod expression;
mod filter;
mod projection;
mod reader;

/// Columns that something reads, or computes, of a batch at most: so batches need no memory that would have to be asked for.
pub const COLUMNS_MAX: usize = 32;

pub use batch::{Column, Row, RowBatch, RowNames, Slot};
pub use expression::{RowExpression, RowValues};
pub use filter::RowFilter;
pub use projection::RowProjection;
pub use reader::{BATCH_ROWS, RowReader};
