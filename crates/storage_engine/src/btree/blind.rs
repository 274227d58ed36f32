//! Blind changes: those that need not read their leaf. One that is on disk takes them in a buffer, merged when it is read.
//!
//! Called by `change` for blind inserts and removals, and by `page_cache` when a leaf with a buffer has been read. Relies on
//! separators being the fences of the children beside them.

use super::change::{Outcome, Stored, is_blind};
use super::{Target, Trees, Write};
use crate::batch::{Change, ChangeKind};
use crate::error::{Attempt, EngineError, Result, Retry};
use crate::frame_arena::PageImage;
use crate::node::{Node, NodeMut, PageBytes};
use crate::page_cache::{BufferedChange, BufferedPush, EncodedChanges, Fixed, MergeChanges};
use crate::page_store::PageId;

impl Trees {
    /// Finds the leaf that a change belongs to. `None`: the leaf is on disk and has taken the change into its buffer.
    pub(super) fn find_leaf_or_buffer(
        &self,
        change: Change<'_>,
        stored: Stored<'_>,
        write: Write,
    ) -> Attempt<Option<Fixed>> {
        if !is_blind(change, stored) || !self.cache.changes.takes_buffered(stored.bytes) {
            return self.find_leaf(change.tree, Target::Containing(change.key)).map(Some);
        }
        let mut fixed = self.fix_root(change.tree)?;
        loop {
            let node = self.cache.view(&fixed);
            self.check_node(change.tree, &fixed, &node)?;
            if node.is_leaf() {
                self.cache.validate(&fixed)?;
                return Ok(Some(fixed));
            }
            let position = node.child_position(change.key);
            let child = node.child(position);
            let takes_changes = node.level() == 1 && !leads_to_last(&node, position);
            if takes_changes
                && self.cache.frames.is_on_disk(child)
                && let Some(prefix_length) = node.child_prefix_length(position)
            {
                self.cache.validate(&fixed)?;
                let buffered = BufferedChange {
                    is_removal: change.kind == ChangeKind::BlindRemove,
                    since: write.since(),
                    key: change.key,
                    value: stored.bytes,
                };
                let (settled, leads_here) = (self.snapshots.settled(), || self.cache.validate(&fixed));
                let pushed = self.cache.changes.buffer_change(child, buffered, prefix_length, settled, leads_here)?;
                if pushed == BufferedPush::Done {
                    return Ok(None);
                }
            }
            self.cache.validate(&fixed)?;
            if node.level() == 1 && self.cache.frames.wait_while_loading(child) {
                // It may be on disk again, with the changes that came before this one merged.
                return Err(Retry::Restart);
            }
            // A leaf that takes them on disk all the same is not kept for such changes.
            let below = if takes_changes { self.cache.fix_without_use(child)? } else { self.cache.fix(child)? };
            self.cache.validate(&fixed)?;
            fixed = below;
        }
    }
}

/// Whether the child at a position has no upper fence.
fn leads_to_last<B: PageBytes>(parent: &Node<B>, position: usize) -> bool {
    position >= parent.count() && parent.is_last()
}

impl MergeChanges for Trees {
    fn merge_changes(&self, page: PageId, leaf: &mut PageImage, changes: EncodedChanges<'_>) -> Result<()> {
        let view = Node(&*leaf);
        let tree = crate::TreeId(view.tree());
        let prefix_length = changes.prefix_length;
        let mut key = view.lower_fence().get(..prefix_length).unwrap_or(&[]).to_vec();
        let is_leaf = view.is_leaf() && key.len() == prefix_length;
        let horizon = self.snapshots.horizon();
        for buffered in changes.by_key() {
            key.truncate(prefix_length);
            key.extend_from_slice(buffered.key);
            let kind = if buffered.is_removal { ChangeKind::BlindRemove } else { ChangeKind::BlindInsert };
            let change = Change { kind, tree, key: &key, value: buffered.value };
            let stored = Stored { bytes: buffered.value, overflow: false };
            let write = if horizon.is_settled(buffered.since) { Write::Settled } else { Write::At(buffered.since) };
            let mut outcome = self.change_node(&mut NodeMut(leaf), change, stored, write);
            if matches!(outcome, Outcome::NoRoom(_)) {
                self.compact(leaf);
                outcome = self.change_node(&mut NodeMut(leaf), change, stored, write);
            }
            if !is_leaf || !matches!(outcome, Outcome::Done | Outcome::Nothing) {
                let reason = "it does not fit the changes that were buffered for it".to_owned();
                return Err(EngineError::Corrupt { tree: tree.0, page, reason });
            }
        }
        Ok(())
    }
}
