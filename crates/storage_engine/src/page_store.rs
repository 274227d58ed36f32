//! The page store: compressed page images in one log-structured file, and the checkpoints that say which of them count.
//!
//! Called by the engine: its background threads write pages, publish checkpoints and clean; client threads only read
//! pages, allocate ids and free pages. Relies on `platform` for the disk and the clock, and knows nothing of what is in
//! a page. The files' formats are in `docs/file-format.md`.
//!
//! # Epochs and maps
//!
//! Page versions belong to an *epoch*: the number of the checkpoint that will contain them. Three maps from page id to
//! address say which blocks count, and a page's newest mention is its current address:
//!
//! ```text
//!                    write(e+1), free_page, relocation          write(e)
//!                                  │                               │
//!                                  ▼        freeze_epoch           ▼         publish
//!   current = newest of         open (e+1) ─────────────▶ frozen (e) ─────────────────▶ durable (e-1)
//! ```
//!
//! A block is live if a map mentions it. Writing a version replaces an earlier one of the same epoch, whose block is free
//! at once. Publishing makes the frozen map durable (sync of the page file, then its record in the page-table file, then
//! sync of that) and frees the blocks it replaces. So at any instant every block that the last published checkpoint
//! mentions is untouched on disk, and a crash loses exactly the open and the frozen map, which the oplog brings again.
//!
//! # Rules, and why they hold
//!
//! 1. *A block is written once, into space that nothing live occupies, and mentioned only when its write is complete.*
//!    Space is reserved (and counted live) under the ledger lock before it is written, and an extent is reused only
//!    when its live count is 0. Hence a torn write can only damage what no map mentions.
//! 2. *Publish syncs the page file after its map stopped changing.* Everything the map mentions was complete before.
//! 3. *The engine writes all versions of epoch e before it publishes e, and at most one version of a page at a time.*
//!    A version of an older epoch is refused with `WrongEpoch` and poisons the store: a checkpoint would lack it.
//! 4. *A page id freed in epoch e is given out again only after checkpoint e is published.* So as long as a map says
//!    "freed", the id is not in use, and a version written late for that epoch is known to be of the deleted page: it is
//!    not kept. Each published checkpoint maps the id to the page that had it then; recovery takes all ids without
//!    address as free, as no page of a later epoch survived.
//! 5. *A relocation is a write of the page's current image in the open epoch.* Cleaning copies a block from `old` to
//!    `new`, and then, at one instant under the ledger lock, requires that `old` is the page's newest mention and that
//!    the engine, by compare-and-swap, has taken `new` for `old` (it refuses if the page is dirty in memory, being
//!    loaded, or elsewhere). Only then `open[page] = new`. If `old` was mentioned by `open` it is free at once; if by
//!    `frozen` or `durable`, these stay as they are and `old` is freed when this epoch is published. `frozen` is never
//!    changed in place, so a publish under way is not disturbed. As the image is the current one and no version of an
//!    older epoch can be waiting to be written (the page would be dirty, and the engine would refuse), each map still
//!    gives each page the image it should have.
//! 6. *Cleaning ends.* Each extent is gone through at most once an epoch, and what was moved in an epoch is not moved again in it,
//!    only while the extents with lasting blocks take more than their share, and each such extent gains an eighth or more. Copies go to dense
//!    extents of their own.
//! 7. *A failed write or sync poisons the store*: nothing is written any more, reads go on. Only "no space left" on a
//!    write does not: nothing changed then, and the call may be repeated. Some extents are allocated in advance for
//!    checkpoints and cleaning, which give space back.
//! 8. *A pinned checkpoint's blocks stay until they are copied.* What a later publish replaces of it is not freed, but kept
//!    as superseded until the copying, which goes through the file in order, has passed it. A crash forgets the pin.
//!
//! # Locks, in the order they are taken
//!
//! publish lock (`table`) or `cleaner` → `file_end` (growing or cutting the file) → `published` → `ledger` (maps and extents; never
//! held during input or output) → `page_ids`. Under `ledger`, cleaning calls the engine's compare-and-swap, which must
//! neither wait nor call the store. `read` takes no lock.

mod address;
mod block;
mod checkpoint;
mod cleaning;
mod compression;
mod durable_map;
mod error;
mod extents;
mod inspection;
mod ledger;
mod page_ids;
mod page_table_file;
mod page_table_record;
mod page_table_scan;
mod pin;
mod reading;
mod reclaim;
mod recovery;
mod restored;
mod salvage;
mod slot_differences;
mod statistics;
mod superblock;
#[cfg(test)]
mod tests;
mod verification;
mod write_batch;
mod writing;

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
use platform::{Disk, File, is_disk_full};

pub use self::address::{PAGE_BYTES, PAGE_ID_LIMIT, PageAddress, PageId, UNIT_BYTES};
pub(crate) use self::cleaning::CHEAP_RATIO_MAX;
pub use self::cleaning::{CleanOutcome, CleaningEffort};
pub use self::compression::{Codec, Compression};
pub use self::error::{PageStoreError, Result};
pub use self::extents::ExtentState;
pub use self::inspection::{BlockDescription, ExtentDescription, Inspection, PageTableFileDescription};
pub use self::page_table_file::PAGE_TABLE_DIRECTORY;
pub use self::page_table_record::CheckpointKind;
pub use self::page_table_scan::CheckpointRecord;
pub use self::pin::{CopiedBlock, PinnedCheckpoint, check_copied_block};
pub(crate) use self::reclaim::PUNCHED_BYTES;
pub use self::recovery::RecoveredCheckpoint;
pub use self::restored::{RestoredIdentity, RestoredStore};
pub use self::salvage::SalvagedStore;
pub use self::slot_differences::SlotArray;
pub use self::statistics::{PageStoreSpace, PageStoreStatistics};
pub use self::superblock::{PAGE_FILE_NAME, Superblock};
pub use self::verification::Verification;
pub use self::write_batch::{ImageNotes, WriteBatch, Written};

use self::cleaning::Cleaner;
use self::ledger::Ledger;
use self::page_ids::PageIds;
use self::page_table_file::PageTableFile;
use self::statistics::Counters;

/// How a store behaves.
#[derive(Clone, Debug)]
pub struct PageStoreOptions {
    /// How page images are compressed.
    pub compression: Compression,
    /// Bytes of an extent, a multiple of 4 KiB; only for a store that is created. Default 2 MiB.
    pub extent_bytes: u32,
    /// Random identity; only for a store that is created.
    pub uuid: [u8; 16],
    /// Extents allocated in advance for checkpoints and cleaning when the disk is full. Default 4.
    pub reserve_extents: usize,
    /// Free extents that keep their space on the disk, to be reused without allocation, until `keep_free` says how many. Default 8.
    pub kept_free_extents: usize,
    /// Cleaning begins when extents take this many times the bytes of the blocks in them (a quarter as much more than these while little is changed) ...
    /// Default 1.25.
    pub space_ratio_max: f64,
    /// ... and this many bytes more. Default 32 MiB.
    pub space_slack_bytes: u64,
    /// About how many bytes the extents hold that `clean_step` chooses together. Default 4 MiB.
    pub clean_step_bytes: u64,
    /// A page-table file is not replaced before its changes take this many bytes. Default 4 MiB.
    pub page_table_bytes_min: u64,
    /// Page ids that are given out. Default `PAGE_ID_LIMIT`, the most there can be.
    pub page_ids_max: u64,
}

impl Default for PageStoreOptions {
    fn default() -> PageStoreOptions {
        PageStoreOptions {
            compression: Compression::default(),
            extent_bytes: 2 << 20,
            uuid: [0; 16],
            reserve_extents: 4,
            kept_free_extents: 8,
            space_ratio_max: 1.25,
            space_slack_bytes: 32 << 20,
            clean_step_bytes: 4 << 20,
            page_table_bytes_min: 4 << 20,
            page_ids_max: PAGE_ID_LIMIT,
        }
    }
}

/// The store. See the module for its rules.
pub struct PageStore {
    disk: Arc<dyn Disk>,
    options: PageStoreOptions,
    file: Arc<dyn File>,
    superblock: Mutex<Superblock>,
    recovered: Option<RecoveredCheckpoint>,
    /// The last published checkpoint.
    published: Mutex<Option<RecoveredCheckpoint>>,
    clean_shutdown: bool,
    /// The publish lock: held by `publish`, `verify` and `close` from beginning to end.
    table: Mutex<PageTableFile>,
    cleaner: Mutex<Cleaner>,
    file_end: Mutex<()>,
    ledger: Mutex<Ledger>,
    page_ids: Mutex<PageIds>,
    /// The open epoch, for readers without the ledger lock.
    epoch: AtomicU64,
    poison: OnceLock<String>,
    punching_unsupported: AtomicBool,
    /// Free extents that keep their space on the disk now.
    kept_free_extents: AtomicUsize,
    /// Between the opening and `end_recovery`.
    recovering: AtomicBool,
    counters: Counters,
}

impl PageStore {
    /// From here to `end_recovery` every write may use the reserve, and no space is given back to the file system: what is replayed
    /// takes the space again that it had before the crash, and while the disk is full others must not get it.
    pub fn begin_recovery(&self) {
        self.recovering.store(true, Ordering::Release);
    }

    /// Everything is replayed. Gives back what is free.
    ///
    /// # Errors
    /// `Io`, `Poisoned`.
    pub fn end_recovery(&self) -> Result<()> {
        self.recovering.store(false, Ordering::Release);
        self.check_poison()?;
        self.reclaim()
    }

    /// The checkpoint that was found when the store was opened; `None` in a new store.
    pub fn recovered(&self) -> Option<&RecoveredCheckpoint> {
        self.recovered.as_ref()
    }

    /// Whether the store had been closed in order before it was opened; `true` for a new one.
    pub fn was_clean_shutdown(&self) -> bool {
        self.clean_shutdown
    }

    /// What the superblock says.
    pub fn superblock(&self) -> Superblock {
        self.superblock.lock().clone()
    }

    /// The pages of the last published checkpoint, ascending. After opening, that is the state to start from.
    pub fn durable_pages(&self) -> impl Iterator<Item = (PageId, PageAddress)> + '_ {
        let chunks = self.ledger.lock().durable().chunk_count();
        (0..chunks).flat_map(|chunk| {
            let mut pages = Vec::new();
            self.ledger.lock().durable().append_chunk(chunk, &mut pages);
            pages
        })
    }

    /// All page ids in use are below this.
    pub fn page_id_limit(&self) -> u64 {
        self.page_ids.lock().limit()
    }

    /// Takes an unused page id, the lowest there is.
    ///
    /// # Errors
    /// `TooManyPages` when all are in use.
    pub fn allocate_page_id(&self) -> Result<PageId> {
        let mut ids = self.page_ids.lock();
        ids.allocate().ok_or_else(|| PageStoreError::TooManyPages { limit: ids.left().1 })
    }

    /// How many page ids are left, and how many there are.
    pub fn page_ids_left(&self) -> (u64, u64) {
        self.page_ids.lock().left()
    }

    /// Deletes a page in the open epoch. Its id is given out again after that epoch has been published. A version of it
    /// for the frozen epoch may still be written. Does no input or output.
    pub fn free_page(&self, page: PageId) {
        let freed = self.ledger.lock().free(page);
        debug_assert!(freed, "page {page} was freed twice");
    }

    /// The open epoch: the number of the checkpoint that will contain what changes now.
    pub fn epoch(&self) -> u64 {
        self.epoch.load(Ordering::Acquire)
    }

    /// Where the page is as far as the store knows: its newest written version. `NONE` when it has none or was freed.
    pub fn current_address(&self, page: PageId) -> PageAddress {
        self.ledger.lock().newest(page)
    }

    /// Why the store takes no writes any more, if it does not.
    pub fn poisoned(&self) -> Option<&str> {
        self.poison.get().map(String::as_str)
    }

    fn check_poison(&self) -> Result<()> {
        match self.poison.get() {
            Some(cause) => Err(PageStoreError::Poisoned { cause: cause.clone() }),
            None => Ok(()),
        }
    }

    /// The error for a failed write: no space left, or the end of all writing.
    fn write_failed(&self, operation: &'static str, file: &str, cause: io::Error) -> PageStoreError {
        match is_disk_full(&cause) {
            true => PageStoreError::DiskFull { operation },
            false => self.poison_with(operation, file, cause),
        }
    }

    /// The error for a failure after which the state of the disk is unknown; the store takes no writes from now on.
    fn poison_with(&self, operation: &'static str, file: &str, cause: io::Error) -> PageStoreError {
        let error = PageStoreError::Io { operation, file: file.to_owned(), cause };
        // The first failure is the one to be told about.
        let _ = self.poison.set(error.to_string());
        error
    }
}
