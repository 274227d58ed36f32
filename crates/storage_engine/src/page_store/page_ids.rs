//! Which page ids are free.
//!
//! Lowest first, so that the ids in use stay dense and the tables indexed by them short. Called by client threads when
//! a page is split or a tree created, and by `checkpoint` when ids of freed pages may be used again.

use std::collections::BTreeSet;

use super::address::{PAGE_ID_LIMIT, PageId};
use super::durable_map::DurableMap;

/// The free ids below a limit, and the limit.
pub(super) struct PageIds {
    next: u64,
    free: BTreeSet<u64>,
    /// `PAGE_ID_LIMIT`, or less.
    max: u64,
}

impl PageIds {
    /// The ids as a checkpoint left them: what has no address is free.
    pub(super) fn of_checkpoint(durable: &DurableMap, max: u64) -> PageIds {
        let mut ids = PageIds { next: 0, free: BTreeSet::new(), max: max.min(PAGE_ID_LIMIT) };
        for (page, _) in durable.pages() {
            ids.free.extend(ids.next..page.0);
            ids.next = page.0 + 1;
        }
        ids
    }

    /// Takes a free id; `None` when all are in use.
    pub(super) fn allocate(&mut self) -> Option<PageId> {
        if let Some(page) = self.free.pop_first() {
            return Some(PageId(page));
        }
        let page = (self.next < self.max).then_some(PageId(self.next))?;
        self.next += 1;
        Some(page)
    }

    /// Gives ids back. Ids that were never given out are none of ours.
    pub(super) fn release(&mut self, pages: &[PageId]) {
        self.free.extend(pages.iter().map(|page| page.0).filter(|page| *page < self.next));
    }

    /// Whether an id is not in use.
    pub(super) fn is_free(&self, page: PageId) -> bool {
        page.0 >= self.next || self.free.contains(&page.0)
    }

    /// All ids ever given out are below this.
    pub(super) fn limit(&self) -> u64 {
        self.next
    }

    /// How many more can be given out, and how many there are.
    pub(super) fn left(&self) -> (u64, u64) {
        (self.max.saturating_sub(self.in_use()), self.max)
    }

    /// How many ids are given out.
    pub(super) fn in_use(&self) -> u64 {
        self.next - self.free.len() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page_store::address::PageAddress;

    #[test]
    fn gaps_of_a_checkpoint_are_used_first_lowest_first() {
        let mut durable = DurableMap::default();
        for page in [1, 4] {
            durable.set(PageId(page), PageAddress::new(500, 1).unwrap());
        }
        let mut ids = PageIds::of_checkpoint(&durable, 7);
        assert_eq!((ids.limit(), ids.in_use()), (5, 2));
        let taken: Vec<_> = std::iter::repeat_with(|| ids.allocate().unwrap().0).take(5).collect();
        assert_eq!(taken, [0, 2, 3, 5, 6]);
        assert_eq!((ids.allocate(), ids.left()), (None, (0, 7)));
        ids.release(&[PageId(4), PageId(0), PageId(99)]);
        assert_eq!(ids.in_use(), 5);
        assert_eq!(ids.allocate(), Some(PageId(0)));
    }
}
