//! Page id to address as of one checkpoint: a dense array in chunks, 8 bytes a page.
//!
//! Used by `ledger` for the last published checkpoint, by recovery and verification to load one. A copy shares the chunks
//! until one of the two changes them: a pinned checkpoint costs what has changed since.

use std::sync::Arc;

use super::address::{PAGE_ID_LIMIT, PageAddress, PageId};

/// Pages described by one chunk (32 KiB).
pub(super) const CHUNK_PAGES: usize = 4096;

/// The array. Chunks are made when the first page in their range is set.
#[derive(Default, Clone, PartialEq, Eq, Debug)]
pub(super) struct DurableMap {
    chunks: Vec<Option<Arc<[PageAddress]>>>,
}

impl DurableMap {
    /// The page's address; `NONE` when it has none.
    pub(super) fn get(&self, page: PageId) -> PageAddress {
        let (chunk, slot) = split(page);
        match self.chunks.get(chunk) {
            Some(Some(addresses)) => addresses.get(slot).copied().unwrap_or(PageAddress::NONE),
            _ => PageAddress::NONE,
        }
    }

    /// Sets the page's address and returns the one before. Ids at or above `PAGE_ID_LIMIT` are the caller's to refuse.
    pub(super) fn set(&mut self, page: PageId, address: PageAddress) -> PageAddress {
        debug_assert!(page.0 < PAGE_ID_LIMIT);
        let (chunk, slot) = split(page);
        if chunk >= self.chunks.len() {
            if address.is_none() {
                return PageAddress::NONE;
            }
            self.chunks.resize(chunk + 1, None);
        }
        let addresses = self.chunks[chunk].get_or_insert_with(|| vec![PageAddress::NONE; CHUNK_PAGES].into());
        std::mem::replace(&mut Arc::make_mut(addresses)[slot], address)
    }

    /// How many chunks there may be something in.
    pub(super) fn chunk_count(&self) -> usize {
        self.chunks.len()
    }

    /// Bytes of memory in it.
    pub(super) fn memory_bytes(&self) -> u64 {
        (self.chunks.iter().flatten().count() * CHUNK_PAGES * size_of::<PageAddress>()) as u64
    }

    /// Appends the pages of one chunk that have an address, in order of id.
    pub(super) fn append_chunk(&self, chunk: usize, pages: &mut Vec<(PageId, PageAddress)>) {
        pages.extend(self.pages_of_chunk(chunk));
    }

    /// The pages of one chunk that have an address, in order of id.
    pub(super) fn pages_of_chunk(&self, chunk: usize) -> impl Iterator<Item = (PageId, PageAddress)> + '_ {
        let addresses = self.chunks.get(chunk).and_then(Option::as_deref).unwrap_or(&[]);
        let first = (chunk * CHUNK_PAGES) as u64;
        let present = addresses.iter().enumerate().filter(|(_, address)| !address.is_none());
        present.map(move |(slot, address)| (PageId(first + slot as u64), *address))
    }

    /// The pages that have an address, in order of id.
    pub(super) fn pages(&self) -> impl Iterator<Item = (PageId, PageAddress)> + '_ {
        (0..self.chunks.len()).flat_map(|chunk| self.pages_of_chunk(chunk))
    }
}

fn split(page: PageId) -> (usize, usize) {
    (page.0 as usize / CHUNK_PAGES, page.0 as usize % CHUNK_PAGES)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_come_back_in_order_and_forgotten_ones_do_not() {
        let mut map = DurableMap::default();
        let address = |n| PageAddress::new(n, 3).unwrap();
        for page in [9_000, 3, 4_096] {
            assert!(map.set(PageId(page), address(page + 200)).is_none());
        }
        assert_eq!(map.set(PageId(3), PageAddress::NONE), address(203));
        assert!(map.set(PageId(1 << 20), PageAddress::NONE).is_none());
        let expected = vec![(PageId(4_096), address(4_296)), (PageId(9_000), address(9_200))];
        assert_eq!(map.pages().collect::<Vec<_>>(), expected);
        let mut chunked = Vec::new();
        (0..map.chunk_count()).for_each(|chunk| map.append_chunk(chunk, &mut chunked));
        assert_eq!(chunked, expected);
    }
}
