//! The third room: writing pages, of eviction and of checkpoints. Background threads only (invariant I3).
//!
//! Called by `engine`'s background functions, and by whoever is about to change a page. One lock makes the images of a page
//! reach the store in the order of their age; it is held for one batch, which is about half a megabyte written.
//! Relies on `Frames` for what is dirty, and tells it what is clean. Knows no buffered changes.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use parking_lot::{Mutex, MutexGuard};
use platform::WorkBudget;

use super::eviction::Victims;
use super::preparation::Preparation;
use super::replacement::Cold;
use super::{Fixed, Frames};
use crate::counters::{InvariantCounters, PageWriteScope};
use crate::error::Result;
use crate::frame_arena::{FrameId, NO_PAGE, PAGE_BYTES, PageImage};
use crate::node::Node;
use crate::page_store::{PageId, PageStore, WriteBatch, Written};
use crate::page_table::{DiskPage, PageState};
use crate::pressure_marks::OFFERED_FROM_SUPPLY;

/// Pages in one batch.
pub(crate) const BATCH_PAGES: usize = 64;

/// What the writing of pages needs, one at a time.
pub(super) struct Writer {
    batch: WriteBatch,
    pub(super) image: Box<PageImage>,
    /// Pages of the batch that were copied out of frames; the others are checkpoint copies.
    pub(super) frames: Vec<Fixed>,
    ahead: AheadHand,
    /// Whether others may run between the pages of the batch: nobody waits for it.
    offers_processor: bool,
}

/// Writing ahead of eviction: where it goes on, and for which pages.
struct AheadHand {
    hand: usize,
    cold: Cold,
    /// Pages written in this round over all frames.
    written: usize,
}

impl AheadHand {
    /// The next frame; each round begins with those of the pages that leave first, unless the last one found none of them.
    fn next(&mut self, frames: usize) -> FrameId {
        let frame = FrameId(self.hand as u32);
        self.hand += 1;
        if self.hand >= frames {
            self.cold = if self.written < BATCH_PAGES { self.cold.wider() } else { Cold::Leaving };
            (self.hand, self.written) = (0, 0);
        }
        frame
    }
}

impl Writer {
    pub(super) fn new(store: &PageStore) -> Result<Self> {
        let batch = store.new_batch()?;
        let ahead = AheadHand { hand: 0, cold: Cold::Leaving, written: 0 };
        Ok(Self { batch, image: Box::new([0; PAGE_BYTES]), frames: Vec::new(), ahead, offers_processor: true })
    }

    /// Takes the image that was copied from a frame into the batch.
    pub(super) fn push_image(&mut self, fixed: Fixed, epoch: u64) {
        #[cfg(feature = "key-rebuild-demonstration")]
        crate::key_rebuild_demonstration::rebuild_keys_from_page_start(&self.image);
        self.batch.push(fixed.page, &self.image[..], epoch, Node(&*self.image).notes());
        self.frames.push(fixed);
        self.offer_processor();
    }

    /// Called after each page.
    fn offer_processor(&self) {
        if self.offers_processor {
            WorkBudget::background_step();
        }
    }
}

/// Nobody writes as long as this lives: no image of a page is under way to the disk.
pub(crate) struct Paused<'w> {
    _writer: MutexGuard<'w, Writer>,
}

/// What to do with a frame once its image is on disk.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum After {
    /// The frame is wanted for another page.
    Evict,
    /// The page stays and is clean.
    Keep,
}

/// The image of a page as the checkpoint being written needs it, taken before the page's next change.
pub(super) struct CheckpointCopy {
    pub(super) page: PageId,
    pub(super) epoch: u64,
    pub(super) image: Box<PageImage>,
}

/// Writes pages, and knows what a checkpoint needs of them.
pub(crate) struct PageWriter {
    pub(super) frames: Arc<Frames>,
    pub(super) store: Arc<PageStore>,
    invariants: Arc<InvariantCounters>,
    pub(super) state: Mutex<Writer>,
    checkpoint_copies: Mutex<Vec<CheckpointCopy>>,
    pub(super) preparation: Preparation,
    victims: Victims,
}

impl PageWriter {
    pub(super) fn new(frames: Arc<Frames>, store: Arc<PageStore>, invariants: Arc<InvariantCounters>) -> Result<Self> {
        Ok(Self {
            state: Mutex::new(Writer::new(&store)?),
            checkpoint_copies: Mutex::default(),
            preparation: Preparation::default(),
            victims: Victims::default(),
            frames,
            store,
            invariants,
        })
    }

    /// Checkpoint copies waiting to be written.
    pub(crate) fn waiting_copies(&self) -> usize {
        self.checkpoint_copies.lock().len()
    }

    /// Waits until nobody writes, which may take as long as the disk does.
    pub(crate) fn pause(&self) -> Paused<'_> {
        Paused { _writer: self.state.lock() }
    }

    pub(super) fn keep_copy(&self, copy: CheckpointCopy) {
        self.checkpoint_copies.lock().push(copy);
    }

    /// What the evictor has found for this room.
    pub(super) fn victims(&self) -> &Victims {
        &self.victims
    }

    pub(super) fn wake_all(&self) {
        self.victims.wake_all();
    }

    pub(super) fn scope(&self) -> PageWriteScope<'_> {
        PageWriteScope::begin(&self.invariants)
    }

    /// Writes these frames' pages, which the clock has found to leave, and frees them; returns how many frames were freed.
    pub(super) fn write_and_evict(&self, victims: &[FrameId]) -> Result<usize> {
        let mut writer = self.state.lock();
        let writer = &mut *writer;
        let mut scope = self.scope();
        writer.offers_processor = self.frames.supply() >= OFFERED_FROM_SUPPLY;
        for frame in victims {
            if self.push_frame(writer, *frame).is_some() {
                scope.count_page();
            }
        }
        writer.offers_processor = true;
        match self.write_batch(writer, After::Evict) {
            // Readers go on with the frames of pages that need not be written.
            Err(error) if error.is_disk_full() => match self.frames.evict_any_clean(victims.len()) {
                0 => Err(error),
                freed => Ok(freed),
            },
            written => written,
        }
    }

    /// Evicts everything that nobody is using, for tests and the simulator, which want pages read again.
    /// `left` of the frames hold a page.
    pub(super) fn evict_all(&self, mut left: usize) -> Result<usize> {
        let mut writer = self.state.lock();
        let mut freed = 0;
        // Frames are first taken in their order: behind the last that holds a page the headers were perhaps never touched.
        for frame in (0..self.frames.len() as u32).map(FrameId) {
            if left == 0 {
                break;
            }
            let header = self.frames.header(frame);
            if header.page() == NO_PAGE {
                continue;
            }
            left -= 1;
            header.used.store(false, Ordering::Relaxed);
            if header.is_dirty() {
                self.push_frame(&mut writer, frame);
                freed += self.write_batch(&mut writer, After::Evict)?;
            } else {
                freed += usize::from(self.frames.evict_clean(frame));
            }
        }
        Ok(freed)
    }

    /// Writes a batch of dirty pages, the coldest first, and keeps them, so that most frames can be evicted without a
    /// write; returns how many. Called when too many frames are dirty.
    pub(crate) fn flush_batch(&self) -> Result<usize> {
        let mut writer = self.state.lock();
        let writer = &mut *writer;
        let mut scope = self.scope();
        for _ in 0..self.frames.len() * 3 {
            let frame = writer.ahead.next(self.frames.len());
            let header = self.frames.header(frame);
            if header.is_dirty() && writer.ahead.cold.includes(header) && self.push_frame(writer, frame).is_some() {
                writer.ahead.written += 1;
                scope.count_page();
            }
            if writer.frames.len() >= BATCH_PAGES {
                break;
            }
        }
        let pushed = writer.frames.len();
        self.write_batch(writer, After::Keep)?;
        Ok(pushed)
    }

    /// Copies a dirty frame's image into the batch; `None` when it is being changed just now.
    fn push_frame(&self, writer: &mut Writer, frame: FrameId) -> Option<()> {
        if writer.frames.iter().any(|pushed| pushed.frame == frame) {
            // The hand has come round: it is in this batch already.
            return None;
        }
        let version = self.frames.version(frame)?;
        let header = self.frames.header(frame);
        let (page, epoch) = (PageId(header.page()), header.dirty_epoch.load(Ordering::Acquire));
        if !self.frames.copy(frame, version, &mut writer.image) || epoch == 0 || page.0 == NO_PAGE {
            return None;
        }
        writer.push_image(Fixed { page, frame, version }, epoch);
        Some(())
    }

    /// Writes the batch. Its first pages may be checkpoint copies, the rest belong to `writer.frames`. Returns how many
    /// frames were freed.
    pub(super) fn write_batch(&self, writer: &mut Writer, after: After) -> Result<usize> {
        let frames = std::mem::take(&mut writer.frames);
        let written = self.store.write(&mut writer.batch);
        let mut freed = 0;
        if let Ok(written) = &written {
            let copies = written.len() - frames.len();
            for (fixed, written) in frames.iter().zip(&written[copies..]) {
                freed += usize::from(self.finish_write(fixed, written, after));
            }
        }
        if written.is_err() {
            // Copies stay in the batch until there is space: nothing else has those images. Pages are copied again.
            writer.batch.truncate(writer.batch.len() - frames.len());
        }
        writer.frames = frames;
        writer.frames.clear();
        written?;
        Ok(freed)
    }

    /// Marks a page clean, unless it changed while its image was written. `true`: its frame is free now.
    fn finish_write(&self, fixed: &Fixed, written: &Written, after: After) -> bool {
        let Some(latched) = self.frames.try_lock_at(fixed.frame, fixed.version) else { return false };
        let header = latched.header();
        header.address.store(written.address.0, Ordering::Relaxed);
        let was_dirty = header.dirty_epoch.swap(0, Ordering::AcqRel) != 0;
        if was_dirty {
            self.frames.count_clean();
        }
        if after == After::Keep || header.used.load(Ordering::Relaxed) {
            latched.release_unchanged();
            return false;
        }
        self.frames.release(fixed.frame, latched, PageState::OnDisk(DiskPage::at(written.address)));
        true
    }

    /// Writes a batch of the pages that the frozen epoch needs. `false` when none is left. `hand` is where the scan of
    /// the frames goes on; it begins at 0 and is used up with the checkpoint.
    pub(crate) fn write_checkpoint_batch(
        &self,
        epoch: u64,
        hand: &mut usize,
        skipped: &mut Vec<FrameId>,
    ) -> Result<bool> {
        let mut writer = self.state.lock();
        let writer = &mut *writer;
        let mut scope = self.scope();
        // They were being changed when their turn came: blind changes, which leave them in the epoch, might do so again and again. What a
        // full disk has refused is tried first.
        if writer.batch.is_empty() {
            skipped.retain(|frame| !self.take_copy(*frame, epoch));
        }
        self.push_copies(writer, &mut scope);
        while writer.batch.len() < BATCH_PAGES && *hand < self.frames.len() {
            let frame = FrameId(*hand as u32);
            *hand += 1;
            self.push_for_epoch(writer, frame, epoch, skipped);
        }
        for _ in 0..writer.frames.len() {
            scope.count_page();
        }
        let pushed = writer.frames.clone();
        if let Err(error) = self.write_batch(writer, After::Keep) {
            // The hand has passed them; they are still to be written when there is space.
            skipped.extend(pushed.iter().map(|fixed| fixed.frame));
            return Err(error);
        }
        skipped.extend(pushed.iter().filter(|fixed| self.is_dirty_for(fixed, epoch)).map(|fixed| fixed.frame));
        Ok(*hand < self.frames.len() || !skipped.is_empty() || !self.checkpoint_copies.lock().is_empty())
    }

    /// Writes the copies taken for the checkpoint so far, so that they do not pile up while its pages are still being
    /// found; returns how many.
    pub(crate) fn write_checkpoint_copies(&self) -> Result<usize> {
        let mut writer = self.state.lock();
        let mut scope = self.scope();
        let pages = self.push_copies(&mut writer, &mut scope);
        self.write_batch(&mut writer, After::Keep)?;
        Ok(pages)
    }

    fn push_copies(&self, writer: &mut Writer, scope: &mut PageWriteScope<'_>) -> usize {
        let copies: Vec<CheckpointCopy> = {
            let mut waiting = self.checkpoint_copies.lock();
            let count = waiting.len().min(BATCH_PAGES);
            waiting.drain(..count).collect()
        };
        for copy in &copies {
            writer.batch.push(copy.page, &copy.image[..], copy.epoch, Node(&*copy.image).notes());
            writer.offer_processor();
            scope.count_page();
        }
        copies.len()
    }

    /// Whether a written page still counts as dirty for the epoch: its latch was taken meanwhile, without a change.
    fn is_dirty_for(&self, fixed: &Fixed, epoch: u64) -> bool {
        let header = self.frames.header(fixed.frame);
        header.page() == fixed.page.0 && header.is_dirty_for(epoch)
    }

    fn push_for_epoch(&self, writer: &mut Writer, frame: FrameId, epoch: u64, skipped: &mut Vec<FrameId>) {
        let header = self.frames.header(frame);
        if !header.is_dirty_for(epoch) {
            return;
        }
        let is_done = if self.is_prepared(header) {
            self.take_copy(frame, epoch)
        } else {
            self.push_frame(writer, frame).is_some()
        };
        if !is_done {
            skipped.push(frame);
        }
    }

    /// Empties the frame of a page that is freed. What a checkpoint needs of it is copied first. `false`: its latch is taken.
    pub(super) fn empty_frame(&self, page: PageId, frame: FrameId) -> bool {
        let Some(latched) = self.frames.try_lock(frame) else { return false };
        if latched.header().page() != page.0 {
            latched.release_unchanged();
            return false;
        }
        let dirty_since = latched.header().dirty_epoch.swap(0, Ordering::Relaxed);
        if dirty_since != 0 {
            self.frames.count_clean();
            if dirty_since < self.store.epoch() {
                self.copy_for_checkpoint(&latched, dirty_since);
            }
        }
        self.frames.release(frame, latched, PageState::Empty);
        true
    }
}
