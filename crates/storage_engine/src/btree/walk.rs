//! Walking all pages of a tree, for dropping it and for its statistics.
//!
//! Called by the reclaimer (drop: nobody uses the tree any more) and by `engine` (statistics).

use std::ops::ControlFlow;

use super::Trees;
use crate::TreeId;
use crate::error::{Result, Retry};
use crate::frame_arena::{PAGE_BYTES, PageImage};
use crate::node::{Node, Presence, field};
use crate::overflow::{self, OverflowReference};
use crate::page_cache::Backoff;
use crate::page_store::PageId;

/// What a walk does when it meets a damaged page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Damage {
    /// It fails.
    Fails,
    /// It leaves out the page and what is below it.
    IsPassedOver,
}

/// What was found on the way.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct TreePages {
    pub(crate) inner: Vec<PageId>,
    pub(crate) leaves: Vec<PageId>,
    pub(crate) overflow: Vec<PageId>,
    pub(crate) entries: u64,
    /// Whether these are all.
    pub(crate) is_whole: bool,
}

impl TreePages {
    fn len(&self) -> usize {
        self.inner.len() + self.leaves.len() + self.overflow.len()
    }
}

impl Trees {
    /// Collects the pages of a tree; the root is the first inner page or the only leaf. Reads every leaf, for its overflow chains and entry count. Exact for a
    /// tree that is not being changed.
    pub(crate) fn pages_of(&self, tree: TreeId) -> Result<TreePages> {
        self.walk_pages(tree, usize::MAX, Damage::Fails, &mut |_| Ok(ControlFlow::Continue(())))
    }

    /// As `pages_of`, but ends after about `most` pages. Calls `between` after each leaf with what was found since it last took it away, with nothing latched;
    /// it may end the walk. Leaves and overflow pages taken away may be freed: the walk does not come back to them.
    pub(crate) fn walk_pages(
        &self,
        tree: TreeId,
        most: usize,
        damage: Damage,
        between: &mut dyn FnMut(&mut TreePages) -> Result<ControlFlow<()>>,
    ) -> Result<TreePages> {
        let mut found = TreePages::default();
        let mut image: Box<PageImage> = Box::new([0; PAGE_BYTES]);
        let mut to_visit = vec![tree.root()];
        while let Some(page) = to_visit.pop() {
            if found.len() >= most {
                return Ok(found);
            }
            match self.copy_page(page, &mut image) {
                Ok(true) => {}
                Ok(false) => continue,
                Err(error) if damage == Damage::IsPassedOver && error.is_damage() => continue,
                Err(error) => return Err(error),
            }
            let node = Node(&*image);
            if node.tree() != tree.0 || image[field::KIND] != crate::node::KIND_NODE {
                continue;
            }
            if !node.is_leaf() {
                to_visit.extend((0..=node.count()).rev().map(|position| node.child(position)));
                found.inner.push(page);
                continue;
            }
            found.leaves.push(page);
            for position in 0..node.count() {
                found.entries += u64::from(node.presence(position) == Presence::Live);
                let (value, is_overflow) = node.value(position);
                if let Some(reference) = OverflowReference::decode(value).filter(|_| is_overflow) {
                    found.overflow.extend(overflow::remaining_pages(&self.cache, tree, reference.head)?);
                }
            }
            if between(&mut found)?.is_break() {
                return Ok(found);
            }
        }
        found.is_whole = true;
        Ok(found)
    }

    /// Copies a page out as it is now; `false` when it is not allocated.
    pub(crate) fn copy_page(&self, page: PageId, image: &mut PageImage) -> Result<bool> {
        let mut backoff = Backoff::new();
        loop {
            match self.cache.fix(page).and_then(|fixed| self.cache.copy(&fixed, image)) {
                Ok(()) => return Ok(true),
                Err(Retry::Failed(error)) => return Err(error),
                Err(Retry::Restart) if !self.cache.frames.is_allocated(page) => return Ok(false),
                Err(Retry::Restart) => backoff.wait(),
            }
        }
    }
}
