//! Rings: what a capped collection keeps its documents in (invariant I8).
//!
//! Called by `collection` (what an insert overtakes, replay), `transaction` (inserting, reading, background), and this crate's checkpoints. A ring is a
//! file region in which each document goes behind the one before (`layout`), overtaking the oldest by moving the head. What was written into a slot stays
//! until it is overtaken; a document that is changed or deleted afterwards has its newest state in the ring's tree, under the key of its
//! number, with versions as in any tree. A document's *number* is its place: position / 8 + 1.
//!
//! ```text
//! insert:  lock → plan (what is overtaken) → [oplog] → apply under the checkpoint barrier: buffer, state, index changes
//! durable: buffer → (once the oplog has the insert durably) → file → synced before a checkpoint is published
//! ```
//!
//! The order matters: a slot overwrites what it overtook only after the overtaking insert is durable in the oplog. So after a crash every document that is
//! still live is in the file; one that the replayed oplog overtakes again may be lost already, which replay allows for.
//! The state goes into the ring's tree when a checkpoint is frozen, so it belongs to the same moment as the other trees; leaves of indexes may be newer.
//!
//! Locks: `Ring::lock` (one writer of a ring at a time) before everything of a batch; `shared` is taken last and never during input or output.

mod buffer;
mod cursor;
mod file;
pub(crate) mod layout;
mod reading;
mod registry;
mod salvage;
mod slot;
#[cfg(test)]
mod tests;
mod verify;
mod writing;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::{Mutex, MutexGuard, RwLock};

use crate::TreeId;
use crate::batch::Batch;
use crate::btree::Write;
use crate::engine::Engine;
use crate::error::{EngineError, Result};
use buffer::Buffer;
pub use cursor::RingCursor;
use file::RingFile;
pub(crate) use file::{DIRECTORY as DIRECTORY_NAME, number_of as number_of_file, path_of as path_of_file};
pub use layout::RingState;
use layout::{ALIGNMENT, Placement};
pub use reading::LatestInRing;
use reading::{Fetched, Window};
pub(crate) use registry::RingRegistry;
pub use salvage::{SalvagedRing, is_ring_state, salvage_ring};
pub use verify::RingReport;

/// The key of a ring's state in its tree; shorter than the key of any document.
const STATE_KEY: &[u8] = &[0];

/// Documents that one insert overtakes at most for the sake of the limits alone, after they were lowered; the next inserts go on.
const SURPLUS_DOCUMENTS_MAX: u64 = 1000;
/// And bytes of them.
const SURPLUS_BYTES_MAX: u64 = 64 << 20;

/// A ring.
pub struct Ring {
    number: u64,
    tree: TreeId,
    file: RingFile,
    registry: Arc<RingRegistry>,
    capacity: AtomicU64,
    writer: Mutex<Window>,
    shared: RwLock<Shared>,
    /// Whether the state changed since a checkpoint took it.
    is_changed: AtomicBool,
    /// Whether something was written to the file that is not synced.
    is_unsynced: AtomicBool,
    /// Held while pieces are taken from the buffer to the file: the ring writer and a checkpoint would otherwise write the same piece, and
    /// the second would drop the one after it.
    writing: Mutex<()>,
}

struct Shared {
    state: RingState,
    buffer: Buffer,
}

/// What a ring may hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RingLimits {
    /// Bytes of documents.
    pub bytes: u64,
    /// Documents.
    pub documents: u64,
}

/// The ring's only writer.
pub struct RingWriter<'a> {
    ring: &'a Arc<Ring>,
    window: MutexGuard<'a, Window>,
}

/// An insert that has been worked out.
#[derive(Debug, Clone, Copy)]
pub struct RingInsert {
    placement: Placement,
    length: usize,
    /// The tail before.
    tail: u64,
    /// What the state will be, as far as it is known: the head moves with each overtaken slot.
    state: RingState,
    limits: RingLimits,
    surplus_documents: u64,
    surplus_bytes: u64,
    /// Slots, documents and bytes of documents that are overtaken.
    pub slots: u64,
    /// See `slots`.
    pub documents: u64,
    /// See `slots`.
    pub bytes: u64,
}

/// A slot that an insert overtakes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Overtaken {
    /// The number of its document.
    pub number: i64,
    /// Whether the document is still there; it is in the caller's buffer then.
    pub is_live: bool,
    /// Whether the ring's tree has an entry for it, which has to go.
    pub has_override: bool,
}

/// What becomes of a document that is not inserted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RingOverride {
    /// By how many documents the ring grows: 0 or -1.
    pub documents: i64,
    /// By how many bytes.
    pub bytes: i64,
    /// Whether the tree gets its first entry for the document.
    pub is_first: bool,
}

impl std::fmt::Debug for Ring {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Ring").field("number", &self.number).field("state", &self.state()).finish()
    }
}

/// The key of a document in the ring's tree.
pub fn ring_key(number: i64) -> [u8; 8] {
    (number as u64 ^ 1 << 63).to_be_bytes()
}

fn number_at(position: u64) -> i64 {
    (position / ALIGNMENT) as i64 + 1
}

fn position_of(number: i64) -> u64 {
    (number.max(1) as u64 - 1) * ALIGNMENT
}

impl Engine {
    /// Creates a ring for documents of so many bytes in all. `number` names its file and is never used again; `tree` is an empty tree of its own.
    ///
    /// # Errors
    /// As `apply`.
    pub fn create_ring(&self, number: u64, tree: TreeId, size: u64) -> Result<Arc<Ring>> {
        let state = RingState { extent_bytes: layout::extent_bytes(size), ..RingState::default() };
        let mut batch = Batch::new();
        batch.put(tree, STATE_KEY, &state.encode());
        self.apply_settled(&batch)?;
        Ok(self.register_ring(number, tree, size, state))
    }

    /// Opens a ring that was created.
    ///
    /// # Errors
    /// `Corrupt` when its state, or the file with what is in it, is missing or makes no sense; as `get_latest`.
    pub fn open_ring(&self, number: u64, tree: TreeId, size: u64) -> Result<Arc<Ring>> {
        let mut state = Vec::new();
        if self.get_latest(tree, STATE_KEY, &mut state)?.is_none() {
            return Err(damaged(tree, 0, "the state of the ring is missing"));
        }
        let state = RingState::decode(&state).map_err(|error| damaged(tree, 0, &error.to_string()))?;
        // A checkpoint has the state of a ring only with the file. Replay may forgive what is lost in it, not the file itself.
        if state.head < state.tail
            && let Some(reason) = file::lacks_file(self.rings.disk(), number).map_err(file_error)?
        {
            return Err(damaged(tree, state.head, &reason));
        }
        Ok(self.register_ring(number, tree, size, state))
    }

    fn register_ring(&self, number: u64, tree: TreeId, size: u64, state: RingState) -> Arc<Ring> {
        let file = RingFile::new(self.rings.disk().clone(), number);
        let ring = Arc::new(Ring::new(number, tree, file, self.rings.clone(), state));
        ring.set_size(size);
        self.rings.add(&ring);
        ring
    }

    /// Applies an insert and a batch of index changes at a commit timestamp, as `apply`.
    ///
    /// # Errors
    /// As `apply`.
    pub fn apply_ring_insert(
        &self,
        writer: &RingWriter<'_>,
        insert: &RingInsert,
        document: &[u8],
        batch: &Batch,
        timestamp: platform::Timestamp,
    ) -> Result<()> {
        self.apply_together(batch, Write::At(timestamp.0), || writer.ring.push(insert, document, timestamp.0))
    }

    /// As `apply_ring_insert`, during recovery.
    ///
    /// # Errors
    /// As `apply`.
    pub fn apply_ring_insert_settled(
        &self,
        writer: &RingWriter<'_>,
        insert: &RingInsert,
        document: &[u8],
        batch: &Batch,
        timestamp: platform::Timestamp,
    ) -> Result<()> {
        self.apply_together(batch, Write::Settled, || writer.ring.push(insert, document, timestamp.0))
    }

    /// Applies a batch with the new state of one document in the ring's tree, as `apply`; without a timestamp as `apply_settled`.
    ///
    /// # Errors
    /// As `apply`.
    pub fn apply_ring_override(
        &self,
        writer: &RingWriter<'_>,
        change: RingOverride,
        batch: &Batch,
        timestamp: Option<platform::Timestamp>,
    ) -> Result<()> {
        let write = timestamp.map_or(Write::Settled, |timestamp| Write::At(timestamp.0));
        self.apply_together(batch, write, || writer.ring.note_override(change))
    }
}

impl Ring {
    fn new(number: u64, tree: TreeId, file: RingFile, registry: Arc<RingRegistry>, state: RingState) -> Ring {
        Ring {
            number,
            tree,
            file,
            registry,
            capacity: AtomicU64::new(0),
            writer: Mutex::new(Window::default()),
            shared: RwLock::new(Shared { state, buffer: Buffer::default() }),
            is_changed: AtomicBool::new(false),
            is_unsynced: AtomicBool::new(false),
            writing: Mutex::new(()),
        }
    }

    /// Waits until nobody else writes to the ring.
    pub fn lock(self: &Arc<Self>) -> RingWriter<'_> {
        RingWriter { window: self.writer.lock(), ring: self }
    }

    /// The tree with the state and the documents that were changed.
    pub fn tree(&self) -> TreeId {
        self.tree
    }

    /// Where it begins and ends now, visible or not.
    pub fn state(&self) -> RingState {
        self.shared.read().state
    }

    /// Bytes of the region.
    pub fn capacity(&self) -> u64 {
        self.capacity.load(Ordering::Acquire)
    }

    /// Changes for how many bytes of documents there is room. What is too much goes with the next inserts.
    pub fn set_size(&self, size: u64) {
        self.capacity.store(layout::capacity(size), Ordering::Release);
    }

    /// Bytes that the file has for documents.
    ///
    /// # Errors
    /// `RingFile`.
    pub fn file_bytes(&self) -> Result<u64> {
        self.file.region_bytes().map_err(file_error)
    }

    /// Where in the file's region a document lies: the physical position. `None`: it is overtaken, or was never there.
    pub fn offset_of(&self, number: i64) -> Option<u64> {
        let (position, state) = (position_of(number), self.state());
        (position >= state.head && position < state.tail).then(|| state.offset_of(position))
    }

    /// Whether a document with this number has been inserted, however long ago.
    pub fn is_past(&self, number: i64) -> bool {
        position_of(number) < self.state().tail
    }

    /// The number below which everything is overtaken.
    pub fn head_number(&self) -> i64 {
        number_at(self.state().head)
    }

    fn push(&self, insert: &RingInsert, document: &[u8], timestamp: u64) {
        let mut state = insert.state;
        let position = insert.placement.position;
        let mut shared = self.shared.write();
        let Shared { state: old, buffer } = &mut *shared;
        let mut bytes = 0;
        let rest = (state.extent_bytes - insert.tail % state.extent_bytes) % state.extent_bytes;
        if position != insert.tail && rest >= slot::HEADER_BYTES as u64 {
            let offset = old.offset_of(insert.tail);
            bytes += buffer.append(insert.tail, offset, |out| slot::push_skip(out, insert.tail, position));
        }
        let back = if old.last < old.tail { position - old.last } else { 0 };
        (state.lap, state.previous_lap) = (insert.placement.lap, insert.placement.previous_lap);
        bytes += buffer.append(position, state.offset_of(position), |out| {
            slot::push_document(out, position, back, timestamp, document);
        });
        state.last = position;
        state.tail = position + slot::slot_bytes(insert.length);
        *old = state;
        drop(shared);
        self.registry.count_buffered(bytes);
        self.is_changed.store(true, Ordering::Release);
    }

    fn note_override(&self, change: RingOverride) {
        let mut shared = self.shared.write();
        let state = &mut shared.state;
        state.documents = state.documents.saturating_add_signed(change.documents);
        state.bytes = state.bytes.saturating_add_signed(change.bytes);
        state.overrides += u64::from(change.is_first);
        drop(shared);
        self.is_changed.store(true, Ordering::Release);
    }

    /// After replay has met slots that were lost: as many overrides as the tree has.
    pub fn set_overrides(&self, overrides: u64) {
        self.shared.write().state.overrides = overrides;
        self.is_changed.store(true, Ordering::Release);
    }
}

impl RingWriter<'_> {
    /// The ring.
    pub fn ring(&self) -> &Arc<Ring> {
        self.ring
    }

    /// Works out where a document of `length` bytes goes. `overtake` must be called until it yields nothing before the plan is applied.
    pub fn plan(&self, length: usize, limits: RingLimits) -> RingInsert {
        let state = self.ring.state();
        let placement = state.place(slot::slot_bytes(length), self.ring.capacity());
        let (tail, mut state) = (state.tail, state);
        state.slots += 1;
        state.documents += 1;
        state.bytes += length as u64;
        let (surplus_documents, surplus_bytes) = (0, 0);
        let (slots, documents, bytes) = (0, 0, 0);
        RingInsert { placement, length, tail, state, limits, surplus_documents, surplus_bytes, slots, documents, bytes }
    }

    /// The next slot that the insert overtakes, its document in `document`. `None`: there is no other.
    ///
    /// # Errors
    /// `Corrupt`, `RingFile`.
    pub fn overtake(
        &mut self,
        engine: &Engine,
        insert: &mut RingInsert,
        document: &mut Vec<u8>,
    ) -> Result<Option<Overtaken>> {
        while insert.wants_more() {
            let position = insert.state.head;
            if position >= insert.tail {
                // Everything is overtaken.
                insert.state.head = insert.placement.position;
                return Ok(None);
            }
            match self.ring.fetch(&mut self.window, position, reading::AHEAD)? {
                Fetched::Slot(slot) => {
                    let overtaken = self.read_overtaken(engine, position, document)?;
                    insert.pass(position + slot.bytes, overtaken, document.len() as u64);
                    return Ok(Some(overtaken));
                }
                Fetched::Skip(to) => insert.state.head = to,
                Fetched::End => insert.state.head = insert.tail,
                Fetched::Overtaken => {
                    return Err(damaged(self.ring.tree, position, "the head of the ring is behind it"));
                }
                Fetched::Damaged => return Err(damaged(self.ring.tree, position, "the slot is damaged")),
            }
        }
        Ok(None)
    }

    fn read_overtaken(&self, engine: &Engine, position: u64, document: &mut Vec<u8>) -> Result<Overtaken> {
        let number = number_at(position);
        if self.ring.state().overrides > 0 && engine.get_latest(self.ring.tree, &ring_key(number), document)?.is_some()
        {
            return Ok(Overtaken { number, is_live: !document.is_empty(), has_override: true });
        }
        document.clear();
        document.extend_from_slice(self.window.document(position));
        Ok(Overtaken { number, is_live: true, has_override: false })
    }

    /// During replay: moves the head to that of the logged insert. `visit` gets what is overtaken and still there to be read; `true` is returned when some
    /// was lost, because a later lap had already been written.
    ///
    /// # Errors
    /// Those of `visit`; `RingFile`.
    pub fn overtake_to<E: From<EngineError>>(
        &mut self,
        engine: &Engine,
        insert: &mut RingInsert,
        head: i64,
        mut visit: impl FnMut(Overtaken, &[u8]) -> std::result::Result<(), E>,
    ) -> std::result::Result<bool, E> {
        let (target, mut document) = (position_of(head), Vec::new());
        let mut position = insert.state.head;
        while position < target.min(insert.tail) {
            match self.ring.fetch(&mut self.window, position, reading::AHEAD)? {
                Fetched::Slot(slot) => {
                    let overtaken = self.read_overtaken(engine, position, &mut document)?;
                    if overtaken.has_override {
                        insert.state.overrides = insert.state.overrides.saturating_sub(1);
                    }
                    visit(overtaken, &document)?;
                    position += slot.bytes;
                }
                Fetched::Skip(to) => position = to,
                Fetched::End => break,
                Fetched::Overtaken | Fetched::Damaged => {
                    insert.state.head = target;
                    return Ok(true);
                }
            }
        }
        insert.state.head = target;
        Ok(false)
    }
}

impl RingInsert {
    /// The number that the document gets.
    pub fn number(&self) -> i64 {
        number_at(self.placement.position)
    }

    /// The number below which everything is overtaken.
    pub fn head(&self) -> i64 {
        number_at(self.state.head)
    }

    /// During replay: what the log says was overtaken.
    pub fn set_overtaken(&mut self, slots: u64, documents: u64, bytes: u64) {
        (self.slots, self.documents, self.bytes) = (slots, documents, bytes);
        self.state.slots = self.state.slots.saturating_sub(slots);
        self.state.documents = self.state.documents.saturating_sub(documents);
        self.state.bytes = self.state.bytes.saturating_sub(bytes);
    }

    fn wants_more(&self) -> bool {
        if self.state.head < self.placement.needed_head {
            return true;
        }
        let is_surplus = self.state.bytes > self.limits.bytes || self.state.documents > self.limits.documents;
        let is_patient = self.surplus_documents < SURPLUS_DOCUMENTS_MAX && self.surplus_bytes < SURPLUS_BYTES_MAX;
        is_surplus && is_patient && self.state.slots > 1
    }

    fn pass(&mut self, next: u64, overtaken: Overtaken, bytes: u64) {
        if self.state.head >= self.placement.needed_head {
            self.surplus_documents += 1;
            self.surplus_bytes += bytes;
        }
        self.state.head = next;
        self.slots += 1;
        self.state.slots = self.state.slots.saturating_sub(1);
        if overtaken.has_override {
            self.state.overrides = self.state.overrides.saturating_sub(1);
        }
        if overtaken.is_live {
            self.documents += 1;
            self.bytes += bytes;
            self.state.documents = self.state.documents.saturating_sub(1);
            self.state.bytes = self.state.bytes.saturating_sub(bytes);
        }
    }
}

fn damaged(tree: TreeId, position: u64, reason: &str) -> EngineError {
    let reason = format!("ring position {position}: {reason}");
    EngineError::Corrupt { tree: tree.0, page: tree.root(), reason }
}

fn file_error(error: std::io::Error) -> EngineError {
    EngineError::RingFile(Arc::new(error))
}
