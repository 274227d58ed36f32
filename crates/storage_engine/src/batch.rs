//! A batch: the changes of one document, in its record tree and its index trees.
//!
//! Filled by `collection`, applied by `engine`. A batch is reusable: its buffers keep their memory.

use platform::command_memory::{self, Patience};

use crate::TreeId;
use crate::error::{EngineError, Result};

/// What a change does to its key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChangeKind {
    /// Insert or replace.
    Put,
    /// Remove, if there.
    Delete,
    /// As `Put`, of a record: recovery makes it again.
    PutRecord,
    /// As `Delete`, of a record: recovery makes it again.
    DeleteRecord,
    /// Insert a key that is known to be absent.
    BlindInsert,
    /// Remove a key that is known to be present.
    BlindRemove,
}

impl ChangeKind {
    /// Whether there is an entry afterwards.
    pub fn is_put(self) -> bool {
        matches!(self, ChangeKind::Put | ChangeKind::PutRecord | ChangeKind::BlindInsert)
    }
}

/// One change of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Change<'a> {
    /// What it does.
    pub kind: ChangeKind,
    /// In which tree.
    pub tree: TreeId,
    /// To which key.
    pub key: &'a [u8],
    /// The value; empty for removals.
    pub value: &'a [u8],
}

#[derive(Debug, Clone, Copy)]
struct Item {
    kind: ChangeKind,
    tree: TreeId,
    key_length: u32,
    value_length: u32,
}

/// Growing by more is asked for.
const LARGE_BYTES: usize = 64 << 10;

/// By how much a list of a length and a capacity is to grow so that it has room for so many more: by a quarter at least, if at all.
fn growth(length: usize, capacity: usize, more: usize) -> usize {
    if more <= capacity - length { 0 } else { more.max(length / 4) }
}

/// Changes that are applied together at one commit timestamp.
#[derive(Debug, Default, Clone)]
pub struct Batch {
    items: Vec<Item>,
    bytes: Vec<u8>,
}

impl Batch {
    /// An empty batch.
    pub fn new() -> Self {
        Self::default()
    }

    /// Inserts a key or replaces its value.
    pub fn put(&mut self, tree: TreeId, key: &[u8], value: &[u8]) {
        self.push(ChangeKind::Put, tree, key, value);
    }

    /// Removes a key if it is there.
    pub fn delete(&mut self, tree: TreeId, key: &[u8]) {
        self.push(ChangeKind::Delete, tree, key, &[]);
    }

    /// As [`Batch::put`], for a change that the caller makes again when it recovers, in the order of such changes of the key, all from the checkpoint's
    /// position on. A checkpoint has the key then as it was at any moment between its beginning and the one as of which it has everything else.
    pub fn put_record(&mut self, tree: TreeId, key: &[u8], value: &[u8]) {
        self.push(ChangeKind::PutRecord, tree, key, value);
    }

    /// As [`Batch::delete`], under the condition of [`Batch::put_record`].
    pub fn delete_record(&mut self, tree: TreeId, key: &[u8]) {
        self.push(ChangeKind::DeleteRecord, tree, key, &[]);
    }

    /// Inserts a key that the caller knows to be absent. Nothing needs to be read for it, so the engine may delay it (when the
    /// value is short). Recovery makes it again, from the checkpoint's position on; the checkpoint may have it nevertheless.
    pub fn blind_insert(&mut self, tree: TreeId, key: &[u8], value: &[u8]) {
        self.push(ChangeKind::BlindInsert, tree, key, value);
    }

    /// Removes a key that the caller knows to be present, with a short value (at most 255 bytes). Nothing needs to be read
    /// for it, so the engine may delay it.
    pub fn blind_remove(&mut self, tree: TreeId, key: &[u8]) {
        self.push(ChangeKind::BlindRemove, tree, key, &[]);
    }

    /// Adds a change as another batch has it.
    pub fn add(&mut self, change: Change<'_>) {
        self.push(change.kind, change.tree, change.key, change.value);
    }

    /// Adds the changes of another batch behind its own.
    pub fn append(&mut self, other: &Batch) {
        self.bytes.extend_from_slice(&other.bytes);
        self.items.extend_from_slice(&other.items);
    }

    /// Number of changes.
    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// Whether there are no changes.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// Bytes of memory in use, for accounting.
    pub fn memory_bytes(&self) -> usize {
        self.bytes.capacity() + self.items.capacity() * size_of::<Item>()
    }

    /// Makes room for so many changes more, of so many bytes. A large batch grows by a quarter instead of to twice its size, and that is asked for.
    ///
    /// # Errors
    /// `NoMemory`.
    pub fn make_room(&mut self, changes: usize, bytes: usize) -> Result<()> {
        let more_bytes = growth(self.bytes.len(), self.bytes.capacity(), bytes);
        let more_items = growth(self.items.len(), self.items.capacity(), changes);
        let more = more_bytes + more_items * size_of::<Item>();
        if more > LARGE_BYTES {
            command_memory::before_allocating(more, Patience::FailsAtOnce).map_err(EngineError::NoMemory)?;
            self.bytes.reserve_exact(more_bytes);
            self.items.reserve_exact(more_items);
        }
        Ok(())
    }

    /// Forgets the changes and keeps the memory.
    pub fn clear(&mut self) {
        self.items.clear();
        self.bytes.clear();
    }

    /// The changes in the order they were added.
    pub fn changes(&self) -> impl Iterator<Item = Change<'_>> {
        let mut at = 0;
        self.items.iter().map(move |item| {
            let key_end = at + item.key_length as usize;
            let value_end = key_end + item.value_length as usize;
            let change = Change {
                kind: item.kind,
                tree: item.tree,
                key: &self.bytes[at..key_end],
                value: &self.bytes[key_end..value_end],
            };
            at = value_end;
            change
        })
    }

    fn push(&mut self, kind: ChangeKind, tree: TreeId, key: &[u8], value: &[u8]) {
        self.bytes.extend_from_slice(key);
        self.bytes.extend_from_slice(value);
        self.items.push(Item { kind, tree, key_length: key.len() as u32, value_length: value.len() as u32 });
    }
}
