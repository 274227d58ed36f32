//! The list of free frames and the two waits around it: readers for a frame, the evictor for work.
//!
//! Called by `page_cache`. The marks are shares of the cache: below `low` the evictor is woken, up to `high` it works.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use super::PageCache;
use crate::error::Result;
use crate::frame_arena::FrameId;

/// Free frames.
pub(crate) struct FreeFrames {
    list: Mutex<Vec<FrameId>>,
    /// Frames whose memory is lent to the change buffers.
    withheld: Mutex<Vec<FrameId>>,
    withheld_count: AtomicUsize,
    count: AtomicUsize,
    available: Condvar,
    wanted: Mutex<bool>,
    wake_evictor: Condvar,
    low: usize,
    high: usize,
}

impl FreeFrames {
    pub(crate) fn new(frames: usize) -> Self {
        Self {
            list: Mutex::new((0..frames as u32).rev().map(FrameId).collect()),
            withheld: Mutex::default(),
            withheld_count: AtomicUsize::new(0),
            count: AtomicUsize::new(frames),
            available: Condvar::new(),
            wanted: Mutex::new(false),
            wake_evictor: Condvar::new(),
            low: (frames / 64).clamp(8, 1024),
            high: (frames / 32).clamp(16, 2048),
        }
    }

    pub(crate) fn count(&self) -> usize {
        self.count.load(Ordering::Relaxed)
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
        let mut list = self.list.lock();
        loop {
            if let Some(frame) = list.pop() {
                let left = list.len();
                self.count.store(left, Ordering::Relaxed);
                drop(list);
                if left < self.low {
                    self.request_eviction();
                }
                return Ok(ReservedFrame { frame, free: self, is_kept: false });
            }
            if !cache.has_evictor() {
                // Before the background is started and after it has ended, whoever needs a frame frees it.
                drop(list);
                if cache.evict_batch()? == 0 {
                    std::thread::yield_now();
                }
                list = self.list.lock();
                continue;
            }
            self.request_eviction();
            let timed_out = self.available.wait_for(&mut list, Duration::from_millis(100)).timed_out();
            if timed_out && list.is_empty() {
                cache.check_poisoned()?;
            }
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
        list.push(frame);
        self.count.store(list.len(), Ordering::Relaxed);
        drop(list);
        self.available.notify_one();
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
            list.extend(withheld.pop());
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
        self.available.notify_all();
        self.wake_evictor.notify_all();
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
