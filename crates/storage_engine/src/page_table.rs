//! The page table: one atomic word a page, from the dense logical page id to a frame or a disk address.
//!
//! Called by `page_cache`. Relies on `page_store` for what a page id and an address are.
//!
//! Life of a word (all moves by compare-and-swap or by the holder of the frame's latch):
//!
//! ```text
//! Empty ──allocate──▶ Resident(frame) ──evict──▶ OnDisk(address) ──load──▶ Loading(address) ──▶ Resident(frame)
//!   ▲                     │  free                     │  free                    │ read error
//!   └─────────────────────┴───────────────────────────┘◀──OnDisk◀────────────────┘
//! ```
//!
//! While a word is `Loading`, nobody may move or free the block at its address: one thread is reading it. An `OnDisk` or
//! `Loading` word also says how much room the page has and whether changes are buffered for it (see `change_buffers`).

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use crate::frame_arena::FrameId;
use crate::page_store::{PageAddress, PageId};

/// Words a chunk: one chunk describes 1 GiB of pages in 512 KiB.
const CHUNK_WORDS: usize = 1 << 16;
/// Chunks in the directory: 16 TiB of pages.
const CHUNKS: usize = 1 << 14;

const STATE_SHIFT: u32 = 62;
const VALUE_MASK: u64 = (1 << STATE_SHIFT) - 1;
const BUFFERED_BIT: u64 = 1 << PageAddress::BITS;

/// A page that is on disk only.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct DiskPage {
    /// Where its image is, and how much room that has.
    pub(crate) address: PageAddress,
    /// Whether changes wait in memory to be merged into it when it is next read.
    pub(crate) is_buffered: bool,
}

impl DiskPage {
    /// A page that has no buffered changes.
    pub(crate) fn at(address: PageAddress) -> Self {
        Self { address, is_buffered: false }
    }

    fn encode(self) -> u64 {
        let buffered = if self.is_buffered { BUFFERED_BIT } else { 0 };
        self.address.0 | buffered
    }

    fn decode(value: u64) -> Self {
        Self { address: PageAddress(value & (BUFFERED_BIT - 1)), is_buffered: value & BUFFERED_BIT != 0 }
    }
}

/// Where a page is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PageState {
    /// Not allocated.
    Empty,
    /// Only on disk.
    OnDisk(DiskPage),
    /// In a frame.
    Resident(FrameId),
    /// Being read from disk by one thread.
    Loading(DiskPage),
}

impl PageState {
    fn encode(self) -> u64 {
        match self {
            Self::Empty => 0,
            Self::OnDisk(page) => 1 << STATE_SHIFT | page.encode(),
            Self::Resident(frame) => 2 << STATE_SHIFT | u64::from(frame.0),
            Self::Loading(page) => 3 << STATE_SHIFT | page.encode(),
        }
    }

    fn decode(word: u64) -> Self {
        let value = word & VALUE_MASK;
        match word >> STATE_SHIFT {
            0 => Self::Empty,
            1 => Self::OnDisk(DiskPage::decode(value)),
            2 => Self::Resident(FrameId(value as u32)),
            _ => Self::Loading(DiskPage::decode(value)),
        }
    }
}

/// The table. Chunks are made when the first page in their range is.
pub(crate) struct PageTable {
    chunks: Box<[OnceLock<Box<[AtomicU64]>>]>,
    chunks_made: AtomicUsize,
}

impl PageTable {
    /// An empty table.
    pub(crate) fn new() -> Self {
        Self { chunks: (0..CHUNKS).map(|_| OnceLock::new()).collect(), chunks_made: AtomicUsize::new(0) }
    }

    /// Bytes of memory in it.
    pub(crate) fn memory_bytes(&self) -> u64 {
        (self.chunks_made.load(Ordering::Relaxed) * CHUNK_WORDS * size_of::<AtomicU64>()) as u64
    }

    fn word(&self, page: PageId) -> Option<&AtomicU64> {
        let index = page.0 as usize;
        self.chunks.get(index / CHUNK_WORDS)?.get().map(|chunk| &chunk[index % CHUNK_WORDS])
    }

    /// Where the page is; `Empty` for ids never allocated.
    #[inline]
    pub(crate) fn get(&self, page: PageId) -> PageState {
        self.word(page).map_or(PageState::Empty, |word| PageState::decode(word.load(Ordering::Acquire)))
    }

    /// Sets the state, whatever it was. Ids beyond the table (16 TiB of pages) are ignored: `page_store` cannot make them.
    pub(crate) fn set(&self, page: PageId, state: PageState) {
        let index = page.0 as usize;
        if let Some(chunk) = self.chunks.get(index / CHUNK_WORDS) {
            let chunk = chunk.get_or_init(|| {
                self.chunks_made.fetch_add(1, Ordering::Relaxed);
                (0..CHUNK_WORDS).map(|_| AtomicU64::new(0)).collect()
            });
            chunk[index % CHUNK_WORDS].store(state.encode(), Ordering::Release);
        }
    }

    /// Moves from one state to another; `false` when the page was not in `from`.
    pub(crate) fn transition(&self, page: PageId, from: PageState, to: PageState) -> bool {
        self.word(page).is_some_and(|word| {
            word.compare_exchange(from.encode(), to.encode(), Ordering::AcqRel, Ordering::Relaxed).is_ok()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_survive_their_encoding() {
        let table = PageTable::new();
        let page = PageId(70_000);
        assert_eq!(table.get(page), PageState::Empty);
        for state in [
            PageState::OnDisk(DiskPage::at(PageAddress((1 << 61) - 1))),
            PageState::OnDisk(DiskPage { is_buffered: true, address: PageAddress((1 << 61) - 1) }),
            PageState::Resident(FrameId(u32::MAX)),
            PageState::Loading(DiskPage::at(PageAddress(64))),
            PageState::Empty,
        ] {
            table.set(page, state);
            assert_eq!(table.get(page), state);
        }
        assert!(!table.transition(page, PageState::Resident(FrameId(0)), PageState::Empty));
        assert!(table.transition(page, PageState::Empty, PageState::Resident(FrameId(0))));
    }
}
