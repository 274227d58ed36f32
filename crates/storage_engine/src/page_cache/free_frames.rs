//! The list of free frames and the two waits around it: readers for a frame, the evictor for work.
//!
//! Called by `page_cache`. The marks are shares of the cache: below `low` the evictor is woken, up to `high` it works. The last
//! frames, up to `reserve`, are for what goes first (`platform::WorkClass`): under a flood of writes, each of which reads a page
//! first, a read would wait for a frame as long as all of them, and whoever comes while it is being woken would be faster.
//!
//! The frame that became free first is taken first, and one that was never used only when there is no other: its memory is not
//! there yet, and a start that passes over the pages of a large catalog would fetch it for the whole cache. The hands of eviction
//! and of checkpoints go over the frames in their order, so pages that were made one after the other are written so too, and a scan
//! of them goes forward through the file.
//!
//! ```text
//!   0 ── reserve ─────────── low ─────────────── high
//!   first only │ writes, too; evictor wanted │ evictor works until here
//! ```

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::{Condvar, Mutex, MutexGuard};
use platform::{WaitKind, WorkClass, waiting};

use super::PageCache;
use super::replacement::era_pages;
use crate::error::Result;
use crate::frame_arena::FrameId;

/// The low mark of caches that are large enough for it: what writers take in some milliseconds.
const LOW_MIN: usize = 128;
/// Of the low mark, for what goes first.
const RESERVE_ONE_IN: usize = 4;

/// Free frames.
pub(crate) struct FreeFrames {
    list: Mutex<List>,
    /// Frames whose memory is lent to the change buffers.
    withheld: Mutex<Vec<FrameId>>,
    withheld_count: AtomicUsize,
    count: AtomicUsize,
    available_to_first: Condvar,
    available_to_writes: Condvar,
    wanted: Mutex<bool>,
    wake_evictor: Condvar,
    reserve: usize,
    low: usize,
    high: usize,
    /// Counts up by one whenever as many frames were taken as an era has.
    era: AtomicU32,
    era_pages: u64,
}

#[derive(Default)]
struct List {
    /// Those that were used; who became free first comes first.
    used: VecDeque<FrameId>,
    /// Numbers of those that never were.
    unused: Range<u32>,
    /// Frames taken for pages so far.
    taken: u64,
    /// Who waits for a frame.
    first_waiting: usize,
    writes_waiting: usize,
}

impl FreeFrames {
    pub(crate) fn new(frames: usize) -> Self {
        let low = (frames / 64).clamp(8, 1024).max((frames / 8).min(LOW_MIN));
        Self {
            list: Mutex::new(List { unused: 0..frames as u32, ..List::default() }),
            withheld: Mutex::default(),
            withheld_count: AtomicUsize::new(0),
            count: AtomicUsize::new(frames),
            available_to_first: Condvar::new(),
            available_to_writes: Condvar::new(),
            wanted: Mutex::new(false),
            wake_evictor: Condvar::new(),
            reserve: low / RESERVE_ONE_IN,
            low,
            high: low * 2,
            era: AtomicU32::new(0),
            era_pages: era_pages(frames),
        }
    }

    pub(crate) fn count(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }

    /// The era of the cache, which tells old pages from those that have just come.
    pub(crate) fn era(&self) -> u32 {
        self.era.load(Ordering::Relaxed)
    }

    /// How many frames the evictor should free now.
    pub(crate) fn missing(&self) -> usize {
        self.high.saturating_sub(self.count())
    }

    /// Share of the low mark that is free: 1 and above means no pressure.
    pub(crate) fn supply(&self) -> f64 {
        self.count() as f64 / self.low as f64
    }

    /// Takes a frame, waiting until there is one. Fails only once the engine has stopped writing and no frame comes.
    pub(crate) fn take<'a>(&'a self, cache: &PageCache) -> Result<ReservedFrame<'a>> {
        let is_first = WorkClass::of_thread().goes_first();
        let reserve = if is_first { 0 } else { self.reserve };
        let mut list = self.list.lock();
        loop {
            if list.len() > reserve
                && let Some(frame) = list.pop()
            {
                let left = list.len();
                self.count.store(left, Ordering::Relaxed);
                list.taken += 1;
                if list.taken.is_multiple_of(self.era_pages) {
                    self.era.fetch_add(1, Ordering::Relaxed);
                }
                drop(list);
                if left < self.low {
                    self.request_eviction();
                }
                return Ok(ReservedFrame { frame, free: self, is_kept: false });
            }
            if !cache.frames.has_evictor() {
                // Before the background is started and after it has ended, whoever needs a frame frees it.
                drop(list);
                if cache.evict_batch()? == 0 {
                    std::thread::yield_now();
                }
                list = self.list.lock();
                continue;
            }
            self.request_eviction();
            let timed_out = self.wait(&mut list, is_first);
            if timed_out && list.len() <= reserve {
                cache.check_poisoned()?;
            }
        }
    }

    /// Waits until a frame came back, at most for a while; whether that was over.
    fn wait(&self, list: &mut MutexGuard<'_, List>, is_first: bool) -> bool {
        *list.waiting(is_first) += 1;
        let available = if is_first { &self.available_to_first } else { &self.available_to_writes };
        let timed_out = waiting(WaitKind::Room, || available.wait_for(list, Duration::from_millis(100)).timed_out());
        *list.waiting(is_first) -= 1;
        timed_out
    }

    /// Wakes one of those who can use what is free now, for a frame that was added.
    fn wake_waiter(&self, list: &List) {
        if list.first_waiting > 0 {
            self.available_to_first.notify_one();
        }
        // Those who go first and were woken before may not have come yet.
        if list.writes_waiting > 0 && list.len() > self.reserve {
            self.available_to_writes.notify_one();
        }
    }

    /// Takes a frame if there are enough, without waiting.
    pub(crate) fn try_take(&self) -> Option<FrameId> {
        let mut list = self.list.lock();
        let frame = if list.len() > self.low / 2 { list.pop() } else { None };
        let left = list.len();
        self.count.store(left, Ordering::Relaxed);
        drop(list);
        if left < self.low {
            self.request_eviction();
        }
        frame
    }

    pub(crate) fn give_back(&self, frame: FrameId) {
        let mut list = self.list.lock();
        list.used.push_back(frame);
        self.count.store(list.len(), Ordering::Relaxed);
        self.wake_waiter(&list);
    }

    /// Number of frames that cannot be used because their memory is lent.
    pub(crate) fn withheld(&self) -> usize {
        self.withheld_count.load(Ordering::Relaxed)
    }

    /// Withholds free frames until `wanted` are withheld, or gives back what is more. `release` returns a frame's
    /// memory to the system. Leaves half of the low mark free, so that this comes true step by step.
    pub(crate) fn set_withheld(&self, wanted: usize, release: impl Fn(FrameId)) {
        let mut withheld = self.withheld.lock();
        let mut list = self.list.lock();
        while withheld.len() < wanted && list.len() > self.low / 2 {
            if let Some(frame) = list.pop() {
                release(frame);
                withheld.push(frame);
            }
        }
        while withheld.len() > wanted {
            list.used.extend(withheld.pop());
        }
        let left = list.len();
        self.count.store(left, Ordering::Relaxed);
        self.withheld_count.store(withheld.len(), Ordering::Relaxed);
        drop(list);
        if withheld.len() < wanted || left < self.low {
            self.request_eviction();
        }
    }

    fn request_eviction(&self) {
        let mut wanted = self.wanted.lock();
        if !*wanted {
            *wanted = true;
            self.wake_evictor.notify_one();
        }
    }

    /// The evictor's wait: until frames are wanted or the time is over.
    pub(crate) fn wait_for_request(&self, at_most: Duration) {
        let mut wanted = self.wanted.lock();
        if !*wanted {
            self.wake_evictor.wait_for(&mut wanted, at_most);
        }
        *wanted = false;
    }

    pub(crate) fn wake_all(&self) {
        self.available_to_first.notify_all();
        self.available_to_writes.notify_all();
        self.wake_evictor.notify_all();
    }
}

impl List {
    fn len(&self) -> usize {
        self.used.len() + self.unused.len()
    }

    fn pop(&mut self) -> Option<FrameId> {
        self.used.pop_front().or_else(|| self.unused.next().map(FrameId))
    }

    fn waiting(&mut self, is_first: bool) -> &mut usize {
        if is_first { &mut self.first_waiting } else { &mut self.writes_waiting }
    }
}

/// A frame taken off the free list; it goes back unless it is kept.
pub(crate) struct ReservedFrame<'a> {
    frame: FrameId,
    free: &'a FreeFrames,
    is_kept: bool,
}

impl ReservedFrame<'_> {
    pub(crate) fn id(&self) -> FrameId {
        self.frame
    }

    /// The frame holds a page from now on.
    pub(crate) fn keep(mut self) -> FrameId {
        self.is_kept = true;
        self.frame
    }
}

impl Drop for ReservedFrame<'_> {
    fn drop(&mut self) {
        if !self.is_kept {
            self.free.give_back(self.frame);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::FreeFrames;

    #[test]
    fn what_was_used_is_taken_first_in_the_order_in_which_it_became_free() {
        let free = FreeFrames::new(1000);
        let take = || free.try_take().unwrap();
        let (first, second) = (take(), take());
        free.give_back(second);
        free.give_back(first);
        assert_eq!(free.count(), 1000);
        assert_eq!([take().0, take().0, take().0], [1, 0, 2]);
        assert_eq!(free.count(), 997);
    }
}
