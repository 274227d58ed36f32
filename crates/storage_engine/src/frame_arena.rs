//! The arena of page frames and the optimistic latch of each.
//!
//! Called by `page_cache`, which decides what each frame holds. Relies on the kernel for memory that costs nothing until it is touched.
//!
//! A frame is 16 KiB of memory and a header. Its latch (`latch`) is a version counter whose lowest bit means "exclusively
//! held". Readers write nothing: they note an even version, read the bytes through [`OptimisticPage`], and ask
//! [`FrameArena::validate`] whether the version is still the same; if not, what they read is thrown away. Writers
//! take the latch by moving the version from even to odd and give it back by moving it to the next even number.
//!
//! Readers go on while a page is being written, and while its frame gets another page or is lent. So the bytes of a frame are
//! read without its latch, and always written, through atomic words (`frame_words`), never through a slice. Only the
//! holder of the latch, beside whom nobody writes, reads them as a slice.
//!
//! Why `unsafe`: the memory comes from the kernel, and the holder of a latch sees words as bytes.
#![allow(unsafe_code)]

use std::cmp;
use std::ops::{Deref, Range};
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering};

use rustix::mm::{Advice, madvise};
#[cfg(not(miri))]
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};

use self::frame_words::FrameWords;
use self::latch::Latch;
use crate::node::{PageBytes, PageMut};
use crate::page_store::PageId;

mod frame_words;
mod latch;

/// Bytes of a page in memory and of its uncompressed image.
pub const PAGE_BYTES: usize = crate::page_store::PAGE_BYTES;

/// The bytes of one page.
pub(crate) type PageImage = [u8; PAGE_BYTES];

/// No page: the value of [`FrameHeader::page`] of a free frame.
pub(crate) const NO_PAGE: u64 = u64::MAX;

/// Position of a frame in the arena.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct FrameId(pub(crate) u32);

/// What is known of the page in a frame. Everything but the latch is written only while the latch is held.
#[repr(align(64))]
pub(crate) struct FrameHeader {
    latch: Latch,
    /// The page and one; 0 when free, so that headers never used are zeros, which take no memory.
    page: AtomicU64,
    /// Address on disk of the image this frame was read from or last written to; meaningful while clean.
    pub(crate) address: AtomicU64,
    /// The checkpoint epoch in which the page was first changed since it was last written; 0 when clean.
    pub(crate) dirty_epoch: AtomicU64,
    /// For which preparation of a checkpoint an image of the page that is on disk is good enough, although it is dirty; 0: for none. See
    /// `page_cache::preparation`.
    pub(crate) prepared_for: AtomicU64,
    /// Whether the page was changed by changes of records, which replay makes again.
    pub(crate) holds_records: AtomicBool,
    /// Whether the page was used since the eviction clock's hand passed; see `page_cache::replacement`.
    pub(crate) used: AtomicBool,
    /// Rounds of the hand that the page stays without being used.
    pub(crate) worth: AtomicU8,
    /// The era of the cache in which the page came.
    pub(crate) arrived_in: AtomicU32,
}

impl FrameHeader {
    /// Another page comes into the frame.
    pub(crate) fn forget_records(&self) {
        self.prepared_for.store(0, Ordering::Relaxed);
        self.holds_records.store(false, Ordering::Relaxed);
    }

    /// The page in this frame; `NO_PAGE` when free.
    pub(crate) fn page(&self) -> u64 {
        self.page.load(Ordering::Acquire).wrapping_sub(1)
    }

    /// Whether the checkpoint of a frozen epoch may still need the page.
    pub(crate) fn is_dirty_for(&self, frozen: u64) -> bool {
        (1..=frozen).contains(&self.dirty_epoch.load(Ordering::Acquire))
    }

    /// Whether the page has changes that no disk image holds.
    pub(crate) fn is_dirty(&self) -> bool {
        self.dirty_epoch.load(Ordering::Acquire) != 0
    }
}

/// All frames of the cache, in one allocation whose untouched part costs no memory.
pub(crate) struct FrameArena {
    memory: NonNull<u8>,
    headers: NonNull<FrameHeader>,
    count: usize,
}

// SAFETY: the raw memory is only reached as atomic words, or read by the holder of a frame's latch, beside whom nobody writes.
unsafe impl Send for FrameArena {}
// SAFETY: as above.
unsafe impl Sync for FrameArena {}

impl FrameArena {
    /// An arena of `count` frames. `None` when the address space does not have that much.
    pub(crate) fn new(count: usize) -> Option<Self> {
        let count = count.max(1);
        let memory = map(count.checked_mul(PAGE_BYTES)?)?;
        let Some(headers) = map(count * size_of::<FrameHeader>()) else {
            unmap(memory, count * PAGE_BYTES);
            return None;
        };
        Some(Self { memory, headers: headers.cast(), count })
    }

    /// Number of frames.
    pub(crate) fn len(&self) -> usize {
        self.count
    }

    /// The header of a frame.
    pub(crate) fn header(&self, frame: FrameId) -> &FrameHeader {
        assert!((frame.0 as usize) < self.count);
        // SAFETY: inside the mapping by the assertion, which is aligned to pages; zeros are a valid header, and headers
        // are only ever changed through their atomics.
        unsafe { self.headers.add(frame.0 as usize).as_ref() }
    }

    fn pointer(&self, frame: FrameId) -> *mut u8 {
        assert!((frame.0 as usize) < self.count);
        // SAFETY: the assertion keeps the offset inside the allocation.
        unsafe { self.memory.as_ptr().add(frame.0 as usize * PAGE_BYTES) }
    }

    fn words(&self, frame: FrameId) -> &FrameWords {
        // SAFETY: a frame is as many bytes of our mapping, aligned to pages, as there are in the words; any bytes are valid.
        unsafe { &*self.pointer(frame).cast::<FrameWords>() }
    }

    /// The frame's version when nobody holds it exclusively.
    pub(crate) fn version(&self, frame: FrameId) -> Option<u64> {
        self.header(frame).latch.version()
    }

    /// Whether the frame is unchanged since `version` was read. Everything read from it before this call is then good.
    pub(crate) fn validate(&self, frame: FrameId, version: u64) -> bool {
        self.header(frame).latch.validate(version)
    }

    /// A view for reading without a latch; see the rule in the module's head.
    pub(crate) fn optimistic(&self, frame: FrameId) -> OptimisticPage<'_> {
        OptimisticPage(self.words(frame))
    }

    /// Copies the page out; `false` when it changed meanwhile and the copy is worthless.
    pub(crate) fn copy_optimistic(&self, frame: FrameId, version: u64, out: &mut PageImage) -> bool {
        self.words(frame).copy_page_out(out);
        self.validate(frame, version)
    }

    /// Gives the memory of a frame that holds no page back to the system until it is used again.
    pub(crate) fn release_memory(&self, frame: FrameId) {
        let Some(latched) = self.try_lock(frame) else { return };
        if latched.header().page() == NO_PAGE && !cfg!(miri) {
            // SAFETY: the range is one frame of our own mapping, latched and without a page: readers that still look at it
            // read zeros and then fail validation. A failure leaves the memory where it is.
            let _ = unsafe { madvise(self.pointer(frame).cast(), PAGE_BYTES, Advice::LinuxDontNeed) };
        }
    }

    /// Takes the latch if the frame is still at `version`.
    pub(crate) fn try_lock_at(&self, frame: FrameId, version: u64) -> Option<ExclusiveFrame<'_>> {
        // A guard that is dropped gives the latch back, whoever has it: so there is none before.
        let is_locked = self.header(frame).latch.try_lock(version);
        is_locked.then(|| ExclusiveFrame { arena: self, frame, version, changed: true, is_lent: false })
    }

    /// Takes the latch if nobody holds it.
    pub(crate) fn try_lock(&self, frame: FrameId) -> Option<ExclusiveFrame<'_>> {
        self.version(frame).and_then(|version| self.try_lock_at(frame, version))
    }
}

impl Drop for FrameArena {
    fn drop(&mut self) {
        unmap(self.memory, self.count * PAGE_BYTES);
        unmap(self.headers.cast(), self.count * size_of::<FrameHeader>());
    }
}

/// Zeroed memory that costs nothing until it is touched.
#[cfg(not(miri))]
fn map(bytes: usize) -> Option<NonNull<u8>> {
    // SAFETY: a new anonymous mapping at an address of the kernel's choice touches no memory of ours.
    let mapped =
        unsafe { mmap_anonymous(std::ptr::null_mut(), bytes, ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE) };
    NonNull::new(mapped.ok()?.cast::<u8>())
}

/// The same for Miri, which calls no kernel.
#[cfg(miri)]
fn map(bytes: usize) -> Option<NonNull<u8>> {
    let layout = std::alloc::Layout::from_size_align(bytes, PAGE_BYTES).ok()?;
    // SAFETY: there is at least one frame, so the layout is not empty.
    NonNull::new(unsafe { std::alloc::alloc_zeroed(layout) })
}

/// Gives back what [`map`] gave.
#[cfg(miri)]
fn unmap(memory: NonNull<u8>, bytes: usize) {
    if let Ok(layout) = std::alloc::Layout::from_size_align(bytes, PAGE_BYTES) {
        // SAFETY: called with what `map` returned, with the same layout, by the arena that owned it and is gone.
        unsafe { std::alloc::dealloc(memory.as_ptr(), layout) };
    }
}

/// Gives back what [`map`] gave.
#[cfg(not(miri))]
fn unmap(memory: NonNull<u8>, bytes: usize) {
    // SAFETY: called with what `map` returned, by the arena that owned it and is gone. A failure leaves it mapped.
    let _ = unsafe { munmap(memory.as_ptr().cast(), bytes) };
}

/// An exclusively latched frame; its bytes are read by dereferencing and changed through [`PageMut`]. Dropping it gives the latch back.
pub(crate) struct ExclusiveFrame<'a> {
    arena: &'a FrameArena,
    frame: FrameId,
    version: u64,
    changed: bool,
    is_lent: bool,
}

impl<'a> ExclusiveFrame<'a> {
    /// Its header.
    pub(crate) fn header(&self) -> &'a FrameHeader {
        self.arena.header(self.frame)
    }

    /// Says which page the frame holds from now on.
    pub(crate) fn set_page(&self, page: Option<PageId>) {
        self.header().page.store(page.map_or(0, |page| page.0 + 1), Ordering::Release);
    }

    /// Gives the latch back without a new version: nothing a reader could see was changed.
    pub(crate) fn release_unchanged(mut self) {
        self.changed = false;
    }
}

impl Drop for ExclusiveFrame<'_> {
    fn drop(&mut self) {
        if self.is_lent {
            return;
        }
        let next = if self.changed { self.version + 2 } else { self.version };
        self.header().latch.unlock(next);
    }
}

/// A frame whose memory serves something else than a page: latched for as long as this lives.
pub(crate) struct LentFrame {
    arena: Arc<FrameArena>,
    frame: FrameId,
    version: u64,
}

impl LentFrame {
    /// Takes a frame that holds no page. `None`: somebody looks at it just now.
    pub(crate) fn take(arena: &Arc<FrameArena>, frame: FrameId) -> Option<Self> {
        let mut latched = arena.try_lock(frame)?;
        // The latch stays taken: the guard must not give it back.
        let version = latched.version;
        latched.is_lent = true;
        drop(latched);
        Some(Self { arena: arena.clone(), frame, version })
    }

    /// Which frame it is.
    pub(crate) fn id(&self) -> FrameId {
        self.frame
    }

    /// Its memory.
    pub(crate) fn bytes(&self) -> &PageImage {
        // SAFETY: the latch is held by this value, and changes need it mutably: nobody writes meanwhile.
        unsafe { &*self.arena.pointer(self.frame).cast::<PageImage>() }
    }

    /// Writes bytes at a place in its memory. Readers of an earlier page may still look at it, and fail validation.
    pub(crate) fn put(&mut self, at: usize, bytes: &[u8]) {
        self.arena.words(self.frame).put(at, bytes);
    }
}

impl Drop for LentFrame {
    fn drop(&mut self) {
        self.arena.header(self.frame).latch.unlock(self.version + 2);
    }
}

impl Deref for ExclusiveFrame<'_> {
    type Target = PageImage;

    fn deref(&self) -> &PageImage {
        // SAFETY: the latch is held, so nobody writes; the pointer is valid for PAGE_BYTES.
        unsafe { &*self.arena.pointer(self.frame).cast::<PageImage>() }
    }
}

impl PageMut for ExclusiveFrame<'_> {
    #[inline]
    fn image(&self) -> &PageImage {
        self
    }

    #[inline]
    fn put(&mut self, at: usize, bytes: &[u8]) {
        self.arena.words(self.frame).put(at, bytes);
    }

    #[inline]
    fn put_u16(&mut self, at: usize, value: u16) {
        assert!(at + 2 <= PAGE_BYTES);
        self.arena.words(self.frame).put_number(at, value.into(), 2);
    }

    #[inline]
    fn put_u64(&mut self, at: usize, value: u64) {
        assert!(at + 8 <= PAGE_BYTES);
        self.arena.words(self.frame).put_number(at, value, 8);
    }

    fn put_image(&mut self, image: &PageImage) {
        self.arena.words(self.frame).put_page(image);
    }

    fn move_words_up(&mut self, words: Range<usize>) {
        self.arena.words(self.frame).move_up(words);
    }

    fn move_words_down(&mut self, words: Range<usize>) {
        self.arena.words(self.frame).move_down(words);
    }
}

/// The bytes of a frame read without its latch. Every range is checked against the page, so a page that changes
/// underneath gives wrong answers but never a read outside of it.
#[derive(Clone, Copy)]
pub(crate) struct OptimisticPage<'a>(&'a FrameWords);

impl OptimisticPage<'_> {
    #[inline]
    fn number(&self, at: usize, length: usize) -> u64 {
        if at > PAGE_BYTES - length { 0 } else { self.0.number(at, length) }
    }
}

/// The range as far as it is one of the page; otherwise an empty one.
#[inline]
fn checked(range: Range<usize>) -> Range<usize> {
    if range.end <= PAGE_BYTES { range } else { 0..0 }
}

impl PageBytes for OptimisticPage<'_> {
    #[inline]
    fn u16_at(&self, at: usize) -> u16 {
        self.number(at, 2) as u16
    }

    #[inline]
    fn u32_at(&self, at: usize) -> u32 {
        self.number(at, 4) as u32
    }

    #[inline]
    fn u64_at(&self, at: usize) -> u64 {
        self.number(at, 8)
    }

    #[inline]
    fn compare(&self, range: Range<usize>, other: &[u8]) -> cmp::Ordering {
        let range = checked(range);
        self.0.compare(range.start, range.len(), other)
    }

    #[inline]
    fn shared(&self, range: Range<usize>, other: &[u8]) -> usize {
        let range = checked(range);
        self.0.shared(range.start, range.len(), other)
    }

    fn shared_inside(&self, one: Range<usize>, other: Range<usize>) -> usize {
        self.0.shared_inside(checked(one), checked(other))
    }

    #[inline]
    fn append_to(&self, range: Range<usize>, out: &mut Vec<u8>) {
        let (range, before) = (checked(range), out.len());
        out.resize(before + range.len(), 0);
        self.0.copy_out(range.start, &mut out[before..]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_invalidates_readers_and_an_unchanged_release_does_not() {
        let arena = FrameArena::new(2).unwrap();
        let frame = FrameId(1);
        let version = arena.version(frame).unwrap();
        arena.try_lock(frame).unwrap().release_unchanged();
        assert!(arena.validate(frame, version));
        let mut held = arena.try_lock(frame).unwrap();
        assert!(arena.version(frame).is_none() && arena.try_lock(frame).is_none());
        held.put(7, &[9]);
        drop(held);
        assert!(!arena.validate(frame, version));
        assert_eq!(arena.optimistic(frame).u16_at(7), 9);
    }

    #[test]
    fn a_failed_attempt_leaves_the_latch_to_its_owner() {
        let arena = FrameArena::new(1).unwrap();
        let version = arena.version(FrameId(0)).unwrap();
        let held = arena.try_lock_at(FrameId(0), version).unwrap();
        assert!(arena.try_lock_at(FrameId(0), version).is_none());
        assert!(arena.version(FrameId(0)).is_none(), "still held");
        drop(held);
    }

    #[test]
    fn torn_offsets_never_leave_the_page() {
        let arena = FrameArena::new(1).unwrap();
        let page = arena.optimistic(FrameId(0));
        assert_eq!(page.u64_at(PAGE_BYTES - 3), 0);
        let mut out = Vec::new();
        page.append_to(PAGE_BYTES - 1..PAGE_BYTES + 1, &mut out);
        assert!(out.is_empty());
        assert!(page.compare(PAGE_BYTES - 1..PAGE_BYTES + 1, &[0, 0]).is_lt());
    }
}
