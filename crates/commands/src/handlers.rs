//! The commands themselves, one a file, and what only some of them share.
//!
//! Called by `dispatcher` through `registry`. Built on `state` and `request`.

pub(crate) mod apply_ops;
pub(crate) mod change_stream;
pub(crate) mod command;
pub(crate) mod crud;
pub(crate) mod diagnostics;
pub(crate) mod fail_points;
pub(crate) mod oplog_entries;
pub(crate) mod oplog_view;
pub(crate) mod read_source;
pub(crate) mod replication;
pub(crate) mod schema;
pub(crate) mod security;
pub(crate) mod sessions;
pub(crate) mod tail;
pub(crate) mod time_series;
pub(crate) mod transactions;
pub(crate) mod views;
