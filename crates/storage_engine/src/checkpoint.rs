//! Checkpoints: a consistent set of page addresses at one oplog position, made while everything goes on.
//!
//! Called by `transaction`'s background (and by the simulator). Invariant I6.
//!
//! Life of a checkpoint:
//!
//! ```text
//! begin (mark taken) → prepared (leaves of records written) → frozen (barrier held exclusively) → written (batches of pages)
//!   → log durable → published
//! ```
//!
//! Between freeze and publication a page of the frozen epoch is either still as it was, and written from its frame, or
//! was copied before its next change, and the copy is written. Eviction, reads, changes and tree creation go on.
//!
//! Two kinds of changes are the exception (decision 0007), because replay makes them again from the mark on: a leaf of records may be as it was at any moment
//! between the mark and the freeze (`page_cache::preparation`), and a leaf that is changed blindly as at any moment behind the freeze. So the checkpoint
//! says that the oplog is needed up to where it ended when the last page had been written.

use std::sync::atomic::Ordering;
use std::time::Duration;

use platform::part_of;

use crate::checkpoint_mark::{CheckpointMark, KeptLeftovers, MarkContents};
use crate::cleaning_pace::{BYTES_IDLE as CLEANED_WHEN_IDLE_BYTES, SPARE_ONE_IN, WINDOW as COUNTED_OVER};
use crate::engine::Engine;
use crate::error::{EngineError, Result};
use crate::frame_arena::PAGE_BYTES;
use crate::page_cache::BATCH_PAGES;
use crate::page_store::{CHEAP_RATIO_MAX, PageId};
use crate::saved_changes::SavedChanges;
use parking_lot::RwLockWriteGuard;

/// Pages written in one step, about: a batch of the writer.
const STEP_PAGES: usize = BATCH_PAGES;

/// Copies that wait to be written during a pause, at most: one for so many frames.
const COPIES_ONE_IN: usize = 64;
/// Preparing takes as long as the rest.
const STAGES: f64 = 2.0;
/// Longest sleep between two looks at whether to hurry, or to stop.
pub const LOOK_PAUSE: Duration = Duration::from_millis(10);
/// How long all changes may wait for those that are under way when a checkpoint is frozen. Twice as long at each further attempt.
const BARRIER_PATIENCE: Duration = part_of(LOOK_PAUSE, 10);
/// Between two attempts: who was kept out has twice that time.
const BARRIER_PAUSE: Duration = BARRIER_PATIENCE.saturating_mul(2);
/// Leaves whose buffered changes are saved in one step.
const STEP_LEAVES: usize = 16 * BATCH_PAGES;
/// A file that takes this many times what it holds, and what cleaning moves at once, wants a checkpoint: twice as much as
/// cleaning allows while much is being changed.
const CROWDED_RATIO: u64 = (2.0 * CHEAP_RATIO_MAX) as u64;
const CROWDED_SLACK_BYTES: u64 = CLEANED_WHEN_IDLE_BYTES;
/// Checkpoints made because much would be given back while little is being changed are at least so far apart.
const FOR_SPACE_APART: Duration = COUNTED_OVER.saturating_mul(5);

/// A checkpoint between its beginning and its publication.
pub struct CheckpointInProgress {
    /// `None` until it is frozen.
    epoch: Option<u64>,
    contents: MarkContents,
    /// Leaves with buffered changes that belong to the checkpoint, as far as they are not saved yet; all are before the first page is written.
    to_save: ToSave,
    saved: SavedChanges,
    /// When its preparation began, or since it is frozen, when that was.
    stage_began: Duration,
    /// Pages to be written, as it seemed when it began and then when it was frozen.
    pages_total: usize,
    pages_done: usize,
    /// Where the scan of the frames goes on.
    hand: usize,
    skipped: Vec<crate::frame_arena::FrameId>,
    /// Rings whose files go when it is published.
    dropped_rings: Vec<u64>,
}

/// What is to be saved of buffered changes.
enum ToSave {
    /// Not looked yet.
    Unknown,
    /// Those of these leaves, and what was merged meanwhile.
    Leaves(Vec<PageId>),
    /// Nothing any more.
    Nothing,
}

impl CheckpointInProgress {
    /// Whether it has come so far that changes are told apart by it.
    pub fn is_frozen(&self) -> bool {
        self.epoch.is_some()
    }

    /// What the checkpoint will say of the oplog.
    pub fn mark(&self) -> CheckpointMark {
        self.contents.mark
    }
}

impl Engine {
    /// Makes a whole checkpoint. `mark` says from where the oplog must be replayed: all before is applied. `make_durable` is called before publication and returns once the oplog is durable up
    /// to everything that is applied by then, and up to where that is. One that the full disk interrupted is taken up again.
    pub fn checkpoint(
        &self,
        mark: CheckpointMark,
        make_durable: impl FnOnce() -> Result<u64>,
    ) -> Result<CheckpointMark> {
        let mut in_progress = self.checkpointing.lock();
        if in_progress.is_none() {
            *in_progress = Some(self.begin_checkpoint(mark)?);
        }
        let Some(checkpoint) = in_progress.as_mut() else { return Err(EngineError::Setup("no checkpoint".to_owned())) };
        if !checkpoint.is_frozen() {
            while self.prepare_checkpoint_step(checkpoint)? {}
            self.freeze_checkpoint(checkpoint)?;
        }
        while self.checkpoint_step(checkpoint)? {}
        let oplog_end = make_durable()?;
        let published = self.publish_checkpoint(checkpoint, oplog_end)?;
        *in_progress = None;
        Ok(published)
    }

    /// Begins a checkpoint: its preparation. Everything before `mark` is applied.
    pub fn begin_checkpoint(&self, mark: CheckpointMark) -> Result<CheckpointInProgress> {
        self.trees.cache.check_poisoned()?;
        let contents = MarkContents { mark, leftovers: KeptLeftovers::default(), saved_changes: None };
        // Only now: an image that is good has everything before the mark.
        self.trees.cache.writer.begin_preparation();
        Ok(CheckpointInProgress {
            epoch: None,
            contents,
            to_save: ToSave::Unknown,
            saved: SavedChanges::default(),
            stage_began: self.clock.monotonic(),
            pages_total: self.pages_to_checkpoint(),
            pages_done: 0,
            hand: 0,
            skipped: Vec::new(),
            dropped_rings: Vec::new(),
        })
    }

    /// Dirty pages, and those that buffered changes would fill.
    fn pages_to_checkpoint(&self) -> usize {
        self.trees.cache.frames.dirty() + self.trees.cache.changes.buffered_bytes() / PAGE_BYTES
    }

    /// Writes one batch of leaves of records, before the checkpoint is frozen; `false` when all are written, or the disk is full: then it has less
    /// space for this than for the checkpoint, which gives some back.
    pub fn prepare_checkpoint_step(&self, checkpoint: &mut CheckpointInProgress) -> Result<bool> {
        match self.trees.cache.writer.write_preparation_batch(&mut checkpoint.hand) {
            Err(error) if error.is_disk_full() => Ok(false),
            written => self.poison_on_error(written),
        }
    }

    /// From now on, changes do not belong to the checkpoint, but for those that the module's head tells of. The barrier is held for this call only.
    pub fn freeze_checkpoint(&self, checkpoint: &mut CheckpointInProgress) -> Result<()> {
        self.trees.cache.check_poisoned()?;
        self.prepare_ring_states()?;
        let barrier = self.close_barrier();
        self.save_ring_states()?;
        checkpoint.dropped_rings = self.take_dropped_rings();
        let mut chains = self.trees.history.overflow_heads();
        chains.extend_from_slice(&self.trees.leftovers.chains.lock());
        checkpoint.contents.leftovers =
            KeptLeftovers { chains, dropped_trees: self.dropped_trees.lock().iter().collect() };
        checkpoint.epoch = Some(self.store.freeze_epoch()?);
        self.trees.cache.writer.end_preparation();
        (checkpoint.stage_began, checkpoint.hand) = (self.clock.monotonic(), 0);
        drop(barrier);
        checkpoint.saved.push_leftovers(&checkpoint.contents.leftovers.split_off());
        Ok(())
    }

    /// Waits until nobody is in the midst of a change, and keeps everybody else from beginning one meanwhile: for an instant at a time, because one who is may wait
    /// for the disk.
    fn close_barrier(&self) -> RwLockWriteGuard<'_, ()> {
        let mut patience = BARRIER_PATIENCE;
        loop {
            if let Some(closed) = self.barrier.try_write_for(patience) {
                return closed;
            }
            self.clock.sleep(BARRIER_PAUSE);
            patience *= 2;
        }
    }

    /// Writes one batch of the checkpoint's pages; `false` when all are written.
    pub fn checkpoint_step(&self, checkpoint: &mut CheckpointInProgress) -> Result<bool> {
        let Some(epoch) = checkpoint.epoch else {
            return Err(EngineError::Setup("the checkpoint is not frozen yet".to_owned()));
        };
        if self.save_buffered_changes(checkpoint, epoch)? {
            return Ok(true);
        }
        checkpoint.pages_done += STEP_PAGES;
        let written =
            self.trees.cache.writer.write_checkpoint_batch(epoch, &mut checkpoint.hand, &mut checkpoint.skipped);
        if !checkpoint.skipped.is_empty() {
            // Somebody holds those pages' latches at this instant.
            self.clock.sleep(Duration::from_micros(50));
        }
        self.poison_on_error(written)
    }

    /// Saves some of the buffered changes that belong to the checkpoint; `false` when none are left.
    fn save_buffered_changes(&self, checkpoint: &mut CheckpointInProgress, epoch: u64) -> Result<bool> {
        let CheckpointInProgress { to_save, saved, .. } = checkpoint;
        let cache = &self.trees.cache;
        let leaves = match to_save {
            ToSave::Nothing => return Ok(false),
            ToSave::Leaves(leaves) => leaves,
            unknown @ ToSave::Unknown => {
                checkpoint.pages_total = self.pages_to_checkpoint();
                *unknown = ToSave::Leaves(cache.changes.unsaved_pages());
                return Ok(true);
            }
        };
        for page in leaves.drain(leaves.len().saturating_sub(STEP_LEAVES)..) {
            let unsaved = cache.changes.take_unsaved_changes(page);
            unsaved.iter().for_each(|changes| saved.push(page, changes.encoded()));
        }
        // Nobody adds to these any more once the leaves have all been looked at.
        let are_last = leaves.is_empty();
        cache.changes.take_changes_to_save().iter().for_each(|(page, changes)| saved.push(*page, changes.encoded()));
        let written = saved.write(&self.store, epoch, are_last);
        checkpoint.pages_done += self.poison_on_error(written)?;
        if are_last {
            checkpoint.contents.saved_changes = saved.head();
            *to_save = ToSave::Nothing;
        }
        let written = self.trees.cache.writer.write_checkpoint_copies();
        self.poison_on_error(written)?;
        Ok(true)
    }

    /// Waits between two steps, so that the checkpoint's work is spread over about `duration`. Ends early when `hurry` says
    /// so. Copies of pages that are changed meanwhile are written.
    ///
    /// # Errors
    /// As [`Engine::checkpoint_step`].
    pub fn pause_checkpoint(
        &self,
        checkpoint: &CheckpointInProgress,
        duration: Duration,
        hurry: &dyn Fn() -> bool,
    ) -> Result<()> {
        let share = match checkpoint.epoch {
            None => checkpoint.hand as f64 / self.trees.cache.frames.len() as f64,
            Some(_) => checkpoint.pages_done as f64 / checkpoint.pages_total.max(1) as f64,
        };
        let until = checkpoint.stage_began + duration.mul_f64(share.min(1.0) / STAGES);
        // So few that writers are not paced for them.
        let copies_kept = STEP_PAGES.min(self.trees.cache.usable_frames() / COPIES_ONE_IN).max(1);
        while !hurry() && self.clock.monotonic() < until {
            if self.trees.cache.writer.waiting_copies() < copies_kept {
                self.clock.sleep(LOOK_PAUSE.min(until.saturating_sub(self.clock.monotonic())));
                continue;
            }
            let written = self.trees.cache.writer.write_checkpoint_copies();
            self.poison_on_error(written)?;
        }
        Ok(())
    }

    /// Whether a checkpoint is wanted for the space that it gives back: now because the file has become far larger than what
    /// it holds, a while after the last one began because little is being changed, or when one is due anyway although nothing was logged.
    pub fn space_wants_checkpoint(&self, since_last: Duration, is_due: bool) -> bool {
        let space = self.store.space();
        let is_urgent = space.used_bytes > space.lasting_bytes * CROWDED_RATIO + CROWDED_SLACK_BYTES;
        let gains = space.superseded_bytes * SPARE_ONE_IN > space.lasting_bytes + CROWDED_SLACK_BYTES;
        let is_cheap = since_last >= FOR_SPACE_APART && self.reclaim_pace.lock().cleaning.wants_checkpoint(space);
        is_cheap || (is_due || is_urgent) && gains
    }

    /// Publishes a checkpoint whose pages are all written. The oplog is durable up to `oplog_end`, and all changes that were applied before the
    /// last page was written are before that.
    pub fn publish_checkpoint(&self, checkpoint: &mut CheckpointInProgress, oplog_end: u64) -> Result<CheckpointMark> {
        checkpoint.contents.mark.oplog_end = oplog_end;
        self.sync_rings()?;
        let published = self.store.publish(&checkpoint.contents.encode()).map_err(EngineError::from);
        self.poison_on_error(published)?;
        // Only who opens this checkpoint needs them.
        checkpoint.saved.pages().iter().for_each(|page| self.store.free_page(*page));
        self.remove_ring_files(&checkpoint.dropped_rings);
        self.checkpoints.fetch_add(1, Ordering::Relaxed);
        Ok(checkpoint.contents.mark)
    }

    /// Passes a result of writing on; an error that does not heal stops all later writes.
    pub(crate) fn poison_on_error<T>(&self, result: Result<T>) -> Result<T> {
        match &result {
            Err(error) if error.is_disk_full() => self.out_of_space.store(true, Ordering::Release),
            Err(error) => self.trees.cache.poison(error),
            Ok(_) => {}
        }
        result
    }
}
