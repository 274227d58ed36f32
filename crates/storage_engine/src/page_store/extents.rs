//! The extents of the page file: which are free, where the next block goes, how much of each is live.
//!
//! Pure bookkeeping in memory, kept by `ledger` under the store's ledger lock. All lengths are in 64-byte units.
//!
//! Life of an extent:
//!
//! ```text
//!            reserve_space                 does not fit            last block released
//!   Hole ───────────────────▶ Open(head) ──────────────▶ Sealed ─────────────────────────▶ Backed
//!    ▲ ▲                       ▲      │ write failed for lack of space                      │ │
//!    │ └──punched── Returning ◀┼──────┴────▶ Sealed, spoiled ──last block released──▶ Spoiled │
//!    │                  ▲      └────────────────────────────────────────────────────────────┤
//!    │                  └───────────────────────────────────────────────────────────────────┘
//!    └── Reserved: allocated on the disk, only for checkpoints and cleaning when the disk is full
//! ```
//!
//! `live` counts the blocks that some map refers to, and those reserved whose write is under way. `superseded` counts
//! the part of it whose page has a newer version: that part goes by itself as checkpoints are published. What is left,
//! the lasting part, is what cleaning would have to move. The tail of a sealed extent is lost whoever fills it.

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use super::address::{PageAddress, UNIT_BYTES};
use super::superblock::{SUPERBLOCK_BYTES, SUPERBLOCK_COUNT};
use super::writing::RUN_ALIGNMENT_BYTES;

/// Units between two places where a run may begin. Extents are multiples of it, and begin at one.
const RUN_ALIGNMENT_UNITS: u32 = RUN_ALIGNMENT_BYTES as u32 / UNIT_BYTES as u32;

/// Where the first extent begins, in bytes.
pub(super) const FIRST_EXTENT_OFFSET: u64 = SUPERBLOCK_COUNT * SUPERBLOCK_BYTES as u64;

const FIRST_EXTENT_UNIT: u64 = FIRST_EXTENT_OFFSET / UNIT_BYTES as u64;

/// What an extent is used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExtentState {
    /// Free; takes no space on the disk.
    Hole,
    /// Free; takes space on the disk.
    Backed,
    /// Free; space on the disk unknown because a write into it failed for lack of space.
    Spoiled,
    /// Free and allocated on the disk, for checkpoints and cleaning when the disk is full.
    Reserved,
    /// Being given back to the file system, or being allocated; not to be used meanwhile.
    Returning,
    /// Blocks are being added.
    Open,
    /// Full; blocks only die.
    Sealed,
}

/// Which stream a block belongs to. They are kept apart because blocks that survived a cleaning tend to live long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Head {
    Fresh,
    Relocated,
}

/// Whether a write may use the reserved extents. Cleaning leaves one, or it could keep the checkpoint from being
/// written that its own gain depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReserveAccess {
    Denied,
    AllButOne,
    All,
}

/// One extent.
#[derive(Clone, Debug)]
pub(super) struct Extent {
    pub(super) state: ExtentState,
    pub(super) live: u32,
    pub(super) superseded: u32,
    /// The part of `live` that is reserved and not yet referred to.
    pub(super) in_flight: u32,
    /// The epoch in which it was last cleaned; once per epoch is enough, as nothing is released before the next.
    pub(super) cleaned_epoch: u64,
    /// Units at its end for which the next block was too long; 0 while it is open and where the store was opened with it.
    pub(super) tail: u32,
    spoiled: bool,
}

impl Extent {
    fn new(state: ExtentState) -> Extent {
        Extent { state, live: 0, superseded: 0, in_flight: 0, cleaned_epoch: 0, tail: 0, spoiled: false }
    }

    pub(super) fn lasting(&self) -> u32 {
        self.live - self.superseded
    }

    /// What it adds to the totals.
    fn counted(&self) -> ExtentTotals {
        let is_lasting = u64::from(self.lasting() > 0);
        ExtentTotals {
            live: u64::from(self.live),
            superseded: u64::from(self.superseded),
            lasting_extents: is_lasting,
            tails: is_lasting * u64::from(self.tail),
        }
    }
}

/// Consecutive blocks of a batch and the place reserved for them.
#[derive(Clone, Debug)]
pub(super) struct Run {
    /// Which blocks of the batch.
    pub(super) blocks: std::ops::Range<usize>,
    /// Where the first of them goes.
    pub(super) offset_units: u64,
    pub(super) length_units: u64,
}

struct OpenExtent {
    extent: usize,
    next_unit: u32,
}

/// Sums over all extents, in units and extents.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ExtentTotals {
    pub(super) live: u64,
    pub(super) superseded: u64,
    /// Extents with a lasting part.
    pub(super) lasting_extents: u64,
    /// Their ends that no block fitted in: no cleaning wins them.
    pub(super) tails: u64,
}

/// All extents.
pub(super) struct Extents {
    extents: Vec<Extent>,
    extent_units: u32,
    holes: BTreeSet<usize>,
    backed: BTreeSet<usize>,
    spoiled: BTreeSet<usize>,
    reserved: BTreeSet<usize>,
    heads: [Option<OpenExtent>; 2],
    totals: ExtentTotals,
}

impl Extents {
    /// The extents of a file of `file_bytes`: all free until `load` is told of blocks.
    pub(super) fn new(extent_bytes: u32, file_bytes: u64) -> Extents {
        let count = file_bytes.saturating_sub(FIRST_EXTENT_OFFSET).div_ceil(u64::from(extent_bytes)) as usize;
        Extents {
            extents: vec![Extent::new(ExtentState::Backed); count],
            extent_units: extent_bytes / UNIT_BYTES as u32,
            holes: BTreeSet::new(),
            backed: (0..count).collect(),
            spoiled: BTreeSet::new(),
            reserved: BTreeSet::new(),
            heads: [None, None],
            totals: ExtentTotals::default(),
        }
    }

    /// Counts a block that a checkpoint refers to; `false` when no extent can hold it there.
    pub(super) fn load(&mut self, address: PageAddress) -> bool {
        let index = self.index_of(address);
        let end = (address.offset_units() + address.length_units()).saturating_sub(FIRST_EXTENT_UNIT);
        let whole =
            address.offset_units() >= FIRST_EXTENT_UNIT && end <= (index as u64 + 1) * u64::from(self.extent_units);
        let Some(extent) = self.extents.get_mut(index).filter(|_| whole) else { return false };
        if extent.live as u64 + address.length_units() > u64::from(self.extent_units) {
            return false;
        }
        if extent.state == ExtentState::Backed {
            extent.state = ExtentState::Sealed;
            self.backed.remove(&index);
        }
        self.adjust(index, |extent| extent.live += address.length_units() as u32);
        true
    }

    /// Reserves room for blocks of the given lengths, in order, in as few runs as possible. `None` when the file cannot
    /// grow any more. The room counts as live until each block is settled or the runs are cancelled. A run begins where a page of the operating system's
    /// cache does: a page that is in two writes is written twice, and the second write waits for the first, or for the page to be read.
    pub(super) fn reserve_space(
        &mut self,
        head: Head,
        lengths: impl Iterator<Item = u64>,
        access: ReserveAccess,
    ) -> Option<Vec<Run>> {
        let mut runs: Vec<Run> = Vec::new();
        if let Some(open) = &mut self.heads[head as usize] {
            open.next_unit = open.next_unit.next_multiple_of(RUN_ALIGNMENT_UNITS);
        }
        for (block, length) in lengths.enumerate() {
            let Some((offset_units, continues)) = self.reserve_block(head, length as u32, access) else {
                self.cancel(&runs);
                return None;
            };
            match runs.last_mut().filter(|_| continues) {
                Some(run) => {
                    run.blocks.end = block + 1;
                    run.length_units += length;
                }
                None => runs.push(Run { blocks: block..block + 1, offset_units, length_units: length }),
            }
        }
        Some(runs)
    }

    /// Where the block goes, and whether that is right behind the last block of the same extent.
    fn reserve_block(&mut self, head: Head, length: u32, access: ReserveAccess) -> Option<(u64, bool)> {
        let fits = |open: &OpenExtent| open.next_unit + length <= self.extent_units;
        let continues = self.heads[head as usize].as_ref().is_some_and(fits);
        if !continues {
            let extent = self.take_free(access)?;
            self.seal_head(head);
            self.extents[extent].state = ExtentState::Open;
            self.heads[head as usize] = Some(OpenExtent { extent, next_unit: 0 });
        }
        let open = self.heads[head as usize].as_mut()?;
        let (extent, unit) = (open.extent, open.next_unit);
        open.next_unit += length;
        self.adjust(extent, |extent| {
            extent.live += length;
            extent.in_flight += length;
        });
        Some((self.first_unit(extent) + u64::from(unit), continues))
    }

    /// Takes back runs whose write failed for lack of space. Their extents get no more blocks.
    pub(super) fn cancel(&mut self, runs: &[Run]) {
        for run in runs {
            let index = self.index_of_unit(run.offset_units);
            let length = run.length_units as u32;
            self.adjust(index, |extent| {
                extent.live -= length;
                extent.in_flight -= length;
                extent.spoiled = true;
            });
            for head in [Head::Fresh, Head::Relocated] {
                if self.heads[head as usize].as_ref().is_some_and(|open| open.extent == index) {
                    self.seal_head(head);
                }
            }
            self.free_if_dead(index);
        }
    }

    /// A block's write is over: from now on it is live because a map refers to it, or it is released.
    pub(super) fn settle(&mut self, address: PageAddress) {
        let index = self.index_of(address);
        self.adjust(index, |extent| extent.in_flight -= address.length_units() as u32);
    }

    /// A live block's page has a newer version now.
    pub(super) fn supersede(&mut self, address: PageAddress) {
        let index = self.index_of(address);
        self.adjust(index, |extent| extent.superseded += address.length_units() as u32);
    }

    /// Nothing refers to a block any more.
    pub(super) fn release(&mut self, address: PageAddress, was_superseded: bool) {
        let index = self.index_of(address);
        let length = address.length_units() as u32;
        self.adjust(index, |extent| {
            extent.live -= length;
            extent.superseded -= if was_superseded { length } else { 0 };
        });
        self.free_if_dead(index);
    }

    /// The sealed extents with the smallest lasting parts that were not cleaned in `epoch`, smallest first: as many as
    /// hold `lasting_units_limit` together, but at least one if there is any whose share of lasting blocks is at most
    /// `share_max`.
    pub(super) fn sparsest(&self, epoch: u64, share_max: f64, lasting_units_limit: u64) -> Vec<usize> {
        let mut candidates: Vec<(u32, usize)> = Vec::new();
        for (index, extent) in self.extents.iter().enumerate() {
            let lasting = extent.lasting();
            let worth = (f64::from(self.extent_units - extent.tail) * share_max) as u32;
            if self.may_be_cleaned(index) && lasting <= worth && extent.cleaned_epoch != epoch {
                candidates.push((lasting, index));
            }
        }
        candidates.sort_unstable();
        let mut sum = 0;
        let mut chosen = Vec::new();
        for (lasting, index) in candidates {
            sum += u64::from(lasting);
            if sum > lasting_units_limit && !chosen.is_empty() {
                break;
            }
            chosen.push(index);
        }
        chosen
    }

    /// Whether an extent holds blocks that last and nothing is being written to it; not so when the file has been cut before it.
    pub(super) fn may_be_cleaned(&self, index: usize) -> bool {
        let is_sealed = |extent: &Extent| extent.state == ExtentState::Sealed && extent.in_flight == 0;
        self.extents.get(index).is_some_and(|extent| is_sealed(extent) && extent.lasting() > 0)
    }

    /// Notes that an extent has been gone through for cleaning.
    pub(super) fn set_cleaned(&mut self, index: usize, epoch: u64) {
        self.extents[index].cleaned_epoch = epoch;
    }

    /// Notes that what cleaning moved in `epoch` is in the extents of these runs: it is not moved again in the same.
    pub(super) fn set_filled_by_cleaning(&mut self, runs: &[Run], epoch: u64) {
        runs.iter().for_each(|run| self.set_cleaned(self.index_of_unit(run.offset_units), epoch));
    }

    /// Takes the free extents whose space is to go back to the file system: all spoiled ones, and the last, at most `most`, of those
    /// that take space beyond the `kept` first.
    pub(super) fn take_reclaimable(&mut self, kept: usize, most: usize) -> Vec<usize> {
        self.seal_dead_heads();
        let count = self.backed.len().saturating_sub(kept).min(most);
        let mut taken: Vec<usize> = self.backed.iter().rev().take(count).chain(&self.spoiled).copied().collect();
        taken.sort_unstable();
        taken.iter().for_each(|index| self.take(*index));
        taken
    }

    /// Takes a free extent to be allocated for the reserve, if the reserve has fewer than `wanted`.
    pub(super) fn take_for_reserve(&mut self, wanted: usize) -> Option<usize> {
        if self.reserved.len() >= wanted {
            return None;
        }
        let index = self.take_free(ReserveAccess::Denied)?;
        self.extents[index].state = ExtentState::Returning;
        Some(index)
    }

    /// Takes a free extent that takes space on the disk, to give its space to another file.
    pub(super) fn take_backed_or_reserved(&mut self) -> Option<usize> {
        let index = self.backed.last().or(self.reserved.last()).copied()?;
        self.take(index);
        Some(index)
    }

    /// Ends what `take_reclaimable`, `take_for_reserve` or `take_backed_or_reserved` began: the extent is free in a new way.
    pub(super) fn put_back(&mut self, index: usize, state: ExtentState) {
        debug_assert_eq!(self.extents[index].state, ExtentState::Returning);
        self.set_free(index, state);
    }

    /// Drops the holes at the end; returns the length that the file needs, in bytes, if there were any.
    pub(super) fn drop_trailing_holes(&mut self) -> Option<u64> {
        let before = self.extents.len();
        while self.extents.last().is_some_and(|extent| extent.state == ExtentState::Hole) {
            self.extents.pop();
            self.holes.remove(&self.extents.len());
        }
        (self.extents.len() < before).then(|| self.offset_bytes(self.extents.len()))
    }

    /// All extents, in order of offset.
    pub(super) fn all(&self) -> &[Extent] {
        &self.extents
    }

    /// Extents that take space on the disk and are not free to be given back or used again.
    pub(super) fn used_extents(&self) -> u64 {
        (self.extents.len() - self.holes.len() - self.backed.len()) as u64
    }

    pub(super) fn totals(&self) -> ExtentTotals {
        self.totals
    }

    pub(super) fn extent_bytes(&self) -> u64 {
        u64::from(self.extent_units) * UNIT_BYTES as u64
    }

    /// Where an extent begins, in bytes.
    pub(super) fn offset_bytes(&self, index: usize) -> u64 {
        self.first_unit(index) * UNIT_BYTES as u64
    }

    fn first_unit(&self, index: usize) -> u64 {
        FIRST_EXTENT_UNIT + index as u64 * u64::from(self.extent_units)
    }

    /// The extent that an address lies in.
    pub(super) fn index_of(&self, address: PageAddress) -> usize {
        self.index_of_unit(address.offset_units())
    }

    fn index_of_unit(&self, unit: u64) -> usize {
        (unit.saturating_sub(FIRST_EXTENT_UNIT) / u64::from(self.extent_units)) as usize
    }

    fn take_free(&mut self, access: ReserveAccess) -> Option<usize> {
        let reserved = match access {
            ReserveAccess::Denied => None,
            ReserveAccess::AllButOne if self.reserved.len() < 2 => None,
            ReserveAccess::AllButOne | ReserveAccess::All => self.reserved.first(),
        };
        // What already takes space on the disk goes first: writing into it cannot fail for lack of space.
        let choice = reserved.or(self.backed.first()).or(self.holes.first()).copied();
        match choice {
            Some(index) => self.take(index),
            None => self.grow()?,
        }
        choice.or(self.extents.len().checked_sub(1))
    }

    /// Adds an extent at the end; `None` when addresses could not reach it.
    fn grow(&mut self) -> Option<()> {
        let end = self.first_unit(self.extents.len() + 1);
        (end <= PageAddress::OFFSET_UNITS_LIMIT).then(|| self.extents.push(Extent::new(ExtentState::Returning)))
    }

    fn take(&mut self, index: usize) {
        for set in [&mut self.holes, &mut self.backed, &mut self.spoiled, &mut self.reserved] {
            set.remove(&index);
        }
        self.extents[index].state = ExtentState::Returning;
    }

    /// Frees open extents all of whose blocks are dead: the next blocks may as well go to the start of the file.
    fn seal_dead_heads(&mut self) {
        for head in [Head::Fresh, Head::Relocated] {
            let open = self.heads[head as usize].as_ref();
            if open.is_some_and(|open| self.extents[open.extent].live == 0) {
                self.seal_head(head);
            }
        }
    }

    fn seal_head(&mut self, head: Head) {
        if let Some(open) = self.heads[head as usize].take() {
            let tail = self.extent_units - open.next_unit;
            self.adjust(open.extent, |extent| {
                extent.state = ExtentState::Sealed;
                extent.tail = tail;
            });
            self.free_if_dead(open.extent);
        }
    }

    fn free_if_dead(&mut self, index: usize) {
        let extent = &self.extents[index];
        if extent.state == ExtentState::Sealed && extent.live == 0 {
            let state = if extent.spoiled { ExtentState::Spoiled } else { ExtentState::Backed };
            self.set_free(index, state);
        }
    }

    fn set_free(&mut self, index: usize, state: ExtentState) {
        self.extents[index] = Extent::new(state);
        match state {
            ExtentState::Hole => self.holes.insert(index),
            ExtentState::Spoiled => self.spoiled.insert(index),
            ExtentState::Reserved => self.reserved.insert(index),
            _ => self.backed.insert(index),
        };
    }

    /// Changes the counts of one extent and the totals with it.
    fn adjust(&mut self, index: usize, change: impl FnOnce(&mut Extent)) {
        let extent = &mut self.extents[index];
        let before = extent.counted();
        change(extent);
        let after = extent.counted();
        let totals = &mut self.totals;
        totals.live = totals.live + after.live - before.live;
        totals.superseded = totals.superseded + after.superseded - before.superseded;
        totals.lasting_extents = totals.lasting_extents + after.lasting_extents - before.lasting_extents;
        totals.tails = totals.tails + after.tails - before.tails;
    }
}
