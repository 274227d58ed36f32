//! The engine: opening, batches, reads, snapshots; what the crates above call.
//!
//! Called by `collection` and `transaction`. Puts `page_store`, `page_cache`, the trees and the version history together.
//! What runs in the background is in `background`, checkpoints in `checkpoint`.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::{Mutex, RwLock};
use platform::{Clock, Disk, MemoryBudget, MemoryReservation, MemoryUse, StopSignal, Timestamp};

use crate::background::ReclaimPace;
use crate::batch::Batch;
use crate::btree::{Leftovers, Trees, Write};
use crate::checkpoint::CheckpointInProgress;
use crate::checkpoint_mark::{CheckpointMark, MarkContents};
use crate::cursor::BTreeCursor;
use crate::dropped_trees::DroppedTrees;
use crate::error::{EngineError, Result};
use crate::frame_arena::{PAGE_BYTES, PageImage};
use crate::history::History;
use crate::node::{NodeBuilder, PageMut, Presence};
use crate::options::EngineOptions;
use crate::page_cache::PageCache;
use crate::page_store::{PageId, PageStore};
use crate::ring::RingRegistry;
use crate::set_aside::SetAsideTrees;
use crate::snapshot::{Snapshot, SnapshotRegistry};

#[cfg(test)]
mod tests;

/// A B-tree of the engine, by the page id of its root, which never changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TreeId(pub u64);

impl TreeId {
    /// The tree that every database has from the start: the one for the catalog.
    pub const CATALOG: TreeId = TreeId(0);

    pub(crate) fn root(self) -> PageId {
        PageId(self.0)
    }
}

/// The storage engine over one data directory.
pub struct Engine {
    pub(crate) trees: Arc<Trees>,
    pub(crate) store: Arc<PageStore>,
    pub(crate) rings: Arc<RingRegistry>,
    pub(crate) clock: Arc<dyn Clock>,
    /// Held shared while a batch or a structural change is applied, exclusively while a checkpoint is frozen.
    pub(crate) barrier: RwLock<()>,
    /// Trees whose pages the background is to free.
    pub(crate) dropped_trees: Mutex<DroppedTrees>,
    /// Trees that are damaged and take no changes.
    pub(crate) set_aside: SetAsideTrees,
    /// One checkpoint at a time; one that could not be finished because the disk was full is kept here.
    pub(crate) checkpointing: Mutex<Option<CheckpointInProgress>>,
    pub(crate) checkpoints: AtomicU64,
    pub(crate) reclaim_pace: Mutex<ReclaimPace>,
    pub(crate) stopping: StopSignal,
    /// Whether a write of the background found no space since `space_returned`.
    pub(crate) out_of_space: AtomicBool,
    /// Whether the disk has so much left that the page file may keep what it has free. Not before somebody has looked.
    pub(crate) is_disk_ample: AtomicBool,
    pub(crate) threads: Mutex<Vec<std::thread::JoinHandle<()>>>,
    /// What the tables take of the memory budget.
    pub(crate) table_memory: Mutex<MemoryReservation>,
    recovered: Option<CheckpointMark>,
}

impl Engine {
    /// Opens the engine in a directory, at its last checkpoint, or creates it there.
    ///
    /// # Errors
    /// When the files cannot be read or written, or are damaged, or the cache does not fit into the address space.
    pub fn open(disk: Arc<dyn Disk>, clock: Arc<dyn Clock>, options: EngineOptions) -> Result<Arc<Engine>> {
        let store = Arc::new(PageStore::open(disk.clone(), &*clock, options.page_store())?);
        let contents = match store.recovered() {
            Some(checkpoint) => Some(MarkContents::decode(&checkpoint.mark)?),
            None => None,
        };
        let rings = RingRegistry::new(disk.clone(), options.ring_buffer_bytes);
        let history = History::new(disk, options.history_memory_bytes, options.history_quota_bytes)?;
        let trees = Arc::new(Trees {
            cache: Arc::new(PageCache::new(store.clone(), options.frames())?),
            history,
            snapshots: SnapshotRegistry::new(),
            leftovers: Leftovers::default(),
        });
        let merger: std::sync::Weak<Trees> = Arc::downgrade(&trees);
        trees.cache.changes.set_merger(merger);
        let engine = Engine {
            trees,
            store,
            rings,
            clock,
            barrier: RwLock::new(()),
            dropped_trees: Mutex::default(),
            set_aside: SetAsideTrees::default(),
            checkpointing: Mutex::default(),
            checkpoints: AtomicU64::new(0),
            reclaim_pace: Mutex::default(),
            stopping: StopSignal::default(),
            out_of_space: AtomicBool::new(false),
            is_disk_ample: AtomicBool::new(false),
            threads: Mutex::default(),
            table_memory: Mutex::new(options.memory.reservation(MemoryUse::PageTables)),
            recovered: contents.as_ref().map(|contents| contents.mark),
        };
        match contents {
            Some(contents) => engine.resume(contents)?,
            None => engine.create_catalog_tree()?,
        }
        engine.account_tables();
        Ok(Arc::new(engine))
    }

    fn resume(&self, contents: MarkContents) -> Result<()> {
        self.trees.snapshots.set_visible(contents.mark.timestamp);
        let mut leftovers = contents.leftovers;
        if let Some(head) = contents.saved_changes {
            let restored = crate::saved_changes::restore(&self.trees.cache, &self.store, head)?;
            leftovers.append(restored.leftovers);
            if let Some(error) = restored.lost {
                self.set_aside.note_lost_changes(error.to_string());
            }
        }
        *self.trees.leftovers.chains.lock() = leftovers.chains;
        self.dropped_trees.lock().extend(leftovers.dropped_trees);
        Ok(())
    }

    fn create_catalog_tree(&self) -> Result<()> {
        let tree = self.create_tree()?;
        if tree == TreeId::CATALOG {
            return Ok(());
        }
        Err(EngineError::Setup(format!("a new page store gave page {} first, not {}", tree.0, TreeId::CATALOG.0)))
    }

    /// The memory budget of the process.
    pub fn memory(&self) -> Arc<MemoryBudget> {
        self.table_memory.lock().budget().clone()
    }

    /// Where the oplog's replay must begin; `None` for a new database.
    pub fn recovered(&self) -> Option<CheckpointMark> {
        self.recovered
    }

    /// Creates an empty tree. It becomes durable with the next checkpoint.
    pub fn create_tree(&self) -> Result<TreeId> {
        self.trees.cache.check_poisoned()?;
        let _barrier = self.barrier.read();
        let (page, mut frame) = self.trees.cache.create(self.trees.cache.reserve()?)?;
        let mut image: Box<PageImage> = Box::new([0; PAGE_BYTES]);
        let _empty = NodeBuilder::new(&mut image, page.0, 0, &[], None);
        frame.put_image(&image);
        Ok(TreeId(page.0))
    }

    /// Drops a tree; the background frees its pages. Readers that still use it get `NoSuchTree` or stale entries, so
    /// the caller ends them first.
    pub fn drop_tree(&self, tree: TreeId) -> Result<()> {
        self.trees.cache.check_poisoned()?;
        let _barrier = self.barrier.read();
        self.set_aside.forget(tree);
        self.dropped_trees.lock().push(tree);
        Ok(())
    }

    /// Applies a batch at a commit timestamp: all of it belongs to the same checkpoint. Snapshots see it once the
    /// visible timestamp has reached it.
    ///
    /// # Errors
    /// After an error in the middle of a batch the engine is poisoned: what was applied cannot be told from what was
    /// not, and opening again recovers both from the oplog. Keys and values too long are refused before anything is done. A damaged page is no error:
    /// its tree is set aside (`trees_set_aside`), and the rest of the batch is applied.
    pub fn apply(&self, batch: &Batch, timestamp: Timestamp) -> Result<()> {
        self.apply_with(batch, Write::At(timestamp.0))
    }

    /// Applies a batch during recovery, when there are no snapshots: nothing of what was before is kept.
    pub fn apply_settled(&self, batch: &Batch) -> Result<()> {
        self.apply_with(batch, Write::Settled)
    }

    fn apply_with(&self, batch: &Batch, write: Write) -> Result<()> {
        self.apply_together(batch, write, || {})
    }

    /// Applies a batch, and `then` in the same checkpoint.
    pub(crate) fn apply_together(&self, batch: &Batch, write: Write, then: impl FnOnce()) -> Result<()> {
        self.trees.cache.check_poisoned()?;
        check_lengths(batch)?;
        let _barrier = self.barrier.read();
        for change in batch.changes() {
            if self.set_aside.contains(change.tree) {
                continue;
            }
            match self.trees.apply(change, write).map_err(|error| error.in_tree(change.tree)) {
                Ok(()) => {}
                Err(error) if error.is_damage() => self.set_tree_aside(change.tree, &error.to_string()),
                Err(error) => {
                    self.trees.cache.poison(&error);
                    return Err(error);
                }
            }
        }
        then();
        Ok(())
    }

    /// Every commit up to here is visible from now on: for those who write, and for readers where nobody confirms.
    pub fn set_visible(&self, timestamp: Timestamp) {
        self.trees.snapshots.set_visible(timestamp);
    }

    /// From now on readers see what is confirmed only; what is visible now is. Called before anybody reads.
    pub fn begin_confirming(&self) {
        self.trees.snapshots.begin_confirming();
    }

    /// Readers see every commit up to here from now on, as far as it is visible.
    pub fn set_confirmed(&self, timestamp: Timestamp) {
        self.trees.snapshots.set_confirmed(timestamp);
    }

    /// Keeps the commit at `timestamp`, which is about to be applied, from all snapshots until it is revealed, though commits after it
    /// become visible. To be called before the visible timestamp reaches it.
    pub fn conceal(&self, timestamp: Timestamp) {
        self.trees.snapshots.conceal(timestamp);
    }

    /// Has snapshots from `revealed` on, which is not visible yet, see a commit that was concealed and is applied now.
    pub fn reveal(&self, timestamp: Timestamp, revealed: Timestamp) {
        self.trees.snapshots.reveal(timestamp, revealed);
    }

    /// The newest commit that new readers see.
    pub fn readable(&self) -> Timestamp {
        self.trees.snapshots.readable()
    }

    /// The newest visible commit.
    pub fn visible(&self) -> Timestamp {
        self.trees.snapshots.visible()
    }

    /// A snapshot of what readers see.
    pub fn begin_snapshot(&self) -> Snapshot {
        self.trees.snapshots.begin()
    }

    /// A snapshot at the visible timestamp, for those who read in order to write. What it shows may vanish, so nobody may be told of it.
    pub fn begin_newest_snapshot(&self) -> Snapshot {
        self.trees.snapshots.begin_newest()
    }

    /// The timestamp of the oldest snapshot that there is or can be had.
    pub fn oldest_snapshot(&self) -> Timestamp {
        Timestamp(self.trees.snapshots.oldest())
    }

    /// A snapshot at an earlier timestamp. `None`: no snapshot that is held is so old, so what it needs may be gone.
    pub fn begin_snapshot_at(&self, timestamp: Timestamp) -> Option<Snapshot> {
        self.trees.snapshots.begin_at(timestamp)
    }

    /// Reads a key as a snapshot sees it. `value` is replaced; `false` when the key is not there.
    pub fn get(&self, snapshot: &Snapshot, tree: TreeId, key: &[u8], value: &mut Vec<u8>) -> Result<bool> {
        self.trees.get(snapshot, tree, key, value).map_err(|error| error.in_tree(tree))
    }

    /// Reads the newest applied version of a key, visible or not. The timestamp is that of the commit it came with, or
    /// 0 when that was long ago.
    pub fn get_latest(&self, tree: TreeId, key: &[u8], value: &mut Vec<u8>) -> Result<Option<Timestamp>> {
        let latest = self.trees.get_latest(tree, key, value);
        let (since, presence) = latest.map_err(|error| error.in_tree(tree))?;
        Ok((presence == Presence::Live).then_some(Timestamp(since)))
    }

    /// The commit timestamp of the newest change of a key, its deletion included; 0 when that was long ago. For
    /// first-writer-wins checks against a snapshot's timestamp.
    pub fn latest_timestamp(&self, tree: TreeId, key: &[u8]) -> Result<Timestamp> {
        let mut value = Vec::new();
        Ok(Timestamp(self.trees.get_latest(tree, key, &mut value)?.0))
    }

    /// Finds the first entry whose key begins with `prefix`; `key` and `value` are replaced. `false`: there is none.
    /// Cheaper than a cursor for one entry.
    pub fn first_with_prefix(
        &self,
        snapshot: &Snapshot,
        tree: TreeId,
        prefix: &[u8],
        key: &mut Vec<u8>,
        value: &mut Vec<u8>,
    ) -> Result<bool> {
        let found = self.trees.first_with_prefix(snapshot, tree, prefix, key, value);
        if let Some(found) = found.map_err(|error| error.in_tree(tree))? {
            return Ok(found);
        }
        let mut cursor = self.cursor(snapshot, tree);
        cursor.seek(prefix)?;
        if !cursor.next()? || !cursor.key().starts_with(prefix) {
            return Ok(false);
        }
        key.clear();
        key.extend_from_slice(cursor.key());
        value.clear();
        value.extend_from_slice(cursor.value()?);
        Ok(true)
    }

    /// Finds the first key at or above `lower` that is there in the newest applied state, visible or not; `key` is
    /// replaced. For checks of uniqueness under a lock on the key.
    pub fn first_key_latest(&self, tree: TreeId, lower: &[u8], key: &mut Vec<u8>) -> Result<bool> {
        self.trees.first_key_latest(tree, lower, key).map_err(|error| error.in_tree(tree))
    }

    /// A cursor over a tree. It owns a copy of one leaf (16 KiB).
    pub fn cursor(&self, snapshot: &Snapshot, tree: TreeId) -> BTreeCursor {
        BTreeCursor::new(self.trees.clone(), snapshot.clone(), tree)
    }

    /// A cursor over a tree in which everything was applied by `apply_settled`: no snapshot is held for it, and it is never too old.
    pub fn cursor_over_settled(&self, tree: TreeId) -> BTreeCursor {
        BTreeCursor::new(self.trees.clone(), Snapshot::of_settled(), tree)
    }

    /// Fails once the engine has stopped writing after an error.
    pub fn check_writable(&self) -> Result<()> {
        self.trees.cache.check_poisoned()
    }

    /// What is applied from here to `end_recovery` is replayed: where the disk is full, pages may take the reserve.
    pub fn begin_recovery(&self) {
        self.store.begin_recovery();
    }

    /// Everything is replayed.
    ///
    /// # Errors
    /// Of the disk, when free space is given back.
    pub fn end_recovery(&self) -> Result<()> {
        let ended = self.store.end_recovery();
        self.poison_on_error(ended.map_err(EngineError::from))
    }

    /// Whether the background found no space for pages since the engine was opened or `space_returned` was called.
    pub fn is_out_of_space(&self) -> bool {
        self.out_of_space.load(Ordering::Acquire)
    }

    /// Somebody has seen that there is space again.
    pub fn space_returned(&self) {
        self.out_of_space.store(false, Ordering::Release);
    }

    /// How many pages can still be had, and how many there can be at all.
    pub fn pages_left(&self) -> (u64, u64) {
        self.store.page_ids_left()
    }

    /// Bytes of page frames whose contents are not on disk.
    pub fn dirty_bytes(&self) -> u64 {
        (self.trees.cache.frames.dirty() * PAGE_BYTES) as u64
    }

    /// Number of checkpoints since the engine was opened.
    pub fn checkpoints(&self) -> u64 {
        self.checkpoints.load(Ordering::Relaxed)
    }
}

fn check_lengths(batch: &Batch) -> Result<()> {
    for change in batch.changes() {
        if change.key.len() > crate::MAX_KEY_BYTES {
            return Err(EngineError::KeyTooLong { length: change.key.len() });
        }
        if change.value.len() > crate::MAX_VALUE_BYTES {
            return Err(EngineError::ValueTooLong { length: change.value.len() });
        }
    }
    Ok(())
}
