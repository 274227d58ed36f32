//! Backups of a running server, the archive of its oplog, and what is restored from them.
//!
//! ```text
//! Store ── begin_copy ──▶ making ──▶ objects ──▶ ObjectStore (a directory, S3, ...)
//!   └───── copy_durable ─▶ archive ──▶ objects ──▶     │
//!                          restore ◀──────────────────┘ ──▶ a new data directory
//! ```
//!
//! Called by `commands` (a backup is made by the server itself) and by `server` (archive, restore, list, verify, prune).
//! Built on `transaction`, whose checkpoint is copied, and on `platform`. Must not know: clients, commands, documents.
//! A backup is the blocks of one checkpoint, the files of the rings, and the oplog from the checkpoint's mark on up to
//! the end of the copy. What is opened later is what a crash at that end would have left.
//!
//! Read `making` first, then `restore`. The formats are in `docs/file-format.md`, "Backups".
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]

mod archive;
mod cloud_connection;
mod cloud_objects;
mod cloud_place;
mod cloud_store;
mod directory_store;
mod error;
mod keeping;
mod known_blocks;
mod making;
mod manifest;
mod object;
mod object_store;
mod oplog_object;
mod outgoing_http;
mod page_chunk;
mod place;
mod progress;
mod reach;
mod read_ahead;
mod restore;
mod target;
#[cfg(test)]
mod tests;
mod validation;

pub use self::object_store::ObjectStore;
pub use archive::{Archive, ArchiveStatus};
pub use cloud_objects::CloudObjects;
pub use cloud_place::{CloudPlace, SCHEMES as CLOUD_SCHEMES};
pub use directory_store::DirectoryStore;
pub use error::{BackupError, Result};
pub use keeping::{Incomplete, KeepRules, Pruned, list, prune, prune_but};
pub use making::{BackupOptions, Extent, make};
pub use manifest::{Manifest, new_name, time_of};
pub use object::Packing;
pub use outgoing_http::{OutgoingClient, Unencrypted, outgoing_client};
pub use place::Place;
pub use progress::{Phase, Progress};
pub use restore::{
    EarlyPages, NOT_IN_THE_WAY, RESTORED_NOTE, RestoreOptions, Restored, SET_ASIDE, STANDING_FILE, UNFINISHED_NOTE,
    read_back, restore, undo,
};
pub use target::Target;
pub use validation::{Validated, validate};
