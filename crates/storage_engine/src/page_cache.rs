//! The page cache: which page is in which frame, loading, dirty tracking, and the writing of pages by the background.
//!
//! Called by `btree`, `overflow` and `cursor` (reading and changing pages) and by `engine`'s background functions
//! (`evict_batch`, `write_checkpoint_batch`). Relies on `frame_arena`, `page_table` and `page_store`.
//!
//! Rules that make it right:
//!
//! * A page is changed only under its exclusive latch, inside the checkpoint barrier (shared), and after
//!   [`PageCache::prepare_change`]. That call notes the epoch in which the page became dirty and, when the page is still
//!   dirty for the checkpoint being written, copies its image first. Blind changes of leaves need no copy
//!   ([`PageCache::prepare_blind_change`]).
//! * All writing goes through one `writer` lock, so the images of one page reach the store in the order of their age.
//! * A page that was written is clean only if its latch's version did not move between copy and completion.
//! * Client threads call [`PageCache::fix`], which may read a page, and wait for a free frame at most; they never write.

use std::cell::RefCell;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, Weak, atomic::AtomicBool};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use crate::counters::InvariantCounters;
use crate::error::{Attempt, EngineError, Result, Retry};
use crate::frame_arena::{ExclusiveFrame, FrameArena, FrameId, OptimisticPage, PAGE_BYTES, PageImage};
use crate::node::{Node, PageMut};
use crate::page_store::{PageAddress, PageId, PageStore};
use crate::page_table::{DiskPage, PageState, PageTable};

mod backoff;
mod buffered;
mod change_blocks;
mod change_buffers;
mod change_encoding;
mod eviction;
mod free_frames;
mod merging;
mod preparation;
mod replacement;
mod writing;

pub(crate) use backoff::Backoff;
pub(crate) use buffered::{BufferedPush, MergeChanges};
use change_buffers::ChangeBuffers;
pub(crate) use change_buffers::CopiedChanges;
pub(crate) use change_encoding::{BufferedChange, EncodedChanges};
use eviction::{EvictionClock, Victims};
use free_frames::FreeFrames;
pub(crate) use free_frames::ReservedFrame;
pub(crate) use merging::MERGER_THREADS;
use merging::PageMerger;
use preparation::Preparation;
use replacement::{note_arrival, note_use};
use writing::Writer;

/// Groups of waiters for pages that are being read.
const LOADING_SHARDS: usize = 16;

/// A page found in a frame, at a version of the frame's latch.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Fixed {
    pub(crate) page: PageId,
    pub(crate) frame: FrameId,
    pub(crate) version: u64,
}

/// The image of a page as the checkpoint being written needs it, taken before the page's next change.
struct CheckpointCopy {
    page: PageId,
    epoch: u64,
    image: Box<PageImage>,
}

#[derive(Default)]
struct LoadingShard {
    finished: Mutex<()>,
    changed: Condvar,
}

thread_local! {
    /// The page being read: what is in a frame is written there as it is to stay.
    static IMAGE: RefCell<Box<PageImage>> = RefCell::new(Box::new([0; PAGE_BYTES]));
}

/// Frames and the table that says what is in them.
pub(crate) struct PageCache {
    arena: Arc<FrameArena>,
    table: PageTable,
    store: Arc<PageStore>,
    free: FreeFrames,
    loading: [LoadingShard; LOADING_SHARDS],
    clock: Mutex<EvictionClock>,
    victims: Victims,
    writer: Mutex<Writer>,
    checkpoint_copies: Mutex<Vec<CheckpointCopy>>,
    preparation: Preparation,
    dirty_frames: AtomicUsize,
    pages_read: AtomicU64,
    pages_merged: AtomicU64,
    /// Whether a thread frees frames; see `free_frames`.
    has_evictor: AtomicBool,
    poisoned: AtomicBool,
    poison_reason: Mutex<String>,
    invariants: InvariantCounters,
    buffers: ChangeBuffers,
    /// What a checkpoint being written has to save of pages that were merged before it came to them.
    changes_to_save: Mutex<Vec<(PageId, CopiedChanges)>>,
    page_mergers: [Mutex<PageMerger>; MERGER_THREADS],
    /// Pages chosen to be merged, the next ones last.
    to_merge: Mutex<buffered::MergeList>,
    /// Merges buffered changes into a page that was read.
    merger: OnceLock<Weak<dyn MergeChanges>>,
}

impl PageCache {
    /// A cache of `frames` frames over a store whose checkpoint has been loaded.
    pub(crate) fn new(store: Arc<PageStore>, frames: usize) -> Result<Self> {
        let arena = FrameArena::new(frames)
            .ok_or_else(|| EngineError::Setup(format!("no address space for a cache of {frames} pages")))?;
        let table = PageTable::new();
        for (page, address) in store.durable_pages() {
            table.set(page, PageState::OnDisk(DiskPage::at(address)));
        }
        Ok(Self {
            free: FreeFrames::new(arena.len()),
            loading: Default::default(),
            clock: Mutex::new(EvictionClock::new()),
            victims: Victims::default(),
            writer: Mutex::new(Writer::new(&store)?),
            changes_to_save: Mutex::default(),
            page_mergers: PageMerger::each(&store)?,
            to_merge: Mutex::default(),
            checkpoint_copies: Mutex::default(),
            preparation: Preparation::default(),
            dirty_frames: AtomicUsize::new(0),
            pages_read: AtomicU64::new(0),
            pages_merged: AtomicU64::new(0),
            has_evictor: AtomicBool::new(false),
            poisoned: AtomicBool::new(false),
            poison_reason: Mutex::default(),
            invariants: InvariantCounters::default(),
            buffers: ChangeBuffers::new(frames * PAGE_BYTES),
            merger: OnceLock::new(),
            arena: Arc::new(arena),
            table,
            store,
        })
    }

    /// Number of frames.
    pub(crate) fn frames(&self) -> usize {
        self.arena.len()
    }

    /// Number of frames whose memory is not lent to buffered changes.
    pub(crate) fn usable_frames(&self) -> usize {
        self.arena.len().saturating_sub(self.withheld_frames())
    }

    /// Frames that hold nothing.
    pub(crate) fn free_frames(&self) -> usize {
        self.free.count()
    }

    /// Bytes of memory in the page table.
    pub(crate) fn table_bytes(&self) -> u64 {
        self.table.memory_bytes()
    }

    /// Frames with changes that no disk image holds.
    pub(crate) fn dirty_frames(&self) -> usize {
        self.dirty_frames.load(Ordering::Relaxed)
    }

    /// Checkpoint copies waiting to be written.
    pub(crate) fn waiting_copies(&self) -> usize {
        self.checkpoint_copies.lock().len()
    }

    /// Pages read from disk.
    pub(crate) fn pages_read(&self) -> u64 {
        self.pages_read.load(Ordering::Relaxed)
    }

    /// Pages read that had buffered changes.
    pub(crate) fn pages_merged(&self) -> u64 {
        self.pages_merged.load(Ordering::Relaxed)
    }

    /// Counters that prove I2 and I3.
    pub(crate) fn invariants(&self) -> &InvariantCounters {
        &self.invariants
    }

    /// Whether a thread frees frames when they run out.
    pub(crate) fn has_evictor(&self) -> bool {
        self.has_evictor.load(Ordering::Acquire)
    }

    /// Says whether a thread frees frames from now on.
    pub(crate) fn set_has_evictor(&self, has_evictor: bool) {
        self.has_evictor.store(has_evictor, Ordering::Release);
        self.free.wake_all();
        self.victims.wake_all();
        self.buffers.request_merging();
    }

    /// Stops all changes for good: a write failed, so nothing later may be acknowledged.
    pub(crate) fn poison(&self, error: &EngineError) {
        {
            // The first error is the one to be told about.
            let mut reason = self.poison_reason.lock();
            if reason.is_empty() {
                *reason = error.to_string();
            }
        }
        self.poisoned.store(true, Ordering::Release);
        self.free.wake_all();
    }

    /// Fails once the engine has stopped writing.
    pub(crate) fn check_poisoned(&self) -> Result<()> {
        if self.poisoned.load(Ordering::Acquire) {
            return Err(EngineError::Poisoned(self.poison_reason.lock().clone()));
        }
        Ok(())
    }

    /// Finds a page in a frame, reading it from disk if need be. `Restart` when the page was freed.
    #[inline]
    pub(crate) fn fix(&self, page: PageId) -> Attempt<Fixed> {
        let fixed = self.fix_without_use(page)?;
        note_use(self.arena.header(fixed.frame), || self.free.era());
        Ok(fixed)
    }

    /// As [`PageCache::fix`], by somebody who would not miss the page in its frame: it leaves as if nobody had used it.
    pub(crate) fn fix_without_use(&self, page: PageId) -> Attempt<Fixed> {
        let mut backoff = Backoff::new();
        loop {
            match self.table.get(page) {
                PageState::Resident(frame) => {
                    if let Some(version) = self.arena.version(frame) {
                        let header = self.arena.header(frame);
                        if header.page() == page.0 {
                            return Ok(Fixed { page, frame, version });
                        }
                    }
                    backoff.wait();
                }
                PageState::OnDisk(on_disk) => self.load(page, on_disk)?,
                PageState::Loading(_) => self.wait_for_load(page),
                PageState::Empty => return Err(Retry::Restart),
            }
        }
    }

    /// The page's bytes, to be trusted only after [`PageCache::validate`].
    pub(crate) fn view(&self, fixed: &Fixed) -> Node<OptimisticPage<'_>> {
        Node(self.arena.optimistic(fixed.frame))
    }

    /// Fails with `Restart` when the page changed since it was fixed.
    #[inline]
    pub(crate) fn validate(&self, fixed: &Fixed) -> Attempt<()> {
        if self.arena.validate(fixed.frame, fixed.version) { Ok(()) } else { Err(Retry::Restart) }
    }

    /// Copies a page out.
    pub(crate) fn copy(&self, fixed: &Fixed, out: &mut PageImage) -> Attempt<()> {
        if self.arena.copy_optimistic(fixed.frame, fixed.version, out) { Ok(()) } else { Err(Retry::Restart) }
    }

    /// Latches a page that is still as it was when fixed.
    pub(crate) fn lock(&self, fixed: &Fixed) -> Attempt<ExclusiveFrame<'_>> {
        self.arena.try_lock_at(fixed.frame, fixed.version).ok_or(Retry::Restart)
    }

    fn wait_for_load(&self, page: PageId) {
        let shard = &self.loading[page.0 as usize % LOADING_SHARDS];
        let mut finished = shard.finished.lock();
        if matches!(self.table.get(page), PageState::Loading(_)) {
            shard.changed.wait_for(&mut finished, Duration::from_millis(5));
        }
    }

    fn load(&self, page: PageId, on_disk: DiskPage) -> Result<()> {
        let reserved = self.free.take(self)?;
        if !self.begin_load(page, on_disk) {
            return Ok(());
        }
        let read = self.read_into(reserved, page, on_disk);
        if read.is_err() {
            self.table.set(page, PageState::OnDisk(on_disk));
        }
        self.notify_loaded(page);
        read
    }

    /// Wakes those who wait because the page's word said `Loading`.
    fn notify_loaded(&self, page: PageId) {
        let shard = &self.loading[page.0 as usize % LOADING_SHARDS];
        drop(shard.finished.lock());
        shard.changed.notify_all();
    }

    fn begin_load(&self, page: PageId, on_disk: DiskPage) -> bool {
        // Whoever buffers a change does it while the word stands still.
        let mut shard = on_disk.is_buffered.then(|| self.buffers.lock(page));
        let begun = self.table.transition(page, PageState::OnDisk(on_disk), PageState::Loading(on_disk));
        if begun && let Some(shard) = &mut shard {
            shard.outdate_merge(page);
        }
        begun
    }

    fn read_into(&self, reserved: ReservedFrame<'_>, page: PageId, on_disk: DiskPage) -> Result<()> {
        IMAGE.with_borrow_mut(|image| self.read_by_way_of(image, reserved, page, on_disk))
    }

    fn read_by_way_of(
        &self,
        image: &mut PageImage,
        reserved: ReservedFrame<'_>,
        page: PageId,
        on_disk: DiskPage,
    ) -> Result<()> {
        self.store.read(page, on_disk.address, image)?;
        self.pages_read.fetch_add(1, Ordering::Relaxed);
        let dirty_since = if on_disk.is_buffered { self.merge_buffered(page, image)? } else { 0 };
        let mut frame = self.lock_reserved(&reserved);
        frame.put_image(image);
        let header = frame.header();
        header.address.store(on_disk.address.0, Ordering::Relaxed);
        header.forget_records();
        note_arrival(header, self.free.era());
        header.dirty_epoch.store(dirty_since, Ordering::Release);
        self.dirty_frames.fetch_add(usize::from(dirty_since != 0), Ordering::Relaxed);
        frame.set_page(Some(page));
        // The buffer's entry goes in the same instant: a new one may be made as soon as the page is evicted again.
        let shard = on_disk.is_buffered.then(|| self.buffers.lock(page));
        self.table.set(page, PageState::Resident(reserved.keep()));
        shard.into_iter().for_each(|mut shard| shard.forget(page, self));
        Ok(())
    }

    /// Latches a frame that holds no page: only the evictor may touch its latch, and only for an instant.
    fn lock_reserved(&self, reserved: &ReservedFrame<'_>) -> ExclusiveFrame<'_> {
        let mut backoff = Backoff::new();
        loop {
            if let Some(frame) = self.arena.try_lock(reserved.id()) {
                return frame;
            }
            backoff.wait();
        }
    }

    /// Takes a frame off the free list for a new page, waiting for the background if there is none.
    pub(crate) fn reserve(&self) -> Result<ReservedFrame<'_>> {
        self.free.take(self)
    }

    /// Makes a new page in a reserved frame and gives it latched. The caller fills it.
    pub(crate) fn create(&self, reserved: ReservedFrame<'_>) -> Result<(PageId, ExclusiveFrame<'_>)> {
        let page = self.store.allocate_page_id()?;
        let frame = self.lock_reserved(&reserved);
        let header = frame.header();
        header.address.store(0, Ordering::Relaxed);
        header.forget_records();
        header.dirty_epoch.store(self.store.epoch(), Ordering::Release);
        note_arrival(header, self.free.era());
        self.dirty_frames.fetch_add(1, Ordering::Relaxed);
        frame.set_page(Some(page));
        self.table.set(page, PageState::Resident(reserved.keep()));
        Ok((page, frame))
    }

    /// Must be called on a latched frame before its first change, inside the checkpoint barrier. `true`: the frame counts as
    /// changed from now on, so its latch must not be given back as unchanged.
    pub(crate) fn prepare_change(&self, frame: &ExclusiveFrame<'_>) -> bool {
        let became_dirty = self.enter_epoch(frame, |_| 0);
        frame.header().prepared_for.store(0, Ordering::Relaxed);
        became_dirty
    }

    /// The page belongs to the open epoch from now on; `false`: it does already. Copies it first when the frozen one still needs it. `of_clean` says for
    /// which preparation the image on disk of a clean page is good enough from now on; that of a dirty one is for none.
    fn enter_epoch(&self, frame: &ExclusiveFrame<'_>, of_clean: impl FnOnce(&ExclusiveFrame<'_>) -> u64) -> bool {
        let header = frame.header();
        let epoch = self.store.epoch();
        let dirty_since = header.dirty_epoch.load(Ordering::Relaxed);
        if dirty_since == epoch {
            return false;
        }
        let mut prepared_for = 0;
        if dirty_since == 0 {
            self.dirty_frames.fetch_add(1, Ordering::Relaxed);
            prepared_for = of_clean(frame);
        } else if !self.is_prepared(header) {
            self.copy_for_checkpoint(frame, dirty_since);
        }
        header.prepared_for.store(prepared_for, Ordering::Relaxed);
        header.dirty_epoch.store(epoch, Ordering::Release);
        true
    }

    /// As [`PageCache::prepare_change`], for a blind change of a leaf that moves nothing to or from another page. A leaf that is dirty for the
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
    fn take_copy(&self, frame: FrameId, epoch: u64) -> bool {
        let header = self.arena.header(frame);
        // Looked at first without the latch, which is not given back while the frame is lent.
        if !header.is_dirty_for(epoch) {
            return true;
        }
        let Some(latched) = self.arena.try_lock(frame) else { return false };
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

    fn copy_for_checkpoint(&self, frame: &ExclusiveFrame<'_>, epoch: u64) {
        let copy = CheckpointCopy { page: PageId(frame.header().page()), epoch, image: Box::new(**frame) };
        self.checkpoint_copies.lock().push(copy);
    }

    /// Frees a page for good. Background only, inside the checkpoint barrier; nobody may refer to the page any more.
    pub(crate) fn free_page(&self, page: PageId) -> Result<()> {
        let _writer = self.writer.lock();
        let mut backoff = Backoff::new();
        loop {
            match self.table.get(page) {
                PageState::Empty => return Ok(()),
                PageState::Loading(_) => self.wait_for_load(page),
                PageState::OnDisk(on_disk) => {
                    if self.free_on_disk(page, on_disk) {
                        break;
                    }
                }
                PageState::Resident(frame) => {
                    if self.empty_frame(page, frame) {
                        break;
                    }
                    backoff.wait();
                }
            }
        }
        self.store.free_page(page);
        Ok(())
    }

    fn free_on_disk(&self, page: PageId, on_disk: DiskPage) -> bool {
        let mut shard = self.buffers.lock(page);
        let is_free = self.table.transition(page, PageState::OnDisk(on_disk), PageState::Empty);
        if is_free {
            self.keep_unsaved(page, &mut shard);
            shard.forget(page, self);
        }
        is_free
    }

    fn empty_frame(&self, page: PageId, frame: FrameId) -> bool {
        let Some(latched) = self.arena.try_lock(frame) else { return false };
        if latched.header().page() != page.0 {
            latched.release_unchanged();
            return false;
        }
        let dirty_since = latched.header().dirty_epoch.swap(0, Ordering::Relaxed);
        if dirty_since != 0 {
            self.dirty_frames.fetch_sub(1, Ordering::Relaxed);
            if dirty_since < self.store.epoch() {
                self.copy_for_checkpoint(&latched, dirty_since);
            }
        }
        self.table.set(page, PageState::Empty);
        latched.set_page(None);
        drop(latched);
        self.free.give_back(frame);
        true
    }

    /// The page cleaner moved a block. `true` when the page's current image is the moved one.
    pub(crate) fn relocate(&self, page: PageId, old: PageAddress, new: PageAddress) -> bool {
        match self.table.get(page) {
            PageState::OnDisk(_) => {
                // While the shard is locked, nobody buffers a change, which would change the word.
                let _shard = self.buffers.lock(page);
                let PageState::OnDisk(current) = self.table.get(page) else { return false };
                let moved = DiskPage { address: new, ..current };
                current.address == old
                    && self.table.transition(page, PageState::OnDisk(current), PageState::OnDisk(moved))
            }
            PageState::Resident(frame) => {
                let Some(latched) = self.arena.try_lock(frame) else { return false };
                let header = latched.header();
                let is_current =
                    header.page() == page.0 && !header.is_dirty() && header.address.load(Ordering::Relaxed) == old.0;
                if is_current {
                    header.address.store(new.0, Ordering::Relaxed);
                }
                latched.release_unchanged();
                is_current
            }
            PageState::Loading(_) | PageState::Empty => false,
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
                Some(PageAddress(self.arena.header(frame).address.load(Ordering::Relaxed))).filter(|at| at.0 != 0)
            }
            PageState::Empty => None,
        }
    }
}
