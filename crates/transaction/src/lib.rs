//! Transactions: who may change a record when, in which order commits become visible, and what a reader sees.
//!
//! `Store` puts a data directory together (storage engine, oplog, catalog) and is what everything above works with. Called by
//! `executor`, `commands` and, for opening and background work, `server`. Built on `collection`, `oplog`, `storage_engine`.
//! Must not know: queries, plans, commands, the wire.
//!
//! ```text
//! write:  pace → gate (shared) → record lock → newest version → decide → unique-key locks, check
//!            → oplog append = commit timestamp, in flight → apply to trees → applied → visible in order → acknowledge
//! read:   ReadView = snapshot at the visible timestamp → cursors
//! ```
//!
//! Read `store`, `commit_order`, `change`, then `read_view`, `definitions`, `index_build`. Lock order: `docs/lock-order.md`.
//!
//! Transactions of several documents will keep their changes in a write set of their own and take this same path at commit.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]

mod background;
mod capped;
mod change;
mod checkpoint;
mod commit_order;
mod definitions;
mod error;
mod expiry;
mod index_build;
mod index_definitions;
mod insert;
mod interleaving;
mod lock_table;
mod read_view;
mod repair;
mod ring_writing;
mod space;
mod store;
#[cfg(test)]
mod tests;
mod unique;
mod write_context;

pub use change::{ChangeOutcome, Decision};
pub use checkpoint::{CheckpointProgress, Urgency};
pub use commit_order::CommitInfo;
pub use definitions::RenameTarget;
pub use error::{Result, TransactionError};
pub use expiry::TtlPass;
pub use index_definitions::{IndexesCreated, WhichIndexes};
pub use insert::{InsertOrder, InsertOutcome};
pub use interleaving::{Interleaving, Moment};
pub use read_view::{IndexCursor, ReadView, RecordCursor};
pub use repair::{RepairReport, repair};
pub use store::{Acknowledgement, Store, StoreOptions};
pub use write_context::WriteContext;
