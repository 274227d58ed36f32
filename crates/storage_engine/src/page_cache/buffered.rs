//! The second room: changes of leaves that are on disk. Pushing one, and merging them when the leaf is read.
//!
//! Called by `btree`'s blind changes (push), by the loading of a page (merge) and by the background (what to merge next).
//! Relies on `change_buffers` for the bytes.
//!
//! Why no change is lost: a leaf's range of keys changes only while it is in a frame. A change is pushed under the lock
//! of the page's shard while its word says `OnDisk` and, once it also says "buffered", only the holder of that lock can
//! begin to load it. So a parent that is found unchanged under the lock still leads the key to this leaf.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use parking_lot::Mutex;

use super::change_buffers::{ChangeBuffers, CopiedChanges, Lender, Now, Pushed, Shard};
use super::merge_bounds::{
    MERGE_BATCH_PAGES, MERGE_ONE_IN, MERGE_PAGES_MAX, MERGE_REST_MAX, MERGE_SPREAD, MERGER_THREADS,
};
use super::merging::PageMerger;
use super::{BufferedChange, EncodedChanges, Frames};
use crate::counters::InvariantCounters;
use crate::error::{Attempt, EngineError, Result};
use crate::frame_arena::{FrameId, LentFrame, PAGE_BYTES, PageImage};
use crate::page_store::{PageAddress, PageId, PageStore};
use crate::page_table::{DiskPage, PageState};
use crate::pressure_marks::{MERGED_FROM, MERGING_SPREAD_BELOW, MERGING_SPREAD_ENDS};

/// The pages to be merged next, the last first.
#[derive(Default)]
pub(super) struct MergeList {
    pages: Vec<PageId>,
    /// Pages that could not be merged because they are damaged there. Their changes stay in the buffer: whoever reads the page is told.
    pub(super) damaged: BTreeMap<PageId, PageAddress>,
    /// How long a thread rests after each batch of them.
    rest: Duration,
}

/// Applies buffered changes to the image of a leaf that nobody else sees yet.
pub(crate) trait MergeChanges: Send + Sync {
    /// `changes` are those of one part of a buffer.
    fn merge_changes(&self, page: PageId, leaf: &mut PageImage, changes: EncodedChanges<'_>) -> Result<()>;
}

/// What came of trying to buffer a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BufferedPush {
    /// It will be merged later.
    Done,
    /// The page must be read and changed.
    Refused,
}

/// Buffered changes, tied to the pages' words.
pub(crate) struct ChangeBuffer {
    pub(super) frames: Arc<Frames>,
    pub(super) store: Arc<PageStore>,
    pub(super) invariants: Arc<InvariantCounters>,
    pub(super) buffers: ChangeBuffers,
    /// What a checkpoint being written has to save of pages that were merged before it came to them.
    changes_to_save: Mutex<Vec<(PageId, CopiedChanges)>>,
    pub(super) page_mergers: [Mutex<PageMerger>; MERGER_THREADS],
    /// Pages chosen to be merged, the next ones last.
    pub(super) to_merge: Mutex<MergeList>,
    pub(super) pages_merged: AtomicU64,
    /// Merges buffered changes into a page that was read.
    merger: OnceLock<Weak<dyn MergeChanges>>,
}

impl ChangeBuffer {
    pub(super) fn new(frames: Arc<Frames>, store: Arc<PageStore>, invariants: Arc<InvariantCounters>) -> Result<Self> {
        Ok(Self {
            buffers: ChangeBuffers::new(frames.len() * PAGE_BYTES),
            changes_to_save: Mutex::default(),
            page_mergers: PageMerger::each(&store)?,
            to_merge: Mutex::default(),
            pages_merged: AtomicU64::new(0),
            merger: OnceLock::new(),
            frames,
            store,
            invariants,
        })
    }

    /// Pages read that had buffered changes.
    pub(crate) fn pages_merged(&self) -> u64 {
        self.pages_merged.load(Ordering::Relaxed)
    }

    pub(super) fn wake_all(&self) {
        self.buffers.request_merging();
    }

    /// The page's word says `Loading` from now on; `false`: somebody else was first. Whoever buffers a change does it while the word stands still.
    pub(super) fn begin_load(&self, page: PageId, on_disk: DiskPage) -> bool {
        let mut shard = on_disk.is_buffered.then(|| self.buffers.lock(page));
        let begun = self.frames.transition(page, PageState::OnDisk(on_disk), PageState::Loading(on_disk));
        if begun && let Some(shard) = &mut shard {
            shard.outdate_merge(page);
        }
        begun
    }

    /// The page is in a frame with all its changes. The buffer's entry goes in the same instant: a new one may be made as soon as the page is
    /// evicted again.
    pub(super) fn end_load(&self, page: PageId, on_disk: DiskPage, frame: FrameId) {
        let shard = on_disk.is_buffered.then(|| self.buffers.lock(page));
        self.frames.set_state(page, PageState::Resident(frame));
        shard.into_iter().for_each(|mut shard| shard.forget(page, self));
    }

    /// Forgets a page that is on disk; `false`: it is elsewhere by now.
    pub(super) fn free_on_disk(&self, page: PageId, on_disk: DiskPage) -> bool {
        let mut shard = self.buffers.lock(page);
        let is_free = self.frames.transition(page, PageState::OnDisk(on_disk), PageState::Empty);
        if is_free {
            self.keep_unsaved(page, &mut shard);
            shard.forget(page, self);
        }
        is_free
    }

    /// The image of a page on disk was moved. While the shard is locked, nobody buffers a change, which would change the word.
    pub(super) fn relocate(&self, page: PageId, old: PageAddress, new: PageAddress) -> bool {
        let _shard = self.buffers.lock(page);
        let PageState::OnDisk(current) = self.frames.state(page) else { return false };
        let moved = DiskPage { address: new, ..current };
        current.address == old && self.frames.transition(page, PageState::OnDisk(current), PageState::OnDisk(moved))
    }

    /// Says who merges. Until then no page is buffered.
    pub(crate) fn set_merger(&self, merger: Weak<dyn MergeChanges>) {
        // Set once, when the engine is put together.
        let _ = self.merger.set(merger);
    }

    /// Whether a change with this value may be buffered at all.
    pub(crate) fn takes_buffered(&self, value: &[u8]) -> bool {
        value.len() <= super::change_buffers::VALUE_BYTES_MAX
    }

    /// Keeps a change for a leaf that is on disk. Every snapshot sees changes up to `oldest`. `still_leads_here` fails when the parent
    /// that led to the page has changed. Inside the checkpoint barrier.
    pub(crate) fn buffer_change(
        &self,
        page: PageId,
        change: BufferedChange<'_>,
        prefix_length: usize,
        oldest: u64,
        still_leads_here: impl Fn() -> Attempt<()>,
    ) -> Attempt<BufferedPush> {
        let PageState::OnDisk(seen) = self.frames.state(page) else { return Ok(BufferedPush::Refused) };
        if !seen.is_buffered && seen.address.room_units() == 0 {
            return Ok(BufferedPush::Refused);
        }
        let mut shard = self.buffers.lock(page);
        let now = || Now { epoch: self.store.epoch(), oldest };
        let PageState::OnDisk(on_disk) = self.frames.state(page) else { return Ok(BufferedPush::Refused) };
        if on_disk.is_buffered {
            still_leads_here()?;
            return Ok(outcome(shard.push(page, change, prefix_length, 0, now(), self)));
        }
        let buffered = DiskPage { is_buffered: true, ..on_disk };
        if !self.frames.transition(page, PageState::OnDisk(on_disk), PageState::OnDisk(buffered)) {
            return Ok(BufferedPush::Refused);
        }
        let led_here = still_leads_here();
        let pushed = match &led_here {
            Ok(()) => shard.push(page, change, prefix_length, on_disk.address.room_bytes(), now(), self),
            Err(_) => Pushed::NoRoom,
        };
        if pushed == Pushed::NoRoom {
            self.frames.set_state(page, PageState::OnDisk(on_disk));
        }
        led_here?;
        Ok(outcome(pushed))
    }

    pub(super) fn merger(&self) -> Result<Arc<dyn MergeChanges>> {
        let merger = self.merger.get().and_then(Weak::upgrade);
        merger.ok_or_else(|| EngineError::Setup("nobody merges buffered changes".to_owned()))
    }

    /// Merges the buffered changes of a page into its image from disk, which nobody else sees yet.
    /// Returns the epoch since which the page is dirty.
    pub(super) fn merge_into(&self, page: PageId, image: &mut PageImage) -> Result<u64> {
        let merger = self.merger()?;
        // The buffer stays until the page is published: a checkpoint must find one or the other, and so must whoever reads
        // the page again after a failure.
        let (copied, epoch) = {
            let mut shard = self.buffers.lock(page);
            let epoch = self.keep_unsaved(page, &mut shard);
            (shard.copy(page), epoch)
        };
        let Some(copied) = copied else { return Ok(0) };
        merger.merge_changes(page, image, copied.encoded())?;
        self.pages_merged.fetch_add(1, Ordering::Relaxed);
        Ok(epoch)
    }

    /// A page is about to be merged, or freed: what the checkpoint being written has not saved of its changes is kept for that, because to it the page stays as it
    /// is on disk. Returns the epoch of the merged page.
    pub(super) fn keep_unsaved(&self, page: PageId, shard: &mut Shard<'_>) -> u64 {
        let epoch = self.store.epoch();
        if let Some(unsaved) = shard.take_unsaved(page, epoch) {
            self.changes_to_save.lock().push((page, unsaved));
        }
        epoch
    }

    /// Copies the changes of a page that the checkpoint being written has yet to save, waiting for whoever reads or merges the page just now.
    pub(crate) fn take_unsaved_changes(&self, page: PageId) -> Option<CopiedChanges> {
        loop {
            self.frames.wait_while_loading(page);
            let mut shard = self.buffers.lock(page);
            if !matches!(self.frames.state(page), PageState::Loading(_)) {
                return shard.take_unsaved(page, self.store.epoch());
            }
        }
    }

    /// The changes of pages that were merged or freed before the checkpoint being written had saved them.
    pub(crate) fn take_changes_to_save(&self) -> Vec<(PageId, CopiedChanges)> {
        std::mem::take(&mut *self.changes_to_save.lock())
    }

    /// Buffers the changes of a page that a checkpoint has saved, or, where there is no memory for them, merges them. While the store is being opened.
    ///
    /// # Errors
    /// `Corrupt` when there is no such page; when it must be merged, as for that.
    pub(crate) fn restore_changes(&self, page: PageId, changes: EncodedChanges<'_>) -> Result<()> {
        let PageState::OnDisk(on_disk @ DiskPage { is_buffered: false, .. }) = self.frames.state(page) else {
            let reason = "changes were saved for it twice, or it is not allocated".to_owned();
            return Err(EngineError::Corrupt { tree: 0, page, reason });
        };
        let room = on_disk.address.room_bytes();
        if self.buffers.lock(page).restore(page, changes, room, self.store.epoch(), self) {
            self.frames.set_state(page, PageState::OnDisk(DiskPage { is_buffered: true, ..on_disk }));
            return Ok(());
        }
        self.merge_restored(page, on_disk, changes)
    }

    /// The next batch of pages whose buffers should be merged; several threads go through one list together.
    pub(crate) fn next_to_merge(&self) -> Vec<PageId> {
        let mut list = self.to_merge.lock();
        if list.pages.is_empty() {
            list.pages = self.pages_to_merge();
            if !list.damaged.is_empty() {
                let MergeList { pages, damaged, .. } = &mut *list;
                damaged.retain(|page, address| self.frames.disk_address(*page) == Some(*address));
                pages.retain(|page| !damaged.contains_key(page));
            }
            list.pages.reverse();
            let batches = list.pages.len().div_ceil(MERGE_BATCH_PAGES).max(1);
            list.rest = MERGE_SPREAD.mul_f64(MERGER_THREADS as f64 / batches as f64).min(MERGE_REST_MAX);
            self.balance_buffers();
            if batches > 1 {
                // There is something for the other threads, too.
                self.buffers.request_merging();
            }
        }
        let left = list.pages.len().saturating_sub(MERGE_BATCH_PAGES);
        let mut batch = list.pages.split_off(left);
        batch.reverse();
        batch
    }

    /// The wait of a thread that merges, until something is to be merged or the time is over.
    pub(crate) fn wait_for_merging(&self, at_most: Duration) -> bool {
        self.buffers.wait_for_merging(at_most)
    }

    /// How long a thread that merges rests after a batch.
    pub(crate) fn rest_of_merging(&self) -> Duration {
        let spread = (MERGING_SPREAD_ENDS - self.buffered_share()) / (MERGING_SPREAD_ENDS - MERGING_SPREAD_BELOW);
        self.to_merge.lock().rest.mul_f64(spread.clamp(0.0, 1.0))
    }

    /// Whether merging is spread as much as it can be, so that a batch may take longer, too.
    pub(super) fn has_time_to_merge(&self) -> bool {
        self.buffered_share() < MERGING_SPREAD_BELOW
    }

    /// The pages whose buffers should be merged now, in the order of their places on disk: those that are nearly full, and, when there is
    /// not enough memory for buffers, those with the most changes.
    fn pages_to_merge(&self) -> Vec<PageId> {
        let mut pages = Vec::new();
        self.buffers.take_due(MERGE_PAGES_MAX, &mut pages);
        self.buffers.fullest(MERGED_FROM, MERGE_ONE_IN, &mut pages);
        self.sort_by_address(&mut pages);
        pages.dedup();
        pages
    }

    /// The pages with changes that the checkpoint being written has yet to save.
    pub(crate) fn unsaved_pages(&self) -> Vec<PageId> {
        let mut pages = Vec::new();
        self.buffers.unsaved_pages(self.store.epoch(), &mut pages);
        pages
    }

    /// The pages with buffered changes.
    #[cfg(test)]
    pub(crate) fn buffered_page_ids(&self) -> Vec<PageId> {
        let mut pages = Vec::new();
        self.buffers.append_all(&mut pages);
        pages
    }

    fn sort_by_address(&self, pages: &mut [PageId]) {
        pages.sort_by_cached_key(|page| self.frames.disk_address(*page).map_or(0, PageAddress::place));
    }

    /// Bytes of memory in buffered changes.
    pub(crate) fn buffered_bytes(&self) -> usize {
        self.buffers.bytes()
    }

    /// Share of the memory for buffered changes that is in use.
    pub(crate) fn buffered_share(&self) -> f64 {
        self.buffers.bytes() as f64 / self.buffers.limit().max(1) as f64
    }

    /// Number of leaves with buffered changes.
    pub(crate) fn buffered_pages(&self) -> usize {
        self.buffers.len()
    }

    /// Withholds as many frames as the buffers' memory outside of frames is worth, so that all together stays within the
    /// cache's budget.
    fn balance_buffers(&self) {
        self.frames.withhold(self.buffers.entry_bytes().div_ceil(PAGE_BYTES));
    }

    /// Frames whose memory holds changes.
    pub(super) fn lent_frames(&self) -> usize {
        self.buffers.lent_frames()
    }
}

impl Lender for ChangeBuffer {
    fn lend(&self) -> Option<LentFrame> {
        self.frames.lend()
    }

    fn give_back(&self, frame: FrameId) {
        self.frames.free.give_back(frame);
    }
}

fn outcome(pushed: Pushed) -> BufferedPush {
    match pushed {
        Pushed::Done => BufferedPush::Done,
        Pushed::NoRoom => BufferedPush::Refused,
    }
}
