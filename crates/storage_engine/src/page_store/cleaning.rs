//! Cleaning: moving the last live blocks out of sparse extents, so that these become free.
//!
//! Driven by a background thread through `clean_step`. Blocks are copied as they are, without decompression. Why this
//! is safe beside everything else, and why it ends, is stated in `page_store` (rules 5 and 6).
//!
//! Which blocks of an extent are live is found without an index, in one of two ways. The ledger's maps are gone through once for all
//! extents of a step, and only the blocks found are read; or, where the maps are so large that reading the extents is cheaper, wherever
//! something that looks like a block header lies at a multiple of 64 bytes, the ledger is asked whether that page's current address is
//! exactly there. Stale or forged bytes that look like a block are not at a mentioned address, so they are passed over.

use std::collections::VecDeque;
use std::ops::Range;

use platform::WorkBudget;

use super::PageStore;
use super::address::{PageAddress, PageId, UNIT_BYTES};
use super::block::{BlockHeader, check_block};
use super::checkpoint::CHANGES_AT_ONCE;
use super::durable_map::CHUNK_PAGES;
use super::error::Result;
use super::extents::{Extents, Head, ReserveAccess};
use super::recovery::io_error;
use super::statistics::count;
use super::superblock::PAGE_FILE_NAME;
use super::writing::addresses;
use crate::cleaning_pace::{BYTES_BUSY, SPARE_ONE_IN};

/// Extents with a larger share of lasting blocks are not cleaned, by effort.
const THOROUGH_SHARE_MAX: f64 = 1.0 - 1.0 / SPARE_ONE_IN as f64;
const CHEAP_SHARE_MAX: f64 = 0.25;
/// With little effort, too, when the file takes more than `CHEAP_RATIO_MAX` times what its blocks need.
const CROWDED_SHARE_MAX: f64 = 0.6;
/// As much as it takes when that share of it lasts.
pub(crate) const CHEAP_RATIO_MAX: f64 = 1.0 / (1.0 - CROWDED_SHARE_MAX);
/// Bytes of the ledger's maps that may be gone through for each byte of an extent that need not be read then.
const MAP_BYTES_FOR_EXTENT_BYTE: u64 = 2;
/// What is moved before others may have a say again (see `cleaning_pace`).
const PIECE_BYTES: u64 = BYTES_BUSY / 16;
/// Relocations recorded under one hold of the ledger: each takes as long as several other changes.
const RELOCATIONS_AT_ONCE: usize = CHANGES_AT_ONCE / 8;

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
    /// Extents gone through or found to hold nothing any more. 0 when there was nothing to gain: call again after the next checkpoint.
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

/// What is kept from step to step.
#[derive(Default)]
pub(super) struct Cleaner {
    /// Extents found worth it that are not yet gone through.
    chosen: VecDeque<ChosenExtent>,
    extent: Vec<u8>,
    blocks: Vec<u8>,
}

struct ChosenExtent {
    index: usize,
    /// Its current blocks when it was chosen, in order of address; `None`: they are to be looked for in its bytes.
    blocks: Option<Vec<FoundBlock>>,
}

/// A current block in an extent being cleaned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FoundBlock {
    page: PageId,
    address: PageAddress,
}

impl PageStore {
    /// Moves the blocks of the sparsest extents elsewhere if the file takes more space than the options allow. Extents that hold
    /// about `clean_step_bytes` are chosen together, and gone through in pieces, one a call. The extents become free when the epoch
    /// in which that ends has been published.
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
        let mut cleaner = self.cleaner.lock();
        self.check_poison()?;
        if cleaner.chosen.is_empty() {
            cleaner.chosen = self.choose_extents(effort);
        }
        let mut outcome = CleanOutcome::default();
        while outcome.bytes < PIECE_BYTES {
            let Some(chosen) = cleaner.chosen.pop_front() else { break };
            if let Err(error) = self.clean_extent(chosen, &mut cleaner, relocated, &mut outcome) {
                // They can be chosen again in the next epoch.
                cleaner.chosen.clear();
                return Err(error);
            }
            outcome.extents += 1;
        }
        Ok(outcome)
    }

    /// Whether extents that were found worth it are not yet gone through.
    pub fn is_cleaning(&self) -> bool {
        !self.cleaner.lock().chosen.is_empty()
    }

    fn choose_extents(&self, effort: CleaningEffort) -> VecDeque<ChosenExtent> {
        let chosen = self.sparse_extents(effort);
        let mut mapped = self.blocks_from_maps(&chosen).map(Vec::into_iter);
        let with_blocks = |index| ChosenExtent { index, blocks: mapped.as_mut().and_then(Iterator::next) };
        chosen.into_iter().map(with_blocks).collect()
    }

    fn sparse_extents(&self, effort: CleaningEffort) -> Vec<usize> {
        let mut ledger = self.ledger.lock();
        let ratio = self.space_ratio(&ledger.extents, effort);
        let allowed = match effort {
            CleaningEffort::Thorough => 1.0 + (self.options.space_ratio_max - 1.0) / 4.0,
            CleaningEffort::Cheap => self.options.space_ratio_max,
        };
        if ratio <= allowed {
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
        let taken_bytes = totals.lasting_extents * extents.extent_bytes() - totals.tails * UNIT_BYTES as u64;
        taken_bytes.saturating_sub(slack_bytes) as f64 / lasting_bytes.max(1) as f64
    }

    /// The current blocks of each of these extents, in order of address; `None` when going through the maps would cost more than reading
    /// the extents.
    pub(super) fn blocks_from_maps(&self, chosen: &[usize]) -> Option<Vec<Vec<FoundBlock>>> {
        let limit = self.page_id_limit();
        let (extent_bytes, extents) = {
            let ledger = self.ledger.lock();
            (ledger.extents.extent_bytes(), ledger.extents.all().len())
        };
        let map_bytes = limit * size_of::<PageAddress>() as u64;
        if chosen.is_empty() || map_bytes > chosen.len() as u64 * extent_bytes * MAP_BYTES_FOR_EXTENT_BYTE {
            return None;
        }
        // Of each extent its place among those chosen.
        let mut places = vec![None; extents];
        chosen.iter().enumerate().for_each(|(at, index)| places[*index] = Some(at));
        let mut found = vec![Vec::new(); chosen.len()];
        let mut pages = Vec::new();
        for chunk in 0..limit.div_ceil(CHUNK_PAGES as u64) {
            WorkBudget::background_step();
            let ledger = self.ledger.lock();
            pages.clear();
            let place = |address| places.get(ledger.extents.index_of(address)).copied().flatten();
            ledger.append_newest(chunk as usize, |address| place(address).is_some(), &mut pages);
            for (page, address) in &pages {
                if let Some(at) = place(*address) {
                    found[at].push(FoundBlock { page: *page, address: *address });
                }
            }
        }
        found.iter_mut().for_each(|blocks| blocks.sort_unstable_by_key(|block| block.address.offset_units()));
        Some(found)
    }

    fn clean_extent(
        &self,
        chosen: ChosenExtent,
        cleaner: &mut Cleaner,
        relocated: &dyn Fn(PageId, PageAddress, PageAddress) -> bool,
        outcome: &mut CleanOutcome,
    ) -> Result<()> {
        let (offset, extent_bytes) = {
            let ledger = self.ledger.lock();
            if !ledger.extents.may_be_cleaned(chosen.index) {
                return Ok(());
            }
            (ledger.extents.offset_bytes(chosen.index), ledger.extents.extent_bytes())
        };
        cleaner.extent.resize(extent_bytes as usize, 0);
        let found = match chosen.blocks {
            Some(blocks) => {
                for range in read_ranges(&blocks, offset) {
                    WorkBudget::background_step();
                    self.read_extent(&mut cleaner.extent[range.clone()], offset + range.start as u64)?;
                }
                blocks
            }
            None => {
                self.read_extent(&mut cleaner.extent, offset)?;
                self.current_blocks(&cleaner.extent, offset)
            }
        };
        cleaner.blocks.clear();
        let mut moved = Vec::new();
        for block in found {
            WorkBudget::background_step();
            let start = (block.address.offset_bytes() - offset) as usize;
            let bytes = &cleaner.extent[start..start + block.address.length_bytes()];
            match check_block(bytes) {
                Ok(_) => {
                    cleaner.blocks.extend_from_slice(bytes);
                    moved.push(block);
                }
                Err(_) if self.current_address(block.page) != block.address => outcome.refused += 1,
                Err(_) => outcome.corrupt.push((block.page, block.address)),
            }
        }
        self.move_blocks(&moved, &cleaner.blocks, relocated, outcome)
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
        {
            let mut ledger = self.ledger.lock();
            let epoch = ledger.open_epoch();
            ledger.extents.set_filled_by_cleaning(&runs, epoch);
        }
        count(&self.counters.bytes_relocated, blocks.len() as u64);
        let copies: Vec<_> = moved.iter().zip(addresses(&runs, lengths)).collect();
        for copies in copies.chunks(RELOCATIONS_AT_ONCE) {
            let mut ledger = self.ledger.lock();
            for (FoundBlock { page, address }, new) in copies {
                let new = new.with_room_units(address.room_units());
                match ledger.relocate(*page, *address, new, || relocated(*page, *address, new)) {
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

    /// Reads an extent or a part of it; what lies behind the end of the file is zeros.
    pub(super) fn read_extent(&self, bytes: &mut [u8], offset: u64) -> Result<()> {
        count(&self.counters.bytes_read, bytes.len() as u64);
        read_to_end(&*self.file, bytes, offset)
    }

    /// The blocks in an extent's bytes that are their page's newest, in order of address.
    pub(super) fn current_blocks(&self, bytes: &[u8], offset: u64) -> Vec<FoundBlock> {
        let found = possible_blocks(bytes, offset);
        let ledger = self.ledger.lock();
        let newest = found.iter().map(|(header, address)| (header.page, ledger.newest(header.page), address));
        newest
            .filter(|(_, newest, at)| newest.is_at(**at))
            .map(|(page, address, _)| FoundBlock { page, address })
            .collect()
    }
}

/// What to read of the extent at `offset` to have these blocks, which are in order of address.
fn read_ranges(blocks: &[FoundBlock], offset: u64) -> Vec<Range<usize>> {
    let mut ranges: Vec<Range<usize>> = Vec::new();
    for block in blocks {
        let start = (block.address.offset_bytes() - offset) as usize;
        let end = start + block.address.length_bytes();
        match ranges.last_mut().filter(|last| start == last.end) {
            Some(last) => last.end = end,
            None => ranges.push(start..end),
        }
    }
    ranges
}

/// Reads an extent; what lies behind the end of the file is zeros.
pub(super) fn read_to_end(file: &dyn platform::File, bytes: &mut [u8], offset: u64) -> Result<()> {
    let mut filled = 0;
    while filled < bytes.len() {
        match file.read_unverified_at(&mut bytes[filled..], offset + filled as u64) {
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
