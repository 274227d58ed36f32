//! Tests of the store as a whole: single changes, definitions, concurrency, crashes against a model.

mod collection_use;
mod concurrency;
mod confirmed;
mod crashes;
mod creation;
mod damage;
mod damaged_oplog;
mod definitions;
mod expiry;
mod fixed_sizes;
pub(crate) mod fixture;
mod indexes;
mod large_changes;
mod large_commits;
mod long_keys;
mod rebuilt_indexes;
mod resumed_builds;
mod retention;
mod rings;
mod sessions;
mod set_aside;
mod single_document;
mod transactions;
mod unread_entries;
