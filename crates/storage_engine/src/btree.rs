//! The B-tree: finding, reading and changing entries of a tree whose pages are in the page cache.
//!
//! Called by `engine` (reads and batches), `cursor` and the reclaimer. Relies on `node` for page bytes, `page_cache` for
//! pages, `history` for older versions, `overflow` for large values.
//!
//! A tree's root page never moves: the tree's id is its root's page id. Descents are optimistic: a node's version is
//! noted, its child is looked up, and the node is validated again after the child's version was noted; whatever fails
//! validation begins again at the root. There are no sibling pointers: the next leaf is the one that holds the upper
//! fence.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;
use platform::Timestamp;

use crate::TreeId;
use crate::error::{Attempt, EngineError, Result, Retry};
use crate::frame_arena::{PAGE_BYTES, PageImage};
use crate::history::{EntryState, History};
use crate::node::{Found, KIND_NODE, Node, PageBytes, Presence, Version};
use crate::overflow::{self, OverflowReference};
use crate::page_cache::{Backoff, Fixed, PageCache};
use crate::snapshot::{Snapshot, SnapshotRegistry};

mod blind;
mod change;
mod merge;
mod rebuild;
mod split;
mod walk;

pub use change::MAX_KEY_BYTES;
pub(crate) use change::Write;
pub(crate) use merge::{Merged, Shrinking};
pub(crate) use walk::{Damage, TreePages};

thread_local! {
    /// Two images for rebuilding pages, so that splits and compactions allocate nothing.
    static SCRATCH: RefCell<[Box<PageImage>; 2]> = RefCell::new([Box::new([0; PAGE_BYTES]), Box::new([0; PAGE_BYTES])]);
}

/// A place in a tree that is worth compacting or merging once its deleted entries are settled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SparseLeaf {
    pub(crate) tree: TreeId,
    /// The page's lower fence.
    pub(crate) key: Vec<u8>,
    /// Nothing can be done before every snapshot sees this commit timestamp.
    pub(crate) settled_at: u64,
}

/// Work that changes of trees leave to the background.
#[derive(Default)]
pub(crate) struct Leftovers {
    /// Overflow chains that nobody refers to any more.
    pub(crate) chains: Mutex<Vec<crate::page_store::PageId>>,
    /// Leaves with many deleted entries.
    pub(crate) sparse_leaves: SparseLeaves,
}

/// Sparse leaves that wait to be looked at, about in the order of their timestamps.
#[derive(Default)]
pub(crate) struct SparseLeaves {
    waiting: Mutex<VecDeque<SparseLeaf>>,
    count: AtomicUsize,
    /// Of them, those whose deleted entries nobody needed any more when some were last taken, about.
    ready: AtomicUsize,
}

/// Most leaves that wait. Writers are paced before when the background is behind (see `pacing`), and not for a snapshot that keeps what was deleted:
/// what is beyond is only found when it becomes sparser.
const SPARSE_LEAVES_MAX: usize = 100_000;

impl SparseLeaves {
    pub(crate) fn push(&self, leaf: SparseLeaf) {
        let mut waiting = self.waiting.lock();
        if waiting.len() < SPARSE_LEAVES_MAX {
            waiting.push_back(leaf);
            self.count.store(waiting.len(), Ordering::Relaxed);
        }
    }

    /// Takes some whose deleted entries nobody needs any more.
    pub(crate) fn take(&self, oldest: u64, count_max: usize) -> Vec<SparseLeaf> {
        let mut waiting = self.waiting.lock();
        let is_ready = |leaf: &SparseLeaf| leaf.settled_at <= oldest;
        let taking = waiting.iter().take(count_max).take_while(|leaf| is_ready(leaf)).count();
        let taken = waiting.drain(..taking).collect();
        self.count.store(waiting.len(), Ordering::Relaxed);
        self.ready.store(waiting.partition_point(is_ready), Ordering::Relaxed);
        taken
    }

    pub(crate) fn forget_tree(&self, tree: TreeId) {
        let mut waiting = self.waiting.lock();
        waiting.retain(|leaf| leaf.tree != tree);
        self.ready.fetch_min(waiting.len(), Ordering::Relaxed);
        self.count.store(waiting.len(), Ordering::Relaxed);
    }

    pub(crate) fn len(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }

    /// How far the background is behind, from 0 to 1.
    pub(crate) fn backlog_share(&self) -> f64 {
        self.ready.load(Ordering::Relaxed) as f64 / SPARSE_LEAVES_MAX as f64
    }
}

/// Everything the trees of an engine share.
pub(crate) struct Trees {
    pub(crate) cache: Arc<PageCache>,
    pub(crate) history: History,
    pub(crate) snapshots: Arc<SnapshotRegistry>,
    pub(crate) leftovers: Leftovers,
}

/// Which leaf a descent looks for.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Target<'a> {
    /// The one that holds this key.
    Containing(&'a [u8]),
    /// The one that holds the greatest keys below this one.
    Below(&'a [u8]),
    /// The last leaf.
    Last,
}

impl Target<'_> {
    fn child_position<B: PageBytes>(self, node: &Node<B>) -> usize {
        match self {
            Self::Containing(key) => node.child_position(key),
            Self::Below(key) => node.child_position_before(key),
            Self::Last => node.count(),
        }
    }
}

impl Trees {
    /// Runs an optimistic attempt until it succeeds or really fails.
    pub(crate) fn retry<T>(&self, mut attempt: impl FnMut() -> Attempt<T>) -> Result<T> {
        let mut backoff = Backoff::new();
        loop {
            match attempt() {
                Ok(done) => return Ok(done),
                Err(Retry::Failed(error)) => return Err(error),
                Err(Retry::Restart) => backoff.wait(),
            }
        }
    }

    /// Fixes the root, telling a tree that does not exist from one that is changing.
    pub(crate) fn fix_root(&self, tree: TreeId) -> Attempt<Fixed> {
        match self.cache.fix(tree.root()) {
            Err(Retry::Restart) if !self.cache.frames.is_allocated(tree.root()) => {
                Err(Retry::Failed(EngineError::NoSuchTree(tree.0)))
            }
            fixed => fixed,
        }
    }

    /// As [`Trees::fix_root`], without waiting; `None` when the root is in no frame.
    fn fix_resident_root(&self, tree: TreeId) -> Attempt<Option<Fixed>> {
        match self.cache.fix_resident(tree.root()) {
            Err(Retry::Restart) if !self.cache.frames.is_allocated(tree.root()) => {
                Err(Retry::Failed(EngineError::NoSuchTree(tree.0)))
            }
            fixed => fixed,
        }
    }

    /// Checks that a page which could be validated is a node of the tree.
    fn check_node<B: PageBytes>(&self, tree: TreeId, fixed: &Fixed, node: &Node<B>) -> Attempt<()> {
        if node.kind() == KIND_NODE && node.tree() == tree.0 {
            return Ok(());
        }
        self.cache.validate(fixed)?;
        if fixed.page == tree.root() {
            return Err(Retry::Failed(EngineError::NoSuchTree(tree.0)));
        }
        let reason = format!("expected a node of tree {}, found kind {} of tree {}", tree.0, node.kind(), node.tree());
        Err(Retry::Failed(EngineError::Corrupt { tree: tree.0, page: fixed.page, reason }))
    }

    /// Descends to a leaf.
    pub(crate) fn find_leaf(&self, tree: TreeId, target: Target<'_>) -> Attempt<Fixed> {
        let mut fixed = self.fix_root(tree)?;
        loop {
            let node = self.cache.view(&fixed);
            self.check_node(tree, &fixed, &node)?;
            if node.is_leaf() {
                self.cache.validate(&fixed)?;
                return Ok(fixed);
            }
            let child = node.child(target.child_position(&node));
            self.cache.validate(&fixed)?;
            let below = self.cache.fix(child)?;
            self.cache.validate(&fixed)?;
            fixed = below;
        }
    }

    /// Reads a key as a snapshot sees it; `value` is replaced.
    pub(crate) fn get(&self, snapshot: &Snapshot, tree: TreeId, key: &[u8], value: &mut Vec<u8>) -> Result<bool> {
        let found = self.retry(|| {
            let leaf = self.find_leaf(tree, Target::Containing(key))?;
            let node = self.cache.view(&leaf);
            let state = match node.search(key) {
                Found::At(position) => Some(copy_entry(&node, position, value)),
                Found::Before(_) => None,
            };
            self.cache.validate(&leaf)?;
            Ok(state)
        })?;
        let is_there = match found {
            Some(state) => self.resolve(state, value, snapshot)?,
            None => false,
        };
        snapshot.check()?;
        Ok(is_there)
    }

    /// Reads the newest applied version of a key: since when it holds, and whether it is there (then `value` has it).
    pub(crate) fn get_latest(&self, tree: TreeId, key: &[u8], value: &mut Vec<u8>) -> Result<(u64, Presence)> {
        let found = self.retry(|| {
            let leaf = self.find_leaf(tree, Target::Containing(key))?;
            let node = self.cache.view(&leaf);
            let state = match node.search(key) {
                Found::At(position) => Some(copy_entry(&node, position, value)),
                Found::Before(_) => None,
            };
            self.cache.validate(&leaf)?;
            Ok(state)
        })?;
        let Some(state) = found else { return Ok((0, Presence::Ghost)) };
        if state.presence == Presence::Live && state.overflow {
            self.read_overflow(value)?;
        }
        Ok((state.version.since(), state.presence))
    }

    /// Follows an entry's versions to the one that a snapshot sees. `value` holds the entry's value
    /// and is replaced by the version's; `false` when the key is absent for that snapshot.
    pub(crate) fn resolve(&self, state: EntryState, value: &mut Vec<u8>, snapshot: &Snapshot) -> Result<bool> {
        let mut state = state;
        let is_there = loop {
            if snapshot.sees(Timestamp(state.version.since())) {
                break state.presence == Presence::Live;
            }
            match state.version {
                Version::Settled => break state.presence == Presence::Live,
                Version::Implied { .. } => break state.presence == Presence::Ghost,
                Version::Chained { position, .. } => state = self.history.read(position, value)?,
            }
        };
        if is_there && state.overflow {
            self.read_overflow(value)?;
        }
        Ok(is_there)
    }

    /// Replaces a reference in `value` by what it refers to.
    fn read_overflow(&self, value: &mut Vec<u8>) -> Result<()> {
        let reference = OverflowReference::decode(value).ok_or_else(|| EngineError::Corrupt {
            tree: 0,
            page: crate::page_store::PageId(0),
            reason: "an overflow reference is too short".to_owned(),
        })?;
        overflow::read(&self.cache, reference, value)
    }

    /// Finds the first key at or above `lower` that is there in the newest applied state.
    pub(crate) fn first_key_latest(&self, tree: TreeId, lower: &[u8], key: &mut Vec<u8>) -> Result<bool> {
        let mut from = lower.to_vec();
        loop {
            // Either the key is found, or the leaf's upper fence is where to look next.
            let found = self.retry(|| {
                let leaf = self.find_leaf(tree, Target::Containing(&from))?;
                let node = self.cache.view(&leaf);
                let first = (node.lower_bound(&from)..node.count()).find(|at| node.presence(*at) == Presence::Live);
                let next = match first {
                    Some(position) => {
                        node.copy_key(position, key);
                        None
                    }
                    None => node.copy_upper_fence(),
                };
                self.cache.validate(&leaf)?;
                Ok((first.is_some(), next))
            })?;
            match found {
                (true, _) => return Ok(true),
                (false, Some(fence)) => from = fence,
                (false, None) => return Ok(false),
            }
        }
    }

    /// Finds the first entry whose key begins with `prefix`, if the first leaf asked can tell. `None`: use a cursor.
    /// `Some(false)`: there is none.
    pub(crate) fn first_with_prefix(
        &self,
        snapshot: &Snapshot,
        tree: TreeId,
        prefix: &[u8],
        key: &mut Vec<u8>,
        value: &mut Vec<u8>,
    ) -> Result<Option<bool>> {
        let found = self.retry(|| {
            let leaf = self.find_leaf(tree, Target::Containing(prefix))?;
            let node = self.cache.view(&leaf);
            let position = node.lower_bound(prefix);
            let mut state = None;
            if position < node.count() {
                node.copy_key(position, key);
                state = Some(copy_entry(&node, position, value));
            }
            self.cache.validate(&leaf)?;
            Ok(state)
        })?;
        let Some(state) = found else { return Ok(None) };
        if !key.starts_with(prefix) {
            snapshot.check()?;
            return Ok(Some(false));
        }
        let is_there = self.resolve(state, value, snapshot)?;
        snapshot.check()?;
        // An invisible first entry says nothing of the next ones.
        Ok(is_there.then_some(true))
    }
}

/// Copies an entry's value out and says what its state is.
pub(crate) fn copy_entry<B: PageBytes>(node: &Node<B>, position: usize, value: &mut Vec<u8>) -> EntryState {
    value.clear();
    let overflow = node.append_value(position, value);
    EntryState { presence: node.presence(position), version: node.version(position), overflow }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leaves_that_a_snapshot_keeps_are_no_backlog() {
        let sparse = SparseLeaves::default();
        for settled_at in 0..10_000 {
            sparse.push(SparseLeaf { tree: TreeId(7), key: vec![1], settled_at });
        }
        assert_eq!(sparse.take(99, 64).len(), 64);
        assert_eq!((sparse.len(), sparse.backlog_share()), (9_936, 36.0 / SPARSE_LEAVES_MAX as f64));
        assert_eq!(sparse.take(9_999, 64).len(), 64);
        assert_eq!(sparse.backlog_share(), 9_872.0 / SPARSE_LEAVES_MAX as f64);
        sparse.forget_tree(TreeId(7));
        assert_eq!((sparse.len(), sparse.backlog_share()), (0, 0.0));
    }
}
