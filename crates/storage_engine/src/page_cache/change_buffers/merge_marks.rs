//! Merging a buffer beside those who use it: a mark says whether what was copied out is still all there is.
//!
//! Called by `merging`, which copies a leaf's changes and merges them with nothing locked, and by whoever adds a change to the buffer, reads the leaf into a
//! frame, or frees it: that takes the mark away, and what was merged is not used.

use super::{CopiedChanges, Shard};
use crate::page_store::PageId;

impl Shard<'_> {
    /// Copies a page's changes out to be merged, and marks the page. `None` when another thread merges it already.
    pub(in super::super) fn begin_merge(&mut self, page: PageId) -> Option<CopiedChanges> {
        if self.contents.being_merged.contains(&page) {
            return None;
        }
        let copied = self.copy(page)?;
        self.contents.being_merged.push(page);
        Some(copied)
    }

    /// Takes the mark away; `true`: it was there, so since `begin_merge` the buffer has been as it is and the page has been on disk.
    pub(in super::super) fn end_merge(&mut self, page: PageId) -> bool {
        let marks = &mut self.contents.being_merged;
        let found = marks.iter().position(|marked| *marked == page);
        if let Some(at) = found {
            marks.swap_remove(at);
        }
        found.is_some()
    }
}
