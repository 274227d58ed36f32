//! Freeing frames: a clock goes over them, clean pages leave at once, dirty ones are handed to the thread that writes.
//!
//! Called by `engine`'s background functions, and by whoever needs a frame while no thread frees any. Whatever the disk does, clean
//! pages leave: the clock's lock is held for memory operations only, and the thread that goes round with it never writes.
//!
//! ```text
//! evictor: hand passes a frame ── clean, to leave ──▶ free
//!                              └─ dirty, to leave ──▶ victim ──▶ page writer: copied, written, its frame freed
//! ```
//!
//! One batch of victims is outstanding at a time. While it is being written the evictor waits for it as long as there are
//! frames, so that dirty pages leave in their turn, too; when they become few it goes on to the next clean pages.

use std::sync::atomic::Ordering;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use platform::part_of;

use super::replacement::{Spared, WORTH_MAX, leaves_now};
use super::writing::BATCH_PAGES;
use super::{Frames, PageCache, PageWriter};
use crate::error::Result;
use crate::frame_arena::{FrameId, NO_PAGE};
use crate::pacing::DELAY_MAX;
use crate::page_store::PageAddress;
use crate::page_table::{DiskPage, PageState};
use crate::pressure_marks::PATIENT_FROM_SUPPLY;

/// How long the evictor waits at a time for victims that are being written: a part of what one write may be held back.
const PATIENCE: Duration = part_of(DELAY_MAX, 4);

/// The clock's hand. Its lock is held while nothing is read or written.
pub(super) struct EvictionClock {
    hand: usize,
    spared: Spared,
}

impl EvictionClock {
    pub(super) fn new() -> Self {
        Self { hand: 0, spared: Spared::new() }
    }

    fn next(&mut self, frames: usize) -> FrameId {
        let frame = FrameId(self.hand as u32);
        self.hand = (self.hand + 1) % frames;
        frame
    }
}

/// Frames whose pages are to be written and to leave.
#[derive(Default)]
pub(super) struct Victims {
    lists: Mutex<VictimLists>,
    found: Condvar,
    written: Condvar,
}

#[derive(Default)]
struct VictimLists {
    waiting: Vec<FrameId>,
    being_written: Vec<FrameId>,
    /// Whether the thread that writes is to look, be it for victims or for too many dirty frames.
    is_awaited: bool,
}

impl Victims {
    /// All that are outstanding.
    fn outstanding(&self) -> Vec<FrameId> {
        let lists = self.lists.lock();
        [&lists.waiting[..], &lists.being_written].concat()
    }

    fn add(&self, found: Vec<FrameId>) {
        let mut lists = self.lists.lock();
        lists.waiting.extend(found);
        lists.is_awaited = true;
        self.found.notify_one();
    }

    fn wait_until_written(&self, at_most: Duration) {
        let mut lists = self.lists.lock();
        if !lists.waiting.is_empty() || !lists.being_written.is_empty() {
            self.written.wait_for(&mut lists, at_most);
        }
    }

    /// The writing thread's wait for work.
    fn wait_for_work(&self, at_most: Duration) {
        let mut lists = self.lists.lock();
        if !lists.is_awaited {
            self.found.wait_for(&mut lists, at_most);
        }
        lists.is_awaited = false;
    }

    fn begin_writing(&self) -> Vec<FrameId> {
        let mut lists = self.lists.lock();
        lists.being_written = std::mem::take(&mut lists.waiting);
        lists.being_written.clone()
    }

    fn end_writing(&self) {
        self.lists.lock().being_written.clear();
        self.written.notify_all();
    }

    pub(super) fn wake_all(&self) {
        self.lists.lock().is_awaited = true;
        self.found.notify_all();
        self.written.notify_all();
    }
}

/// How far the clock may go.
struct Round {
    /// Frames to be freed or found dirty.
    wanted: usize,
    /// Of them, dirty ones.
    dirty_max: usize,
    /// Frames to be looked at.
    looks: usize,
}

impl PageCache {
    /// Frees frames until the high mark is reached or a round of the clock found no more; returns how many were freed. For whoever is
    /// alone: writes what must be written.
    pub(crate) fn evict_batch(&self) -> Result<usize> {
        let wanted = self.frames.wanted();
        if wanted == 0 {
            return Ok(0);
        }
        let mut victims = Vec::new();
        let freed = self.frames.turn_clock(&self.frames.whole_round(wanted, BATCH_PAGES), &[], &mut victims);
        if victims.is_empty() {
            return Ok(freed);
        }
        match self.writer.write_and_evict(&victims) {
            Ok(written) => Ok(freed + written),
            Err(error) if error.is_disk_full() && freed > 0 => Ok(freed),
            Err(error) => Err(error),
        }
    }

    /// Frees clean frames and leaves dirty ones to the thread that writes. `false`: nothing more is to be done now.
    pub(crate) fn evict_clean_batch(&self) -> bool {
        let missing = self.frames.wanted();
        if missing == 0 {
            return false;
        }
        let outstanding = self.writer.victims().outstanding();
        let is_all_found = outstanding.len() >= missing.min(BATCH_PAGES);
        let round = match is_all_found {
            true if self.frames.supply() >= PATIENT_FROM_SUPPLY => {
                self.writer.victims().wait_until_written(PATIENCE);
                return true;
            }
            true => Round { wanted: missing, dirty_max: 0, looks: self.frames.len() },
            false => self.frames.whole_round(missing - outstanding.len(), BATCH_PAGES - outstanding.len()),
        };
        let mut found = Vec::new();
        let freed = self.frames.turn_clock(&round, &outstanding, &mut found);
        let has_found = freed > 0 || !found.is_empty();
        self.writer.victims().add(found);
        if !has_found && is_all_found {
            self.writer.victims().wait_until_written(PATIENCE);
        }
        has_found || is_all_found
    }

    /// Evicts everything that nobody is using, for tests and the simulator, which want pages read again.
    pub(crate) fn evict_all(&self) -> Result<usize> {
        self.writer.evict_all(self.usable_frames().saturating_sub(self.frames.free_count()))
    }
}

impl PageWriter {
    /// Writes the pages that the evictor has found to leave, and frees their frames; returns how many.
    pub(crate) fn write_victims(&self) -> Result<usize> {
        let victims = self.victims().begin_writing();
        if victims.is_empty() {
            return Ok(0);
        }
        let freed = self.write_and_evict(&victims);
        self.victims().end_writing();
        freed
    }

    /// The wait of the thread that writes, until there is something to be written or the time is over.
    pub(crate) fn wait_for_victims(&self, at_most: Duration) {
        self.victims().wait_for_work(at_most);
    }
}

impl Frames {
    /// The evictor's wait for work.
    pub(crate) fn wait_for_eviction_request(&self, at_most: Duration) {
        self.free.wait_for_request(at_most);
    }

    fn wanted(&self) -> usize {
        self.free.missing().min(BATCH_PAGES * 4)
    }

    /// So far that every page's worth is used up.
    fn whole_round(&self, wanted: usize, dirty_max: usize) -> Round {
        Round { wanted, dirty_max, looks: self.len() * (2 + usize::from(WORTH_MAX)) }
    }

    /// Frees the clean frames whose pages are to leave and collects the dirty ones, but those that are known; returns how many were freed.
    fn turn_clock(&self, round: &Round, known: &[FrameId], dirty: &mut Vec<FrameId>) -> usize {
        let mut clock = self.clock.lock();
        let mut freed = 0;
        for _ in 0..round.looks {
            let frame = clock.next(self.len());
            let header = self.header(frame);
            if header.page() == NO_PAGE || !leaves_now(header, &mut clock.spared) {
                continue;
            }
            if !header.is_dirty() {
                freed += usize::from(self.evict_clean(frame));
            } else if dirty.len() < round.dirty_max && !known.contains(&frame) && !dirty.contains(&frame) {
                dirty.push(frame);
            }
            let is_full = round.dirty_max > 0 && dirty.len() >= round.dirty_max;
            if is_full || freed + dirty.len() >= round.wanted {
                break;
            }
        }
        freed
    }

    /// Frees frames that are clean, whether used lately or not; returns how many.
    pub(super) fn evict_any_clean(&self, wanted: usize) -> usize {
        let mut clock = self.clock.lock();
        let mut freed = 0;
        for _ in 0..self.len() {
            let frame = clock.next(self.len());
            let header = self.header(frame);
            if header.page() != NO_PAGE && !header.is_dirty() {
                freed += usize::from(self.evict_clean(frame));
            }
            if freed >= wanted {
                break;
            }
        }
        freed
    }

    pub(super) fn evict_clean(&self, frame: FrameId) -> bool {
        let Some(latched) = self.try_lock(frame) else { return false };
        let header = latched.header();
        if header.page() == NO_PAGE || header.is_dirty() {
            latched.release_unchanged();
            return false;
        }
        let address = PageAddress(header.address.load(Ordering::Relaxed));
        self.release(frame, latched, PageState::OnDisk(DiskPage::at(address)));
        true
    }
}
