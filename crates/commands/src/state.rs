//! What commands work with: the state of the server and of its clients, shared by all handlers.
//!
//! Built on `request`; imports nothing from `handlers`, `registry` and `dispatcher`.

pub(crate) mod access_control;
pub(crate) mod accounts;
pub(crate) mod acknowledgement;
pub(crate) mod admission;
pub(crate) mod audit;
pub(crate) mod backups;
pub(crate) mod client_cursors;
pub(crate) mod command_figures;
pub(crate) mod command_table;
pub(crate) mod context;
pub(crate) mod default_concerns;
pub(crate) mod execution_notes;
pub(crate) mod fail_points;
pub(crate) mod fsync_lock;
pub(crate) mod issued_timestamps;
pub(crate) mod latency;
pub(crate) mod namespace_usage;
pub(crate) mod operation_counts;
pub(crate) mod operation_session;
pub(crate) mod operations;
pub(crate) mod parameters;
pub(crate) mod profiler;
pub(crate) mod queries;
pub(crate) mod query_settings;
pub(crate) mod query_statistics;
pub(crate) mod reading;
pub(crate) mod replica_set;
pub(crate) mod rights;
pub(crate) mod server_hooks;
pub(crate) mod session_end;
pub(crate) mod topology;
pub(crate) mod traces;
pub(crate) mod versions;
pub(crate) mod writing;
