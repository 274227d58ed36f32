//! Collections: the catalog of names and definitions, records, indexes, validation, and replay of the oplog at start.
//!
//! Called by `transaction`, which adds locks, snapshots and the order of commits; its handles and metadata are read by
//! `planner`, `executor`, `aggregation` and `commands`. Built on `storage_engine` (bytes in trees), `index_key` (keys of documents),
//! `query_language` (partial indexes, validators), `oplog` (replay).
//! Must not know: locks on records, transactions, plans, commands, the wire.
//!
//! ```text
//! Catalog ── Collection ─┬─ records: tree, record id → document
//!                        └─ IndexList ── Index: tree, index key ‖ record id → type bits
//! DocumentChange: (old, new) → oplog entry + Batch of record and index entries + claims of unique keys
//! replay: oplog entry → (stored, final) → Batch
//! ```
//!
//! Read `catalog` and `collection`, then `document_change`, then `replay`.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]

pub mod catalog;
mod clustered_options;
mod collection;
mod document_change;
mod document_keys;
mod duplicate_key;
mod error;
mod expiry;
mod field_changes;
mod index;
mod index_fill;
mod index_specification;
mod namespace;
mod oplog_entry;
mod options;
mod predicate;
mod record_id;
mod record_set;
mod records;
mod replay;
mod salvage;
mod time_series_options;
mod validate;
mod validator;

pub use catalog::Catalog;
pub use clustered_options::ClusteredOptions;
pub use collection::{
    Collection, CollectionCounts, CollectionDefinition, ExclusiveAccess, REPAIR_ADVICE, WriteAccess,
    access_change_count, set_aside_count,
};
pub use document_change::{
    ChangeContext, DOCUMENT_BYTES_MAX, DocumentChange, NewlyMultikey, RingChange, UniqueClaim, claim_hash,
};
pub use document_keys::INDEX_KEY_BYTES_MAX;
pub use duplicate_key::{duplicate_key_error, duplicate_whole_key_error};
pub use error::{CollectionError, DuplicateKey, Result};
pub use expiry::ExpiredRange;
pub use index::{Index, IndexIdentity, IndexList, IndexState, REBUILD_ADVICE, SuspectedDuplicate};
pub use index_fill::RecordEntries;
pub use index_key::long_key;
pub use index_specification::{ID_INDEX_NAME, IndexSpecification, Relation, parse_expiry, show_specification};
pub use namespace::{DATABASE_NAME_BYTES_MAX, NAMESPACE_BYTES_MAX, Namespace, check_database_name};
pub use oplog_entry::{
    DocumentEntry, DocumentOperation, Entry, EntryEncoder, EntryOrigin, LoggedEntry, RingMove, StatementDetails,
    StatementOrigin, Telling, TransactionCommit, TransactionEncoder, TransactionEntry, TransactionStep, UpdateStyle,
    append, bson_timestamp, encode_note, entry_subject, entry_wall, is_local, is_told, post_image, served_entry,
};
pub use options::{
    CappedOptions, CollectionOptions, ValidationAction, ValidationLevel, parse_expiry as parse_collection_expiry,
    parse_pre_images,
};
pub use predicate::Predicate;
pub use record_id::RecordId;
pub use records::StoredRecords;
pub use replay::{
    DecidedAre, LiveApplier, LoggedStatement, LostIndex, ReplaySummary, SessionReplay, Stored, UnreadEntries,
    UnreadEntry, replay,
};
pub use salvage::{ReadPart, Salvaged, SalvagedCollection, SalvagedDefinition, Salvager, decode_definition};
pub use time_series_options::{Bucketing, Granularity, TimeSeriesOptions};
pub use validate::{ValidateReport, validate};
pub use validator::Validation;
