//! A store and the shared log of its replica set: what the log has comes into the oplog before a start, what is logged here is shipped and confirmed.
//!
//! `enter` is called while a store is being opened, before its oplog is replayed: the member reads the log to its end, and claims the lead or follows. From then
//! on somebody calls `Member::step` in a loop. All of it are functions without threads, so that the simulator drives the same code as a server.
//!
//! ```text
//! Leading (Shipper):  oplog ──> records ──> log ──> read, judged ──> Store::confirm
//! Following:          log ──> read, judged ──> whole entries ──> Store::apply_received
//! ```
//!
//! Called by `server` and by the simulator. Built on: `shared_log` (the rule, and who may write), `oplog` (canonical bytes), `transaction` (what is confirmed,
//! and what applies entries of others).
//! Must not know: what entries mean, commands, the wire.

#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]

mod error;
mod half_entries;
mod joining;
mod local_copy;
mod member;
mod restoring;
mod shipper;
mod standing_file;
#[cfg(test)]
mod tests;

pub use error::{ReplicationError, Result};
pub use joining::{Entered, Follows, Joined, enter, join};
pub use member::{Member, Standpoint};
pub use restoring::{RestoredLog, restore};
pub use shipper::Shipper;
pub use standing_file::StandingFile;
