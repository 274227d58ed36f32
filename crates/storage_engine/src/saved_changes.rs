//! Buffered changes as a checkpoint keeps them: a chain of pages beside the trees.
//!
//! Written by `checkpoint`, read when the engine is opened. To a checkpoint a leaf with buffered changes is its image on disk and these; merging
//! all of them for each checkpoint would read and write every such leaf. The running engine never reads the chain, so its pages are given back
//! as soon as the checkpoint is published: in the next epoch, and so for good with the next checkpoint.
//!
//! ```text
//! page: kind u8 | 7 bytes 0 | next page id u64 (u64::MAX: last) | length u32 | 4 bytes 0 | u64::MAX (no tree) | 16 bytes 0 | payload
//! payloads, one after the other: page id varint | length of the prefix varint | seconds u32 | length varint | changes
//!   or, of what is to be freed and has no room in the mark: u64::MAX varint | kind varint | 4 bytes 0 | length varint | numbers u64
//! ```

use platform::WorkBudget;

use crate::TreeId;
use crate::checkpoint_mark::KeptLeftovers;
use crate::error::{EngineError, Result};
use crate::frame_arena::{PAGE_BYTES, PageImage};
use crate::node::KIND_CHANGES;
use crate::overflow::{LAST, PAYLOAD_BYTES, fill_chain_page, parse_chain_page};
use crate::page_cache::{EncodedChanges, PageCache};
use crate::page_store::{ImageNotes, PageId, PageStore, WriteBatch};
use crate::varint::{push_varint, take_varint};

/// Pages of the chain written together.
const BATCH_PAGES: usize = 16;

/// In the place of a page's id: the record is a list, of the kind that stands in the place of the prefix's length.
const NO_PAGE: u64 = u64::MAX;
/// First pages of overflow chains that are to be freed.
const CHAINS: u64 = 0;
/// Trees that were dropped and not yet freed.
const DROPPED_TREES: u64 = 1;

/// No tree: what belongs to none must not be taken for part of one.
const NO_TREE: u64 = u64::MAX;

/// The chain that a checkpoint is writing.
#[derive(Default)]
pub(crate) struct SavedChanges {
    /// What is not written yet.
    waiting: Vec<u8>,
    /// The chain's pages; those behind `written` have ids only.
    pages: Vec<PageId>,
    written: usize,
    batch: Option<WriteBatch>,
}

impl SavedChanges {
    /// Adds the changes of a page, which come once.
    pub(crate) fn push(&mut self, page: PageId, changes: EncodedChanges<'_>) {
        push_varint(&mut self.waiting, page.0);
        push_varint(&mut self.waiting, changes.prefix_length as u64);
        self.waiting.extend_from_slice(&changes.first_seconds.to_le_bytes());
        push_varint(&mut self.waiting, changes.bytes.len() as u64);
        self.waiting.extend_from_slice(changes.bytes);
    }

    /// Adds what the mark has no room for.
    pub(crate) fn push_leftovers(&mut self, leftovers: &KeptLeftovers) {
        self.push_list(CHAINS, leftovers.chains.iter().map(|chain| chain.0));
        self.push_list(DROPPED_TREES, leftovers.dropped_trees.iter().map(|tree| tree.0));
    }

    fn push_list(&mut self, kind: u64, list: impl ExactSizeIterator<Item = u64>) {
        if list.len() == 0 {
            return;
        }
        push_varint(&mut self.waiting, NO_PAGE);
        push_varint(&mut self.waiting, kind);
        self.waiting.extend_from_slice(&[0; 4]);
        push_varint(&mut self.waiting, list.len() as u64 * 8);
        list.for_each(|number| self.waiting.extend_from_slice(&number.to_le_bytes()));
    }

    /// The first page of the chain; `None`: nothing was saved.
    pub(crate) fn head(&self) -> Option<PageId> {
        self.pages.first().copied()
    }

    /// The pages of the chain.
    pub(crate) fn pages(&self) -> &[PageId] {
        &self.pages
    }

    /// Writes whole batches of pages; with `all`, the rest, too. Returns how many pages were written.
    ///
    /// # Errors
    /// When they cannot be written: they still wait then.
    pub(crate) fn write(&mut self, store: &PageStore, epoch: u64, all: bool) -> Result<usize> {
        let before = self.written;
        while self.waiting.len() >= BATCH_PAGES * PAYLOAD_BYTES {
            self.write_batch(store, epoch, BATCH_PAGES, false)?;
        }
        // The last page that was written may name one that follows.
        while all && (!self.waiting.is_empty() || self.written < self.pages.len()) {
            let count = self.waiting.len().div_ceil(PAYLOAD_BYTES).max(1);
            self.write_batch(store, epoch, count.min(BATCH_PAGES), count <= BATCH_PAGES)?;
        }
        Ok(self.written - before)
    }

    fn write_batch(&mut self, store: &PageStore, epoch: u64, count: usize, is_last: bool) -> Result<()> {
        while self.pages.len() < self.written + count + usize::from(!is_last) {
            self.pages.push(store.allocate_page_id()?);
        }
        let mut batch = match self.batch.take() {
            Some(batch) => batch,
            None => store.new_batch()?,
        };
        let mut image: Box<PageImage> = Box::new([0; PAGE_BYTES]);
        for number in 0..count {
            let start = (number * PAYLOAD_BYTES).min(self.waiting.len());
            let payload = &self.waiting[start..(start + PAYLOAD_BYTES).min(self.waiting.len())];
            let next = self.pages.get(self.written + number + 1).map_or(LAST, |next| next.0);
            image.fill(0);
            fill_chain_page(&mut image, KIND_CHANGES, NO_TREE, next, payload);
            batch.push(self.pages[self.written + number], &image[..], epoch, ImageNotes::default());
            WorkBudget::background_step();
        }
        let written = store.write(&mut batch);
        batch.clear();
        self.batch = Some(batch);
        written?;
        self.written += count;
        self.waiting.drain(..(count * PAYLOAD_BYTES).min(self.waiting.len()));
        Ok(())
    }
}

/// Takes a page of the chain apart: the next one, and the payload. `None`: it is no such page.
pub(crate) fn parse_page(image: &PageImage) -> Option<(Option<PageId>, &[u8])> {
    parse_chain_page(image, KIND_CHANGES)
}

/// What came of restoring.
#[derive(Default)]
pub(crate) struct Restored {
    pub(crate) leftovers: KeptLeftovers,
    /// Why changes are missing of leaves that are not known.
    pub(crate) lost: Option<EngineError>,
}

/// Gives the changes of a chain back to the leaves that they belong to, and frees its pages; returns what else was in it. While the engine is being opened.
/// Where a page of the chain is damaged, what is behind it is lost.
///
/// # Errors
/// A failed read or write.
pub(crate) fn restore(cache: &PageCache, store: &PageStore, head: PageId) -> Result<Restored> {
    let (mut leftovers, mut lost) = (KeptLeftovers::default(), None);
    let mut read = |page, image: &mut PageImage| Ok(store.read(page, store.current_address(page), &mut image[..])?);
    let pages = for_each_record(&mut read, head, store.page_id_limit(), &mut |record| {
        match record {
            Record::Changes(page, changes) => match cache.changes.restore_changes(page, changes) {
                // The leaf itself is damaged, which whoever reads it is told.
                Err(EngineError::Store(error)) if error.is_damage() => {}
                Err(error) if error.is_damage() => lost = Some(error),
                restored => restored?,
            },
            Record::Chains(list) => leftovers.chains.extend(numbers(list).map(PageId)),
            Record::DroppedTrees(list) => leftovers.dropped_trees.extend(numbers(list).map(TreeId)),
        }
        Ok(())
    });
    match pages {
        Ok(pages) => {
            let paused = cache.writer.pause();
            pages.into_iter().try_for_each(|page| cache.free_page(page, &paused))?;
        }
        // Its pages stay taken until a repair.
        Err(error) if error.is_damage() => lost = Some(error),
        Err(error) => return Err(error),
    }
    Ok(Restored { leftovers, lost })
}

/// The trees that were dropped, as far as the chain tells of them.
///
/// # Errors
/// As [`restore`].
pub(crate) fn dropped_trees(read: &mut ReadPage<'_>, head: PageId, pages_max: u64) -> Result<Vec<TreeId>> {
    let mut dropped = Vec::new();
    for_each_record(read, head, pages_max, &mut |record| {
        if let Record::DroppedTrees(list) = record {
            dropped.extend(numbers(list).map(TreeId));
        }
        Ok(())
    })?;
    Ok(dropped)
}

/// Reads a page into an image.
pub(crate) type ReadPage<'a> = dyn FnMut(PageId, &mut PageImage) -> Result<()> + 'a;

/// Calls `each` with what a chain holds, in order; returns its pages.
fn for_each_record(
    read: &mut ReadPage<'_>,
    head: PageId,
    pages_max: u64,
    each: &mut dyn FnMut(Record<'_>) -> Result<()>,
) -> Result<Vec<PageId>> {
    let mut image: Box<PageImage> = Box::new([0; PAGE_BYTES]);
    let (mut pages, mut waiting, mut following) = (Vec::new(), Vec::new(), Some(head));
    while let Some(page) = following {
        let damaged = |reason: &str| EngineError::Corrupt { tree: 0, page, reason: reason.to_owned() };
        read(page, &mut image)?;
        let (next, payload) = parse_page(&image).ok_or_else(|| damaged("it has no saved changes"))?;
        waiting.extend_from_slice(payload);
        let mut rest = waiting.as_slice();
        while let Some((record, behind)) = take_record(rest) {
            each(record)?;
            rest = behind;
        }
        let taken = waiting.len() - rest.len();
        waiting.drain(..taken);
        pages.push(page);
        if next.is_none() && !waiting.is_empty() || pages.len() as u64 > pages_max {
            return Err(damaged("the saved changes do not end where they should"));
        }
        following = next;
    }
    Ok(pages)
}

/// What the chain holds.
enum Record<'a> {
    Changes(PageId, EncodedChanges<'a>),
    Chains(&'a [u8]),
    DroppedTrees(&'a [u8]),
}

fn take_record(mut rest: &[u8]) -> Option<(Record<'_>, &[u8])> {
    let page = take_varint(&mut rest)?;
    let kind = take_varint(&mut rest)?;
    let (seconds, mut rest) = rest.split_first_chunk::<4>()?;
    let length = take_varint(&mut rest)? as usize;
    let (bytes, rest) = rest.split_at_checked(length)?;
    let record = match (page, kind) {
        (NO_PAGE, CHAINS) => Record::Chains(bytes),
        (NO_PAGE, _) => Record::DroppedTrees(bytes),
        (page, prefix_length) => {
            let (first_seconds, prefix_length) = (u32::from_le_bytes(*seconds), prefix_length as usize);
            Record::Changes(PageId(page), EncodedChanges { bytes, first_seconds, prefix_length })
        }
    };
    Some((record, rest))
}

fn numbers(list: &[u8]) -> impl Iterator<Item = u64> {
    list.as_chunks::<8>().0.iter().map(|number| u64::from_le_bytes(*number))
}
