//! A cursor over one tree as a snapshot sees it, in both directions.
//!
//! Made by `engine` for `transaction`'s read views. The cursor copies one leaf at a time into memory of its own, so
//! that nothing is latched or pinned between calls, and follows versions through the history, which its snapshot keeps.

use std::sync::Arc;

use platform::Timestamp;

use crate::TreeId;
use crate::btree::{Target, Trees, copy_entry};
use crate::error::Result;
use crate::frame_arena::{PAGE_BYTES, PageImage};
use crate::history::EntryState;
use crate::node::{Node, Presence, Version};
use crate::snapshot::Snapshot;

/// Where a cursor is in its copy of a leaf. Positions are between entries: `next` moves over the entry at the
/// position, `previous` over the one before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// Not positioned: the first move begins at an end of the tree.
    Unpositioned,
    /// In the copied leaf.
    At(usize),
}

/// Which bytes hold the value of the entry that the cursor is on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ValuePlace {
    /// In the copied leaf, at this entry.
    Leaf(usize),
    /// In the cursor's buffer: an older version.
    Buffer,
    /// In overflow pages that were not read yet; the copied leaf has the reference, at this entry.
    LeafOverflow(usize),
}

/// What came of counting for a while.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Counted {
    /// How many entries were passed over.
    pub entries: u64,
    /// Whether there are no more up to where was counted.
    pub is_end: bool,
}

/// A cursor over one tree.
pub struct BTreeCursor {
    trees: Arc<Trees>,
    snapshot: Snapshot,
    tree: TreeId,
    /// See `set_end`.
    end: Option<Vec<u8>>,
    leaf: Box<PageImage>,
    place: Place,
    key: Vec<u8>,
    value: Vec<u8>,
    value_place: ValuePlace,
}

impl BTreeCursor {
    pub(crate) fn new(trees: Arc<Trees>, snapshot: Snapshot, tree: TreeId) -> Self {
        Self {
            trees,
            snapshot,
            tree,
            end: None,
            leaf: Box::new([0; PAGE_BYTES]),
            place: Place::Unpositioned,
            key: Vec::new(),
            value: Vec::new(),
            value_place: ValuePlace::Buffer,
        }
    }

    /// Says that nobody asks for entries at or above `end`, because the snapshot does not see them, say. Leaves beyond are not looked at then: there may be
    /// very many, and more by the time. Of the leaf that `end` is in entries above it may be yielded if the snapshot sees them.
    pub fn set_end(&mut self, end: &[u8]) {
        self.end = Some(end.to_vec());
    }

    /// What `set_end` was told.
    pub fn end(&self) -> Option<&[u8]> {
        self.end.as_deref()
    }

    /// The snapshot that the cursor reads.
    pub fn snapshot(&self) -> &Snapshot {
        &self.snapshot
    }

    /// Bytes of memory that the cursor holds.
    pub fn memory_bytes(&self) -> usize {
        PAGE_BYTES + self.key.capacity() + self.value.capacity()
    }

    /// `next` then yields the first entry whose key is at or above `key`.
    pub fn seek(&mut self, key: &[u8]) -> Result<()> {
        self.load(Target::Containing(key))?;
        self.place = Place::At(self.node().lower_bound(key));
        Ok(())
    }

    /// `next` then yields the first entry whose key is above `key`.
    pub fn seek_after(&mut self, key: &[u8]) -> Result<()> {
        self.seek(key)?;
        self.step_over(key);
        Ok(())
    }

    /// `previous` then yields the last entry whose key is below `key`.
    pub fn seek_before(&mut self, key: &[u8]) -> Result<()> {
        self.load(Target::Below(key))?;
        self.place = Place::At(self.node().lower_bound(key));
        Ok(())
    }

    /// `previous` then yields the last entry whose key is at or below `key`.
    pub fn seek_at_or_before(&mut self, key: &[u8]) -> Result<()> {
        self.seek(key)?;
        self.step_over(key);
        Ok(())
    }

    /// `next` then yields the first entry.
    pub fn seek_first(&mut self) -> Result<()> {
        self.seek(&[])
    }

    /// `previous` then yields the last entry.
    pub fn seek_last(&mut self) -> Result<()> {
        match self.end.take() {
            Some(end) => {
                let sought = self.seek_before(&end);
                self.end = Some(end);
                sought
            }
            None => {
                self.load(Target::Last)?;
                self.place = Place::At(self.node().count());
                Ok(())
            }
        }
    }

    /// Moves to the next entry; `false` at the end, where it stays.
    #[allow(clippy::should_implement_trait, reason = "a cursor lends its entries, which an iterator cannot")]
    pub fn next(&mut self) -> Result<bool> {
        if self.place == Place::Unpositioned {
            self.seek_first()?;
        }
        loop {
            let Place::At(position) = self.place else { return Ok(false) };
            if position < self.node().count() {
                self.place = Place::At(position + 1);
                if self.take(position)? {
                    return Ok(true);
                }
                continue;
            }
            let Some(fence) = self.node().upper_fence().map(<[u8]>::to_vec) else { return Ok(false) };
            if self.end.as_ref().is_some_and(|end| *end <= fence) {
                return Ok(false);
            }
            self.load(Target::Containing(&fence))?;
            self.place = Place::At(self.node().lower_bound(&fence));
        }
    }

    /// Moves to the previous entry; `false` at the beginning, where it stays.
    pub fn previous(&mut self) -> Result<bool> {
        if self.place == Place::Unpositioned {
            self.seek_last()?;
        }
        loop {
            let Place::At(position) = self.place else { return Ok(false) };
            if position > 0 {
                self.place = Place::At(position - 1);
                if self.take(position - 1)? {
                    return Ok(true);
                }
                continue;
            }
            let fence = self.node().lower_fence().to_vec();
            if fence.is_empty() {
                return Ok(false);
            }
            self.load(Target::Below(&fence))?;
            self.place = Place::At(self.node().lower_bound(&fence));
        }
    }

    /// Passes over the entries below `end` and counts them, of one leaf at a time. The cursor is on none of them afterwards;
    /// `next` yields what is behind them.
    pub fn count_below(&mut self, end: &[u8]) -> Result<Counted> {
        if self.place == Place::Unpositioned {
            self.seek_first()?;
        }
        let Place::At(first) = self.place else { return Ok(Counted { entries: 0, is_end: true }) };
        let (node, behind) = (self.node(), self.node().lower_bound(end));
        let is_inside = behind < node.count();
        let mut entries = 0;
        for position in first..behind {
            entries += u64::from(self.value_at(position)?.is_some());
        }
        self.place = Place::At(behind.max(first));
        let Some(fence) = self.node().upper_fence().filter(|_| !is_inside).map(<[u8]>::to_vec) else {
            return Ok(Counted { entries, is_end: true });
        };
        if *end <= *fence || self.end.as_ref().is_some_and(|end| *end <= fence) {
            return Ok(Counted { entries, is_end: true });
        }
        self.load(Target::Containing(&fence))?;
        self.place = Place::At(self.node().lower_bound(&fence));
        Ok(Counted { entries, is_end: false })
    }

    /// The key of the entry that the cursor is on.
    pub fn key(&self) -> &[u8] {
        &self.key
    }

    /// The value of the entry that the cursor is on. A large value is read from its overflow pages now.
    pub fn value(&mut self) -> Result<&[u8]> {
        if let ValuePlace::LeafOverflow(position) = self.value_place {
            let state = copy_entry(&Node(&*self.leaf), position, &mut self.value);
            let settled = EntryState { presence: Presence::Live, version: Version::Settled, ..state };
            let resolved = self.trees.resolve(settled, &mut self.value, &self.snapshot);
            resolved.map_err(|error| error.in_tree(self.tree))?;
            self.snapshot.check()?;
            self.value_place = ValuePlace::Buffer;
        }
        Ok(match self.value_place {
            ValuePlace::Leaf(position) => leaf_value(&self.leaf, position),
            ValuePlace::Buffer | ValuePlace::LeafOverflow(_) => &self.value,
        })
    }

    fn node(&self) -> Node<&PageImage> {
        Node(&*self.leaf)
    }

    /// Copies the leaf that a target names.
    fn load(&mut self, target: Target<'_>) -> Result<()> {
        let (trees, leaf, tree) = (&self.trees, &mut self.leaf, self.tree);
        let copied = trees.retry(|| {
            let fixed = trees.find_leaf(tree, target)?;
            trees.cache.copy(&fixed, leaf)
        });
        copied.map_err(|error| error.in_tree(tree))?;
        self.snapshot.check()
    }

    fn step_over(&mut self, key: &[u8]) {
        if let Place::At(position) = self.place {
            let node = self.node();
            let prefix_length = node.prefix_length();
            let is_equal = position < node.count()
                && key.get(..prefix_length) == Some(node.prefix())
                && key.get(prefix_length..) == Some(node.suffix(position));
            if is_equal {
                self.place = Place::At(position + 1);
            }
        }
    }

    /// Takes the entry at a position, if the snapshot sees it.
    fn take(&mut self, position: usize) -> Result<bool> {
        let Some(place) = self.value_at(position)? else { return Ok(false) };
        self.value_place = place;
        Node(&*self.leaf).copy_key(position, &mut self.key);
        Ok(true)
    }

    /// Where the value of the entry at a position is, if the snapshot sees it.
    fn value_at(&mut self, position: usize) -> Result<Option<ValuePlace>> {
        let node = Node(&*self.leaf);
        if self.snapshot.sees(Timestamp(node.version(position).since())) {
            let is_live = node.presence(position) != Presence::Ghost;
            let is_overflow = is_live && node.value(position).1;
            let place = if is_overflow { ValuePlace::LeafOverflow(position) } else { ValuePlace::Leaf(position) };
            return Ok(is_live.then_some(place));
        }
        let state = copy_entry(&node, position, &mut self.value);
        let resolved = self.trees.resolve(state, &mut self.value, &self.snapshot);
        if !resolved.map_err(|error| error.in_tree(self.tree))? {
            return Ok(None);
        }
        self.snapshot.check()?;
        Ok(Some(ValuePlace::Buffer))
    }
}

fn leaf_value(leaf: &PageImage, position: usize) -> &[u8] {
    let range = Node(leaf).value_range(position);
    leaf.get(range).unwrap_or(&[])
}
