//! Building a node from its entries in order: new pages, compaction, splits and merges.
//!
//! Called by `btree`. Relies on `edit` for the placing of entries.

use super::{
    KIND_NODE, NO_FENCE, Node, NodeMut, PageBytes, PageMut, Presence, SLOT_BYTES, Version, common_prefix, field,
};
use crate::frame_arena::{PAGE_BYTES, PageImage};
use crate::page_store::PageId;

/// Fills an image with a node, entry by entry, in key order.
pub(crate) struct NodeBuilder<'a> {
    node: NodeMut<'a>,
    prefix_length: usize,
}

impl<'a> NodeBuilder<'a> {
    /// Starts an empty node between two fences.
    pub(crate) fn new(image: &'a mut PageImage, tree: u64, level: u8, lower: &[u8], upper: Option<&[u8]>) -> Self {
        let prefix_length = upper.map_or(0, |upper| common_prefix(lower, upper));
        Self::with_prefix(image, tree, level, (lower, upper), prefix_length)
    }

    /// Starts an empty node with a prefix of a given length, which is at most what the fences allow, or what all keys of
    /// a page without upper fence share with its lower one.
    pub(crate) fn with_prefix(
        image: &'a mut PageImage,
        tree: u64,
        level: u8,
        (lower, upper): (&[u8], Option<&[u8]>),
        prefix_length: usize,
    ) -> Self {
        let mut node = NodeMut(image);
        // What lies in the gap is compressed and written with the rest.
        node.0.fill(0);
        node.put(field::KIND, &[KIND_NODE, level]);
        node.put(field::TREE, &tree.to_le_bytes());
        let lower_at = PAGE_BYTES - lower.len();
        node.put(lower_at, lower);
        node.put_u16(field::LOWER_AT, lower_at);
        node.put_u16(field::LOWER_LENGTH, lower.len());
        let upper_at = lower_at - upper.map_or(0, <[u8]>::len);
        node.put(upper_at, upper.unwrap_or(&[]));
        node.put_u16(field::UPPER_AT, upper_at);
        node.put_u16(field::UPPER_LENGTH, upper.map_or(usize::from(NO_FENCE), <[u8]>::len));
        node.put_u16(field::PREFIX_LENGTH, prefix_length);
        node.put_u16(field::HEAP_START, upper_at);
        Self { node, prefix_length }
    }

    /// Adds the entry of another node at a position, whatever that node's prefix. `false`: the page is full.
    pub(crate) fn push_from(&mut self, from: &Node<&PageImage>, position: usize, version: Version) -> bool {
        let (value, overflow) = from.value(position);
        let presence = from.presence(position);
        let old_prefix = from.prefix_length();
        if self.prefix_length >= old_prefix {
            let cut = self.prefix_length - old_prefix;
            let suffix = from.suffix(position).get(cut..).unwrap_or(&[]);
            return self.push_suffix(suffix, value, overflow, version, presence);
        }
        let mut suffix = Vec::with_capacity(old_prefix - self.prefix_length + from.slot(position).suffix_length());
        suffix.extend_from_slice(from.prefix().get(self.prefix_length..).unwrap_or(&[]));
        suffix.extend_from_slice(from.suffix(position));
        self.push_suffix(&suffix, value, overflow, version, presence)
    }

    /// Adds an entry by its whole key. `false`: the page is full.
    pub(crate) fn push(&mut self, key: &[u8], value: &[u8]) -> bool {
        self.push_suffix(&key[self.prefix_length..], value, false, Version::Settled, Presence::Live)
    }

    fn push_suffix(
        &mut self,
        suffix: &[u8],
        value: &[u8],
        overflow: bool,
        version: Version,
        presence: Presence,
    ) -> bool {
        let position = self.node.view().count();
        self.node.insert(position, suffix, value, overflow, version)
            && (presence == Presence::Live || self.node.set_version(position, version, presence))
    }

    /// Sets the child for the keys above the last separator.
    pub(crate) fn set_rightmost(&mut self, child: PageId) {
        self.node.0.put_u64(field::RIGHTMOST, child.0);
    }
}

impl<B: PageBytes> Node<B> {
    /// Bytes (slots and heap, fences excluded) that the entries take once those `keep` settles are settled: for
    /// deciding whether two nodes fit into one. `prefix_cut` bytes are added to every suffix.
    pub(crate) fn live_bytes(&self, prefix_growth: usize) -> usize {
        (0..self.count()).map(|position| SLOT_BYTES + self.heap_bytes(position) + prefix_growth).sum()
    }
}
