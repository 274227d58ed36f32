//! How the store of an ephemeral server lives on a disk that is small: what is usually kept for minutes of load would fill it.
//!
//! Called by `database`. Shares of the disk, where they are below what is usual.

use transaction::StoreOptions;

/// Kept free for deletes and checkpoints. Much: memory is filled faster than it is looked at.
const RESERVE_SHARE: u64 = 4;
/// What is logged between two checkpoints, and what is kept of the log beyond.
const LOG_SHARE: u64 = 16;
/// A file of the log, which goes as a whole.
const SEGMENT_SHARE: u64 = 64;
/// What the page file is laid out in, and how much of it may be spare.
const EXTENT_SHARE: u64 = 256;
const SLACK_SHARE: u64 = 16;
/// Old versions for open snapshots.
const HISTORY_SHARE: u64 = 8;
const UNIT: u64 = 64 << 10;

/// Makes the options fit a disk of so many bytes.
pub(crate) fn fit(options: &mut StoreOptions, disk_bytes: u64) {
    let no_more = |usual: &mut u64, share: u64| *usual = (*usual).min((disk_bytes / share).next_multiple_of(UNIT));
    no_more(&mut options.space_reserve_bytes, RESERVE_SHARE);
    no_more(&mut options.checkpoint_log_bytes, LOG_SHARE);
    no_more(&mut options.oplog_retention_bytes, LOG_SHARE);
    no_more(&mut options.oplog.segment_bytes, SEGMENT_SHARE);
    no_more(&mut options.engine.history_quota_bytes, HISTORY_SHARE);
    no_more(&mut options.engine.space_slack_bytes, SLACK_SHARE);
    let mut extent_bytes = u64::from(options.engine.extent_bytes);
    no_more(&mut extent_bytes, EXTENT_SHARE);
    options.engine.extent_bytes = u32::try_from(extent_bytes).unwrap_or(options.engine.extent_bytes);
}
