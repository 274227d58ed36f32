//! Preparing a checkpoint: leaves of records are written before it is frozen, and their images stay good although they change on.
//!
//! Called by `checkpoint` (begin, steps, end) and by the changes of pages. Replay begins at a position that is taken before the preparation begins, and makes
//! all changes of records since then again. So of such a leaf the checkpoint may have any image that is not older than the preparation, as long as the leaf
//! covers the same keys: the one written during the preparation, or the one on disk when a clean leaf was changed during it. Nothing needs to be copied for the
//! checkpoint then when the leaf changes. Decision 0007 says why this is right.
//!
//! A frame's header says for which preparation such an image is there (`prepared_for`). What no replay makes again, and what moves entries to
//! or from another page, takes that back. Leaves with overflow values are left out: their pages are freed and come back.

use std::sync::atomic::{AtomicU64, Ordering};

use super::Fixed;
use super::writing::{After, BATCH_PAGES, PageWriter, Writer};
use crate::error::Result;
use crate::frame_arena::{ExclusiveFrame, FrameHeader, FrameId, NO_PAGE};
use crate::node::Node;
use crate::page_store::PageId;

/// Which preparation is under way, and which one the frozen checkpoint had.
#[derive(Default)]
pub(super) struct Preparation {
    begun: AtomicU64,
    /// 0: none.
    current: AtomicU64,
    frozen: AtomicU64,
}

impl PageWriter {
    /// Begins a preparation. Everything before the position from which replay will begin has been applied.
    pub(crate) fn begin_preparation(&self) {
        let number = self.preparation.begun.fetch_add(1, Ordering::Relaxed) + 1;
        self.preparation.current.store(number, Ordering::Release);
    }

    /// The checkpoint is being frozen; under the barrier, held exclusively.
    pub(crate) fn end_preparation(&self) {
        let number = self.preparation.current.swap(0, Ordering::AcqRel);
        self.preparation.frozen.store(number, Ordering::Release);
    }

    /// As [`PageWriter::prepare_change`], for a change of a leaf that replay makes again and that moves nothing to or from another page. The leaf
    /// must get no overflow value by it.
    pub(crate) fn prepare_record_change(&self, frame: &ExclusiveFrame<'_>) -> bool {
        frame.header().holds_records.store(true, Ordering::Relaxed);
        self.enter_epoch(frame, |clean| match self.preparation.current.load(Ordering::Acquire) {
            current if current != 0 && !has_overflow(clean) => current,
            _ => 0,
        })
    }

    /// Whether the frozen checkpoint has an image of the page that is good enough.
    pub(super) fn is_prepared(&self, header: &FrameHeader) -> bool {
        let prepared_for = header.prepared_for.load(Ordering::Relaxed);
        prepared_for != 0 && prepared_for == self.preparation.frozen.load(Ordering::Acquire)
    }

    /// The frozen checkpoint does not need the page's changes: they belong to the next. Under the latch.
    pub(super) fn leave_to_next(&self, header: &FrameHeader) {
        header.prepared_for.store(0, Ordering::Relaxed);
        header.dirty_epoch.store(self.store.epoch(), Ordering::Release);
    }

    /// Writes a batch of dirty leaves of records; `false` when none is left. `hand` is where the scan of the frames goes on. Those that are just being changed, or
    /// that the disk refuses, are left to the checkpoint.
    pub(crate) fn write_preparation_batch(&self, hand: &mut usize) -> Result<bool> {
        let mut writer = self.state.lock();
        let writer = &mut *writer;
        let mut scope = self.scope();
        while writer.frames.len() < BATCH_PAGES && *hand < self.frames.len() {
            let frame = FrameId(*hand as u32);
            *hand += 1;
            if self.push_prepared(writer, frame).is_some() {
                scope.count_page();
            }
        }
        let pushed = writer.frames.clone();
        if let Err(error) = self.write_batch(writer, After::Keep) {
            pushed.iter().for_each(|fixed| self.frames.header(fixed.frame).prepared_for.store(0, Ordering::Relaxed));
            return Err(error);
        }
        Ok(*hand < self.frames.len())
    }

    /// Takes a leaf of records into the batch and notes that its image is good from now on, in one instant: what comes between takes that back.
    fn push_prepared(&self, writer: &mut Writer, frame: FrameId) -> Option<()> {
        let header = self.frames.header(frame);
        let current = self.preparation.current.load(Ordering::Acquire);
        let is_wanted = || {
            header.holds_records.load(Ordering::Relaxed)
                && header.is_dirty()
                && header.prepared_for.load(Ordering::Relaxed) != current
        };
        if !is_wanted() {
            return None;
        }
        let version = self.frames.version(frame)?;
        let latched = self.frames.try_lock_at(frame, version)?;
        let (page, epoch) = (PageId(header.page()), header.dirty_epoch.load(Ordering::Acquire));
        let is_good = is_wanted() && page.0 != NO_PAGE && Node(&*latched).is_leaf() && !has_overflow(&latched);
        if is_good {
            header.prepared_for.store(current, Ordering::Relaxed);
            writer.image.copy_from_slice(&latched[..]);
        }
        latched.release_unchanged();
        if !is_good {
            return None;
        }
        writer.push_image(Fixed { page, frame, version }, epoch);
        Some(())
    }
}

fn has_overflow(frame: &ExclusiveFrame<'_>) -> bool {
    Node(&**frame).has_overflow()
}
