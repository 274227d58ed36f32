//! The storage engine: ordered trees of bytes with snapshots, under one memory budget, over a log-structured file.
//!
//! Called by `collection` and `transaction`. It must not know BSON, documents, indexes, collections or the oplog's
//! contents: its unit is a [`Batch`] of key changes applied at a commit timestamp.
//!
//! ```text
//! Engine ── btree ──────── node (page layout)
//!   │         ├── page_cache ── page_table ─┬─ frame_arena (frames, optimistic latches)
//!   │         │                             └─ page_store (log-structured file, checkpoints)
//!   │         ├── overflow (large values)
//!   │         └── history (older versions) ── snapshot (who still needs them)
//!   ├── ring (capped collections: linear files beside the page store)
//!   └── background, checkpoint, pacing (who writes, and who waits)
//! ```
//!
//! Read `engine` first, then `btree`, `node`, `page_cache`, `checkpoint`.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]

mod background;
mod batch;
mod btree;
mod checkpoint;
mod checkpoint_mark;
mod cleaning_pace;
mod copying;
mod counters;
mod cursor;
mod dropped_trees;
mod engine;
mod error;
mod frame_arena;
mod history;
mod inspect;
#[cfg(feature = "key-rebuild-demonstration")]
mod key_rebuild_demonstration;
mod node;
mod options;
mod overflow;
mod pacing;
mod page_cache;
pub mod page_store;
mod page_table;
mod pressure_marks;
mod ring;
mod salvage;
mod saved_changes;
mod set_aside;
#[cfg(feature = "slowdown-demonstration")]
mod slowdown_demonstration;
mod snapshot;
mod statistics;
mod system_memory;
mod varint;
mod verify;

pub use background::UNASKED_PAUSE;
pub use batch::{Batch, Change, ChangeKind};
pub use btree::MAX_KEY_BYTES;
pub use checkpoint::{CheckpointInProgress, LOOK_PAUSE};
pub use checkpoint_mark::CheckpointMark;
pub use copying::{EngineCopy, ring_file};
pub use counters::mark_background_thread;
pub use cursor::{BTreeCursor, Counted};
pub use engine::{Engine, TreeId};
pub use error::{EngineError, Result};
pub use frame_arena::PAGE_BYTES;
pub use history::HistoryStatistics;
pub use inspect::{EngineInspection, EntryDescription, EntryValue, PageContent, PageDescription, PageSums, TreeSize};
pub use options::EngineOptions;
pub use pacing::Pressure;
pub use page_store::Compression;
pub use platform::Timestamp;
pub use ring::{
    LatestInRing, Overtaken, Ring, RingCursor, RingInsert, RingLimits, RingOverride, RingReport, RingState, RingWriter,
    SalvagedRing, is_ring_state, ring_key, salvage_ring,
};
pub use salvage::{LostPage, Salvage};
pub use snapshot::Snapshot;
pub use statistics::{EngineStatistics, TreeStatistics};
pub use verify::VerifyReport;

/// Longest value in bytes: a document of 16 MiB with room for the server's own fields.
pub const MAX_VALUE_BYTES: usize = (16 << 20) + (64 << 10);
