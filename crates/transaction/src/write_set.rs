//! What an open transaction has written: changes of keys by tree, laid over the transaction's snapshot by its cursors.
//!
//! Filled by `multi_document` with the batches of its changes, read through `merge_cursor` by everything that reads in the transaction, and
//! by the commit. Only the transaction's own commands use it, one after the other, and the cursors it has left open; the lock is for these.
//!
//! Its memory is counted against the budget. What is over that is refused: the transaction is too large.

use std::collections::{BTreeMap, HashMap};
use std::ops::Bound;
use std::sync::Arc;

use collection::Collection;
use parking_lot::Mutex;
use platform::MemoryReservation;
use storage_engine::{Batch, ChangeKind, TreeId};

use crate::error::{Result, TransactionError};

/// What an entry costs beside its bytes: its place in the map, two allocations.
const ENTRY_BYTES: usize = 96;

/// What a key has become: a value, or removed.
pub(crate) type Written = Option<Box<[u8]>>;
type WrittenTree = BTreeMap<Box<[u8]>, Written>;

/// See the module's head.
pub(crate) struct WriteSet {
    state: Mutex<State>,
}

struct State {
    trees: HashMap<TreeId, WrittenTree>,
    collections: Vec<WrittenCollection>,
    memory: MemoryReservation,
    bytes: usize,
}

/// A collection that was written to.
#[derive(Clone)]
pub(crate) struct WrittenCollection {
    pub(crate) collection: Arc<Collection>,
    /// Of its list of indexes at the first write.
    pub(crate) indexes_version: u64,
}

/// Where to go on from.
#[derive(Clone, Copy, Debug)]
pub(crate) enum From<'a> {
    /// The end of the tree that the direction begins at.
    Edge,
    /// The key, itself included.
    At(&'a [u8]),
    /// The key, itself left out.
    Beyond(&'a [u8]),
}

impl WriteSet {
    /// An empty one that takes its memory from a reservation.
    pub(crate) fn new(memory: MemoryReservation) -> WriteSet {
        let state = State { trees: HashMap::new(), collections: Vec::new(), memory, bytes: 0 };
        WriteSet { state: Mutex::new(state) }
    }

    /// Takes the changes of one document in.
    ///
    /// # Errors
    /// `TransactionTooLarge`: nothing was taken.
    pub(crate) fn absorb(&self, collection: &Arc<Collection>, indexes_version: u64, batch: &Batch) -> Result<()> {
        let mut state = self.state.lock();
        let bytes: usize = batch.changes().map(|change| change.key.len() + change.value.len() + ENTRY_BYTES).sum();
        state.reserve(bytes)?;
        for change in batch.changes() {
            let written = match change.kind {
                ChangeKind::Put | ChangeKind::BlindInsert => Some(Box::from(change.value)),
                ChangeKind::Delete | ChangeKind::BlindRemove => None,
            };
            state.trees.entry(change.tree).or_default().insert(Box::from(change.key), written);
        }
        if !state.collections.iter().any(|known| Arc::ptr_eq(&known.collection, collection)) {
            state.collections.push(WrittenCollection { collection: collection.clone(), indexes_version });
        }
        Ok(())
    }

    /// Counts memory that the transaction needs elsewhere, for its locks.
    ///
    /// # Errors
    /// `TransactionTooLarge`.
    pub(crate) fn reserve(&self, bytes: usize) -> Result<()> {
        self.state.lock().reserve(bytes)
    }

    /// The collections written to, in order of their first write.
    pub(crate) fn collections(&self) -> Vec<WrittenCollection> {
        self.state.lock().collections.clone()
    }

    /// Whether nothing was written.
    pub(crate) fn is_empty(&self) -> bool {
        self.state.lock().trees.is_empty()
    }

    /// What a key has become; `None`: it was not written.
    pub(crate) fn get<T>(&self, tree: TreeId, key: &[u8], read: impl FnOnce(Option<&[u8]>) -> T) -> Option<T> {
        let state = self.state.lock();
        state.trees.get(&tree)?.get(key).map(|written| read(written.as_deref()))
    }

    /// Reads a key that was written into `value`. `None`: it was not; `false`: it was removed.
    pub(crate) fn read(&self, tree: TreeId, key: &[u8], value: &mut Vec<u8>) -> Option<bool> {
        self.get(tree, key, |written| {
            value.clear();
            value.extend_from_slice(written.unwrap_or_default());
            written.is_some()
        })
    }

    /// The first written key of a tree from a place on, upwards, and what it has become.
    pub(crate) fn next(&self, tree: TreeId, from: From<'_>) -> Option<(Box<[u8]>, Written)> {
        let state = self.state.lock();
        let lower = match from {
            From::Edge => Bound::Unbounded,
            From::At(key) => Bound::Included(key),
            From::Beyond(key) => Bound::Excluded(key),
        };
        let found = state.trees.get(&tree)?.range::<[u8], _>((lower, Bound::Unbounded)).next();
        found.map(|(key, written)| (key.clone(), written.clone()))
    }

    /// The same downwards.
    pub(crate) fn previous(&self, tree: TreeId, from: From<'_>) -> Option<(Box<[u8]>, Written)> {
        let state = self.state.lock();
        let upper = match from {
            From::Edge => Bound::Unbounded,
            From::At(key) => Bound::Included(key),
            From::Beyond(key) => Bound::Excluded(key),
        };
        let found = state.trees.get(&tree)?.range::<[u8], _>((Bound::Unbounded, upper)).next_back();
        found.map(|(key, written)| (key.clone(), written.clone()))
    }
}

impl State {
    fn reserve(&mut self, bytes: usize) -> Result<()> {
        let wanted = self.bytes + bytes;
        self.memory.cover(wanted as u64).map_err(|error| {
            TransactionError::TransactionTooLarge(format!("the changes of a transaction do not fit: {error}"))
        })?;
        self.bytes = wanted;
        Ok(())
    }
}
