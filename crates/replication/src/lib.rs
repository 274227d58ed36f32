//! A store and the shared log of its replica set: what the log has comes into the oplog before a start, what is logged here is shipped and confirmed.
//!
//! `join` is called while a store is being opened, before its oplog is replayed: the member reads the log to its end and claims the lead. From then on
//! somebody calls `Shipper::step` in a loop. All of it are functions without threads, so that the simulator drives the same code as a server.
//!
//! ```text
//! join: read to the end ── claim ──> Leading        step: oplog ──> records ──> log ──> read, judged ──> Store::confirm
//! ```
//!
//! Called by the simulator; a server is to. Built on: `shared_log` (the rule, and who may write), `oplog` (canonical bytes), `transaction` (what is confirmed).
//! Must not know: what entries mean, commands, the wire.

#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]

mod error;
mod joining;
mod local_copy;
mod shipper;
mod standing_file;
#[cfg(test)]
mod tests;

pub use error::{ReplicationError, Result};
pub use joining::{Joined, join};
pub use shipper::Shipper;
pub use standing_file::StandingFile;
