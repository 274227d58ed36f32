//! Merging a buffer beside those who use it: a mark says whether what was copied out is still all there is.
//!
//! Called by `merging`, which copies a leaf's changes and merges them with nothing locked, and by whoever adds a change to the buffer, reads the leaf into a
//! frame, or frees it: that takes the mark away, and what was merged is not used.

use super::{CopiedChanges, Shard};
use crate::page_store::PageId;

/// Stands for one copy of a leaf's changes: another copy of the same leaf has another mark.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) struct MergeMark(u64);

impl Shard<'_> {
    /// Copies a page's changes out to be merged, and marks the page. `None` when another thread merges it already.
    pub(in super::super) fn begin_merge(&mut self, page: PageId) -> Option<(CopiedChanges, MergeMark)> {
        if self.contents.being_merged.iter().any(|(marked, _)| *marked == page) {
            return None;
        }
        let copied = self.copy(page)?;
        let mark = MergeMark(self.contents.merges_begun);
        self.contents.merges_begun += 1;
        self.contents.being_merged.push((page, mark));
        Some((copied, mark))
    }

    /// Takes a mark away; `true`: it was there, so since `begin_merge` the buffer has been as it is and the page has been on disk.
    pub(in super::super) fn end_merge(&mut self, page: PageId, mark: MergeMark) -> bool {
        let marks = &mut self.contents.being_merged;
        let found = marks.iter().position(|marked| *marked == (page, mark));
        if let Some(at) = found {
            marks.swap_remove(at);
        }
        found.is_some()
    }

    /// Takes a page's mark away, whosever it is: what was copied out is not all there is any more.
    pub(in super::super) fn outdate_merge(&mut self, page: PageId) {
        self.contents.being_merged.retain(|(marked, _)| *marked != page);
    }
}
