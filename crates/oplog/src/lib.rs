//! The one ordered log: what has been appended is what has happened; everything else is derived from it.
//!
//! It is at once the write-ahead log, the replication stream, the source of change streams and the base of point-in-time
//! restore. `Oplog` is the trait that the layers above speak to; `LocalOplog` keeps it as a directory of segment files.
//! A log shared by several machines will stand behind the same trait.
//!
//! Called by: `transaction` (append at commit, wait for durability), `collection` (replay at start), `server` (the flusher
//! thread, truncation after checkpoints). Built on: `platform`.
//! Must not know: BSON, trees, what an entry means. A payload is bytes.

#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]

mod entry;
mod error;
mod local_oplog;
mod log;

pub use error::{OplogError, Result};
pub use local_oplog::{
    CanonicalReader, Checkpointed, LocalOplog, OplogOptions, OplogPiece, ReceivedEntry, RestoredOplog, SalvagedOplog,
    SegmentFacts, SetAside, StoredRetention, check_piece, cut_from, peek_canonical, read_offline, salvage_entries,
    salvage_entry,
};
pub use log::{Appended, Flushed, Oplog, OplogEntry, OplogPosition, OplogReader, OplogStatistics, SpaceReturn};
pub use platform::Timestamp;
