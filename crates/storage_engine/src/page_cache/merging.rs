//! Merging buffered changes into pages on disk without bringing them into a frame: read, merge, write elsewhere.
//!
//! Called by the background: for the fullest buffers when memory for changes is short, and for a checkpoint. Relies on
//! `buffered` for what a buffered page is. A page's word says `Loading` meanwhile, so that nobody else reads, moves or
//! changes it; its buffer stays as it is until the new image is written, so that a failure loses nothing.

use std::sync::atomic::Ordering;

use parking_lot::Mutex;

use super::PageCache;
use crate::counters::PageWriteScope;
use crate::error::Result;
use crate::frame_arena::{PAGE_BYTES, PageImage};
use crate::node::Node;
use crate::page_store::{PageId, PageStore, WriteBatch, Written};
use crate::page_table::{DiskPage, PageState};

/// Pages merged and written together: few, because whoever needs one of them waits.
pub(crate) const MERGE_BATCH_PAGES: usize = 16;

/// Threads that merge beside checkpoints: one does not keep up with as many changes as the disk lets clients make.
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
    /// Bytes of its buffer that are merged.
    merged_bytes: usize,
    /// Room of the new image.
    room: usize,
}

impl PageMerger {
    fn new(store: &PageStore) -> Result<Self> {
        Ok(Self { batch: store.new_batch()?, image: Box::new([0; PAGE_BYTES]), pages: Vec::new() })
    }

    /// One for each thread that merges, the last for checkpoints.
    pub(super) fn each(store: &PageStore) -> Result<[Mutex<Self>; MERGER_THREADS + 1]> {
        Ok([Mutex::new(Self::new(store)?), Mutex::new(Self::new(store)?), Mutex::new(Self::new(store)?)])
    }
}

impl PageCache {
    /// Merges those of these pages (a batch at most) that are on disk and have buffered changes; with an epoch, only those
    /// with changes of that epoch or earlier, which it waits for when somebody is reading them.
    pub(crate) fn merge_on_disk(&self, pages: &[PageId], up_to: Option<u64>) -> Result<()> {
        let [others @ .., for_checkpoints] = &self.page_mergers;
        let idle = if up_to.is_none() { others.iter().find_map(Mutex::try_lock) } else { None };
        let mut merger = idle.unwrap_or_else(|| for_checkpoints.lock());
        let merger = &mut *merger;
        let mut scope = PageWriteScope::begin(self.invariants());
        for page in pages {
            if let PageState::OnDisk(on_disk @ DiskPage { is_buffered: true, .. }) = self.table.get(*page) {
                self.store.begin_read(on_disk.address);
            }
        }
        let prepared = pages.iter().try_for_each(|page| self.prepare_merge(merger, *page, up_to));
        let written = prepared.and_then(|()| Ok(self.store.write(&mut merger.batch)?));
        match &written {
            Ok(written) => {
                for (merging, written) in merger.pages.iter().zip(written) {
                    self.finish_merge(merging, written);
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

    /// Puts a page's new image into the batch.
    fn prepare_merge(&self, merger: &mut PageMerger, page: PageId, up_to: Option<u64>) -> Result<()> {
        let (on_disk, copied) = loop {
            let state = self.table.get(page);
            if matches!(state, PageState::Loading(_)) && up_to.is_some() {
                self.wait_for_load(page);
                continue;
            }
            let shard = self.buffers.lock(page);
            let PageState::OnDisk(on_disk) = self.table.get(page) else {
                if matches!(self.table.get(page), PageState::Loading(_)) && up_to.is_some() {
                    continue;
                }
                return Ok(());
            };
            if !on_disk.is_buffered || up_to.is_some_and(|epoch| !shard.has_changes_before(page, epoch + 1)) {
                return Ok(());
            }
            let Some(copied) = shard.copy(page) else { return Ok(()) };
            if !self.table.transition(page, PageState::OnDisk(on_disk), PageState::Loading(on_disk)) {
                continue;
            }
            break (on_disk, copied);
        };
        merger.pages.push(MergingPage { page, on_disk, merged_bytes: 0, room: 0 });
        self.store.read_scattered(page, on_disk.address, &mut merger.image[..])?;
        self.pages_read.fetch_add(1, Ordering::Relaxed);
        // The part for a checkpoint that is being written goes alone: the page is written once for each.
        let (changes, epoch) = copied.older().unwrap_or(copied.newer());
        self.merger()?.merge_changes(page, &mut merger.image, changes)?;
        self.pages_merged.fetch_add(1, Ordering::Relaxed);
        let room = Node(&*merger.image).room_for_changes();
        if let Some(merging) = merger.pages.last_mut() {
            merging.merged_bytes = changes.bytes.len();
            merging.room = room;
        }
        merger.batch.push(page, &merger.image[..], epoch, room);
        Ok(())
    }

    fn finish_merge(&self, merging: &MergingPage, written: &Written) {
        let mut shard = self.buffers.lock(merging.page);
        let is_buffered = shard.drop_merged(merging.page, merging.merged_bytes, merging.room, self);
        let on_disk = DiskPage { address: written.address, is_buffered };
        self.table.set(merging.page, PageState::OnDisk(on_disk));
    }
}
