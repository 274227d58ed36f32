//! The page cache: which page is in which frame, loading, dirty tracking, and the writing of pages by the background.
//!
//! Called by `btree`, `overflow` and `cursor` (reading and changing pages) and by `engine`'s background functions. Three rooms:
//!
//! | room | what is in it | relies on |
//! |---|---|---|
//! | [`Frames`] | memory, the page table, free frames, which page leaves, who waits for a page | `frame_arena`, `page_table` |
//! | [`ChangeBuffer`] | changes of leaves that are on disk, and their merging | `Frames` |
//! | [`PageWriter`] | batches of pages, copies and preparations for checkpoints | `Frames` |
//!
//! None of them reaches into another's fields. What needs several of them at once is here: reading a page merges what is buffered
//! for it, freeing one must not meet its writing, and whoever finds no frame may have to write one.
//!
//! Rules that make it right:
//!
//! * A page is changed only under its exclusive latch, inside the checkpoint barrier (shared), and after
//!   [`PageWriter::prepare_change`]. That call notes the epoch in which the page became dirty and, when the page is still
//!   dirty for the checkpoint being written, copies its image first. Blind changes of leaves need no copy
//!   ([`PageWriter::prepare_blind_change`]).
//! * All writing goes through one `writer` lock, so the images of one page reach the store in the order of their age.
//! * A page that was written is clean only if its latch's version did not move between copy and completion.
//! * Client threads call [`PageCache::fix`], which may read a page, and wait for a free frame at most; they never write.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;

use crate::counters::InvariantCounters;
use crate::error::{Attempt, EngineError, Result, Retry};
use crate::frame_arena::{ExclusiveFrame, FrameId, OptimisticPage, PAGE_BYTES, PageImage};
use crate::node::{Node, PageMut};
use crate::page_store::{PageAddress, PageId, PageStore};
use crate::page_table::{DiskPage, PageState};

mod backoff;
mod before_change;
mod buffered;
mod change_blocks;
mod change_buffers;
mod change_encoding;
mod eviction;
mod frames;
mod free_frames;
mod merge_bounds;
mod merging;
mod preparation;
mod replacement;
mod writing;

pub(crate) use backoff::Backoff;
pub(crate) use buffered::{BufferedPush, ChangeBuffer, MergeChanges};
pub(crate) use change_encoding::{BufferedChange, EncodedChanges};
pub(crate) use frames::Frames;
pub(crate) use free_frames::ReservedFrame;
pub(crate) use merge_bounds::{MERGE_PAUSE, MERGE_PAUSE_MAX, MERGER_THREADS};
pub(crate) use writing::{BATCH_PAGES, PageWriter, Paused};

/// A page found in a frame, at a version of the frame's latch.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Fixed {
    pub(crate) page: PageId,
    pub(crate) frame: FrameId,
    pub(crate) version: u64,
}

thread_local! {
    /// The page being read: what is in a frame is written there as it is to stay.
    static IMAGE: RefCell<Box<PageImage>> = RefCell::new(Box::new([0; PAGE_BYTES]));
}

/// The three rooms, and what goes through several of them.
pub(crate) struct PageCache {
    pub(crate) frames: Arc<Frames>,
    pub(crate) changes: ChangeBuffer,
    pub(crate) writer: PageWriter,
    store: Arc<PageStore>,
    invariants: Arc<InvariantCounters>,
    poisoned: AtomicBool,
    poison_reason: Mutex<String>,
}

impl PageCache {
    /// A cache of `frames` frames over a store whose checkpoint has been loaded.
    pub(crate) fn new(store: Arc<PageStore>, frames: usize) -> Result<Self> {
        let frames = Arc::new(Frames::new(&store, frames)?);
        let invariants = Arc::new(InvariantCounters::default());
        Ok(Self {
            changes: ChangeBuffer::new(frames.clone(), store.clone(), invariants.clone())?,
            writer: PageWriter::new(frames.clone(), store.clone(), invariants.clone())?,
            poisoned: AtomicBool::new(false),
            poison_reason: Mutex::default(),
            frames,
            invariants,
            store,
        })
    }

    /// Number of frames whose memory is not lent to buffered changes.
    pub(crate) fn usable_frames(&self) -> usize {
        self.frames.usable(self.changes.lent_frames())
    }

    /// Counters that prove I2 and I3.
    pub(crate) fn invariants(&self) -> &InvariantCounters {
        &self.invariants
    }

    /// Says whether a thread frees frames from now on.
    pub(crate) fn set_has_evictor(&self, has_evictor: bool) {
        self.frames.set_has_evictor(has_evictor);
        self.writer.wake_all();
        self.changes.wake_all();
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
        self.frames.free.wake_all();
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
        self.frames.note_use(fixed.frame);
        Ok(fixed)
    }

    /// As [`PageCache::fix`], by somebody who would not miss the page in its frame: it leaves as if nobody had used it.
    pub(crate) fn fix_without_use(&self, page: PageId) -> Attempt<Fixed> {
        let mut backoff = Backoff::new();
        loop {
            match self.frames.state(page) {
                PageState::Resident(frame) => match self.frames.fixed(page, frame) {
                    Some(fixed) => return Ok(fixed),
                    None => backoff.wait(),
                },
                PageState::OnDisk(on_disk) => self.load(page, on_disk)?,
                PageState::Loading(_) => self.frames.wait_for_load(page),
                PageState::Empty => return Err(Retry::Restart),
            }
        }
    }

    /// As [`PageCache::fix`], without waiting for a frame or for the disk; `None` when the page is in no frame.
    pub(crate) fn fix_resident(&self, page: PageId) -> Attempt<Option<Fixed>> {
        let mut backoff = Backoff::new();
        loop {
            match self.frames.state(page) {
                PageState::Resident(frame) => match self.frames.fixed(page, frame) {
                    Some(fixed) => {
                        self.frames.note_use(fixed.frame);
                        return Ok(Some(fixed));
                    }
                    None => backoff.wait(),
                },
                PageState::OnDisk(_) | PageState::Loading(_) => return Ok(None),
                PageState::Empty => return Err(Retry::Restart),
            }
        }
    }

    /// The page's bytes, to be trusted only after [`PageCache::validate`].
    pub(crate) fn view(&self, fixed: &Fixed) -> Node<OptimisticPage<'_>> {
        Node(self.frames.view(fixed.frame))
    }

    /// Fails with `Restart` when the page changed since it was fixed.
    #[inline]
    pub(crate) fn validate(&self, fixed: &Fixed) -> Attempt<()> {
        if self.frames.validate(fixed) { Ok(()) } else { Err(Retry::Restart) }
    }

    /// Copies a page out.
    pub(crate) fn copy(&self, fixed: &Fixed, out: &mut PageImage) -> Attempt<()> {
        if self.frames.copy(fixed.frame, fixed.version, out) { Ok(()) } else { Err(Retry::Restart) }
    }

    /// Latches a page that is still as it was when fixed.
    pub(crate) fn lock(&self, fixed: &Fixed) -> Attempt<ExclusiveFrame<'_>> {
        self.frames.try_lock_at(fixed.frame, fixed.version).ok_or(Retry::Restart)
    }

    fn load(&self, page: PageId, on_disk: DiskPage) -> Result<()> {
        let reserved = self.reserve()?;
        if !self.changes.begin_load(page, on_disk) {
            return Ok(());
        }
        let read = IMAGE.with_borrow_mut(|image| self.read_into(reserved, page, on_disk, image));
        if read.is_err() {
            self.frames.set_state(page, PageState::OnDisk(on_disk));
        }
        self.frames.notify_loaded(page);
        read
    }

    /// Reads a page into a frame by way of an image.
    fn read_into(
        &self,
        reserved: ReservedFrame<'_>,
        page: PageId,
        on_disk: DiskPage,
        image: &mut PageImage,
    ) -> Result<()> {
        self.store.read(page, on_disk.address, image)?;
        self.frames.count_read();
        let dirty_since = if on_disk.is_buffered { self.changes.merge_into(page, image)? } else { 0 };
        let mut frame = self.frames.lock_reserved(&reserved);
        frame.put_image(image);
        self.frames.receive(&frame, page, on_disk.address.0, dirty_since);
        self.changes.end_load(page, on_disk, reserved.keep());
        Ok(())
    }

    /// Takes a frame off the free list for a new page, waiting for the background if there is none.
    pub(crate) fn reserve(&self) -> Result<ReservedFrame<'_>> {
        self.frames.free.take(self)
    }

    /// Makes a new page in a reserved frame and gives it latched. The caller fills it.
    pub(crate) fn create(&self, reserved: ReservedFrame<'_>) -> Result<(PageId, ExclusiveFrame<'_>)> {
        let page = self.store.allocate_page_id()?;
        let frame = self.frames.lock_reserved(&reserved);
        self.frames.receive(&frame, page, 0, self.store.epoch());
        self.frames.set_state(page, PageState::Resident(reserved.keep()));
        Ok((page, frame))
    }

    /// Frees a page for good. Background only, inside the checkpoint barrier; nobody may refer to the page any more, and
    /// no image of it may be under way to the disk. Whoever calls this has waited for that outside of the barrier.
    pub(crate) fn free_page(&self, page: PageId, _nobody_writes: &Paused<'_>) -> Result<()> {
        let mut backoff = Backoff::new();
        loop {
            match self.frames.state(page) {
                PageState::Empty => return Ok(()),
                PageState::Loading(_) => self.frames.wait_for_load(page),
                PageState::OnDisk(on_disk) => {
                    if self.changes.free_on_disk(page, on_disk) {
                        break;
                    }
                }
                PageState::Resident(frame) => {
                    if self.writer.empty_frame(page, frame) {
                        break;
                    }
                    backoff.wait();
                }
            }
        }
        self.store.free_page(page);
        Ok(())
    }

    /// The page cleaner moved a block. `true` when the page's current image is the moved one.
    pub(crate) fn relocate(&self, page: PageId, old: PageAddress, new: PageAddress) -> bool {
        match self.frames.state(page) {
            PageState::OnDisk(_) => self.changes.relocate(page, old, new),
            PageState::Resident(frame) => {
                let Some(latched) = self.frames.try_lock(frame) else { return false };
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
}
