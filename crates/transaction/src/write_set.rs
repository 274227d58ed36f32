//! What an open transaction has written: changes of keys by tree, laid over the transaction's snapshot by its cursors.
//!
//! Filled by `multi_document` with the batches of its changes, read through `merge_cursor` by everything that reads in the transaction, and
//! by the commit. Only the transaction's own commands use it, one after the other, and the cursors it has left open; the lock is for these.
//!
//! Its memory is counted against the budget. What is over its share goes to private trees of the engine (`spilled_writes`); what is in memory is newer.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;
use std::sync::Arc;

use collection::{Catalog, Collection, RecordId, WriteAccess};
use parking_lot::Mutex;
use platform::MemoryReservation;
use storage_engine::{Batch, Engine, TreeId};

use crate::change_order::{ChangeOrder, Listed, Place, RecordChange, RecordNote};
use crate::error::{Result, TransactionError};
use crate::spilled_writes::{SpilledWalk, SpilledWrites};

/// Bytes of changes that a transaction keeps in memory.
const MEMORY_BYTES_MAX: usize = 16 << 20;
/// Bytes that must be to be had for the next change; otherwise those in memory are spilled first.
const HEADROOM_BYTES: usize = 256 << 10;

type EngineResult<T> = std::result::Result<T, storage_engine::EngineError>;
/// A key, and what it has become.
pub(crate) type Entry = (Box<[u8]>, Written);

/// What an entry costs beside its bytes: its place in the map, two allocations.
const ENTRY_BYTES: usize = 96;
/// What a note costs.
const NOTE_BYTES: usize = 48;

/// What a key has become: a value, or removed.
pub(crate) type Written = Option<Box<[u8]>>;
pub(crate) type WrittenTree = BTreeMap<Box<[u8]>, Written>;

/// See the module's head.
pub(crate) struct WriteSet {
    state: Mutex<State>,
}

struct State {
    order: ChangeOrder,
    trees: BTreeMap<TreeId, WrittenTree>,
    collections: Vec<WrittenCollection>,
    spilled: SpilledWrites,
    memory: MemoryReservation,
    /// Of the changes in memory.
    bytes: usize,
    /// Of locks.
    lock_bytes: usize,
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
    pub(crate) fn new(memory: MemoryReservation, engine: &Arc<Engine>, catalog: &Arc<Catalog>) -> WriteSet {
        let spilled = SpilledWrites::new(engine.clone(), catalog.clone());
        let (order, trees, collections) = Default::default();
        let state = State { order, trees, collections, spilled, memory, bytes: 0, lock_bytes: 0 };
        WriteSet { state: Mutex::new(state) }
    }

    /// Takes the changes of one document in.
    ///
    /// # Errors
    /// `TransactionTooLarge`: nothing was taken.
    pub(crate) fn absorb(&self, access: &WriteAccess<'_>, change: RecordChange, batch: &Batch) -> Result<()> {
        let mut state = self.state.lock();
        let (collection, indexes_version) = (access.collection, access.indexes.version());
        let bytes: usize = NOTE_BYTES
            + change.step_bytes()
            + batch.changes().map(|change| change.key.len() + change.value.len() + ENTRY_BYTES).sum::<usize>();
        state.reserve(bytes, 0)?;
        state.order.add(collection.record_tree(), change);
        for change in batch.changes() {
            let written = change.kind.is_put().then(|| Box::from(change.value));
            state.trees.entry(change.tree).or_default().insert(Box::from(change.key), written);
        }
        if !state.collections.iter().any(|known| Arc::ptr_eq(&known.collection, collection)) {
            state.collections.push(WrittenCollection { collection: collection.clone(), indexes_version });
        }
        Ok(())
    }

    /// What is reserved for it.
    pub(crate) fn memory_bytes(&self) -> u64 {
        self.state.lock().memory.bytes()
    }

    /// Counts memory that the transaction needs elsewhere, for its locks.
    ///
    /// # Errors
    /// `TransactionTooLarge`.
    pub(crate) fn reserve(&self, bytes: usize) -> Result<()> {
        self.state.lock().reserve(0, bytes)
    }

    /// Counts such memory no longer.
    pub(crate) fn give_back(&self, bytes: usize) {
        let mut state = self.state.lock();
        state.lock_bytes = state.lock_bytes.saturating_sub(bytes);
    }

    /// Whether there should be made room before the next change.
    pub(crate) fn wants_spill(&self) -> bool {
        let mut state = self.state.lock();
        let needed = (state.bytes + state.lock_bytes + HEADROOM_BYTES) as u64;
        state.bytes > MEMORY_BYTES_MAX || (state.bytes > 0 && state.memory.cover(needed).is_err())
    }

    /// Trees of which changes are in memory and which have no private tree yet.
    pub(crate) fn trees_to_prepare(&self) -> Vec<TreeId> {
        let state = self.state.lock();
        state.trees.keys().filter(|tree| !state.spilled.has(**tree)).copied().collect()
    }

    /// Whether the private tree for the order is missing.
    pub(crate) fn needs_order_tree(&self) -> bool {
        !self.state.lock().spilled.has_order()
    }

    /// Moves what is in memory to the private trees, which there are. `pause` is called before each small piece.
    ///
    /// # Errors
    /// `Engine`.
    pub(crate) fn spill(
        &self,
        prepared: Vec<(TreeId, TreeId)>,
        order_tree: Option<TreeId>,
        pause: &mut dyn FnMut(),
    ) -> Result<()> {
        let mut state = self.state.lock();
        let State { trees, spilled, order, .. } = &mut *state;
        prepared.into_iter().for_each(|(tree, private)| spilled.add(tree, private));
        order_tree.into_iter().for_each(|private| spilled.add_order(private));
        for (tree, written) in trees.iter_mut() {
            let note =
                |key: &[u8]| RecordId::from_record_key(key).ok().and_then(|record_id| order.note(*tree, record_id));
            spilled.put(*tree, written, note, pause)?;
            written.clear();
        }
        spilled.put_order(&order.unlisted(), pause)?;
        order.clear();
        state.bytes = 0;
        let left = state.lock_bytes as u64;
        state.memory.shrink(left);
        Ok(())
    }

    /// The collections written to, in order of their first write.
    pub(crate) fn collections(&self) -> Vec<WrittenCollection> {
        self.state.lock().collections.clone()
    }

    /// Whether nothing was written.
    pub(crate) fn is_empty(&self) -> bool {
        self.state.lock().collections.is_empty()
    }

    /// Whether there is so much that others must not wait while it is applied.
    pub(crate) fn is_large(&self, bytes_max: usize) -> bool {
        let state = self.state.lock();
        state.bytes > bytes_max || !state.spilled.is_empty()
    }

    /// What is remembered of a record, if that is in memory.
    pub(crate) fn note_in_memory(&self, tree: TreeId, record_id: RecordId) -> Option<RecordNote> {
        self.state.lock().order.note(tree, record_id)
    }

    /// What is remembered of a record; `None`: it was not written.
    pub(crate) fn note(&self, tree: TreeId, record_id: RecordId) -> EngineResult<Option<RecordNote>> {
        let state = self.state.lock();
        match state.order.note(tree, record_id) {
            Some(note) => Ok(Some(note)),
            None => state.spilled.note(tree, &record_id.record_key()),
        }
    }

    /// What was written, in the order of the first changes of records, and all of their steps. Nothing is written while it is read.
    pub(crate) fn in_order(&self) -> InOrder {
        let state = self.state.lock();
        InOrder { in_memory: state.order.unlisted().into(), spilled: state.spilled.order() }
    }

    /// All keys of a tree that were written, and what they have become, by key. Nothing is written while it is read.
    pub(crate) fn changes(&self, tree: TreeId) -> Changes<'_> {
        let spilled = self.state.lock().spilled.changes(tree);
        Changes { writes: self, tree, spilled, last: None }
    }

    /// What a key has become; `None`: it was not written.
    pub(crate) fn get<T>(
        &self,
        tree: TreeId,
        key: &[u8],
        read: impl FnOnce(Option<&[u8]>) -> T,
    ) -> EngineResult<Option<T>> {
        let state = self.state.lock();
        if let Some(written) = state.trees.get(&tree).and_then(|written| written.get(key)) {
            return Ok(Some(read(written.as_deref())));
        }
        Ok(state.spilled.get(tree, key)?.map(|written| read(written.as_deref())))
    }

    /// Reads a key that was written into `value`. `None`: it was not; `false`: it was removed.
    pub(crate) fn read(&self, tree: TreeId, key: &[u8], value: &mut Vec<u8>) -> EngineResult<Option<bool>> {
        self.get(tree, key, |written| {
            value.clear();
            value.extend_from_slice(written.unwrap_or_default());
            written.is_some()
        })
    }

    /// The first written key of a tree from a place on, upwards, and what it has become.
    pub(crate) fn next(&self, tree: TreeId, from: From<'_>) -> EngineResult<Option<Entry>> {
        let state = self.state.lock();
        let in_memory = state.trees.get(&tree);
        let in_memory = in_memory.and_then(|written| written.range::<[u8], _>((from.bound(), Bound::Unbounded)).next());
        let in_memory = in_memory.map(|(key, written)| (&**key, written));
        let spilled = state.spilled.next(tree, from)?;
        Ok(first_of(in_memory, spilled, |memory, spilled| memory <= spilled))
    }

    /// The same downwards.
    pub(crate) fn previous(&self, tree: TreeId, from: From<'_>) -> EngineResult<Option<Entry>> {
        let state = self.state.lock();
        let in_memory = state.trees.get(&tree);
        let in_memory =
            in_memory.and_then(|written| written.range::<[u8], _>((Bound::Unbounded, from.bound())).next_back());
        let in_memory = in_memory.map(|(key, written)| (&**key, written));
        let spilled = state.spilled.previous(tree, from)?;
        Ok(first_of(in_memory, spilled, |memory, spilled| memory >= spilled))
    }
}

/// See `WriteSet::in_order`.
pub(crate) struct InOrder {
    in_memory: VecDeque<(Place, Listed)>,
    spilled: SpilledWalk<(Place, Listed)>,
}

impl InOrder {
    /// The next one.
    pub(crate) fn next(&mut self) -> Result<Option<Listed>> {
        let is_spilled = match (self.in_memory.front(), self.spilled.peek()?) {
            (Some((place, _)), Some((spilled, _))) => spilled < place,
            (in_memory, _) => in_memory.is_none(),
        };
        let next = if is_spilled { self.spilled.take() } else { self.in_memory.pop_front() };
        Ok(next.map(|(_, listed)| listed))
    }
}

/// See `WriteSet::changes`.
pub(crate) struct Changes<'a> {
    writes: &'a WriteSet,
    tree: TreeId,
    spilled: SpilledWalk<Entry>,
    /// The key that was given last.
    last: Option<Box<[u8]>>,
}

impl Changes<'_> {
    /// The next one.
    pub(crate) fn next(&mut self) -> Result<Option<Entry>> {
        let spilled = self.spilled.peek()?.map(|(key, _)| key);
        let next = {
            let state = self.writes.state.lock();
            let from = self.last.as_deref().map_or(From::Edge, From::Beyond);
            let in_memory = state.trees.get(&self.tree);
            let in_memory =
                in_memory.and_then(|written| written.range::<[u8], _>((from.bound(), Bound::Unbounded)).next());
            let comes_first = spilled.is_some_and(|spilled| in_memory.is_none_or(|(key, _)| spilled <= key));
            let spilled = if comes_first { self.spilled.take() } else { None };
            match in_memory {
                // Of the same key, what is in memory is newer.
                Some((key, written)) if spilled.as_ref().is_none_or(|(spilled, _)| spilled == key) => {
                    Some((key.clone(), written.clone()))
                }
                _ => spilled,
            }
        };
        self.last = next.as_ref().map(|(key, _)| key.clone());
        Ok(next)
    }
}

/// Of the two next keys the one that comes first; of the same key what is in memory.
fn first_of(
    in_memory: Option<(&[u8], &Written)>,
    spilled: Option<Entry>,
    is_memory_first: impl Fn(&[u8], &[u8]) -> bool,
) -> Option<Entry> {
    match (in_memory, spilled) {
        (Some((key, _)), Some(spilled)) if !is_memory_first(key, &spilled.0) => Some(spilled),
        (None, spilled) => spilled,
        (Some((key, written)), _) => Some((key.into(), written.clone())),
    }
}

impl<'a> From<'a> {
    fn bound(self) -> Bound<&'a [u8]> {
        match self {
            From::Edge => Bound::Unbounded,
            From::At(key) => Bound::Included(key),
            From::Beyond(key) => Bound::Excluded(key),
        }
    }
}

impl State {
    fn reserve(&mut self, bytes: usize, lock_bytes: usize) -> Result<()> {
        let wanted = self.bytes + self.lock_bytes + bytes + lock_bytes;
        self.memory.cover(wanted as u64).map_err(|error| {
            TransactionError::TransactionTooLarge(format!("the changes of a transaction do not fit: {error}"))
        })?;
        self.bytes += bytes;
        self.lock_bytes += lock_bytes;
        Ok(())
    }
}
