//! Giving space back: compacting leaves full of deleted entries, merging small neighbours, lowering the root.
//!
//! Called by the reclaimer (background), inside the checkpoint barrier.

use super::{SCRATCH, SparseLeaf, Trees};
use crate::TreeId;
use crate::error::{Attempt, Result, Retry};
use crate::frame_arena::{PAGE_BYTES, PageImage};
use crate::node::{HEADER_BYTES, Node, NodeBuilder, NodeMut, PageMut, SLOT_BYTES, common_prefix};
use crate::page_cache::Fixed;
use crate::page_store::PageId;

/// A node with less than this share of its bytes in use looks for a neighbour.
pub(super) const SMALL_NODE_BYTES: usize = PAGE_BYTES / 3;
/// One that has found a neighbour looks on below this, so that the emptied pages of a large deletion become full ones.
const MERGED_ON_BYTES: usize = PAGE_BYTES / 2;
/// Two nodes are merged when the result is not fuller than this, so that it is not split at once.
const MERGED_BYTES_MAX: usize = PAGE_BYTES * 3 / 4;

/// A leaf is looked at again while more than one in so many of its entries is deleted and not settled.
const GHOSTS_ONE_IN: usize = 8;

/// What came of looking at a sparse leaf.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Merged {
    /// Nothing more to do there.
    Done,
    /// These pages are no longer part of the tree; there may be more to do.
    Freed(Vec<PageId>),
    /// Some of its deleted entries are still needed by a snapshot; look again later.
    NotSettled,
    /// A page would be freed, which was not allowed.
    WouldFree,
    /// This page is in no frame: it is to be read first.
    NotResident(PageId),
}

/// How far a leaf has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shrinking {
    /// It has just been looked at.
    First,
    /// It has been merged with a neighbour.
    Further,
}

impl Trees {
    /// Compacts the leaf that holds the key and merges what is small on the way to it, if it may free pages. One step,
    /// which waits neither for a frame nor for the disk.
    pub(crate) fn shrink(&self, sparse: &SparseLeaf, stage: Shrinking, may_free: bool) -> Result<Merged> {
        let small_bytes = match stage {
            Shrinking::First => SMALL_NODE_BYTES,
            Shrinking::Further => MERGED_ON_BYTES,
        };
        self.retry(|| self.try_shrink(sparse.tree, &sparse.key, small_bytes, may_free))
    }

    fn try_shrink(&self, tree: TreeId, key: &[u8], small_bytes: usize, may_free: bool) -> Attempt<Merged> {
        let mut parent: Option<(Fixed, usize)> = None;
        let Some(mut fixed) = self.fix_resident_root(tree)? else { return Ok(Merged::NotResident(tree.root())) };
        loop {
            let node = self.cache.view(&fixed);
            self.check_node(tree, &fixed, &node)?;
            let (is_leaf, count) = (node.is_leaf(), node.count());
            let position = node.child_position(key);
            let child = node.child(position);
            let used = node.used_bytes();
            let versioned = node.versioned();
            self.cache.validate(&fixed)?;
            if is_leaf && versioned > 0 {
                return self.compact_leaf(&fixed, versioned);
            }
            match parent {
                Some(_) if used < small_bytes && !may_free => return Ok(Merged::WouldFree),
                Some((parent, at)) if used < small_bytes => {
                    if let Some(merged) = self.try_merge_with_neighbour(parent, at)? {
                        return Ok(merged);
                    }
                }
                None if !is_leaf && count == 0 && !may_free => return Ok(Merged::WouldFree),
                None if !is_leaf && count == 0 => return self.lower_root(tree, &fixed, child),
                _ => {}
            }
            if is_leaf {
                return Ok(Merged::Done);
            }
            let Some(below) = self.cache.fix_resident(child)? else { return Ok(Merged::NotResident(child)) };
            self.cache.validate(&fixed)?;
            parent = Some((fixed, position));
            fixed = below;
        }
    }

    fn compact_leaf(&self, fixed: &Fixed, versioned: usize) -> Attempt<Merged> {
        let mut frame = self.cache.lock(fixed)?;
        self.cache.writer.prepare_change(&frame);
        self.compact(&mut frame);
        let node = Node(&*frame);
        let (left, count) = (node.versioned(), node.count());
        // Deleted entries keep their values until they are settled.
        if left == versioned || left * 2 > count || node.ghosts() * GHOSTS_ONE_IN > count {
            return Ok(Merged::NotSettled);
        }
        if left > 0 { Ok(Merged::Done) } else { Err(Retry::Restart) }
    }

    /// Merges the child at a position with the neighbour on its right or left; `None`: neither fits.
    fn try_merge_with_neighbour(&self, parent: Fixed, at: usize) -> Attempt<Option<Merged>> {
        let count = self.cache.view(&parent).count();
        self.cache.validate(&parent)?;
        if at < count
            && let Some(merged) = self.try_merge(parent, at)?
        {
            return Ok(Some(merged));
        }
        match at.checked_sub(1) {
            Some(left_at) => self.try_merge(parent, left_at),
            None => Ok(None),
        }
    }

    /// Merges the child at a position with the one after it if both fit into one page.
    fn try_merge(&self, parent: Fixed, left_at: usize) -> Attempt<Option<Merged>> {
        let view = self.cache.view(&parent);
        if left_at >= view.count() {
            return Err(Retry::Restart);
        }
        let (left, right) = (view.child(left_at), view.child(left_at + 1));
        self.cache.validate(&parent)?;
        let not_resident = |page| Ok(Some(Merged::NotResident(page)));
        let Some(left) = self.cache.fix_resident(left)? else { return not_resident(left) };
        let Some(right) = self.cache.fix_resident(right)? else { return not_resident(right) };
        let mut left_frame = self.cache.lock(&left)?;
        let Ok(right_frame) = self.cache.lock(&right) else {
            left_frame.release_unchanged();
            return Err(Retry::Restart);
        };
        SCRATCH.with_borrow_mut(|[target, _]| {
            let mut chains = Vec::new();
            let (left_node, right_node) = (Node(&*left_frame), Node(&*right_frame));
            // Everybody comes by the parent, so it is latched only when all is ready. Unchanged until now, it says that these are still neighbours.
            let parent_frame = self.cache.validate(&parent).and_then(|()| {
                match self.build_merged(target, &left_node, &right_node, &mut chains) {
                    true => self.cache.lock(&parent).map(Some),
                    false => Ok(None),
                }
            });
            let Ok(Some(mut parent_frame)) = parent_frame else {
                left_frame.release_unchanged();
                right_frame.release_unchanged();
                return parent_frame.map(|_| None);
            };
            self.cache.writer.prepare_change(&left_frame);
            left_frame.put_image(target);
            self.cache.writer.prepare_change(&parent_frame);
            let mut parent_node = NodeMut(&mut parent_frame);
            parent_node.set_child(left_at + 1, left.page);
            parent_node.remove(left_at);
            self.leave_chains(chains);
            Ok(Some(Merged::Freed(vec![right.page])))
        })
    }

    /// Fills `target` with the entries of two neighbours; `false` when they would not fit well.
    fn build_merged(
        &self,
        target: &mut PageImage,
        left: &Node<&PageImage>,
        right: &Node<&PageImage>,
        chains: &mut Vec<PageId>,
    ) -> bool {
        let mut separator = right.lower_fence().to_vec();
        let lower = left.lower_fence();
        let upper = right.upper_fence();
        let shared = merged_prefix(left, right);
        let growth = |node: &Node<&PageImage>| node.prefix_length().saturating_sub(shared);
        let bytes = HEADER_BYTES
            + lower.len()
            + upper.map_or(0, <[u8]>::len)
            + left.live_bytes(growth(left))
            + right.live_bytes(growth(right))
            + if left.is_leaf() { 0 } else { SLOT_BYTES + 10 + separator.len() };
        if bytes > MERGED_BYTES_MAX {
            return false;
        }
        let mut builder = NodeBuilder::with_prefix(target, left.tree(), left.level(), (lower, upper), shared);
        let mut fits = self.push_range(&mut builder, left, 0..left.count(), chains);
        if !left.is_leaf() {
            separator.truncate(right.lower_fence().len());
            fits &= builder.push(&separator, &left.rightmost().0.to_le_bytes());
            builder.set_rightmost(right.rightmost());
        }
        fits &= self.push_range(&mut builder, right, 0..right.count(), chains);
        debug_assert!(fits, "the bytes were counted");
        fits
    }

    /// The root has one child left: takes its contents and frees it.
    fn lower_root(&self, tree: TreeId, root: &Fixed, child: PageId) -> Attempt<Merged> {
        let Some(child) = self.cache.fix_resident(child)? else { return Ok(Merged::NotResident(child)) };
        let mut root_frame = self.cache.lock(root)?;
        let Ok(child_frame) = self.cache.lock(&child) else {
            root_frame.release_unchanged();
            return Err(Retry::Restart);
        };
        debug_assert_eq!(Node(&*child_frame).tree(), tree.0);
        self.cache.writer.prepare_change(&root_frame);
        root_frame.put_image(&child_frame);
        Ok(Merged::Freed(vec![child.page]))
    }
}

/// Length of the prefix of a node with the entries of two neighbours.
fn merged_prefix(left: &Node<&PageImage>, right: &Node<&PageImage>) -> usize {
    let lower = left.lower_fence();
    match (right.upper_fence(), right.count()) {
        (Some(upper), _) => common_prefix(lower, upper),
        (None, 0) => 0,
        (None, count) if right.is_leaf() => right.shared_with(count - 1, lower),
        (None, _) => 0,
    }
}
