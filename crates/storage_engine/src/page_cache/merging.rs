//! Merging buffered changes into pages on disk without bringing them into a frame: read, merge, write elsewhere.
//!
//! Called by the background, for the fullest buffers when memory for changes is short and for those that are nearly full. Relies on
//! `buffered` for what a buffered page is. A buffer stays as it is until the new image is written, so that a failure loses nothing.
//!
//! ```text
//!   beside others: buffer copied and marked ─ read, merged, written ─ mark still there? ─ Loading ─ on disk at its new place
//!                                                                     └ no: somebody added a change or read the page: alone
//!   alone:         Loading ─ buffer copied, read, merged, written ──────────────────────────────── on disk at its new place
//! ```
//!
//! While a page's word says `Loading` nobody else reads, moves or changes it. A commit that has a change for it waits, and all that come after it wait
//! for that commit, so the word says so for an instant only, but for pages that are changed all the time.

use std::sync::atomic::Ordering;

use parking_lot::{Mutex, MutexGuard};
use platform::WorkBudget;

use super::change_buffers::MergeMark;
use super::merge_bounds::MERGER_THREADS;
use super::{ChangeBuffer, EncodedChanges};
use crate::counters::PageWriteScope;
use crate::error::Result;
use crate::frame_arena::{PAGE_BYTES, PageImage};
use crate::node::Node;
use crate::page_store::{PageId, PageStore, WriteBatch, Written};
use crate::page_table::{DiskPage, PageState};

/// What merging needs: a batch of pages at a time.
pub(super) struct PageMerger {
    batch: WriteBatch,
    image: Box<PageImage>,
    pages: Vec<MergingPage>,
    /// Those that were changed, or could not be read, beside others.
    left: Vec<PageId>,
}

/// A page of the batch.
struct MergingPage {
    page: PageId,
    on_disk: DiskPage,
    epoch: u64,
    /// `None`: its word says `Loading`, so that nobody can change it.
    mark: Option<MergeMark>,
}

/// How a page is merged.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Manner {
    BesideOthers,
    Alone,
}

impl PageMerger {
    fn new(store: &PageStore) -> Result<Self> {
        Ok(Self { batch: store.new_batch()?, image: Box::new([0; PAGE_BYTES]), pages: Vec::new(), left: Vec::new() })
    }

    /// One for each thread that merges.
    pub(super) fn each(store: &PageStore) -> Result<[Mutex<Self>; MERGER_THREADS]> {
        Ok([Mutex::new(Self::new(store)?), Mutex::new(Self::new(store)?)])
    }
}

impl ChangeBuffer {
    /// Merges those of these pages (a batch at most) that are on disk and have buffered changes.
    pub(crate) fn merge_on_disk(&self, pages: &[PageId]) -> Result<()> {
        let mut merger = self.idle_merger();
        let merger = &mut *merger;
        let mut scope = PageWriteScope::begin(&self.invariants);
        for page in pages {
            if let PageState::OnDisk(on_disk @ DiskPage { is_buffered: true, .. }) = self.frames.state(*page) {
                self.store.begin_read(on_disk.address);
            }
        }
        merger.left.clear();
        self.merge_together(merger, pages, Manner::BesideOthers, &mut scope)?;
        let left = std::mem::take(&mut merger.left);
        self.merge_together(merger, &left, Manner::Alone, &mut scope)
    }

    fn merge_together(
        &self,
        merger: &mut PageMerger,
        pages: &[PageId],
        manner: Manner,
        scope: &mut PageWriteScope<'_>,
    ) -> Result<()> {
        let can_wait = manner == Manner::BesideOthers && self.has_time_to_merge();
        let prepared = pages.iter().try_for_each(|page| {
            if can_wait {
                WorkBudget::background_step();
            }
            self.prepare_merge(merger, *page, manner)
        });
        let written = prepared.and_then(|()| {
            let mut merging = merger.pages.iter_mut();
            let is_wanted = |_| merging.next().is_some_and(|merging| self.claim(merging));
            Ok(self.store.write_wanted(&mut merger.batch, is_wanted)?)
        });
        match &written {
            Ok(written) => {
                for (merging, written) in merger.pages.drain(..).zip(written) {
                    match merging.mark {
                        None => {
                            self.finish_merge(merging.page, written);
                            scope.count_page();
                        }
                        Some(_) => merger.left.push(merging.page),
                    }
                }
            }
            Err(_) => {
                merger.batch.clear();
                merger.pages.drain(..).for_each(|merging| self.give_up_merge(&merging));
            }
        }
        written.map(|_| ())
    }

    fn idle_merger(&self) -> MutexGuard<'_, PageMerger> {
        let [one, another] = &self.page_mergers;
        one.try_lock().unwrap_or_else(|| another.lock())
    }

    /// Puts a page's new image into the batch.
    fn prepare_merge(&self, merger: &mut PageMerger, page: PageId, manner: Manner) -> Result<()> {
        let (copied, merging) = {
            let mut shard = self.buffers.lock(page);
            let PageState::OnDisk(on_disk @ DiskPage { is_buffered: true, .. }) = self.frames.state(page) else {
                return Ok(());
            };
            match manner {
                Manner::BesideOthers => {
                    let Some((copied, mark)) = shard.begin_merge(page) else { return Ok(()) };
                    (copied, MergingPage { page, on_disk, epoch: self.store.epoch(), mark: Some(mark) })
                }
                Manner::Alone => {
                    let Some(copied) = shard.copy(page) else { return Ok(()) };
                    if !self.frames.transition(page, PageState::OnDisk(on_disk), PageState::Loading(on_disk)) {
                        return Ok(());
                    }
                    let epoch = self.keep_unsaved(page, &mut shard);
                    (copied, MergingPage { page, on_disk, epoch, mark: None })
                }
            }
        };
        match self.push_merged(merger, page, merging.on_disk, copied.encoded(), merging.epoch) {
            Ok(()) => merger.pages.push(merging),
            Err(error) => {
                self.give_up_merge(&merging);
                // Beside others the block may have been moved and written over: alone it will be seen whether it is damaged.
                match manner {
                    Manner::BesideOthers => merger.left.push(page),
                    Manner::Alone if error.is_damage() => {
                        self.to_merge.lock().damaged.insert(page, merging.on_disk.address);
                    }
                    Manner::Alone => return Err(error),
                }
            }
        }
        Ok(())
    }

    /// Whether a page's new image has all its changes. If so, nobody reads, moves or changes the page from now on.
    fn claim(&self, merging: &mut MergingPage) -> bool {
        let MergingPage { page, on_disk, epoch, mark: Some(mark) } = *merging else { return true };
        let mut shard = self.buffers.lock(page);
        // To a checkpoint that has begun since, the image would have changes that are not its own.
        let is_claimed = shard.end_merge(page, mark)
            && self.store.epoch() == epoch
            && self.frames.transition(page, PageState::OnDisk(on_disk), PageState::Loading(on_disk));
        if is_claimed {
            self.keep_unsaved(page, &mut shard);
            merging.mark = None;
        }
        is_claimed
    }

    /// Leaves a page as it was, with its buffer.
    fn give_up_merge(&self, merging: &MergingPage) {
        match merging.mark {
            Some(mark) => {
                self.buffers.lock(merging.page).end_merge(merging.page, mark);
            }
            None => {
                self.frames.set_state(merging.page, PageState::OnDisk(merging.on_disk));
                self.frames.notify_loaded(merging.page);
            }
        }
    }

    fn push_merged(
        &self,
        merger: &mut PageMerger,
        page: PageId,
        on_disk: DiskPage,
        changes: EncodedChanges<'_>,
        epoch: u64,
    ) -> Result<()> {
        self.store.read_scattered(page, on_disk.address, &mut merger.image[..])?;
        self.frames.count_read();
        self.merger()?.merge_changes(page, &mut merger.image, changes)?;
        self.pages_merged.fetch_add(1, Ordering::Relaxed);
        let notes = Node(&*merger.image).notes();
        merger.batch.push(page, &merger.image[..], epoch, notes);
        Ok(())
    }

    fn finish_merge(&self, page: PageId, written: &Written) {
        // Nobody has buffered changes meanwhile: the page is not on disk to them.
        let mut shard = self.buffers.lock(page);
        shard.forget(page, self);
        self.frames.set_state(page, PageState::OnDisk(DiskPage::at(written.address)));
        drop(shard);
        self.frames.notify_loaded(page);
    }

    /// Merges changes that a checkpoint has saved, while the store is being opened.
    pub(super) fn merge_restored(&self, page: PageId, on_disk: DiskPage, changes: EncodedChanges<'_>) -> Result<()> {
        let mut merger = self.idle_merger();
        let merger = &mut *merger;
        let prepared = self.push_merged(merger, page, on_disk, changes, self.store.epoch());
        let written = prepared.and_then(|()| Ok(self.store.write(&mut merger.batch)?));
        merger.batch.clear();
        for written in written? {
            self.frames.set_state(page, PageState::OnDisk(DiskPage::at(written.address)));
        }
        Ok(())
    }
}
