//! Whether there is room for new data.
//!
//! Before the disk is full, writes that add data are refused: what is left then is for deletes, and for the checkpoint that makes
//! what they freed usable. So a full disk heals by itself when documents are deleted, and at once when space is given back.
//!
//! Page ids are kept in reserve in the same way: there are 2^30 (16 TiB of pages before they are compressed), and a commit that finds none ends all writing.
//!
//! `watch_space` is called by the checkpointer's thread all the time, and by the simulator; the writers only look at a flag, and those that write much at
//! once at the disk: what cannot be applied to the end because there is no space ends all writing. The reserve has three parts:
//! free bytes on the disk (`StoreOptions::space_reserve_bytes`, and as much as the dirty pages take), what is left of the oplog's segments, which are allocated in advance, and the page store's own extents for checkpoints.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use oplog::Oplog;
use platform::Disk;

use crate::error::{Result, TransactionError};
use crate::store::Store;

/// Pressure of dirty pages from which on not even deletes are taken while the disk is full: the rest of the frames are for readers.
const DELETE_PRESSURE_MAX: f64 = 0.5;

/// Writers of so much look at the disk first: many of them could use up the reserve before the next look.
const LARGE_WRITE_BYTES: usize = 64 << 10;

/// So many looks at the disk there are while as much is logged as is kept in reserve, at least.
const LOOKS_IN_RESERVE: u64 = 8;

/// Page ids that are kept for deletes and for what is under way, at most; a sixteenth where there are few.
const PAGES_RESERVED: u64 = 1 << 18;

/// What was last seen of the disk.
pub(crate) struct SpaceWatch {
    disk: Arc<dyn Disk>,
    reserve_bytes: u64,
    is_short: AtomicBool,
    /// Whether it is page ids that are short.
    lacks_pages: AtomicBool,
    available_bytes: AtomicU64,
    /// What of the oplog was durable at the last look.
    looked_at: AtomicU64,
}

impl SpaceWatch {
    pub(crate) fn new(disk: Arc<dyn Disk>, reserve_bytes: u64) -> SpaceWatch {
        SpaceWatch {
            disk,
            reserve_bytes,
            is_short: AtomicBool::new(false),
            lacks_pages: AtomicBool::new(false),
            available_bytes: AtomicU64::new(u64::MAX),
            looked_at: AtomicU64::new(0),
        }
    }

    pub(crate) fn disk(&self) -> &dyn Disk {
        &*self.disk
    }
}

impl Store {
    /// Looks at the disk; `true`: there is room for new data. Background work.
    pub fn watch_space(&self) -> bool {
        let watch = &self.space;
        watch.looked_at.store(self.oplog.durable_position().0, Ordering::Relaxed);
        // A file system that cannot tell is one that says so when it is full.
        let available = watch.disk.available_bytes().unwrap_or(u64::MAX);
        let wanted = watch.reserve_bytes.saturating_add(self.engine.dirty_bytes());
        let was_short = watch.is_short.load(Ordering::Acquire);
        // Not back and forth at the mark.
        let slack = if was_short { watch.reserve_bytes / 4 } else { 0 };
        let has_room = available >= wanted.saturating_add(slack);
        self.engine.note_disk_space(available, wanted);
        if has_room {
            self.engine.space_returned();
        }
        let (pages_left, pages) = self.engine.pages_left();
        let lacks_pages = pages_left < PAGES_RESERVED.min(pages / 16);
        watch.lacks_pages.store(lacks_pages, Ordering::Relaxed);
        let is_short = !has_room || lacks_pages || self.engine.is_out_of_space() || self.oplog.statistics().disk_full;
        watch.available_bytes.store(available, Ordering::Relaxed);
        watch.is_short.store(is_short, Ordering::Release);
        if is_short != was_short {
            match is_short {
                true => {
                    let (promised_bytes, promised_time) = self.oplog_retention();
                    let oplog = self.oplog.statistics();
                    tracing::error!(
                        available,
                        wanted,
                        oplog_bytes = oplog.end_position.0 - oplog.first_position.0,
                        promised_bytes,
                        ?promised_time,
                        pages_left,
                        "the disk is full, or all pages are in use: only reads and deletes are accepted; the oplog is kept as promised"
                    );
                }
                false => tracing::info!(available, "the disk has space again: writes are accepted"),
            }
        }
        !is_short
    }

    /// Bytes of the file system that are taken, by whomever, and of all of it; `None` where it does not tell.
    pub fn file_system(&self) -> Option<(u64, u64)> {
        let disk = &self.space.disk;
        let (available, total) = (disk.available_bytes().ok()?, disk.total_bytes().ok()?);
        Some((total.saturating_sub(available), total))
    }

    /// Whether writes that add data are refused for lack of space.
    pub fn is_short_of_space(&self) -> bool {
        self.space.is_short.load(Ordering::Acquire)
    }

    /// For a write that adds data.
    ///
    /// # Errors
    /// `OutOfSpace`.
    #[inline]
    pub(crate) fn check_space(&self) -> Result<()> {
        let logged = self.oplog.durable_position().0.saturating_sub(self.space.looked_at.load(Ordering::Relaxed));
        // Whoever looks only now and then finds the reserve used up by those who write fast.
        if logged > self.space.reserve_bytes / LOOKS_IN_RESERVE {
            self.watch_space();
        }
        if !self.is_short_of_space() {
            return Ok(());
        }
        if self.space.lacks_pages.load(Ordering::Relaxed) {
            return Err(TransactionError::OutOfPages { pages: self.engine.pages_left().1 });
        }
        Err(TransactionError::OutOfSpace { available_bytes: self.space.available_bytes.load(Ordering::Relaxed) })
    }

    /// For a write that adds so much.
    ///
    /// # Errors
    /// `OutOfSpace`.
    #[inline]
    pub(crate) fn check_space_for(&self, bytes: usize) -> Result<()> {
        self.check_space()?;
        self.look_for_space(bytes, self.space.reserve_bytes)
    }

    /// For the commit of a transaction whose entry takes so much, which may use the reserve as deletes do.
    ///
    /// # Errors
    /// `OutOfSpace`.
    pub(crate) fn check_space_for_commit(&self, bytes: usize) -> Result<()> {
        self.look_for_space(bytes, 0)
    }

    /// Looks, where it is much, whether the disk has room for so much beside `reserve` and the pages that are still to be written.
    #[inline]
    fn look_for_space(&self, bytes: usize, reserve: u64) -> Result<()> {
        if bytes < LARGE_WRITE_BYTES {
            return Ok(());
        }
        self.watch_space();
        let available_bytes = self.space.available_bytes.load(Ordering::Relaxed);
        let wanted = reserve.saturating_add(self.engine.dirty_bytes()).saturating_add(bytes as u64);
        if available_bytes >= wanted { Ok(()) } else { Err(TransactionError::OutOfSpace { available_bytes }) }
    }

    /// For a delete, which may use the reserve.
    ///
    /// # Errors
    /// `OutOfSpace`.
    pub(crate) fn check_space_for_delete(&self) -> Result<()> {
        let may_go_on = !self.is_short_of_space() || self.engine.pressure().dirty < DELETE_PRESSURE_MAX;
        if may_go_on { Ok(()) } else { self.check_space() }
    }
}
