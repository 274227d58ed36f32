//! Changing entries of a leaf: put, delete, and their blind forms, each leaving what older snapshots need.
//!
//! Called by `engine` for each change of a batch, inside the checkpoint barrier.
//!
//! What a change leaves behind, by the entry's state before it:
//!
//! | before              | put / blind insert                | delete / blind remove        |
//! |---------------------|-----------------------------------|------------------------------|
//! | no entry            | `Implied` (absent before)         | nothing                      |
//! | live, settled       | old value to the history          | ghost, `Implied` (same value)|
//! | ghost, settled      | `Implied` (absent before)         | nothing                      |
//! | anything unsettled  | the state as it is to the history | the same                     |

use super::merge::SMALL_NODE_BYTES;
use super::{Leftovers, SparseLeaf, Trees};
use crate::TreeId;
use crate::batch::{Change, ChangeKind};
use crate::error::{Attempt, Result};
use crate::frame_arena::{ExclusiveFrame, PageImage};
use crate::history::EntryState;
use crate::node::{Found, Node, NodeMut, PageMut, Presence, Version, common_prefix, entry_bytes};
use crate::overflow::{self, OverflowReference};

/// Longest key in bytes: two fences and two entries must fit into a page.
pub const MAX_KEY_BYTES: usize = 2080;
/// Key and value up to this many bytes are kept in the leaf.
const MAX_INLINE_BYTES: usize = 3_900;
/// Free bytes below which a compacted page is split rather than filled to the brim.
const MIN_FREE_AFTER_COMPACTION: usize = 64;

/// How versions are kept for a change.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Write {
    /// Visible from this commit timestamp on; older snapshots see what was before.
    At(u64),
    /// For recovery, when there is no snapshot: visible to all at once.
    Settled,
}

/// What came of a change in a leaf.
pub(super) enum Outcome {
    Done,
    /// Nothing was to be done and nothing was touched.
    Nothing,
    /// This many bytes are missing.
    NoRoom(usize),
    /// The last leaf's prefix must be shortened to this length before the key can be inserted.
    PrefixTooLong(usize),
}

/// A value as a leaf stores it.
#[derive(Clone, Copy)]
pub(super) struct Stored<'a> {
    pub(super) bytes: &'a [u8],
    pub(super) overflow: bool,
}

impl Trees {
    /// Applies one change, whose key and value lengths were checked.
    pub(crate) fn apply(&self, change: Change<'_>, write: Write) -> Result<()> {
        let is_put = change.kind.is_put();
        if is_put && change.key.len() + change.value.len() > MAX_INLINE_BYTES {
            let reference = overflow::write(&self.cache, change.tree, change.value)?.encode();
            return self.change_leaf(change, Stored { bytes: &reference, overflow: true }, write);
        }
        self.change_leaf(change, Stored { bytes: change.value, overflow: false }, write)
    }

    fn change_leaf(&self, change: Change<'_>, stored: Stored<'_>, write: Write) -> Result<()> {
        #[cfg(feature = "slowdown-demonstration")]
        crate::slowdown_demonstration::lose_time();
        loop {
            let missing = self.retry(|| self.try_change(change, stored, write))?;
            if missing == 0 {
                return Ok(());
            }
            self.make_room(change.tree, change.key, missing)?;
        }
    }

    /// One attempt; the result is the number of bytes that the leaf lacks, 0 when the change was made.
    fn try_change(&self, change: Change<'_>, stored: Stored<'_>, write: Write) -> Attempt<usize> {
        let Some(fixed) = self.find_leaf_or_buffer(change, stored, write)? else { return Ok(0) };
        let mut frame = self.cache.lock(&fixed)?;
        let became_dirty = self.prepare(&frame, change, stored);
        // It is compacted at most once, and before its prefix is shortened: afterwards it would have the long one again, and room that this key has no use of.
        let mut is_rebuilt = false;
        loop {
            match self.change_node(&mut NodeMut(&mut frame), change, stored, write) {
                Outcome::Done => return Ok(0),
                Outcome::Nothing => {
                    if !became_dirty && !is_rebuilt {
                        frame.release_unchanged();
                    }
                    return Ok(0);
                }
                Outcome::PrefixTooLong(length) => {
                    let view = Node(&*frame);
                    let growth = (view.prefix_length() - length) * view.count();
                    let needed = growth + entry_bytes(change.key.len(), stored.bytes.len(), write.version_of_new());
                    if !self.shorten_prefix(&mut frame, length) {
                        return Ok(needed);
                    }
                    is_rebuilt = true;
                }
                Outcome::NoRoom(needed) => {
                    let view = Node(&*frame);
                    if is_rebuilt || view.garbage() == 0 && view.versioned() == 0 {
                        return Ok(needed);
                    }
                    self.compact(&mut frame);
                    is_rebuilt = true;
                    if Node(&*frame).contiguous_free() < needed + MIN_FREE_AFTER_COMPACTION {
                        return Ok(needed + MIN_FREE_AFTER_COMPACTION);
                    }
                }
            }
        }
    }

    fn prepare(&self, frame: &ExclusiveFrame<'_>, change: Change<'_>, stored: Stored<'_>) -> bool {
        match change.kind {
            _ if stored.overflow => self.cache.writer.prepare_change(frame),
            ChangeKind::PutRecord | ChangeKind::DeleteRecord => self.cache.writer.prepare_record_change(frame),
            ChangeKind::BlindInsert | ChangeKind::BlindRemove => self.cache.writer.prepare_blind_change(frame),
            ChangeKind::Put | ChangeKind::Delete => self.cache.writer.prepare_change(frame),
        }
    }

    pub(super) fn change_node<P: PageMut>(
        &self,
        node: &mut NodeMut<'_, P>,
        change: Change<'_>,
        stored: Stored<'_>,
        write: Write,
    ) -> Outcome {
        let found = node.view().search(change.key);
        match (change.kind.is_put(), found) {
            (true, Found::Before(position)) => {
                let view = node.view();
                if view.is_last() && !change.key.starts_with(view.prefix()) {
                    return Outcome::PrefixTooLong(common_prefix(change.key, view.prefix()));
                }
                let suffix = &change.key[view.prefix_length()..];
                let version = write.version_of_new();
                if node.insert(position, suffix, stored.bytes, stored.overflow, version) {
                    return Outcome::Done;
                }
                Outcome::NoRoom(entry_bytes(suffix.len(), stored.bytes.len(), version))
            }
            (true, Found::At(position)) => {
                let suffix_length = change.key.len() - node.view().prefix_length();
                self.replace(node, position, suffix_length, stored, write)
            }
            (false, Found::At(position)) => self.delete(node, position, change, write),
            (false, Found::Before(_)) => Outcome::Nothing,
        }
    }

    /// Gives an existing entry, live or ghost, a new value.
    fn replace<P: PageMut>(
        &self,
        node: &mut NodeMut<'_, P>,
        position: usize,
        suffix_length: usize,
        stored: Stored<'_>,
        write: Write,
    ) -> Outcome {
        // Room is checked first, for the largest of the cells, so that nothing is appended to the history twice.
        let view = node.view();
        let old_length = view.value(position).0.len();
        let grows = if stored.bytes.len() > old_length { 2 + suffix_length + stored.bytes.len() } else { 0 };
        let needed = grows + write.cell_bytes_max();
        if view.contiguous_free() < needed {
            return Outcome::NoRoom(needed);
        }
        let version = self.leave_behind(&node.view(), position, write, Presence::Live);
        let is_placed = node.set_value(position, stored.bytes, stored.overflow)
            && node.set_version(position, version, Presence::Live);
        debug_assert!(is_placed, "room was checked");
        Outcome::Done
    }

    fn delete<P: PageMut>(
        &self,
        node: &mut NodeMut<'_, P>,
        position: usize,
        change: Change<'_>,
        write: Write,
    ) -> Outcome {
        if node.view().presence(position) == Presence::Ghost {
            return Outcome::Nothing;
        }
        let Write::At(_) = write else {
            self.leftovers.free_chain_of(&node.view(), position);
            let used_before = node.view().used_bytes();
            node.remove(position);
            let has_become_small = used_before >= SMALL_NODE_BYTES && node.view().used_bytes() < SMALL_NODE_BYTES;
            if has_become_small || node.view().count() == 0 {
                self.note_sparse(&node.view(), change.tree, 0);
            }
            return Outcome::Done;
        };
        let needed = write.cell_bytes_max();
        if node.view().contiguous_free() < needed {
            return Outcome::NoRoom(needed);
        }
        let version = self.leave_behind(&node.view(), position, write, Presence::Ghost);
        let is_placed = node.set_version(position, version, Presence::Ghost);
        debug_assert!(is_placed, "room was checked");
        // When the deleted entries become half of the page, and when all are: compacted then, it is noted again as they go on.
        let view = node.view();
        let (half, count) = (view.count().div_ceil(2), view.count());
        if view.versioned() >= half {
            let ghosts = view.ghosts();
            if ghosts == half || ghosts == count {
                self.note_sparse(&node.view(), change.tree, write.since());
            }
        }
        Outcome::Done
    }

    /// Keeps what older snapshots need of an entry that is about to become `next`, and gives the entry's new version.
    fn leave_behind(&self, view: &Node<&PageImage>, position: usize, write: Write, next: Presence) -> Version {
        let (value, overflow) = view.value(position);
        let (presence, version) = (view.presence(position), view.version(position));
        let is_settled = self.snapshots.horizon().is_settled(version.since());
        let Write::At(since) = write else {
            self.leftovers.free_chain_of(view, position);
            return Version::Settled;
        };
        match (is_settled, presence, next) {
            // The ghost keeps the value and its chain; what was before is implied.
            (true, Presence::Live, Presence::Ghost) => Version::Implied { since },
            (true, Presence::Ghost, Presence::Live) => {
                self.leftovers.free_chain_of(view, position);
                Version::Implied { since }
            }
            _ => {
                let version = if is_settled { Version::Settled } else { version };
                // A live entry that becomes a ghost keeps its chain; the history's record only reads it, and the
                // ghost is dropped after the record is (both wait for the same snapshots).
                let takes_chain = overflow && next == Presence::Live;
                let chain = if takes_chain { OverflowReference::decode(value).map(|chain| chain.head) } else { None };
                let state = EntryState { presence, version, overflow };
                let replaced = (since, self.snapshots.is_concealed(since));
                Version::Chained { since, position: self.history.append(state, value, chain, replaced) }
            }
        }
    }

    fn note_sparse(&self, node: &Node<&PageImage>, tree: TreeId, settled_at: u64) {
        self.leftovers.sparse_leaves.push(SparseLeaf { tree, key: node.lower_fence().to_vec(), settled_at });
    }
}

/// Whether a change needs to know nothing of its leaf, and no other page.
pub(super) fn is_blind(change: Change<'_>, stored: Stored<'_>) -> bool {
    matches!(change.kind, ChangeKind::BlindInsert | ChangeKind::BlindRemove) && !stored.overflow
}

impl Write {
    /// The commit timestamp; 0 when visible to all at once.
    pub(super) fn since(self) -> u64 {
        match self {
            Self::At(since) => since,
            Self::Settled => 0,
        }
    }

    fn version_of_new(self) -> Version {
        match self {
            Self::At(since) => Version::Implied { since },
            Self::Settled => Version::Settled,
        }
    }

    fn cell_bytes_max(self) -> usize {
        match self {
            Self::At(since) => entry_bytes(0, 0, Version::Chained { since, position: 0 }),
            Self::Settled => 0,
        }
    }
}

impl Leftovers {
    /// Leaves the overflow chain of an entry, if it has one, to the background.
    fn free_chain_of(&self, node: &Node<&PageImage>, position: usize) {
        let (value, overflow) = node.value(position);
        if let Some(reference) = OverflowReference::decode(value).filter(|_| overflow) {
            self.chains.lock().push(reference.head);
        }
    }
}
