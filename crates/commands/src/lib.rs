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
//! In layers, from the top: `dispatcher`, `registry`, `handlers` (one command a file), `state` (what commands work
//! with), `request` (what a command says). Read `dispatcher`, `registry`, `request/arguments`, then
//! `handlers/crud/insert` and `handlers/crud/find`.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]

mod dispatcher;
mod handlers;
pub mod inspect;
mod registry;
mod request;
mod startup;
mod state;
#[cfg(test)]
mod test_server;

pub use dispatcher::{Dispatcher, PasswordLogin, RoleDescription, role_descriptions};
pub use registry::{CommandDescription, command_descriptions};
pub use request::command_request::{Attempt, CommandRequest, NoSequences, SequenceSource};
pub use request::document_writer::DocumentWriter;
pub use request::error::{CommandError, Result};
pub use request::outcome::{Next, Outcome};
pub use state::access_control::Authorization;
pub use state::access_control::added_user::user_document;
pub use state::access_control::login::LoginState;
pub use state::admission::{Need, Permission};
pub use state::audit::{AuditFilter, AuditSettings, AuditSink};
pub use state::backups::{ArchiveFigures, ArchiveReached, BackupFacts};
pub use state::context::{BuildFacts, ClientContext, ServerContext, ServerFacts};
pub use state::replica_set::members::{LogTrimming, MemberLook, SetLook, SetMembers, StepDown, StepDownRefused};
pub use state::replica_set::{Initiation, ReplicaSetFacts};
pub use state::server_hooks::{
    DiagnosticLog, LogVerbosity, NetworkFigures, ServerHooks, StandingWarning, TransportCertificate, TransportFigures,
};
pub use state::traces::{OperationSpan, TraceFigures, TraceParent, TraceSettings, TraceSink};
pub use state::versions::VERSION as ANNOUNCED_VERSION;
