//! Buckets of time-series collections: measurements of one series and one span of time in one document, by columns.
//!
//! Called by `aggregation` (`$_internalUnpackBucket`) and `commands` (inserts, deletes, updates, filters on buckets).
//! Pure functions of documents: it must not know collections, plans, commands or storage.
//!
//! ```text
//! measurements ─ BucketBuilder ─ columns ─ integers, doubles, packed      bucket ─ Measurements ─ documents
//! bucket_id: where the buckets of a series and a time are                 bucket_filter: what of a filter buckets can tell
//! ```
//!
//! The layout is in docs/file-format.md, "Buckets of time series".
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]

mod bucket_filter;
mod bucket_id;
mod builder;
mod columns;
mod doubles;
mod extents;
mod integers;
mod measurements;
mod packed;
#[cfg(test)]
mod tests;
mod uncompressed;

pub use bucket_filter::bucket_filter;
pub use bucket_id::{BucketPlace, id_seconds};
pub use builder::{BUCKET_BYTES_MAX, BucketBuilder, MEASUREMENTS_MAX, with_meta};
pub use measurements::{Measurements, VERSION, check, first_time, last_time, measurement_count};

/// What the fields of a measurement are called.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fields {
    /// With its time.
    pub time: String,
    /// That names its series, if there is one.
    pub meta: Option<String>,
}

impl Fields {
    /// A path into what names the series as it is called in buckets; `None` for every other path.
    pub fn in_bucket(&self, path: &str) -> Option<String> {
        let rest = path.strip_prefix(self.meta.as_deref()?)?;
        (rest.is_empty() || rest.starts_with('.')).then(|| format!("meta{rest}"))
    }
}

/// Why a bucket cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum BucketError {
    /// It is none, or its columns do not make sense.
    #[error("bucket of a time-series collection: {0}")]
    Damaged(String),
    /// Another server has written it in a layout that is not known here.
    #[error("buckets of version {0} are not implemented: version 1 and Plimsoll's own are")]
    NotImplemented(i64),
}

/// Shorthand for results of this crate.
pub type Result<T> = std::result::Result<T, BucketError>;

fn damaged<T>(what: impl Into<String>) -> Result<T> {
    Err(BucketError::Damaged(what.into()))
}
