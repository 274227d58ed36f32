//! What the buffering and merging of changes goes by: every number of it, with its reason, but for the shares of the buffers at
//! which merging begins and is hurried (`pressure_marks`).

use std::time::Duration;

use platform::part_of;

use super::change_buffers::SHARDS;
use super::writing::BATCH_PAGES;

/// Share of the cache that buffers may take, in percent.
pub(crate) const CACHE_PERCENT_MAX: usize = 65;

/// A leaf is due for merging when of its room no more than a share is left: one that is different from leaf to leaf, from nothing to
/// this many parts of 256. Leaves that change alike would otherwise all be full at the same time. As much has been
/// added then, at least, as must have been removed in a leaf that is due for that.
pub(crate) const DUE_PARTS_MAX: usize = PARTS - SPARSE_PARTS;
/// It is due, too, when that many parts of 256 of what it held have been removed: nobody may ever read it again, and the space
/// of what was removed would never return.
pub(crate) const SPARSE_PARTS: usize = 96;
/// Leaves of a shard that may wait for merging; more are merged when they are read or memory is short.
pub(crate) const DUE_LEAVES_MAX: usize = 1 << 14;

/// One page in this many is merged at a time, the fullest.
pub(crate) const MERGE_ONE_IN: usize = 32;
/// Most pages of a shard that are chosen at a time because they are the fullest: some batches of the writer.
pub(crate) const FULLEST_MAX: usize = 2 * BATCH_PAGES;
/// Most pages chosen at a time: the fullest of all shards.
pub(crate) const MERGE_PAGES_MAX: usize = FULLEST_MAX * SHARDS;
/// Pages merged and written together: few, because whoever needs one of them waits.
pub(crate) const MERGE_BATCH_PAGES: usize = BATCH_PAGES / 4;
/// Threads that merge: one does not keep up with as many changes as the disk lets clients make.
pub(crate) const MERGER_THREADS: usize = 2;

/// Time over which the merging of those is spread: at once, it would take the processors from everybody for a few tenths of a second again and again.
pub(crate) const MERGE_SPREAD: Duration = Duration::from_millis(200);
/// Longest rest after a batch, so that a burst of changes is noticed.
pub(crate) const MERGE_REST_MAX: Duration = part_of(MERGE_SPREAD, 10);
/// From the first page that is to be merged to merging, so that others join it.
pub(crate) const MERGE_PAUSE: Duration = part_of(MERGE_REST_MAX, 4);
/// Longest pause of the merger while nobody asks for merging.
pub(crate) const MERGE_PAUSE_MAX: Duration = MERGE_SPREAD.saturating_mul(25);

/// Of a leaf, in which `DUE_PARTS_MAX` and `SPARSE_PARTS` count.
const PARTS: usize = 256;

const _: () = {
    assert!(SPARSE_PARTS < PARTS);
    assert!(MERGE_BATCH_PAGES < FULLEST_MAX && MERGE_PAGES_MAX < DUE_LEAVES_MAX);
    assert!(MERGE_PAUSE.as_nanos() < MERGE_REST_MAX.as_nanos() && MERGE_REST_MAX.as_nanos() < MERGE_SPREAD.as_nanos());
    assert!(MERGE_SPREAD.as_nanos() < MERGE_PAUSE_MAX.as_nanos(), "what is chosen is merged before it is looked again");
};
