//! Changes kept in memory for leaves that are on disk: one small buffer a leaf.
//!
//! Called by `buffered`, which ties them to the page table. Knows bytes and page ids only; the design is that of
//! Bf-Tree's mini-pages (VLDB 2024), for changes that need not read what they change.
//!
//! A buffer holds changes in the order they came. Those that a checkpoint being written has yet to save are its unsaved
//! part; there is never more than one, because the next checkpoint begins only after this one is published, and it is
//! published only after it has saved all of them. So a buffer is of the open epoch or of the one before.
//!
//! A change that every snapshot sees needs no commit timestamp any more, and no room for a version in its page. Before a buffer takes another block, and
//! when the page has no room for one more change, such changes lose theirs.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use platform::Timestamp;
use smallvec::SmallVec;

use super::change_blocks::{BLOCK_BYTES, BLOCK_PAYLOAD_BYTES, BlockId, ChangeBlocks};
use super::change_encoding::{BufferedChange, EncodedChanges, HEADER_BYTES_MAX};
use super::merge_bounds::{CACHE_PERCENT_MAX, DUE_LEAVES_MAX, DUE_PARTS_MAX, FULLEST_MAX, SPARSE_PARTS};
use crate::frame_arena::{FrameId, LentFrame, PAGE_BYTES};
use crate::node::change_bytes_max;
use crate::page_store::PageId;
use crate::pressure_marks::MERGED_FROM;

mod merge_marks;
mod merge_request;
mod settling;

pub(super) use merge_marks::MergeMark;
use merge_request::MergeRequest;

pub(super) const SHARDS: usize = 16;
/// What a leaf with a buffer costs beside its changes: its entry in the map, which is between half and all but full.
const ENTRY_BYTES: usize = 40;
/// Longest value of a change that is buffered.
pub(super) const VALUE_BYTES_MAX: usize = 255;

/// The changes of one leaf: a chain of blocks.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct LeafBuffer {
    /// The last block. Each names the one before it.
    last: BlockId,
    /// Seconds of the commit timestamp of the first change.
    first_seconds: u32,
    /// Of changes.
    bytes: u16,
    /// How many of them come before the epoch and are yet to be saved.
    unsaved_bytes: u16,
    /// How many of them have been looked at for whether they are settled.
    settled_bytes: u16,
    /// Bytes of the page that are still free for more changes.
    room: u16,
    /// It is due for merging with less room than this ...
    due_room: u16,
    /// ... and when removals have taken so many bytes more from the page than inserts have added.
    until_sparse: u16,
    /// Bytes of each key that are the leaf's prefix and left out.
    prefix_length: u16,
    /// Of the newest change: the low bits, since it is the open one or the one before.
    epoch: u16,
}

/// The changes of a leaf, copied out to be merged or saved.
pub(crate) struct CopiedChanges {
    first_seconds: u32,
    prefix_length: u16,
    bytes: Vec<u8>,
}

impl CopiedChanges {
    /// The changes.
    pub(crate) fn encoded(&self) -> EncodedChanges<'_> {
        let prefix_length = usize::from(self.prefix_length);
        EncodedChanges { bytes: &self.bytes, first_seconds: self.first_seconds, prefix_length }
    }
}

impl LeafBuffer {
    /// An empty one for a page that has `room` bytes.
    fn new(page: PageId, room: usize, prefix_length: usize, first_seconds: u32, epoch: u16) -> Self {
        let parts = PageIdHasher::of(page) as usize % DUE_PARTS_MAX;
        Self {
            room: room as u16,
            due_room: (room * parts / 256) as u16,
            until_sparse: (PAGE_BYTES.saturating_sub(room) * SPARSE_PARTS / 256).max(1) as u16,
            prefix_length: prefix_length as u16,
            first_seconds,
            epoch,
            ..Self::default()
        }
    }

    /// Whether it should be merged although there is memory for it.
    fn is_due(&self) -> bool {
        self.room < self.due_room || self.until_sparse == 0
    }

    /// Counts what a change adds to the page or takes from it.
    fn count_change(&mut self, change: BufferedChange<'_>, suffix_length: usize) {
        let bytes = change_bytes_max(false, suffix_length, change.value.len(), true) as u16;
        self.until_sparse = match change.is_removal {
            true => self.until_sparse.saturating_sub(bytes),
            false => self.until_sparse.saturating_add(bytes),
        };
    }

    /// Bytes of changes that belong to an epoch before the open one and are not saved.
    fn unsaved(&self, open_epoch: u64) -> usize {
        usize::from(if self.epoch != open_epoch as u16 { self.bytes } else { self.unsaved_bytes })
    }
}

/// Page ids that have buffers are small: an entry's size matters.
fn number_of(page: PageId) -> Option<u32> {
    u32::try_from(page.0).ok()
}

/// Page ids are dense numbers: one multiplication spreads them.
#[derive(Default)]
pub(super) struct PageIdHasher(u64);

impl PageIdHasher {
    fn of(page: PageId) -> u64 {
        let mut hasher = Self::default();
        hasher.write_u64(page.0);
        hasher.finish()
    }
}

impl Hasher for PageIdHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(u64::from(*byte));
        }
    }

    fn write_u32(&mut self, number: u32) {
        self.write_u64(u64::from(number));
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = (self.0 ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
    }
}

type LeafBuffers = HashMap<u32, LeafBuffer, BuildHasherDefault<PageIdHasher>>;

#[derive(Default)]
struct ShardContents {
    map: LeafBuffers,
    blocks: ChangeBlocks,
    /// Blocks in use.
    used_blocks: usize,
    /// Leaves that have become due for merging; some have been merged since.
    due: Vec<PageId>,
    /// Leaves that are being merged beside those who change them (`merge_marks`).
    being_merged: SmallVec<[(PageId, MergeMark); 4]>,
    merges_begun: u64,
    /// One encoded change.
    scratch: Vec<u8>,
    /// Changes that are looked at for whether they are settled, and what comes of them.
    tail: Vec<u8>,
    settled: Vec<u8>,
}

impl ShardContents {
    /// Bytes of changes and of the entries of their leaves.
    fn bytes(&self) -> usize {
        self.used_blocks * BLOCK_BYTES + self.map.len() * ENTRY_BYTES
    }

    fn buffer(&self, page: PageId) -> Option<&LeafBuffer> {
        self.map.get(&number_of(page)?)
    }

    /// The blocks of a buffer from the one on that has its byte `from`.
    fn blocks_from(&self, buffer: &LeafBuffer, from: usize) -> SmallVec<[BlockId; 16]> {
        let count = blocks_of(usize::from(buffer.bytes)).saturating_sub(from / BLOCK_PAYLOAD_BYTES);
        let backwards = std::iter::successors(Some(buffer.last), |block| Some(self.blocks.before(*block)));
        let mut blocks: SmallVec<_> = backwards.take(count).collect();
        blocks.reverse();
        blocks
    }
}

/// All buffers. Each shard has an equal share of the memory: a frame goes back only when all of its blocks are free, so that what one shard
/// had taken beyond its share would be missing elsewhere for long.
pub(super) struct ChangeBuffers {
    shards: [Mutex<ShardContents>; SHARDS],
    /// Bytes of changes and of the entries of their leaves.
    bytes: AtomicUsize,
    leaves: AtomicUsize,
    lent_frames: AtomicUsize,
    limit: usize,
    merging: MergeRequest,
}

/// What came of pushing a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Pushed {
    Done,
    /// The page or the memory for buffers could not take it.
    NoRoom,
}

/// Where the memory of buffers comes from.
pub(super) trait Lender {
    /// A frame, if one can be spared.
    fn lend(&self) -> Option<LentFrame>;
    /// A frame that is no longer needed.
    fn give_back(&self, frame: FrameId);
}

/// A locked shard: the page words of its pages' buffered states stand still.
pub(super) struct Shard<'a> {
    contents: MutexGuard<'a, ShardContents>,
    buffers: &'a ChangeBuffers,
}

impl ChangeBuffers {
    /// Buffers in a cache of this size.
    pub(super) fn new(cache_bytes: usize) -> Self {
        Self {
            shards: std::array::from_fn(|_| Mutex::default()),
            bytes: AtomicUsize::new(0),
            leaves: AtomicUsize::new(0),
            lent_frames: AtomicUsize::new(0),
            limit: cache_bytes / 100 * CACHE_PERCENT_MAX,
            merging: MergeRequest::default(),
        }
    }

    /// Has the threads that merge look for what is to be done.
    pub(super) fn request_merging(&self) {
        self.merging.make();
    }

    pub(super) fn wait_for_merging(&self, at_most: Duration) -> bool {
        self.merging.wait(at_most)
    }

    /// Whether some of a shard's leaves are to be merged because they take much of its memory.
    fn is_short_of_memory(&self, contents: &ShardContents, share: f64) -> bool {
        contents.bytes() as f64 > self.shard_limit() as f64 * share
    }

    /// Bytes of memory in use.
    pub(super) fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Bytes of memory outside of the lent frames.
    pub(super) fn entry_bytes(&self) -> usize {
        self.len() * ENTRY_BYTES
    }

    /// Frames whose memory is in use.
    pub(super) fn lent_frames(&self) -> usize {
        self.lent_frames.load(Ordering::Relaxed)
    }

    /// Bytes of memory that may be used.
    pub(super) fn limit(&self) -> usize {
        self.limit
    }

    /// Number of leaves with buffers.
    pub(super) fn len(&self) -> usize {
        self.leaves.load(Ordering::Relaxed)
    }

    pub(super) fn lock(&self, page: PageId) -> Shard<'_> {
        Shard { contents: self.shards[page.0 as usize % SHARDS].lock(), buffers: self }
    }

    /// Appends the pages that have unsaved changes of epochs before the open one.
    pub(super) fn unsaved_pages(&self, open_epoch: u64, pages: &mut Vec<PageId>) {
        for shard in &self.shards {
            let contents = shard.lock();
            let unsaved = contents.map.iter().filter(|(_, buffer)| buffer.unsaved(open_epoch) > 0);
            pages.extend(unsaved.map(|(page, _)| PageId(u64::from(*page))));
        }
    }

    /// Appends pages whose leaves have become nearly full or sparse, about `wanted` of them.
    pub(super) fn take_due(&self, wanted: usize, pages: &mut Vec<PageId>) {
        for shard in &self.shards {
            let mut contents = shard.lock();
            let count = contents.due.len().min(wanted / SHARDS);
            let chosen: SmallVec<[PageId; 128]> = contents.due.drain(..count).collect();
            let is_due = |page: &PageId| contents.buffer(*page).is_some_and(LeafBuffer::is_due);
            pages.extend(chosen.into_iter().filter(is_due));
        }
    }

    /// Where more than a `share` of a shard's memory is in use, appends about one in `one_in` of its pages, those with the most changes.
    pub(super) fn fullest(&self, share: f64, one_in: usize, pages: &mut Vec<PageId>) {
        for shard in &self.shards {
            let contents = shard.lock();
            if self.is_short_of_memory(&contents, share) {
                let wanted = (contents.map.len() / one_in).clamp(1, FULLEST_MAX);
                append_fullest(&contents.map, wanted, pages);
            }
        }
    }

    /// Appends all pages.
    #[cfg(test)]
    pub(super) fn append_all(&self, pages: &mut Vec<PageId>) {
        self.shards.iter().for_each(|shard| pages.extend(shard.lock().map.keys().map(|page| PageId(u64::from(*page)))));
    }

    fn shard_limit(&self) -> usize {
        self.limit / SHARDS
    }
}

/// Appends about `wanted` of the pages with the most changes.
fn append_fullest(map: &LeafBuffers, wanted: usize, pages: &mut Vec<PageId>) {
    const CLASS_BYTES: usize = 32;
    let class_of = |buffer: &LeafBuffer| (usize::from(buffer.bytes) / CLASS_BYTES).min(511);
    let mut counts = [0usize; 512];
    map.values().for_each(|buffer| counts[class_of(buffer)] += 1);
    let mut found = 0;
    let enough = (0..counts.len()).rev().find(|class| {
        found += counts[*class];
        found >= wanted
    });
    let least = enough.unwrap_or(0);
    pages.extend(map.iter().filter(|(_, buffer)| class_of(buffer) >= least).map(|(page, _)| PageId(u64::from(*page))));
}

/// Blocks that so many bytes of changes take.
fn blocks_of(bytes: usize) -> usize {
    bytes.div_ceil(BLOCK_PAYLOAD_BYTES)
}

impl ChangeBuffers {
    /// Takes blocks; `None` and nothing taken when there is no memory for all of them.
    fn allocate(
        &self,
        contents: &mut ShardContents,
        count: usize,
        lender: &impl Lender,
    ) -> Option<SmallVec<[BlockId; 2]>> {
        let mut taken = SmallVec::new();
        for _ in 0..count {
            let lent_bytes = contents.blocks.frames() * PAGE_BYTES;
            let is_within = lent_bytes + contents.map.len() * ENTRY_BYTES < self.shard_limit();
            let block = contents.blocks.allocate(|| {
                let frame = if is_within { lender.lend() } else { None };
                self.lent_frames.fetch_add(usize::from(frame.is_some()), Ordering::Relaxed);
                frame
            });
            let Some(block) = block else {
                self.merging.make();
                taken.into_iter().for_each(|block| self.free(contents, block, lender));
                return None;
            };
            contents.used_blocks += 1;
            self.bytes.fetch_add(BLOCK_BYTES, Ordering::Relaxed);
            taken.push(block);
        }
        if count > 0 && self.is_short_of_memory(contents, MERGED_FROM) {
            self.merging.make();
        }
        Some(taken)
    }

    fn free(&self, contents: &mut ShardContents, block: BlockId, lender: &impl Lender) {
        contents.used_blocks -= 1;
        self.bytes.fetch_sub(BLOCK_BYTES, Ordering::Relaxed);
        if let Some(frame) = contents.blocks.free(block) {
            self.lent_frames.fetch_sub(1, Ordering::Relaxed);
            lender.give_back(frame);
        }
    }

    fn free_chain(&self, contents: &mut ShardContents, buffer: &LeafBuffer, lender: &impl Lender) {
        let mut block = buffer.last;
        for _ in 0..blocks_of(usize::from(buffer.bytes)) {
            let before = contents.blocks.before(block);
            self.free(contents, block, lender);
            block = before;
        }
    }
}

/// When a change is pushed.
#[derive(Debug, Clone, Copy)]
pub(super) struct Now {
    /// The open epoch.
    pub(super) epoch: u64,
    /// Every snapshot sees changes up to this commit timestamp.
    pub(super) oldest: u64,
}

impl Shard<'_> {
    /// Adds a change to a page's buffer, which is made when the page has `room` bytes and no buffer yet.
    pub(super) fn push(
        &mut self,
        page: PageId,
        change: BufferedChange<'_>,
        prefix_length: usize,
        room: usize,
        now: Now,
        lender: &impl Lender,
    ) -> Pushed {
        self.outdate_merge(page);
        let suffix_length = change.key.len() - prefix_length;
        let needed = change_bytes_max(change.is_removal, suffix_length, change.value.len(), change.since == 0);
        let epoch = now.epoch as u16;
        let first_seconds = Timestamp(change.since).seconds();
        let new = || LeafBuffer::new(page, room, prefix_length, first_seconds, epoch);
        let mut buffer = self.contents.buffer(page).copied().unwrap_or_else(new);
        let was_due = buffer.is_due();
        let is_third_part =
            buffer.epoch != epoch && (buffer.unsaved_bytes > 0 || buffer.epoch.wrapping_add(1) != epoch);
        let length = HEADER_BYTES_MAX + suffix_length + change.value.len();
        if usize::from(buffer.room) < needed && buffer.settled_bytes < buffer.bytes {
            self.settle(page, &mut buffer, now.oldest, lender);
        }
        let may_be_too_long = usize::from(buffer.bytes) + length > usize::from(u16::MAX);
        if usize::from(buffer.room) < needed
            || usize::from(buffer.prefix_length) != prefix_length
            || is_third_part
            || may_be_too_long
            || number_of(page).is_none()
        {
            return Pushed::NoRoom;
        }
        let mut encoded = std::mem::take(&mut self.contents.scratch);
        encoded.clear();
        change.encode(prefix_length, buffer.first_seconds, &mut encoded);
        let bytes = usize::from(buffer.bytes);
        if bytes > 0 && blocks_of(bytes + encoded.len()) > blocks_of(bytes) {
            self.settle(page, &mut buffer, now.oldest, lender);
        }
        if buffer.epoch != epoch {
            buffer.unsaved_bytes = buffer.bytes;
            buffer.epoch = epoch;
        }
        buffer.room -= needed as u16;
        let is_done = self.append(&mut buffer, &encoded, lender);
        self.contents.scratch = encoded;
        if !is_done {
            return Pushed::NoRoom;
        }
        buffer.count_change(change, suffix_length);
        if buffer.is_due() && !was_due {
            self.add_due(page);
        }
        self.insert(page, buffer);
        Pushed::Done
    }

    /// Writes an encoded change behind the buffer's last; `false` and nothing done when there is no memory.
    fn append(&mut self, buffer: &mut LeafBuffer, encoded: &[u8], lender: &impl Lender) -> bool {
        let before = usize::from(buffer.bytes);
        let missing = blocks_of(before + encoded.len()) - blocks_of(before);
        let Some(mut taken) = self.buffers.allocate(&mut self.contents, missing, lender) else { return false };
        let blocks = &mut self.contents.blocks;
        let mut rest = encoded;
        while !rest.is_empty() {
            let at = usize::from(buffer.bytes) % BLOCK_PAYLOAD_BYTES;
            if at == 0 {
                let block = taken.pop().unwrap_or_default();
                blocks.set_before(block, buffer.last);
                buffer.last = block;
            }
            let (now, later) = rest.split_at(rest.len().min(BLOCK_PAYLOAD_BYTES - at));
            blocks.write(buffer.last, at, now);
            buffer.bytes += now.len() as u16;
            rest = later;
        }
        true
    }

    /// Makes a page's buffer again from what was saved of it; `room` is what its image on disk has. `false` and nothing done when there is
    /// no memory, or when a page with such changes cannot have had so little room.
    pub(super) fn restore(
        &mut self,
        page: PageId,
        changes: EncodedChanges<'_>,
        room: usize,
        epoch: u64,
        lender: &impl Lender,
    ) -> bool {
        let needed_by = |change: BufferedChange<'_>| {
            change_bytes_max(change.is_removal, change.key.len(), change.value.len(), change.since == 0)
        };
        let needed: usize = changes.iter().map(needed_by).sum();
        let mut buffer = LeafBuffer::new(page, room, changes.prefix_length, changes.first_seconds, epoch as u16);
        buffer.room = room.saturating_sub(needed) as u16;
        changes.iter().for_each(|change| buffer.count_change(change, change.key.len()));
        let fits = needed <= room && changes.bytes.len() <= usize::from(u16::MAX) && number_of(page).is_some();
        if !fits || !self.append(&mut buffer, changes.bytes, lender) {
            return false;
        }
        if buffer.until_sparse == 0 {
            self.add_due(page);
        }
        self.insert(page, buffer);
        true
    }

    /// A leaf has become due for merging.
    fn add_due(&mut self, page: PageId) {
        if self.contents.due.len() < DUE_LEAVES_MAX {
            self.contents.due.push(page);
        }
        self.buffers.request_merging();
    }

    fn insert(&mut self, page: PageId, buffer: LeafBuffer) {
        let Some(number) = number_of(page) else { return };
        if self.contents.map.insert(number, buffer).is_none() {
            let leaves = self.buffers.leaves.fetch_add(1, Ordering::Relaxed) + 1;
            self.buffers.bytes.fetch_add(ENTRY_BYTES, Ordering::Relaxed);
            if leaves.is_multiple_of(PAGE_BYTES / ENTRY_BYTES) {
                // Their entries are worth one more frame, which is to be withheld.
                self.buffers.request_merging();
            }
        }
    }

    /// Copies a page's changes out. The buffer stays until it is forgotten, so that a checkpoint finds it.
    pub(super) fn copy(&self, page: PageId) -> Option<CopiedChanges> {
        let buffer = self.contents.buffer(page)?;
        Some(self.copy_first(buffer, usize::from(buffer.bytes)))
    }

    /// Copies those of a page's changes that the checkpoint being written has yet to save. They count as saved from now on.
    pub(super) fn take_unsaved(&mut self, page: PageId, open_epoch: u64) -> Option<CopiedChanges> {
        let buffer = *self.contents.buffer(page)?;
        let unsaved = buffer.unsaved(open_epoch);
        if unsaved == 0 {
            return None;
        }
        let copied = self.copy_first(&buffer, unsaved);
        self.insert(page, LeafBuffer { unsaved_bytes: 0, epoch: open_epoch as u16, ..buffer });
        Some(copied)
    }

    fn copy_first(&self, buffer: &LeafBuffer, length: usize) -> CopiedChanges {
        let mut bytes = Vec::with_capacity(length);
        self.read(buffer, 0, length, &mut bytes);
        CopiedChanges { first_seconds: buffer.first_seconds, prefix_length: buffer.prefix_length, bytes }
    }

    /// Appends `length` bytes of changes from a byte on.
    fn read(&self, buffer: &LeafBuffer, from: usize, length: usize, bytes: &mut Vec<u8>) {
        let (mut at, mut missing) = (from % BLOCK_PAYLOAD_BYTES, length);
        for block in self.contents.blocks_from(buffer, from) {
            let count = missing.min(BLOCK_PAYLOAD_BYTES - at);
            bytes.extend_from_slice(&self.contents.blocks.payload(block)[at..at + count]);
            (at, missing) = (0, missing - count);
        }
    }

    /// Forgets a page's buffer.
    pub(super) fn forget(&mut self, page: PageId, lender: &impl Lender) {
        self.outdate_merge(page);
        if let Some(buffer) = number_of(page).and_then(|number| self.contents.map.remove(&number)) {
            self.buffers.leaves.fetch_sub(1, Ordering::Relaxed);
            self.buffers.bytes.fetch_sub(ENTRY_BYTES, Ordering::Relaxed);
            self.buffers.free_chain(&mut self.contents, &buffer, lender);
        }
    }
}

#[cfg(test)]
mod tests;
