//! Values too large for a leaf: chains of overflow pages.
//!
//! Called by `btree` (write), by readers (read) and by the reclaimer (free). The leaf holds a reference of 12 bytes: the
//! total length and the first page. A chain is written once and never changed; a new value is a new chain, and the old
//! one is freed when the version history no longer needs it.
//!
//! ```text
//! overflow page: kind u8 | 7 bytes 0 | next page id u64 (u64::MAX: last) | length u32 | CRC-32C of the whole value u32 | tree u64 | 16 bytes 0 | payload
//! ```
//!
//! The checksum is for `salvage`: pages that were searched for can be of two lives of the engine, and fit each other.

use platform::command_memory::{self, Patience};

use crate::TreeId;
use crate::error::{EngineError, Result, Retry};
use crate::frame_arena::{PAGE_BYTES, PageImage};
use crate::node::{HEADER_BYTES, KIND_OVERFLOW, PageBytes, PageMut, field};
use crate::page_cache::{Backoff, PageCache};
use crate::page_store::PageId;

/// Payload bytes of one overflow page.
pub(crate) const PAYLOAD_BYTES: usize = PAGE_BYTES - HEADER_BYTES;
/// Bytes of a reference in a leaf.
pub(crate) const REFERENCE_BYTES: usize = 12;

pub(crate) const NEXT_AT: usize = 8;
pub(crate) const LENGTH_AT: usize = 16;
const VALUE_CHECKSUM_AT: usize = 20;
pub(crate) const LAST: u64 = u64::MAX;

/// A reference to a chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct OverflowReference {
    pub(crate) length: u32,
    pub(crate) head: PageId,
}

impl OverflowReference {
    pub(crate) fn encode(self) -> [u8; REFERENCE_BYTES] {
        let mut bytes = [0; REFERENCE_BYTES];
        bytes[..4].copy_from_slice(&self.length.to_le_bytes());
        bytes[4..].copy_from_slice(&self.head.0.to_le_bytes());
        bytes
    }

    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let length = u32::from_le_bytes(*bytes.first_chunk()?);
        let head = PageId(u64::from_le_bytes(bytes.get(4..REFERENCE_BYTES)?.try_into().ok()?));
        Some(Self { length, head })
    }
}

/// Writes a value as a chain, last page first, and returns its reference. Inside the checkpoint barrier.
pub(crate) fn write(cache: &PageCache, tree: TreeId, value: &[u8]) -> Result<OverflowReference> {
    let (mut next, checksum) = (LAST, crc32c::crc32c(value));
    let mut image: Box<PageImage> = Box::new([0; PAGE_BYTES]);
    for payload in value.rchunks(PAYLOAD_BYTES) {
        let (page, mut frame) = cache.create(cache.reserve()?)?;
        fill_chain_page(&mut image, KIND_OVERFLOW, tree.0, next, payload);
        image[VALUE_CHECKSUM_AT..VALUE_CHECKSUM_AT + 4].copy_from_slice(&checksum.to_le_bytes());
        frame.put_image(&image);
        next = page.0;
    }
    Ok(OverflowReference { length: value.len() as u32, head: PageId(next) })
}

/// Reads a whole chain into `value`.
pub(crate) fn read(cache: &PageCache, reference: OverflowReference, value: &mut Vec<u8>) -> Result<()> {
    value.clear();
    let more = (reference.length as usize).saturating_sub(value.capacity());
    command_memory::before_allocating(more, Patience::Waits).map_err(EngineError::NoMemory)?;
    value.reserve(reference.length as usize);
    let mut image: Box<PageImage> = Box::new([0; PAGE_BYTES]);
    let mut page = reference.head;
    while page.0 != LAST {
        let (next, payload) = read_page(cache, page, &mut image)?;
        if value.len() + payload.len() > reference.length as usize {
            return Err(damaged(page, "the chain is longer than its reference says"));
        }
        value.extend_from_slice(payload);
        page = next;
    }
    if value.len() != reference.length as usize {
        return Err(damaged(reference.head, "the chain is shorter than its reference says"));
    }
    Ok(())
}

/// The pages of a chain, first to last.
pub(crate) fn pages(cache: &PageCache, head: PageId) -> Result<Vec<PageId>> {
    let mut image: Box<PageImage> = Box::new([0; PAGE_BYTES]);
    let mut pages = Vec::new();
    let mut page = head;
    while page.0 != LAST {
        pages.push(page);
        page = read_page(cache, page, &mut image)?.0;
    }
    Ok(pages)
}

/// The pages of a chain of a dropped tree, as far as they were not freed (and given to others) before.
pub(crate) fn remaining_pages(cache: &PageCache, tree: TreeId, head: PageId) -> Result<Vec<PageId>> {
    let mut image: Box<PageImage> = Box::new([0; PAGE_BYTES]);
    let mut pages = Vec::new();
    let mut page = head;
    while page.0 != LAST {
        let next = match read_page(cache, page, &mut image) {
            Ok((next, _)) => next,
            Err(EngineError::Corrupt { .. }) => break,
            Err(error) => return Err(error),
        };
        if (&*image).u64_at(field::TREE) != tree.0 {
            break;
        }
        pages.push(page);
        page = next;
    }
    Ok(pages)
}

/// The pages of a chain that nobody refers to any more, up to one that is damaged.
pub(crate) fn pages_that_can_be_read(cache: &PageCache, head: PageId) -> Result<Vec<PageId>> {
    let mut image: Box<PageImage> = Box::new([0; PAGE_BYTES]);
    let mut pages = Vec::new();
    let mut page = head;
    while page.0 != LAST {
        pages.push(page);
        page = match read_page(cache, page, &mut image) {
            Ok((next, _)) => next,
            Err(error) if error.is_damage() => break,
            Err(error) => return Err(error),
        };
    }
    Ok(pages)
}

fn read_page<'a>(cache: &PageCache, page: PageId, image: &'a mut PageImage) -> Result<(PageId, &'a [u8])> {
    let mut backoff = Backoff::new();
    loop {
        match cache.fix(page).and_then(|fixed| cache.copy(&fixed, image)) {
            Ok(()) => break,
            Err(Retry::Failed(error)) => return Err(error),
            Err(Retry::Restart) if !cache.frames.is_allocated(page) => {
                return Err(damaged(page, "an overflow page is not allocated"));
            }
            Err(Retry::Restart) => backoff.wait(),
        }
    }
    let bytes = &*image;
    if bytes[field::KIND] != KIND_OVERFLOW {
        return Err(damaged(page, "not an overflow page"));
    }
    let length = bytes.u32_at(LENGTH_AT) as usize;
    if length > PAYLOAD_BYTES {
        return Err(damaged(page, "an overflow page claims more bytes than it has"));
    }
    Ok((PageId(bytes.u64_at(NEXT_AT)), &image[HEADER_BYTES..HEADER_BYTES + length]))
}

/// The page after an overflow page, if there is one, and the length of its payload; `None` when it is no such page.
pub(crate) fn parse_page(image: &PageImage) -> Option<(Option<PageId>, usize)> {
    parse_chain_page(image, KIND_OVERFLOW).map(|(next, payload)| (next, payload.len()))
}

/// Writes a page of a chain; `next` is `LAST` in its last one. What is behind the payload is zeros: it is compressed and written with the rest.
pub(crate) fn fill_chain_page(image: &mut PageImage, kind: u8, tree: u64, next: u64, payload: &[u8]) {
    image[..HEADER_BYTES].fill(0);
    image[field::KIND] = kind;
    image[NEXT_AT..NEXT_AT + 8].copy_from_slice(&next.to_le_bytes());
    image[LENGTH_AT..LENGTH_AT + 4].copy_from_slice(&(payload.len() as u32).to_le_bytes());
    image[field::TREE..field::TREE + 8].copy_from_slice(&tree.to_le_bytes());
    let (kept, behind) = image[HEADER_BYTES..].split_at_mut(payload.len());
    kept.copy_from_slice(payload);
    behind.fill(0);
}

/// CRC-32C of the value that an overflow page is a part of; 0: not known, of a page of before there was one.
pub(crate) fn value_checksum(image: &PageImage) -> u32 {
    image.u32_at(VALUE_CHECKSUM_AT)
}

/// The page after a page of a chain of this kind, if there is one, and its payload; `None` when it is no such page.
pub(crate) fn parse_chain_page(image: &PageImage, kind: u8) -> Option<(Option<PageId>, &[u8])> {
    let length = image.u32_at(LENGTH_AT) as usize;
    if image[field::KIND] != kind || length > PAYLOAD_BYTES {
        return None;
    }
    let next = Some(image.u64_at(NEXT_AT)).filter(|next| *next != LAST).map(PageId);
    Some((next, &image[HEADER_BYTES..HEADER_BYTES + length]))
}

fn damaged(page: PageId, reason: &str) -> EngineError {
    EngineError::Corrupt { tree: 0, page, reason: reason.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chain_pages_hold_nothing_of_what_their_memory_held_before() {
        let mut image: Box<PageImage> = Box::new([0xAB; PAGE_BYTES]);
        fill_chain_page(&mut image, KIND_OVERFLOW, 7, LAST, b"payload");
        assert_eq!(parse_chain_page(&image, KIND_OVERFLOW), Some((None, &b"payload"[..])));
        assert!(image[HEADER_BYTES + 7..].iter().all(|byte| *byte == 0));
        assert_eq!(value_checksum(&image), 0);
    }
}
