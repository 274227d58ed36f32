//! Who refers to which block: the three maps from page id to address, and the live counts that follow from them.
//!
//! Pure bookkeeping in memory under the store's ledger lock; no function here does input or output. The rules are
//! stated in `page_store`; the words used there:
//!
//! - *durable* is the last published checkpoint, *frozen* what changes with the one being made, *open* what changes
//!   with the one after that. The newest of the three that mentions a page is the page's current address.
//! - Each live block is mentioned by exactly one map (by frozen and durable while a publish is being applied), or is
//!   being written.
//! - A mentioned block that is not the newest of its page is *superseded*.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::address::{PageAddress, PageId};
use super::durable_map::{CHUNK_PAGES, DurableMap};
use super::extents::Extents;

/// Changes of one epoch; `NONE` is a freed page.
pub(super) type Delta = BTreeMap<PageId, PageAddress>;

struct Frozen {
    delta: Arc<Delta>,
    /// The checkpoint is being made durable from a copy of `delta`, so that it must not change.
    publishing: bool,
}

/// The outcome of recording a written page version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Installed {
    Kept,
    /// The page has been freed in that epoch; the block is free again.
    PageFreed,
    /// The epoch takes no pages; the block is free again.
    WrongEpoch,
    /// The image was no longer that of the page; the block is free again.
    Discarded,
}

/// The maps and the extents.
pub(super) struct Ledger {
    durable: DurableMap,
    frozen: Option<Frozen>,
    open: Delta,
    open_epoch: u64,
    pub(super) extents: Extents,
    /// A published checkpoint that is being copied, or was.
    pinned: Option<Pinned>,
}

/// A published checkpoint whose blocks stay where they are until they are copied.
struct Pinned {
    map: DurableMap,
    /// What is before this place needs to stay no longer.
    hand: u64,
    /// What later checkpoints have replaced, by place: it is free once the hand has passed it.
    replaced: BTreeMap<u64, (PageId, PageAddress)>,
    /// Bytes of these.
    replaced_bytes: u64,
}

impl Pinned {
    /// Keeps a block that a later checkpoint has replaced, if it is one of these and not yet copied.
    fn keep(&mut self, page: PageId, address: PageAddress) -> bool {
        let is_kept = address.place() >= self.hand && self.map.get(page).is_at(address);
        if is_kept {
            self.replaced.insert(address.place(), (page, address));
            self.replaced_bytes += address.length_bytes() as u64;
        }
        is_kept
    }
}

/// A copy of everything, for verification.
pub(super) struct LedgerSnapshot {
    pub(super) durable: DurableMap,
    pub(super) frozen: Arc<Delta>,
    pub(super) open: Delta,
    pub(super) extents: Vec<super::extents::Extent>,
    pub(super) totals: super::extents::ExtentTotals,
    /// Blocks that only the pinned checkpoint mentions.
    pub(super) kept: Vec<(PageId, PageAddress)>,
}

impl Ledger {
    /// The ledger of a store whose last published checkpoint is `durable`. `extents` have been loaded from it.
    pub(super) fn new(durable: DurableMap, extents: Extents, open_epoch: u64) -> Ledger {
        Ledger { durable, frozen: None, open: Delta::new(), open_epoch, extents, pinned: None }
    }

    pub(super) fn open_epoch(&self) -> u64 {
        self.open_epoch
    }

    pub(super) fn has_frozen(&self) -> bool {
        self.frozen.is_some()
    }

    pub(super) fn durable(&self) -> &DurableMap {
        &self.durable
    }

    /// The page's current address; `NONE` when it has none or is freed.
    pub(super) fn newest(&self, page: PageId) -> PageAddress {
        match self.open.get(&page).or_else(|| self.frozen_delta().and_then(|delta| delta.get(&page))) {
            Some(address) => *address,
            None => self.durable.get(page),
        }
    }

    /// Appends those current addresses of the pages that a chunk of the durable map describes (`CHUNK_PAGES` ids) that are wanted, in
    /// no order. Few are: whether a page has changed since is looked up for those alone.
    pub(super) fn append_newest(
        &self,
        chunk: usize,
        is_wanted: impl Fn(PageAddress) -> bool,
        pages: &mut Vec<(PageId, PageAddress)>,
    ) {
        let first = (chunk * CHUNK_PAGES) as u64;
        let range = PageId(first)..PageId(first + CHUNK_PAGES as u64);
        let frozen = self.frozen_delta();
        let is_changed =
            |page: &PageId| self.open.contains_key(page) || frozen.is_some_and(|delta| delta.contains_key(page));
        let durable = self.durable.pages_of_chunk(chunk).filter(|(_, address)| is_wanted(*address));
        pages.extend(durable.filter(|(page, _)| !is_changed(page)));
        let frozen = frozen.into_iter().flat_map(|delta| delta.range(range.clone()));
        let frozen = frozen.filter(|(page, _)| !self.open.contains_key(page));
        let changed = self.open.range(range.clone()).chain(frozen);
        let wanted = changed.filter(|(_, address)| !address.is_none() && is_wanted(**address));
        pages.extend(wanted.map(|(page, address)| (*page, *address)));
    }

    /// Whether any of the maps mentions that block of the page.
    pub(super) fn mentions(&self, page: PageId, address: PageAddress) -> bool {
        let frozen = self.frozen_delta().and_then(|delta| delta.get(&page));
        [self.open.get(&page), frozen, Some(&self.durable.get(page))].contains(&Some(&address))
    }

    fn frozen_delta(&self) -> Option<&Delta> {
        self.frozen.as_ref().map(|frozen| &*frozen.delta)
    }

    /// Whether page versions of `epoch` can be recorded.
    pub(super) fn takes_epoch(&self, epoch: u64) -> bool {
        epoch == self.open_epoch
            || epoch + 1 == self.open_epoch && self.frozen.as_ref().is_some_and(|frozen| !frozen.publishing)
    }

    /// Records that the version of `page` for `epoch` has been written at `address`.
    pub(super) fn install(&mut self, page: PageId, epoch: u64, address: PageAddress) -> Installed {
        self.extents.settle(address);
        let outcome = if !self.takes_epoch(epoch) {
            Installed::WrongEpoch
        } else if epoch == self.open_epoch {
            self.install_open(page, address)
        } else {
            self.install_frozen(page, address)
        };
        if outcome != Installed::Kept {
            self.extents.release(address, false);
        }
        outcome
    }

    /// Frees a block that has been written and is not to be used.
    pub(super) fn discard(&mut self, address: PageAddress) -> Installed {
        self.extents.settle(address);
        self.extents.release(address, false);
        Installed::Discarded
    }

    fn install_open(&mut self, page: PageId, address: PageAddress) -> Installed {
        match self.open.get(&page).copied() {
            Some(PageAddress::NONE) => return Installed::PageFreed,
            Some(older) => self.extents.release(older, false),
            None => self.supersede_newest(page),
        }
        self.open.insert(page, address);
        Installed::Kept
    }

    fn install_frozen(&mut self, page: PageId, address: PageAddress) -> Installed {
        let superseded = self.open.contains_key(&page);
        match self.frozen_delta().and_then(|delta| delta.get(&page)).copied() {
            Some(PageAddress::NONE) => return Installed::PageFreed,
            Some(older) => self.extents.release(older, superseded),
            None if !superseded => self.supersede_newest(page),
            None => {}
        }
        if superseded {
            self.extents.supersede(address);
        }
        if let Some(frozen) = &mut self.frozen {
            Arc::make_mut(&mut frozen.delta).insert(page, address);
        }
        Installed::Kept
    }

    fn supersede_newest(&mut self, page: PageId) {
        let newest = self.newest(page);
        if !newest.is_none() {
            self.extents.supersede(newest);
        }
    }

    /// Records that a page has been deleted in the open epoch; `false` when it was deleted already.
    pub(super) fn free(&mut self, page: PageId) -> bool {
        match self.open.get(&page).copied() {
            Some(PageAddress::NONE) => return false,
            Some(older) => self.extents.release(older, false),
            None if self.frozen_delta().and_then(|delta| delta.get(&page)) == Some(&PageAddress::NONE) => return false,
            None => self.supersede_newest(page),
        }
        self.open.insert(page, PageAddress::NONE);
        true
    }

    /// Records that the block at `old` has been copied to `new`, if `old` is still the page's newest and `agree` says
    /// that the engine has taken the new address for it; otherwise frees the copy.
    pub(super) fn relocate(
        &mut self,
        page: PageId,
        old: PageAddress,
        new: PageAddress,
        agree: impl FnOnce() -> bool,
    ) -> bool {
        self.extents.settle(new);
        if self.newest(page) != old || !agree() {
            self.extents.release(new, false);
            return false;
        }
        match self.open.insert(page, new) {
            Some(_) => self.extents.release(old, false),
            None => self.extents.supersede(old),
        }
        true
    }

    /// Makes the open epoch the frozen one; returns its number, or `None` while another is frozen.
    pub(super) fn freeze(&mut self) -> Option<u64> {
        if self.frozen.is_some() {
            return None;
        }
        self.frozen = Some(Frozen { delta: Arc::new(std::mem::take(&mut self.open)), publishing: false });
        self.open_epoch += 1;
        Some(self.open_epoch - 1)
    }

    /// Stops the frozen epoch from changing and returns its number and changes; `None` without one.
    pub(super) fn begin_publish(&mut self) -> Option<(u64, Arc<Delta>)> {
        let frozen = self.frozen.as_mut()?;
        frozen.publishing = true;
        Some((self.open_epoch - 1, Arc::clone(&frozen.delta)))
    }

    /// The checkpoint could not be made durable; the frozen epoch takes pages again.
    pub(super) fn abort_publish(&mut self) {
        if let Some(frozen) = &mut self.frozen {
            frozen.publishing = false;
        }
    }

    /// The checkpoint is durable: applies some of its changes and frees the blocks that they replace.
    pub(super) fn apply(&mut self, changes: &[(PageId, PageAddress)]) {
        for (page, address) in changes {
            let old = self.durable.set(*page, *address);
            if !old.is_none() && !self.pinned.as_mut().is_some_and(|pinned| pinned.keep(*page, old)) {
                self.extents.release(old, true);
            }
        }
    }

    /// Keeps the blocks of the last published checkpoint; its map. `None` while another is kept.
    pub(super) fn pin(&mut self) -> Option<DurableMap> {
        if self.pinned.is_some() {
            return None;
        }
        self.pinned = Some(Pinned { map: self.durable.clone(), hand: 0, replaced: BTreeMap::new(), replaced_bytes: 0 });
        Some(self.durable.clone())
    }

    pub(super) fn is_pinned(&self) -> bool {
        self.pinned.is_some()
    }

    /// What is before `place` needs to stay no longer: frees at most `most` replaced blocks. Whether there are more.
    pub(super) fn advance_pin(&mut self, place: u64, most: usize) -> bool {
        let Some(pinned) = &mut self.pinned else { return false };
        pinned.hand = pinned.hand.max(place);
        for _ in 0..most {
            match pinned.replaced.first_entry() {
                Some(first) if *first.key() < place => {
                    let (_, address) = first.remove();
                    pinned.replaced_bytes -= address.length_bytes() as u64;
                    self.extents.release(address, true);
                }
                _ => return false,
            }
        }
        true
    }

    /// Nothing is kept any more. `advance_pin` to the end has freed all in portions.
    pub(super) fn unpin(&mut self) {
        let pinned = self.pinned.take();
        for (_, address) in pinned.into_iter().flat_map(|pinned| pinned.replaced.into_values()) {
            self.extents.release(address, true);
        }
    }

    /// Bytes that are kept for the pinned checkpoint alone.
    pub(super) fn pinned_bytes(&self) -> u64 {
        self.pinned.as_ref().map_or(0, |pinned| pinned.replaced_bytes)
    }

    /// All changes have been applied: there is no frozen epoch any more.
    pub(super) fn finish_publish(&mut self) {
        self.frozen = None;
    }

    /// Bytes of memory in the maps and the extents, about.
    pub(super) fn memory_bytes(&self) -> u64 {
        let changes = self.open.len() + self.frozen_delta().map_or(0, Delta::len);
        // A node of the standard library's map is two thirds full on average.
        let change_bytes = changes * size_of::<(PageId, PageAddress)>() * 3 / 2;
        let extent_bytes = size_of_val(self.extents.all());
        self.durable.memory_bytes() + (change_bytes + extent_bytes) as u64
    }

    pub(super) fn snapshot(&self) -> LedgerSnapshot {
        LedgerSnapshot {
            durable: self.durable.clone(),
            frozen: self.frozen.as_ref().map(|frozen| Arc::clone(&frozen.delta)).unwrap_or_default(),
            open: self.open.clone(),
            extents: self.extents.all().to_vec(),
            totals: self.extents.totals(),
            kept: self.pinned.iter().flat_map(|pinned| pinned.replaced.values().copied()).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page_store::extents::{Head, ReserveAccess};

    const PAGE: PageId = PageId(3);

    fn ledger() -> Ledger {
        Ledger::new(DurableMap::default(), Extents::new(64 << 10, 0), 1)
    }

    /// Space for one block, as if it had just been written.
    fn block(ledger: &mut Ledger) -> PageAddress {
        let runs = ledger.extents.reserve_space(Head::Fresh, [10].into_iter(), ReserveAccess::Denied).unwrap();
        PageAddress::new(runs[0].offset_units, 10).unwrap()
    }

    fn written(ledger: &mut Ledger, epoch: u64) -> PageAddress {
        let address = block(ledger);
        assert_eq!(ledger.install(PAGE, epoch, address), Installed::Kept);
        address
    }

    fn publish(ledger: &mut Ledger) {
        ledger.freeze().unwrap();
        let (_, delta) = ledger.begin_publish().unwrap();
        let changes: Vec<_> = delta.iter().map(|(page, address)| (*page, *address)).collect();
        ledger.apply(&changes);
        ledger.finish_publish();
    }

    #[test]
    fn relocation_behind_a_newer_version_is_refused_without_asking() {
        let mut ledger = ledger();
        let old = written(&mut ledger, 1);
        let newer = written(&mut ledger, 1);
        let copy = block(&mut ledger);
        assert!(!ledger.relocate(PAGE, old, copy, || panic!("asked")));
        assert_eq!(ledger.newest(PAGE), newer);
        assert_eq!(ledger.extents.totals().live, 10);
    }

    #[test]
    fn relocated_block_of_an_older_map_lives_until_the_open_epoch_is_published() {
        let mut ledger = ledger();
        let old = written(&mut ledger, 1);
        publish(&mut ledger);
        let copy = block(&mut ledger);
        assert!(ledger.relocate(PAGE, old, copy, || true));
        assert_eq!((ledger.newest(PAGE), ledger.durable().get(PAGE)), (copy, old));
        assert_eq!((ledger.extents.totals().live, ledger.extents.totals().superseded), (20, 10));
        publish(&mut ledger);
        assert_eq!((ledger.extents.totals().live, ledger.extents.totals().superseded), (10, 0));
    }

    #[test]
    fn frozen_epoch_takes_no_versions_while_it_is_being_published() {
        let mut ledger = ledger();
        ledger.freeze().unwrap();
        written(&mut ledger, 1);
        ledger.begin_publish().unwrap();
        let late = block(&mut ledger);
        assert_eq!(ledger.install(PAGE, 1, late), Installed::WrongEpoch);
        assert_eq!(ledger.extents.totals().live, 10);
        ledger.abort_publish();
        written(&mut ledger, 1);
    }

    #[test]
    fn page_freed_twice_is_freed_once() {
        let mut ledger = ledger();
        assert!(ledger.free(PAGE));
        assert!(!ledger.free(PAGE));
        ledger.freeze().unwrap();
        assert!(!ledger.free(PAGE));
    }
}
