//! Writing batches of blocks into extents.
//!
//! Called by the engine's background threads through `write`, and by `cleaning` for the blocks it moves.

use std::sync::atomic::Ordering;

use super::address::{PAGE_ID_LIMIT, PageAddress, PageId, UNIT_BYTES};
use super::block::BlockEncoder;
use super::error::{PageStoreError, Result};
use super::extents::{Head, ReserveAccess, Run};
use super::ledger::Installed;
use super::superblock::PAGE_FILE_NAME;
use super::write_batch::{BatchEntry, WriteBatch, Written};
use super::{PageStore, statistics::count};

/// Bytes sent to the disk at a time; pieces end at multiples of it, so that no page of the system's cache is in two.
const PIECE_BYTES: u64 = 64 << 10;
/// Blocks that are written together begin at multiples of this, and zeros fill what is left of it behind them: file systems have blocks of this length or less,
/// and whoever writes a part of one reads it first, or, behind the end of the file, has its rest filled with zeros and written a second time later.
pub(super) const RUN_ALIGNMENT_BYTES: u64 = 4096;

impl PageStore {
    /// An empty batch. Keep it and use it again: it owns the compressor's tables and the buffers.
    ///
    /// # Errors
    /// `Argument` when the compression level of the options is refused.
    pub fn new_batch(&self) -> Result<WriteBatch> {
        Ok(WriteBatch::new(BlockEncoder::new(self.options.compression)?))
    }

    /// Writes the batch's pages, records their addresses and empties the batch. Several threads may write at once, but
    /// not the same page. For background threads.
    ///
    /// Pages of the frozen epoch may use the reserve when the disk is full, and so may all during recovery, which cannot be put off.
    ///
    /// # Errors
    /// `DiskFull`: nothing has changed and the batch is as it was; it may be written later or dropped.
    /// `WrongEpoch`: a page's epoch is neither open nor frozen. `Io`, `Poisoned`: nothing is written any more.
    pub fn write(&self, batch: &mut WriteBatch) -> Result<Vec<Written>> {
        self.check_poison()?;
        self.check_batch(batch)?;
        self.write_wanted(batch, |_| true)
    }

    /// As `write`, for pages that may be changed meanwhile: once their blocks are written, `is_wanted` says of each whether its image is still
    /// that of the page and its epoch the open one. It must stay the page's until this returns. The others stay where they are, and their `Written` has
    /// no address.
    ///
    /// # Errors
    /// As `write`.
    pub fn write_wanted(&self, batch: &mut WriteBatch, is_wanted: impl FnMut(PageId) -> bool) -> Result<Vec<Written>> {
        self.check_poison()?;
        let open_epoch = self.epoch();
        let for_checkpoint = batch.entries.iter().any(|entry| entry.epoch < open_epoch);
        let is_needed = for_checkpoint || self.recovering.load(Ordering::Acquire);
        let access = if is_needed { ReserveAccess::All } else { ReserveAccess::Denied };
        let lengths = batch.entries.iter().map(|entry| entry.length_units);
        let runs = self.place(Head::Fresh, lengths, &batch.blocks, access)?;
        let wanted: Vec<bool> = batch.entries.iter().map(|entry| entry.page).map(is_wanted).collect();
        let written = self.install(&batch.entries, &runs, &wanted)?;
        count(&self.counters.blocks_written, batch.len() as u64);
        count(&self.counters.bytes_written, batch.bytes() as u64);
        batch.clear();
        Ok(written)
    }

    fn check_batch(&self, batch: &WriteBatch) -> Result<()> {
        let ledger = self.ledger.lock();
        for BatchEntry { page, epoch, .. } in &batch.entries {
            if !ledger.takes_epoch(*epoch) {
                return Err(PageStoreError::WrongEpoch { page: *page, epoch: *epoch });
            }
            if page.0 >= PAGE_ID_LIMIT {
                return Err(PageStoreError::Argument { reason: format!("page id {page} is out of range") });
            }
        }
        Ok(())
    }

    /// Reserves space for blocks of the given lengths, which lie in `blocks` one after the other, and writes them.
    pub(super) fn place(
        &self,
        head: Head,
        lengths: impl Iterator<Item = u64> + Clone,
        blocks: &[u8],
        access: ReserveAccess,
    ) -> Result<Vec<Run>> {
        match self.try_place(head, lengths.clone(), blocks, ReserveAccess::Denied) {
            Err(PageStoreError::DiskFull { .. }) if access != ReserveAccess::Denied => {
                self.try_place(head, lengths, blocks, access)
            }
            result => result,
        }
    }

    fn try_place(
        &self,
        head: Head,
        lengths: impl Iterator<Item = u64>,
        blocks: &[u8],
        access: ReserveAccess,
    ) -> Result<Vec<Run>> {
        let runs = {
            let _file_end = self.file_end.lock();
            self.ledger.lock().extents.reserve_space(head, lengths, access)
        };
        let runs = runs.ok_or(PageStoreError::DiskFull { operation: "growing the page file" })?;
        let mut rest = blocks;
        for run in &runs {
            let (bytes, behind) = rest.split_at(run.length_units as usize * UNIT_BYTES);
            rest = behind;
            if let Err(cause) = self.write_in_pieces(bytes, run.offset_units * UNIT_BYTES as u64) {
                self.ledger.lock().extents.cancel(&runs);
                let error = self.write_failed("writing pages", PAGE_FILE_NAME, cause);
                if matches!(error, PageStoreError::DiskFull { .. }) {
                    // What was written in part takes space that something else may need.
                    self.punch_free_extents(usize::MAX, 0)?;
                }
                return Err(error);
            }
        }
        Ok(runs)
    }

    /// Whether the operating system is to keep in its memory what is written to the page file, as it does at first.
    pub fn keep_written(&self, is_kept: bool) {
        self.file.keep_written(is_kept);
    }

    /// Writes bytes and has them sent to the disk, piece by piece. Otherwise the system collects gigabytes, and whoever syncs or wants its memory waits for all
    /// of them. With little memory it finds nothing else to free while one large piece is being written, lets the thread rest for a tenth of a second, and all others
    /// that write the file wait for that thread.
    fn write_in_pieces(&self, bytes: &[u8], offset: u64) -> std::io::Result<()> {
        let (mut at, mut rest) = (offset, bytes);
        while !rest.is_empty() {
            let (piece, behind) = rest.split_at(rest.len().min((PIECE_BYTES - at % PIECE_BYTES) as usize));
            let length = (piece.len() as u64).next_multiple_of(RUN_ALIGNMENT_BYTES);
            match length == piece.len() as u64 {
                true => self.file.write_all_at(piece, at)?,
                false => self.file.write_all_at(&padded(piece, length as usize), at)?,
            }
            self.file.begin_write_back(at, length);
            (at, rest) = (at + length, behind);
        }
        Ok(())
    }

    fn install(&self, entries: &[BatchEntry], runs: &[Run], wanted: &[bool]) -> Result<Vec<Written>> {
        let mut written = Vec::with_capacity(entries.len());
        let mut late = None;
        let mut ledger = self.ledger.lock();
        let addresses = addresses(runs, entries.iter().map(|entry| entry.length_units));
        for ((entry, address), is_wanted) in entries.iter().zip(addresses).zip(wanted) {
            let BatchEntry { page, epoch, room_units, .. } = *entry;
            let address = address.with_room_units(room_units);
            let installed = if *is_wanted { ledger.install(page, epoch, address) } else { ledger.discard(address) };
            let address = match installed {
                Installed::Kept => address,
                Installed::PageFreed | Installed::Discarded => PageAddress::NONE,
                Installed::WrongEpoch => {
                    late = Some(PageStoreError::WrongEpoch { page, epoch });
                    PageAddress::NONE
                }
            };
            written.push(Written { page, address, epoch });
        }
        drop(ledger);
        match late {
            // A checkpoint was published while a page of it was being written: it lacks that page.
            Some(error) => {
                let _ = self.poison.set(error.to_string());
                Err(error)
            }
            None => Ok(written),
        }
    }
}

/// The last piece of a run, with zeros behind it.
fn padded(piece: &[u8], length: usize) -> Vec<u8> {
    let mut padded = Vec::with_capacity(length);
    padded.extend_from_slice(piece);
    padded.resize(length, 0);
    padded
}

/// Where each block of the given lengths is, in order, when they were placed in `runs`.
pub(super) fn addresses(runs: &[Run], mut lengths: impl Iterator<Item = u64>) -> impl Iterator<Item = PageAddress> {
    let mut addresses = Vec::new();
    for run in runs {
        let mut offset_units = run.offset_units;
        for length_units in lengths.by_ref().take(run.blocks.len()) {
            // Extents end below the limit of addresses, so this is never `NONE`.
            addresses.push(PageAddress::new(offset_units, length_units).unwrap_or_default());
            offset_units += length_units;
        }
    }
    addresses.into_iter()
}
