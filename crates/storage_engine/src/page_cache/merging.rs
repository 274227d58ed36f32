//! Merging buffered changes into pages on disk without bringing them into a frame: read, merge, write elsewhere.
//!
//! Called by the background, for the fullest buffers when memory for changes is short and for those that are nearly full. Relies on
//! `buffered` for what a buffered page is. A page's word says `Loading` meanwhile, so that nobody else reads, moves or
//! changes it; its buffer stays as it is until the new image is written, so that a failure loses nothing.

use std::sync::atomic::Ordering;

use parking_lot::{Mutex, MutexGuard};

use super::{EncodedChanges, PageCache};
use crate::counters::PageWriteScope;
use crate::error::Result;
use crate::frame_arena::{PAGE_BYTES, PageImage};
use crate::node::Node;
use crate::page_store::{PageId, PageStore, WriteBatch, Written};
use crate::page_table::{DiskPage, PageState};

/// Pages merged and written together: few, because whoever needs one of them waits.
pub(super) const MERGE_BATCH_PAGES: usize = 16;

/// Threads that merge: one does not keep up with as many changes as the disk lets clients make.
pub(crate) const MERGER_THREADS: usize = 2;

/// What merging needs: a batch of pages at a time.
pub(super) struct PageMerger {
    batch: WriteBatch,
    image: Box<PageImage>,
    pages: Vec<MergingPage>,
}

/// A page of the batch.
struct MergingPage {
    page: PageId,
    on_disk: DiskPage,
}

impl PageMerger {
    fn new(store: &PageStore) -> Result<Self> {
        Ok(Self { batch: store.new_batch()?, image: Box::new([0; PAGE_BYTES]), pages: Vec::new() })
    }

    /// One for each thread that merges.
    pub(super) fn each(store: &PageStore) -> Result<[Mutex<Self>; MERGER_THREADS]> {
        Ok([Mutex::new(Self::new(store)?), Mutex::new(Self::new(store)?)])
    }
}

impl PageCache {
    /// Merges those of these pages (a batch at most) that are on disk and have buffered changes.
    pub(crate) fn merge_on_disk(&self, pages: &[PageId]) -> Result<()> {
        let mut merger = self.idle_merger();
        let merger = &mut *merger;
        let mut scope = PageWriteScope::begin(self.invariants());
        for page in pages {
            if let PageState::OnDisk(on_disk @ DiskPage { is_buffered: true, .. }) = self.table.get(*page) {
                self.store.begin_read(on_disk.address);
            }
        }
        let prepared = pages.iter().try_for_each(|page| self.prepare_merge(merger, *page));
        let written = prepared.and_then(|()| Ok(self.store.write(&mut merger.batch)?));
        match &written {
            Ok(written) => {
                for (merging, written) in merger.pages.iter().zip(written) {
                    self.finish_merge(merging.page, written);
                    scope.count_page();
                }
            }
            Err(_) => {
                merger.batch.clear();
                // The buffers are as they were.
                merger.pages.iter().for_each(|merging| {
                    self.table.set(merging.page, PageState::OnDisk(merging.on_disk));
                });
            }
        }
        for merging in merger.pages.drain(..) {
            self.notify_loaded(merging.page);
        }
        written.map(|_| ())
    }

    fn idle_merger(&self) -> MutexGuard<'_, PageMerger> {
        let [one, another] = &self.page_mergers;
        one.try_lock().unwrap_or_else(|| another.lock())
    }

    /// Puts a page's new image into the batch.
    fn prepare_merge(&self, merger: &mut PageMerger, page: PageId) -> Result<()> {
        let (on_disk, copied, epoch) = {
            let mut shard = self.buffers.lock(page);
            let PageState::OnDisk(on_disk @ DiskPage { is_buffered: true, .. }) = self.table.get(page) else {
                return Ok(());
            };
            let Some(copied) = shard.copy(page) else { return Ok(()) };
            if !self.table.transition(page, PageState::OnDisk(on_disk), PageState::Loading(on_disk)) {
                return Ok(());
            }
            (on_disk, copied, self.keep_unsaved(page, &mut shard))
        };
        merger.pages.push(MergingPage { page, on_disk });
        self.push_merged(merger, page, on_disk, copied.encoded(), epoch)
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
        self.pages_read.fetch_add(1, Ordering::Relaxed);
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
        self.table.set(page, PageState::OnDisk(DiskPage::at(written.address)));
    }

    /// Merges changes that a checkpoint has saved, while the store is being opened.
    pub(super) fn merge_restored(&self, page: PageId, on_disk: DiskPage, changes: EncodedChanges<'_>) -> Result<()> {
        let mut merger = self.idle_merger();
        let merger = &mut *merger;
        let prepared = self.push_merged(merger, page, on_disk, changes, self.store.epoch());
        let written = prepared.and_then(|()| Ok(self.store.write(&mut merger.batch)?));
        merger.batch.clear();
        for written in written? {
            self.table.set(page, PageState::OnDisk(DiskPage::at(written.address)));
        }
        Ok(())
    }
}
