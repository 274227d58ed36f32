//! Rebuilding a page from its entries: settled versions lose their cells, settled deletions go.
//!
//! Called by `change` when a leaf has no room, by `split` and by `merge`. Works in a scratch image of the thread and
//! copies back, so that a page under its latch is never half built for long.

use std::ops::Range;

use super::{SCRATCH, Trees};
use crate::frame_arena::{ExclusiveFrame, PAGE_BYTES, PageImage};
use crate::node::{HEADER_BYTES, Node, NodeBuilder, PageMut, Presence, Version, common_prefix};
use crate::overflow::OverflowReference;
use crate::page_store::PageId;

impl Trees {
    /// Rebuilds a node in place, without garbage and without settled versions.
    pub(crate) fn compact(&self, page: &mut impl PageMut) {
        SCRATCH.with_borrow_mut(|[rebuilt, _]| {
            let old = Node(page.image());
            if self.build(&old, 0..old.count(), old.lower_fence(), old.upper_fence(), rebuilt) {
                page.put_image(rebuilt);
            } else {
                debug_assert!(false, "a compacted page has grown");
            }
        });
    }

    /// Rebuilds a latched last leaf with a shorter prefix. `false`, and nothing done: its entries would not fit.
    pub(super) fn shorten_prefix(&self, frame: &mut ExclusiveFrame<'_>, prefix_length: usize) -> bool {
        SCRATCH.with_borrow_mut(|[rebuilt, _]| {
            let old = Node(frame.image());
            let growth = old.prefix_length() - prefix_length;
            if old.live_bytes(growth) + old.lower_fence().len() + HEADER_BYTES > PAGE_BYTES {
                return false;
            }
            let fences = (old.lower_fence(), old.upper_fence());
            let mut builder = NodeBuilder::with_prefix(rebuilt, old.tree(), old.level(), fences, prefix_length);
            let mut chains = Vec::new();
            let fits = self.push_range(&mut builder, &old, 0..old.count(), &mut chains);
            if fits {
                self.leave_chains(chains);
                frame.put_image(rebuilt);
            } else {
                debug_assert!(false, "a page that was measured does not fit");
            }
            fits
        })
    }

    /// Builds a node from a range of another one's entries; `false` when they do not fit: then the image is of no use.
    pub(super) fn build(
        &self,
        old: &Node<&PageImage>,
        range: Range<usize>,
        lower: &[u8],
        upper: Option<&[u8]>,
        image: &mut PageImage,
    ) -> bool {
        let prefix_length = match upper {
            Some(upper) => common_prefix(lower, upper),
            None if old.is_leaf() && !range.is_empty() => old.shared_with(range.end - 1, lower),
            None => 0,
        };
        let mut builder = NodeBuilder::with_prefix(image, old.tree(), old.level(), (lower, upper), prefix_length);
        if !old.is_leaf() {
            builder.set_rightmost(old.rightmost());
        }
        let mut chains = Vec::new();
        let fits = self.push_range(&mut builder, old, range, &mut chains);
        if fits {
            self.leave_chains(chains);
        }
        fits
    }

    /// Adds a range of another node's entries; `false` when they do not fit. `chains` gets those overflow chains that nobody needs once the new node is in use.
    pub(super) fn push_range(
        &self,
        builder: &mut NodeBuilder<'_>,
        old: &Node<&PageImage>,
        range: Range<usize>,
        chains: &mut Vec<PageId>,
    ) -> bool {
        let horizon = self.snapshots.horizon();
        for position in range {
            let version = old.version(position);
            let is_settled = horizon.is_settled(version.since());
            if is_settled && old.presence(position) == Presence::Ghost {
                let (value, overflow) = old.value(position);
                if let Some(reference) = OverflowReference::decode(value).filter(|_| overflow) {
                    chains.push(reference.head);
                }
                continue;
            }
            if !builder.push_from(old, position, if is_settled { Version::Settled } else { version }) {
                return false;
            }
        }
        true
    }

    /// Has overflow chains freed that no entry refers to any more.
    pub(super) fn leave_chains(&self, chains: Vec<PageId>) {
        if !chains.is_empty() {
            self.leftovers.chains.lock().extend(chains);
        }
    }
}
