//! Splitting full nodes.
//!
//! Called by `change` when a leaf lacks room. The descent splits every inner node on its way that could not take one
//! more separator, so that a parent always has room when its child is split; then it begins again. The root keeps its
//! page: its contents move to a new child first.
//!
//! Latch order: parent before child, both without waiting (a taken latch restarts the descent).

use super::{SCRATCH, Trees};
use crate::TreeId;
use crate::error::{Attempt, EngineError, Result, Retry};
use crate::frame_arena::{ExclusiveFrame, PAGE_BYTES, PageImage};
use crate::node::{HEADER_BYTES, Node, NodeBuilder, NodeMut, PageMut, SLOT_BYTES, Version, common_prefix, entry_bytes};
use crate::page_cache::Fixed;
use crate::page_store::PageId;

/// Bytes that an inner node keeps free: room for the longest separator.
const SEPARATOR_ROOM: usize = super::change::MAX_KEY_BYTES + 64;
/// Share of a page's bytes that stays when keys are appended at its end; the rest is room for versions of its entries.
const APPEND_FILL: (usize, usize) = (15, 16);

/// Where a node is cut.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Cut {
    /// Entries before this position stay.
    position: usize,
    /// Lower fence of the right node.
    separator: Vec<u8>,
}

impl Trees {
    /// Splits the leaf that holds `key`, unless there are `needed` bytes of room by now. One split need not be enough: what is missing
    /// then depends on what the leaf has become.
    pub(super) fn make_room(&self, tree: TreeId, key: &[u8], needed: usize) -> Result<()> {
        while !self.retry(|| self.try_make_room(tree, key, needed))? {}
        Ok(())
    }

    /// One step: splits the topmost node on the way that is too full. `true`: that was the leaf, or it has room.
    fn try_make_room(&self, tree: TreeId, key: &[u8], needed: usize) -> Attempt<bool> {
        let mut parent: Option<Fixed> = None;
        let mut fixed = self.fix_root(tree)?;
        loop {
            let node = self.cache.view(&fixed);
            self.check_node(tree, &fixed, &node)?;
            let is_leaf = node.is_leaf();
            let is_full = node.total_free() < if is_leaf { needed } else { SEPARATOR_ROOM };
            let child = node.child(node.child_position(key));
            self.cache.validate(&fixed)?;
            if is_full {
                self.split(tree, parent, fixed, key)?;
                return Ok(is_leaf);
            }
            if is_leaf {
                return Ok(true);
            }
            let below = self.cache.fix(child)?;
            self.cache.validate(&fixed)?;
            parent = Some(fixed);
            fixed = below;
        }
    }

    fn split(&self, tree: TreeId, parent: Option<Fixed>, fixed: Fixed, key: &[u8]) -> Attempt<()> {
        let reserved = self.cache.reserve()?;
        let Some(parent) = parent else {
            return self.grow_root(tree, fixed, reserved);
        };
        let mut parent_frame = self.cache.lock(&parent)?;
        let Ok(mut left_frame) = self.cache.lock(&fixed) else {
            parent_frame.release_unchanged();
            return Err(Retry::Restart);
        };
        self.cache.writer.prepare_change(&parent_frame);
        self.cache.writer.prepare_change(&left_frame);
        if Node(&*parent_frame).contiguous_free() < SEPARATOR_ROOM {
            self.compact(&mut parent_frame);
        }
        SCRATCH.with_borrow_mut(|[left_image, right_image]| {
            let old = Node(left_frame.image());
            let Some(cut) = choose_cut(&old, key) else { return Ok(()) };
            let (right_page, mut right_frame) = self.cache.create(reserved)?;
            let lower = old.lower_fence();
            let right_from = cut.position + usize::from(!old.is_leaf());
            let fits = self.build(&old, right_from..old.count(), &cut.separator, old.upper_fence(), right_image)
                && self.build(&old, 0..cut.position, lower, Some(&cut.separator), left_image);
            if !fits {
                let reason = format!("cut before entry {} of {}, it does not fit into two", cut.position, old.count());
                return Err(Retry::Failed(EngineError::Corrupt { tree: tree.0, page: fixed.page, reason }));
            }
            if !old.is_leaf() {
                NodeMut(&mut **left_image).set_child(cut.position, old.child(cut.position));
            }
            right_frame.put_image(right_image);
            left_frame.put_image(left_image);
            insert_separator(&mut parent_frame, &cut.separator, fixed.page, right_page);
            Ok(())
        })
    }

    /// Moves the root's contents to a new page, which becomes its only child.
    fn grow_root(&self, tree: TreeId, root: Fixed, reserved: crate::page_cache::ReservedFrame<'_>) -> Attempt<()> {
        let mut root_frame = self.cache.lock(&root)?;
        self.cache.writer.prepare_change(&root_frame);
        let (child, mut child_frame) = self.cache.create(reserved)?;
        child_frame.put_image(&root_frame);
        let level = Node(&*root_frame).level() + 1;
        SCRATCH.with_borrow_mut(|[image, _]| {
            NodeBuilder::new(image, tree.0, level, &[], None).set_rightmost(child);
            root_frame.put_image(image);
        });
        Ok(())
    }
}

/// Puts a new right sibling beside `left` into their parent, which has room.
fn insert_separator(parent: &mut ExclusiveFrame<'_>, separator: &[u8], left: PageId, right: PageId) {
    let mut parent = NodeMut(parent);
    let position = parent.view().child_position(separator);
    debug_assert_eq!(parent.view().child(position), left);
    parent.set_child(position, right);
    let suffix = separator[parent.view().prefix_length()..].to_vec();
    let is_placed = parent.insert(position, &suffix, &left.0.to_le_bytes(), false, Version::Settled);
    debug_assert!(is_placed, "room was made before");
}

/// Decides where to cut. `None` when the node has nothing to cut: an inner node with fewer than three separators.
fn choose_cut(node: &Node<&PageImage>, key: &[u8]) -> Option<Cut> {
    let count = node.count();
    let full_key = |position| {
        let mut key = Vec::new();
        node.copy_key(position, &mut key);
        key
    };
    if !node.is_leaf() {
        let position = if node.child_position(key) == count { count * 15 / 16 } else { count / 2 };
        let position = position.min(count.checked_sub(2)?);
        return (position > 0).then(|| Cut { position, separator: full_key(position) });
    }
    let insert_at = node.lower_bound(key);
    let cut_before =
        |position| Cut { position, separator: shortest_between(&full_key(position - 1), &full_key(position)) };
    let is_appended = insert_at == count && count > 0;
    // When keys are being appended, the left page stays nearly full.
    let mut position = position_at_share(node, if is_appended { APPEND_FILL } else { (1, 2) }).max(1);
    while position < count {
        let cut = cut_before(position);
        if position == 1 || left_bytes(node, &cut) <= PAGE_BYTES {
            return Some(cut);
        }
        // The last page of a level gets an upper fence, which can be longer than the entries that leave.
        position -= 1;
    }
    // One entry, or one large entry at the end: the new key goes beside it.
    if insert_at >= count {
        let last = full_key(count.checked_sub(1)?);
        return Some(Cut { position: count, separator: shortest_between(&last, key) });
    }
    let first = full_key(insert_at);
    Some(Cut { position: insert_at, separator: shortest_between(key, &first) })
}

/// What a leaf's left part takes at most, when it is cut: its prefix is as long as the leaf's or longer.
fn left_bytes(node: &Node<&PageImage>, cut: &Cut) -> usize {
    let entries: usize = (0..cut.position).map(|position| SLOT_BYTES + node.heap_bytes(position)).sum();
    HEADER_BYTES + node.lower_fence().len() + cut.separator.len() + entries
}

/// The position before which about `share` of the entries' bytes are.
fn position_at_share(node: &Node<&PageImage>, share: (usize, usize)) -> usize {
    let total = node.live_bytes(0);
    let wanted = total * share.0 / share.1;
    let mut bytes = 0;
    for position in 0..node.count() {
        bytes += entry_bytes(node.slot(position).suffix_length(), node.value(position).0.len(), node.version(position));
        if bytes >= wanted {
            return position + usize::from(bytes < total);
        }
    }
    node.count()
}

/// The shortest key above `low` and at or below `high`.
fn shortest_between(low: &[u8], high: &[u8]) -> Vec<u8> {
    high[..(common_prefix(low, high) + 1).min(high.len())].to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn separators_are_as_short_as_they_can_be() {
        assert_eq!(shortest_between(b"abc", b"abd"), b"abd");
        assert_eq!(shortest_between(b"abc", b"b"), b"b");
        assert_eq!(shortest_between(b"ab", b"abcd"), b"abc");
        assert_eq!(shortest_between(b"", b"zebra"), b"z");
    }
}
