//! What the store has done and how large it is.

use std::sync::atomic::{AtomicU64, Ordering};

use super::PageStore;
use super::address::{PAGE_BYTES, UNIT_BYTES};
use super::error::Result;
use super::extents::ExtentState;
use super::recovery::io_error;
use super::superblock::PAGE_FILE_NAME;

/// Counts since the store was opened.
#[derive(Default)]
pub(super) struct Counters {
    pub(super) blocks_read: AtomicU64,
    pub(super) bytes_read: AtomicU64,
    pub(super) blocks_written: AtomicU64,
    pub(super) bytes_written: AtomicU64,
    pub(super) bytes_relocated: AtomicU64,
    pub(super) table_bytes_written: AtomicU64,
    pub(super) checkpoints: AtomicU64,
}

/// Adds to a counter.
pub(super) fn count(counter: &AtomicU64, amount: u64) {
    counter.fetch_add(amount, Ordering::Relaxed);
}

/// The space that the page file takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PageStoreSpace {
    /// Bytes of extents that take space on the disk and are not free.
    pub used_bytes: u64,
    /// Bytes of blocks that are their page's newest.
    pub lasting_bytes: u64,
    /// Bytes of blocks that go with the next checkpoints.
    pub superseded_bytes: u64,
}

impl PageStore {
    /// The space that the page file takes now. Cheap.
    pub fn space(&self) -> PageStoreSpace {
        let ledger = self.ledger.lock();
        let totals = ledger.extents.totals();
        PageStoreSpace {
            used_bytes: ledger.extents.used_extents() * ledger.extents.extent_bytes(),
            lasting_bytes: (totals.live - totals.superseded) * UNIT_BYTES as u64,
            superseded_bytes: totals.superseded * UNIT_BYTES as u64 - ledger.pinned_bytes(),
        }
    }
}

/// A snapshot of the store's figures. Those that count are since it was opened.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PageStoreStatistics {
    /// Length of the page file, holes included.
    pub file_bytes: u64,
    /// Bytes of extents that take space on the disk.
    pub backed_bytes: u64,
    /// Bytes of blocks that some map mentions or that are being written.
    pub live_bytes: u64,
    /// The part of `live_bytes` that goes with the next checkpoints.
    pub superseded_bytes: u64,
    /// Bytes of an extent.
    pub extent_bytes: u64,
    /// Extents in the file.
    pub extents: u64,
    /// Extents without live blocks, the reserve included.
    pub free_extents: u64,
    /// Extents of the reserve.
    pub reserved_extents: u64,
    /// Bytes of memory that the maps and the extents' counts take, about.
    pub memory_bytes: u64,
    /// Page ids in use.
    pub pages: u64,
    /// Number of the last published checkpoint.
    pub checkpoint: u64,
    /// Checkpoints published.
    pub checkpoints: u64,
    /// Pages read.
    pub blocks_read: u64,
    /// Bytes read, those of cleaning included.
    pub bytes_read: u64,
    /// Pages written.
    pub blocks_written: u64,
    /// Bytes written for them.
    pub bytes_written: u64,
    /// Bytes copied by cleaning.
    pub bytes_relocated: u64,
    /// Bytes written to page-table files.
    pub table_bytes_written: u64,
    /// Page images written over the bytes they took; 0 before the first.
    pub compression_ratio: f64,
}

impl PageStore {
    /// Bytes of memory in the maps and the extents' counts, about.
    pub fn memory_bytes(&self) -> u64 {
        self.ledger.lock().memory_bytes()
    }

    /// Bytes of blocks written and of blocks moved by cleaning.
    pub fn bytes_written_and_moved(&self) -> (u64, u64) {
        let counters = &self.counters;
        (counters.bytes_written.load(Ordering::Relaxed), counters.bytes_relocated.load(Ordering::Relaxed))
    }

    /// The figures now.
    ///
    /// # Errors
    /// `Io` when the file's length cannot be had.
    pub fn statistics(&self) -> Result<PageStoreStatistics> {
        let file_bytes = self.file.length().map_err(|cause| io_error("length", PAGE_FILE_NAME, cause))?;
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let counters = &self.counters;
        let (blocks_written, bytes_written) = (read(&counters.blocks_written), read(&counters.bytes_written));
        let mut statistics = PageStoreStatistics {
            file_bytes,
            pages: self.page_ids.lock().in_use(),
            checkpoints: read(&counters.checkpoints),
            blocks_read: read(&counters.blocks_read),
            bytes_read: read(&counters.bytes_read),
            blocks_written,
            bytes_written,
            bytes_relocated: read(&counters.bytes_relocated),
            table_bytes_written: read(&counters.table_bytes_written),
            compression_ratio: (blocks_written * PAGE_BYTES as u64) as f64 / bytes_written.max(1) as f64,
            ..PageStoreStatistics::default()
        };
        self.add_extents(&mut statistics);
        Ok(statistics)
    }

    fn add_extents(&self, statistics: &mut PageStoreStatistics) {
        let ledger = self.ledger.lock();
        let (extents, totals) = (&ledger.extents, ledger.extents.totals());
        statistics.checkpoint = ledger.open_epoch() - 1 - u64::from(ledger.has_frozen());
        statistics.memory_bytes = ledger.memory_bytes();
        statistics.extent_bytes = extents.extent_bytes();
        statistics.live_bytes = totals.live * UNIT_BYTES as u64;
        statistics.superseded_bytes = totals.superseded * UNIT_BYTES as u64;
        statistics.extents = extents.all().len() as u64;
        for extent in extents.all() {
            let (backed, free) = match extent.state {
                ExtentState::Hole => (0, 1),
                ExtentState::Backed | ExtentState::Spoiled | ExtentState::Reserved | ExtentState::Returning => (1, 1),
                ExtentState::Open | ExtentState::Sealed => (1, 0),
            };
            statistics.backed_bytes += backed * extents.extent_bytes();
            statistics.free_extents += free;
            statistics.reserved_extents += u64::from(extent.state == ExtentState::Reserved);
        }
    }
}
