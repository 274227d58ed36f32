//! The engine's figures, for `serverStatus`, `collStats` and tests.

use std::ops::ControlFlow;

use platform::Timestamp;

use crate::TreeId;
use crate::btree::Damage;
use crate::engine::Engine;
use crate::error::Result;
use crate::frame_arena::PAGE_BYTES;
use crate::history::HistoryStatistics;
use crate::pacing::Pressure;
use crate::page_store::PageStoreStatistics;

/// Figures of the whole engine.
#[derive(Debug, Clone)]
pub struct EngineStatistics {
    /// Bytes of page frames.
    pub cache_bytes: u64,
    /// Bytes of frames in use.
    pub cache_used_bytes: u64,
    /// Bytes of frames with changes that are not on disk.
    pub cache_dirty_bytes: u64,
    /// Pages read from disk.
    pub pages_read: u64,
    /// Bytes of memory in changes that wait for their leaf to be read; part of the cache.
    pub buffered_change_bytes: u64,
    /// Leaves with such changes.
    pub buffered_pages: u64,
    /// Pages that had such changes when they were read.
    pub pages_merged: u64,
    /// Pages written by eviction and checkpoints.
    pub pages_written: u64,
    /// Keys that had to be put together to write pages; 0 by construction (invariant I2).
    pub keys_materialised_writing_pages: u64,
    /// Pages written by threads that are not the engine's own; 0 by construction (invariant I3).
    pub client_page_writes: u64,
    /// Checkpoints since the engine was opened.
    pub checkpoints: u64,
    /// The newest commit that new snapshots see.
    pub visible: Timestamp,
    /// Snapshots that are open.
    pub snapshots: usize,
    /// Timestamp of the oldest open snapshot.
    pub oldest_snapshot: Option<Timestamp>,
    /// The version history.
    pub history: HistoryStatistics,
    /// What holds writers back.
    pub pressure: Pressure,
    /// Bytes of memory in the page table and in the page store's maps; counted against the memory budget.
    pub table_bytes: u64,
    /// Leaves waiting to be compacted or merged.
    pub sparse_leaves: usize,
    /// The page store.
    pub store: PageStoreStatistics,
}

/// Figures of one tree.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TreeStatistics {
    /// Entries in its leaves, without those that only older snapshots see.
    pub entries: u64,
    /// Inner pages.
    pub inner_pages: u64,
    /// Leaf pages.
    pub leaf_pages: u64,
    /// Overflow pages.
    pub overflow_pages: u64,
    /// Bytes of the pages' newest images on disk; pages never written count in full.
    pub disk_bytes: u64,
    /// Whether these are the figures of the whole tree, and not of a part of it.
    pub is_whole: bool,
}

impl Engine {
    /// The engine's figures now.
    pub fn statistics(&self) -> Result<EngineStatistics> {
        let cache = &self.trees.cache;
        let page_bytes = PAGE_BYTES as u64;
        let (snapshots, oldest_snapshot) = self.trees.snapshots.active();
        Ok(EngineStatistics {
            cache_bytes: cache.frames.len() as u64 * page_bytes,
            cache_used_bytes: cache.usable_frames().saturating_sub(cache.frames.free_count()) as u64 * page_bytes,
            cache_dirty_bytes: cache.frames.dirty() as u64 * page_bytes,
            pages_read: cache.frames.pages_read(),
            buffered_change_bytes: cache.changes.buffered_bytes() as u64,
            buffered_pages: cache.changes.buffered_pages() as u64,
            pages_merged: cache.changes.pages_merged(),
            pages_written: cache.invariants().pages_written(),
            keys_materialised_writing_pages: cache.invariants().keys_materialised(),
            client_page_writes: cache.invariants().client_page_writes(),
            checkpoints: self.checkpoints(),
            visible: self.visible(),
            snapshots,
            oldest_snapshot,
            history: self.trees.history.statistics(),
            pressure: self.pressure(),
            table_bytes: self.table_bytes(),
            sparse_leaves: self.trees.leftovers.sparse_leaves.len(),
            store: self.store.statistics()?,
        })
    }

    /// What has been allocated of the memory that is set aside for buffers when the engine is opened: version history, rings,
    /// and changes that wait for their leaf, which are a part of the cache.
    pub fn buffer_bytes(&self) -> u64 {
        let history = self.trees.history.statistics().memory_bytes;
        history + self.rings.buffered_bytes() + self.trees.cache.changes.buffered_bytes() as u64
    }

    fn table_bytes(&self) -> u64 {
        self.trees.cache.frames.table_bytes() + self.store.memory_bytes()
    }

    /// Has the memory budget know how large the tables are. They grow in large pieces and rarely, so that a step of the
    /// background now and then is soon enough.
    pub(crate) fn account_tables(&self) {
        let bytes = self.table_bytes();
        self.table_memory.lock().resize_unchecked(bytes);
    }

    /// A tree's figures, by walking it: reads every page of it.
    pub fn tree_statistics(&self, tree: TreeId) -> Result<TreeStatistics> {
        self.first_tree_statistics(tree, usize::MAX)
    }

    /// As `tree_statistics`, of about `pages_max` pages if it has more.
    pub fn first_tree_statistics(&self, tree: TreeId, pages_max: usize) -> Result<TreeStatistics> {
        let pages = self.trees.walk_pages(tree, pages_max, Damage::Fails, &mut |_| Ok(ControlFlow::Continue(())))?;
        let all = pages.inner.iter().chain(&pages.leaves).chain(&pages.overflow);
        let bytes_of =
            |page| self.trees.cache.frames.disk_address(page).map_or(PAGE_BYTES, |at| at.length_bytes()) as u64;
        Ok(TreeStatistics {
            entries: pages.entries,
            inner_pages: pages.inner.len() as u64,
            leaf_pages: pages.leaves.len() as u64,
            overflow_pages: pages.overflow.len() as u64,
            disk_bytes: all.map(|page| bytes_of(*page)).sum(),
            is_whole: pages.is_whole,
        })
    }
}
