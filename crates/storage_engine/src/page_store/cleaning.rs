//! Cleaning: moving the last live blocks out of sparse extents, so that these become free.
//!
//! Driven by a background thread through `clean_step`. Blocks are copied as they are, without decompression. Why this
//! is safe beside everything else, and why it ends, is stated in `page_store` (rules 5 and 6).
//!
//! Which blocks of an extent are live is found without an index: wherever something that looks like a block header
//! lies at a multiple of 64 bytes, the ledger is asked whether that page's current address is exactly there. Stale or
//! forged bytes that look like a block are not at a mentioned address, so they are passed over.

use super::PageStore;
use super::address::{PageAddress, PageId, UNIT_BYTES};
use super::block::{BlockHeader, check_block};
use super::error::Result;
use super::extents::{Extents, Head, ReserveAccess};
use super::recovery::io_error;
use super::statistics::count;
use super::superblock::PAGE_FILE_NAME;
use super::writing::addresses;

/// Extents with a larger share of lasting blocks are not cleaned, by effort.
const THOROUGH_SHARE_MAX: f64 = 7.0 / 8.0;
const CHEAP_SHARE_MAX: f64 = 0.25;
/// With little effort, too, when the file takes more than `CHEAP_RATIO_MAX` times what its blocks need.
const CROWDED_SHARE_MAX: f64 = 0.6;
const CHEAP_RATIO_MAX: f64 = 2.5;
/// Relocations recorded under one hold of the ledger.
const RELOCATIONS_AT_ONCE: usize = 64;

/// How much may be moved to win space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CleaningEffort {
    /// Only what costs little: extents that are nearly empty. While many pages are being written, fuller ones empty by
    /// themselves, and moving their blocks would only be writing them once more.
    Cheap,
    /// Whatever wins space: when little is written.
    Thorough,
}

/// What a `clean_step` did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CleanOutcome {
    /// Extents gone through. 0 when there was nothing to gain: call again after the next checkpoint.
    pub extents: usize,
    /// Blocks moved.
    pub blocks: usize,
    /// Bytes of the blocks moved.
    pub bytes: u64,
    /// Blocks that were not moved because the engine refused or had a newer version.
    pub refused: usize,
    /// Current blocks found damaged; they stay where they are.
    pub corrupt: Vec<(PageId, PageAddress)>,
}

/// Buffers that are kept from step to step.
#[derive(Default)]
pub(super) struct CleanerBuffers {
    extent: Vec<u8>,
    blocks: Vec<u8>,
}

/// A current block in an extent being cleaned.
struct FoundBlock {
    page: PageId,
    address: PageAddress,
}

impl PageStore {
    /// Moves the blocks of the sparsest extents elsewhere if the file takes more space than the options allow. Bounded:
    /// about `clean_step_bytes` are copied. The extents become free when the open epoch has been published.
    ///
    /// `relocated(page, old, new)` is asked for each block copied. If the page is not in memory and its address is
    /// `old`, or it is in memory and clean with that address, the engine must take `new` instead, in one atomic step,
    /// and return `true`. Otherwise (dirty, being loaded, elsewhere) it returns `false` and nothing has changed. It is
    /// called under the ledger lock: it must not wait and not call the store.
    ///
    /// # Errors
    /// `DiskFull`: publish and try again. `Io`, `Poisoned`.
    pub fn clean_step(
        &self,
        effort: CleaningEffort,
        relocated: &dyn Fn(PageId, PageAddress, PageAddress) -> bool,
    ) -> Result<CleanOutcome> {
        let mut buffers = self.cleaner.lock();
        self.check_poison()?;
        let mut outcome = CleanOutcome::default();
        for index in self.choose_extents(effort) {
            self.clean_extent(index, &mut buffers, relocated, &mut outcome)?;
            outcome.extents += 1;
        }
        if outcome.extents > 0 {
            self.reclaim()?;
        }
        Ok(outcome)
    }

    fn choose_extents(&self, effort: CleaningEffort) -> Vec<usize> {
        let mut ledger = self.ledger.lock();
        let ratio = self.space_ratio(&ledger.extents, effort);
        if ratio <= self.options.space_ratio_max {
            return Vec::new();
        }
        let worth = match effort {
            CleaningEffort::Thorough => THOROUGH_SHARE_MAX,
            CleaningEffort::Cheap if ratio > CHEAP_RATIO_MAX => CROWDED_SHARE_MAX,
            CleaningEffort::Cheap => CHEAP_SHARE_MAX,
        };
        let epoch = ledger.open_epoch();
        let chosen = ledger.extents.sparsest(epoch, worth, self.options.clean_step_bytes / UNIT_BYTES as u64);
        chosen.iter().for_each(|index| ledger.extents.set_cleaned(*index, epoch));
        chosen
    }

    /// How many times what its blocks need the file will still take when everything superseded has gone, after allowing
    /// for the slack.
    fn space_ratio(&self, extents: &Extents, effort: CleaningEffort) -> f64 {
        let slack_bytes = match effort {
            CleaningEffort::Thorough => self.options.space_slack_bytes / 4,
            CleaningEffort::Cheap => self.options.space_slack_bytes,
        };
        let totals = extents.totals();
        let lasting_bytes = (totals.live - totals.superseded) * UNIT_BYTES as u64;
        let taken_bytes = totals.lasting_extents * extents.extent_bytes();
        taken_bytes.saturating_sub(slack_bytes) as f64 / lasting_bytes.max(1) as f64
    }

    fn clean_extent(
        &self,
        index: usize,
        buffers: &mut CleanerBuffers,
        relocated: &dyn Fn(PageId, PageAddress, PageAddress) -> bool,
        outcome: &mut CleanOutcome,
    ) -> Result<()> {
        let (offset, extent_bytes) = {
            let ledger = self.ledger.lock();
            (ledger.extents.offset_bytes(index), ledger.extents.extent_bytes())
        };
        buffers.extent.resize(extent_bytes as usize, 0);
        self.read_extent(&mut buffers.extent, offset)?;
        let found = self.current_blocks(&buffers.extent, offset);
        buffers.blocks.clear();
        let mut moved = Vec::new();
        for block in found {
            let start = (block.address.offset_bytes() - offset) as usize;
            let bytes = &buffers.extent[start..start + block.address.length_bytes()];
            match check_block(bytes) {
                Ok(_) => {
                    buffers.blocks.extend_from_slice(bytes);
                    moved.push(block);
                }
                Err(_) if self.current_address(block.page) != block.address => outcome.refused += 1,
                Err(_) => outcome.corrupt.push((block.page, block.address)),
            }
        }
        self.move_blocks(&moved, &buffers.blocks, relocated, outcome)
    }

    fn move_blocks(
        &self,
        moved: &[FoundBlock],
        blocks: &[u8],
        relocated: &dyn Fn(PageId, PageAddress, PageAddress) -> bool,
        outcome: &mut CleanOutcome,
    ) -> Result<()> {
        let lengths = moved.iter().map(|block| block.address.length_units());
        let runs = self.place(Head::Relocated, lengths.clone(), blocks, ReserveAccess::AllButOne)?;
        count(&self.counters.bytes_relocated, blocks.len() as u64);
        let copies: Vec<_> = moved.iter().zip(addresses(&runs, lengths)).collect();
        for copies in copies.chunks(RELOCATIONS_AT_ONCE) {
            let mut ledger = self.ledger.lock();
            for (FoundBlock { page, address }, new) in copies {
                match ledger.relocate(*page, *address, *new, || relocated(*page, *address, *new)) {
                    true => {
                        outcome.blocks += 1;
                        outcome.bytes += address.length_bytes() as u64;
                    }
                    false => outcome.refused += 1,
                }
            }
        }
        Ok(())
    }

    /// Reads an extent; what lies behind the end of the file is zeros.
    pub(super) fn read_extent(&self, bytes: &mut [u8], offset: u64) -> Result<()> {
        count(&self.counters.bytes_read, bytes.len() as u64);
        read_to_end(&*self.file, bytes, offset)
    }

    /// The blocks in an extent's bytes that are their page's newest, in order of address.
    fn current_blocks(&self, bytes: &[u8], offset: u64) -> Vec<FoundBlock> {
        let mut found = possible_blocks(bytes, offset);
        let ledger = self.ledger.lock();
        found.retain(|(header, address)| ledger.newest(header.page) == *address);
        drop(ledger);
        found.into_iter().map(|(header, address)| FoundBlock { page: header.page, address }).collect()
    }
}

/// Reads an extent; what lies behind the end of the file is zeros.
pub(super) fn read_to_end(file: &dyn platform::File, bytes: &mut [u8], offset: u64) -> Result<()> {
    let mut filled = 0;
    while filled < bytes.len() {
        match file.read_at(&mut bytes[filled..], offset + filled as u64) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(cause) => return Err(io_error("read", PAGE_FILE_NAME, cause)),
        }
    }
    bytes[filled..].fill(0);
    Ok(())
}

/// Whatever looks like a block in an extent's bytes, whether whole or not, with the address it would have.
pub(super) fn possible_blocks(bytes: &[u8], offset: u64) -> Vec<(BlockHeader, PageAddress)> {
    let mut found = Vec::new();
    for start in (0..bytes.len()).step_by(UNIT_BYTES) {
        let Some(header) = BlockHeader::parse(&bytes[start..]) else { continue };
        let inside = start + header.length_units() as usize * UNIT_BYTES <= bytes.len();
        let offset_units = (offset + start as u64) / UNIT_BYTES as u64;
        if let Some(address) = PageAddress::new(offset_units, header.length_units()).filter(|_| inside) {
            found.push((header, address));
        }
    }
    found
}
