//! The first room: frames of memory, and the table that says which page is in which of them.
//!
//! Called by `page_cache` and by the other two rooms. Knows where a page is, who waits for it, which frames are free and
//! which page is to leave. Knows nothing of batches, checkpoints and buffered changes: who writes a page or merges
//! changes into it does so with a latched frame, or while the page's word says `Loading`, and tells the outcome here.
//!
//! ```text
//!              take ──▶ reserved ──▶ holds a page, clean ◀──▶ dirty (count_dirty, count_clean)
//! free frames ◀── empty ─────────────────┘ the clock's hand (eviction)
//! ```

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use super::eviction::EvictionClock;
use super::free_frames::FreeFrames;
use super::replacement::{note_arrival, note_use};
use super::{Backoff, Fixed, ReservedFrame};
use platform::{WaitKind, waiting};

use crate::error::{EngineError, Result};
use crate::frame_arena::{ExclusiveFrame, FrameArena, FrameHeader, FrameId, LentFrame, OptimisticPage, PageImage};
use crate::page_store::{PageAddress, PageId, PageStore};
use crate::page_table::{DiskPage, PageState, PageTable};

/// Groups of waiters for pages that are being read.
const LOADING_SHARDS: usize = 16;

#[derive(Default)]
struct LoadingShard {
    finished: Mutex<()>,
    changed: Condvar,
}

/// Frames and the table that says what is in them.
pub(crate) struct Frames {
    arena: Arc<FrameArena>,
    table: PageTable,
    pub(super) free: FreeFrames,
    loading: [LoadingShard; LOADING_SHARDS],
    pub(super) clock: Mutex<EvictionClock>,
    dirty: AtomicUsize,
    pages_read: AtomicU64,
    /// Whether a thread frees frames; see `free_frames`.
    has_evictor: AtomicBool,
}

impl Frames {
    /// So many frames, and the pages of a store's checkpoint, all on disk.
    pub(super) fn new(store: &PageStore, count: usize) -> Result<Self> {
        let arena = FrameArena::new(count)
            .ok_or_else(|| EngineError::Setup(format!("no address space for a cache of {count} pages")))?;
        let table = PageTable::new();
        for (page, address) in store.durable_pages() {
            table.set(page, PageState::OnDisk(DiskPage::at(address)));
        }
        Ok(Self {
            free: FreeFrames::new(arena.len()),
            loading: Default::default(),
            clock: Mutex::new(EvictionClock::new()),
            dirty: AtomicUsize::new(0),
            pages_read: AtomicU64::new(0),
            has_evictor: AtomicBool::new(false),
            arena: Arc::new(arena),
            table,
        })
    }

    /// Number of frames.
    pub(crate) fn len(&self) -> usize {
        self.arena.len()
    }

    /// Number of frames whose memory is not withheld, or lent: so many are, which are not of the free list.
    pub(super) fn usable(&self, lent: usize) -> usize {
        self.arena.len().saturating_sub(self.free.withheld() + lent)
    }

    /// Frames that hold nothing.
    pub(crate) fn free_count(&self) -> usize {
        self.free.count()
    }

    /// Share of the low mark of free frames that is there; below 1 the evictor is behind.
    pub(crate) fn supply(&self) -> f64 {
        self.free.supply()
    }

    /// Bytes of memory in the page table.
    pub(crate) fn table_bytes(&self) -> u64 {
        self.table.memory_bytes()
    }

    /// Frames with changes that no disk image holds.
    pub(crate) fn dirty(&self) -> usize {
        self.dirty.load(Ordering::Relaxed)
    }

    pub(super) fn count_dirty(&self) {
        self.dirty.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn count_clean(&self) {
        self.dirty.fetch_sub(1, Ordering::Relaxed);
    }

    /// Pages read from disk.
    pub(crate) fn pages_read(&self) -> u64 {
        self.pages_read.load(Ordering::Relaxed)
    }

    pub(super) fn count_read(&self) {
        self.pages_read.fetch_add(1, Ordering::Relaxed);
    }

    /// Whether a thread frees frames when they run out.
    pub(super) fn has_evictor(&self) -> bool {
        self.has_evictor.load(Ordering::Acquire)
    }

    pub(super) fn set_has_evictor(&self, has_evictor: bool) {
        self.has_evictor.store(has_evictor, Ordering::Release);
        self.free.wake_all();
    }

    // Where a page is.

    pub(super) fn state(&self, page: PageId) -> PageState {
        self.table.get(page)
    }

    pub(super) fn set_state(&self, page: PageId, state: PageState) {
        self.table.set(page, state);
    }

    /// Moves a page's word from one state to another; `false` when it was not in the first.
    pub(super) fn transition(&self, page: PageId, from: PageState, to: PageState) -> bool {
        self.table.transition(page, from, to)
    }

    /// Whether the page is on disk only.
    pub(crate) fn is_on_disk(&self, page: PageId) -> bool {
        matches!(self.table.get(page), PageState::OnDisk(_))
    }

    /// Whether the page is allocated.
    pub(crate) fn is_allocated(&self, page: PageId) -> bool {
        self.table.get(page) != PageState::Empty
    }

    /// Where the page's newest image is on disk, if it is not dirty.
    pub(crate) fn disk_address(&self, page: PageId) -> Option<PageAddress> {
        match self.table.get(page) {
            PageState::OnDisk(on_disk) | PageState::Loading(on_disk) => Some(on_disk.address),
            PageState::Resident(frame) => {
                Some(PageAddress(self.header(frame).address.load(Ordering::Relaxed))).filter(|at| at.0 != 0)
            }
            PageState::Empty => None,
        }
    }

    /// Waits while the page is being read or merged.
    pub(crate) fn wait_while_loading(&self, page: PageId) -> bool {
        let is_loading = matches!(self.table.get(page), PageState::Loading(_));
        if is_loading {
            self.wait_for_load(page);
        }
        is_loading
    }

    pub(super) fn wait_for_load(&self, page: PageId) {
        let shard = &self.loading[page.0 as usize % LOADING_SHARDS];
        let mut finished = shard.finished.lock();
        if matches!(self.table.get(page), PageState::Loading(_)) {
            waiting(WaitKind::Disk, || shard.changed.wait_for(&mut finished, Duration::from_millis(5)));
        }
    }

    /// Wakes those who wait because the page's word said `Loading`.
    pub(super) fn notify_loaded(&self, page: PageId) {
        let shard = &self.loading[page.0 as usize % LOADING_SHARDS];
        drop(shard.finished.lock());
        shard.changed.notify_all();
    }

    // What is in a frame.

    pub(super) fn header(&self, frame: FrameId) -> &FrameHeader {
        self.arena.header(frame)
    }

    /// A frame that holds the page just now.
    #[inline]
    pub(super) fn fixed(&self, page: PageId, frame: FrameId) -> Option<Fixed> {
        let version = self.arena.version(frame)?;
        (self.arena.header(frame).page() == page.0).then_some(Fixed { page, frame, version })
    }

    /// The frame's page is used.
    #[inline]
    pub(super) fn note_use(&self, frame: FrameId) {
        note_use(self.arena.header(frame), || self.free.era());
    }

    pub(super) fn version(&self, frame: FrameId) -> Option<u64> {
        self.arena.version(frame)
    }

    pub(super) fn view(&self, frame: FrameId) -> OptimisticPage<'_> {
        self.arena.optimistic(frame)
    }

    #[inline]
    pub(super) fn validate(&self, fixed: &Fixed) -> bool {
        self.arena.validate(fixed.frame, fixed.version)
    }

    /// Copies a page out; `false` when it has changed meanwhile.
    pub(super) fn copy(&self, frame: FrameId, version: u64, out: &mut PageImage) -> bool {
        self.arena.copy_optimistic(frame, version, out)
    }

    pub(super) fn try_lock(&self, frame: FrameId) -> Option<ExclusiveFrame<'_>> {
        self.arena.try_lock(frame)
    }

    pub(super) fn try_lock_at(&self, frame: FrameId, version: u64) -> Option<ExclusiveFrame<'_>> {
        self.arena.try_lock_at(frame, version)
    }

    /// Latches a frame that holds no page: only the evictor may touch its latch, and only for an instant.
    pub(super) fn lock_reserved(&self, reserved: &ReservedFrame<'_>) -> ExclusiveFrame<'_> {
        let mut backoff = Backoff::new();
        loop {
            if let Some(frame) = self.arena.try_lock(reserved.id()) {
                return frame;
            }
            backoff.wait();
        }
    }

    /// A page comes into a latched frame: from an address on disk (0: it is new), changed since an epoch (0: it is clean).
    pub(super) fn receive(&self, frame: &ExclusiveFrame<'_>, page: PageId, address: u64, dirty_since: u64) {
        let header = frame.header();
        header.address.store(address, Ordering::Relaxed);
        header.forget_records();
        note_arrival(header, self.free.era());
        header.dirty_epoch.store(dirty_since, Ordering::Release);
        if dirty_since != 0 {
            self.count_dirty();
        }
        frame.set_page(Some(page));
    }

    /// The page leaves a latched frame, and its word says so; the frame is free.
    pub(super) fn release(&self, frame: FrameId, latched: ExclusiveFrame<'_>, state: PageState) {
        self.table.set(PageId(latched.header().page()), state);
        latched.set_page(None);
        drop(latched);
        self.free.give_back(frame);
    }

    // Memory that serves something else.

    /// A frame for something else than a page, if one can be spared.
    pub(super) fn lend(&self) -> Option<LentFrame> {
        let frame = self.free.try_take()?;
        let lent = LentFrame::take(&self.arena, frame);
        if lent.is_none() {
            // The evictor looks at it for an instant.
            self.free.give_back(frame);
        }
        lent
    }

    /// Withholds so many frames, whose memory goes back to the system.
    pub(super) fn withhold(&self, wanted: usize) {
        self.free.set_withheld(wanted, |frame| self.arena.release_memory(frame));
    }
}
