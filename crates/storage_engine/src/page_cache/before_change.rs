//! What is done before a page changes: it is noted as dirty, and copied when the checkpoint being written still needs it as it is.
//!
//! Called by changes of trees, with the latched frame. Part of the room of `PageWriter`, which writes the copies.

use std::sync::atomic::Ordering;

use super::writing::{CheckpointCopy, PageWriter};
use crate::frame_arena::{ExclusiveFrame, FrameId};
use crate::page_store::PageId;

impl PageWriter {
    /// Must be called on a latched frame before its first change, inside the checkpoint barrier. `true`: the frame counts as
    /// changed from now on, so its latch must not be given back as unchanged.
    pub(crate) fn prepare_change(&self, frame: &ExclusiveFrame<'_>) -> bool {
        let became_dirty = self.enter_epoch(frame, |_| 0);
        frame.header().prepared_for.store(0, Ordering::Relaxed);
        became_dirty
    }

    /// The page belongs to the open epoch from now on; `false`: it does already. Copies it first when the frozen one still needs it. `of_clean` says for
    /// which preparation the image on disk of a clean page is good enough from now on; that of a dirty one is for none.
    pub(super) fn enter_epoch(
        &self,
        frame: &ExclusiveFrame<'_>,
        of_clean: impl FnOnce(&ExclusiveFrame<'_>) -> u64,
    ) -> bool {
        let header = frame.header();
        let epoch = self.store.epoch();
        let dirty_since = header.dirty_epoch.load(Ordering::Relaxed);
        if dirty_since == epoch {
            return false;
        }
        let mut prepared_for = 0;
        if dirty_since == 0 {
            self.frames.count_dirty();
            prepared_for = of_clean(frame);
        } else if !self.is_prepared(header) {
            self.copy_for_checkpoint(frame, dirty_since);
        }
        header.prepared_for.store(prepared_for, Ordering::Relaxed);
        header.dirty_epoch.store(epoch, Ordering::Release);
        true
    }

    /// As [`PageWriter::prepare_change`], for a blind change of a leaf that moves nothing to or from another page. A leaf that is dirty for the
    /// checkpoint being written stays so and goes into it with the change: replay makes blind changes again, from the checkpoint's position on
    /// and in their order, whether the leaf has them or not.
    pub(crate) fn prepare_blind_change(&self, frame: &ExclusiveFrame<'_>) -> bool {
        let header = frame.header();
        if header.is_dirty() && header.prepared_for.load(Ordering::Relaxed) == 0 {
            return false;
        }
        self.prepare_change(frame)
    }

    /// Copies a page that the frozen epoch still needs, so that its next changes do not keep it from being written. `false`: its latch is taken.
    pub(super) fn take_copy(&self, frame: FrameId, epoch: u64) -> bool {
        let header = self.frames.header(frame);
        // Looked at first without the latch, which is not given back while the frame is lent.
        if !header.is_dirty_for(epoch) {
            return true;
        }
        let Some(latched) = self.frames.try_lock(frame) else { return false };
        if !header.is_dirty_for(epoch) {
            latched.release_unchanged();
            return true;
        }
        if !self.is_prepared(header) {
            self.copy_for_checkpoint(&latched, epoch);
        }
        self.leave_to_next(header);
        true
    }

    pub(super) fn copy_for_checkpoint(&self, frame: &ExclusiveFrame<'_>, epoch: u64) {
        let copy = CheckpointCopy { page: PageId(frame.header().page()), epoch, image: Box::new(**frame) };
        self.keep_copy(copy);
    }
}
