//! The commands: one file each, and the dispatcher that finds them.
//!
//! Called by `server` with one parsed message at a time ([`Dispatcher::run`]); also by tests, without a network. Built on
//! everything below: `executor` and `planner` for queries, `aggregation` for pipelines, `transaction` for writes and
//! definitions. Must not know: sockets, frames, threads of the server.
//!
//! ```text
//! Dispatcher::run ─ registry (name → handler) ─ Arguments (fields, refusing what is unknown) ─ handler
//!        └── CommandError → {ok: 0, errmsg, code, codeName}
//! ```
//!
//! Read `dispatcher`, `registry`, `arguments`, then `crud/insert` and `crud/find`.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]

mod admission;
mod apply_ops;
mod arguments;
mod change_stream;
mod client_cursors;
mod cluster_time;
mod context;
mod crud;
mod default_concerns;
mod diagnostics;
mod dispatcher;
mod document_writer;
mod error;
mod error_codes;
mod execution_notes;
mod fail_points;
mod fsync_lock;
pub mod inspect;
mod issued_timestamps;
mod operation_session;
mod operations;
mod oplog_view;
mod read_concern;
mod read_preference;
mod registry;
mod replica_set;
mod replication;
mod schema;
mod sessions;
mod stable_api;
mod startup_log;
mod tail;
mod topology;
mod transactions;
mod write_concern;

pub use admission::{Need, Permission};
pub use context::{
    BuildFacts, ClientContext, DiagnosticLog, LogVerbosity, NetworkFigures, ServerContext, ServerFacts, ServerHooks,
};
pub use diagnostics::versions::VERSION as ANNOUNCED_VERSION;
pub use dispatcher::{Attempt, CommandRequest, Dispatcher, Next, Outcome, SequenceSource};
pub use document_writer::DocumentWriter;
pub use error::{CommandError, Result};
pub use registry::{CommandDescription, command_descriptions};
pub use replica_set::{Initiation, ReplicaSetFacts};
