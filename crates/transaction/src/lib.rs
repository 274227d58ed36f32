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
//! A transaction of several documents keeps its changes in a write set of its own, owns the records and unique keys that it has written, and
//! takes this same path at commit, with one oplog entry: read `multi_document`, then `write_set`, `merge_cursor`. Sessions: `sessions`.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]

mod background;
mod bounded_clock;
mod capped;
mod change;
mod change_order;
mod checkpoint;
mod commit_order;
mod confirming;
mod definitions;
mod error;
mod expiry;
mod feed;
mod giving_way;
mod index_build;
mod index_cursor;
mod index_definitions;
mod insert;
mod interleaving;
mod lock_table;
mod long_keys;
mod merge_cursor;
mod multi_document;
mod notes;
mod opening;
mod read_view;
mod received;
mod record_source;
mod repair;
mod retained_snapshots;
mod retention;
mod retried_statement;
mod ring_writing;
mod sessions;
mod set_aside_work;
mod space;
mod spilled_writes;
mod store;
mod store_copy;
#[cfg(test)]
mod tests;
mod unique;
mod unread_entries;
mod waiting;
mod write_context;
mod write_freeze;
mod write_set;
mod write_stop;

pub use change::{ChangeOutcome, Decision};
pub use checkpoint::{CheckpointProgress, Urgency};
pub use commit_order::{CommitInfo, Leadership};
pub use definitions::RenameTarget;
pub use error::{Result, TransactionError};
pub use expiry::{ExpiryStatistics, TtlPass};
pub use feed::{BackwardOplog, FeedEntry, Followed, Interest, OplogFollower, Subscription, Topic};
pub use index_build::IndexesRebuilt;
pub use index_cursor::IndexCursor;
pub use index_definitions::{IndexesCreated, WhichIndexes, check_indexes_of_new};
pub use insert::{InsertOrder, InsertOutcome};
pub use interleaving::{Interleaving, Moment};
pub use multi_document::{DefinitionScope, Exclusion, OpenTransaction, Transaction, TransactionTotals};
pub use opening::OpensAs;
pub use read_view::{ReadView, RecordCursor};
pub use received::ApplyingBy;
pub use repair::{RepairReport, repair};
pub use retention::OplogHold;
pub use retried_statement::RetriedStatement;
pub use sessions::{CheckedOutSession, ExecutedStatement, KnownSession, Owner, Session, SessionTable};
pub use set_aside_work::{SetAsideWork, WorkOf};
pub use storage_engine::Counted;
pub use store::{Acknowledgement, Store, StoreOptions};
pub use store_copy::StoreCopy;
pub use waiting::{WaitInterrupt, Waiting};
pub use write_context::{Statement, WriteContext};
pub use write_stop::WRITES_STOPPED_ADVICE;
