//! The keys that one document has in the indexes of its collection, and how they change between two versions.
//!
//! Called by `document_change`, index builds, replay and validation. Around `index_key::KeyGenerator`, which reads a document
//! once for all indexes; adds partial filters and the engine's limit on what an entry holds.

use std::cmp::Ordering;

use bson::RawDocument;
use index_key::{ExtractedFields, KeyEntry, KeyError, KeyLimits, KeySet};
use platform::command_memory::{Patience, before_allocating};
use storage_engine::EngineError;

use crate::error::{CollectionError, Result};
use crate::index::{Index, IndexList};

/// Longest index key in bytes. What a tree's key has no room for is in the entry's value (`index_key::long_key`).
pub const INDEX_KEY_BYTES_MAX: usize = storage_engine::MAX_VALUE_BYTES;

/// A record id of up to 9 bytes follows a key in the tree.
const _: () = assert!(index_key::long_key::STORED_KEY_BYTES_MAX + 9 == storage_engine::MAX_KEY_BYTES);

/// Memory for more than so many bytes of keys is asked for.
const LARGE_BYTES: usize = 64 << 10;

/// A document of more bytes is not shown where its keys cannot be made.
const SHOWN_BYTES_MAX: usize = 4 << 10;

/// A position in no list of indexes: for it, the generator makes no keys.
const NO_INDEX: usize = usize::MAX;

/// The keys of one document in one index after another. Reusable.
#[derive(Debug)]
pub(crate) struct DocumentKeys {
    fields: ExtractedFields,
    /// Which list of indexes the fields were read for; what they remember is good for that list only.
    list_version: u64,
    keys: KeySet,
}

impl Default for DocumentKeys {
    fn default() -> Self {
        let may_allocate = |bytes| before_allocating(bytes, Patience::FailsAtOnce).is_ok();
        let keys = KeySet::limited(KeyLimits { key_bytes_max: INDEX_KEY_BYTES_MAX, may_allocate });
        Self { fields: ExtractedFields::new(), list_version: 0, keys }
    }
}

impl DocumentKeys {
    /// Finds the fields of `document` that the indexes need.
    ///
    /// # Errors
    /// `IndexKey` when the command is to stop.
    pub(crate) fn read(&mut self, indexes: &IndexList, document: &RawDocument) -> Result<()> {
        if self.list_version != indexes.version() {
            self.fields = ExtractedFields::new();
            self.list_version = indexes.version();
        }
        Ok(indexes.generator().read(document, &mut self.fields)?)
    }

    /// Makes the keys of the document that was read in the index at `position` of the list.
    ///
    /// # Errors
    /// `IndexKey`, `KeyTooLong`, `Query` from a partial filter.
    pub(crate) fn generate(&mut self, indexes: &IndexList, position: usize, document: &RawDocument) -> Result<()> {
        let Some(index) = indexes.all().get(position) else { return Ok(()) };
        let position = if index.admits(document)? { position } else { NO_INDEX };
        let made = indexes.generator().keys(position, document, &self.fields, &mut self.keys);
        made.map_err(|error| match error {
            KeyError::KeyTooLong { bytes } => too_long(index, bytes),
            KeyError::BadPlace { field, reason } if document.as_bytes().len() <= SHOWN_BYTES_MAX => {
                let shown = crate::index_specification::show_specification(document);
                KeyError::BadPlace { field, reason: format!("{shown}  {reason}") }.into()
            }
            other => other.into(),
        })?;
        self.check_memory()?;
        self.check_lengths(index)
    }

    /// What they become in a batch takes as much again, and a claim as much once more.
    fn check_memory(&self) -> Result<()> {
        let bytes = self.keys.memory_bytes();
        if bytes <= LARGE_BYTES {
            return Ok(());
        }
        before_allocating(2 * bytes, Patience::FailsAtOnce).map_err(|error| EngineError::NoMemory(error).into())
    }

    /// The keys, sorted.
    pub(crate) fn keys(&self) -> &KeySet {
        &self.keys
    }

    /// Refused here, before anything is logged, because the engine would refuse it after.
    fn check_lengths(&self, index: &Index) -> Result<()> {
        let too_much = |entry: &KeyEntry<'_>| entry.key.len() + entry.value.len() > INDEX_KEY_BYTES_MAX;
        match self.keys.iter().find(too_much) {
            None => Ok(()),
            Some(entry) => Err(too_long(index, entry.key.len() + entry.value.len())),
        }
    }
}

fn too_long(index: &Index, bytes: usize) -> CollectionError {
    CollectionError::KeyTooLong { index: index.name().to_owned(), bytes, bytes_max: INDEX_KEY_BYTES_MAX }
}

/// How one entry changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EntryChange<'a> {
    Added(KeyEntry<'a>),
    Removed(KeyEntry<'a>),
    /// Same key, other type bits: a number changed its type.
    Retyped(KeyEntry<'a>),
}

impl<'a> EntryChange<'a> {
    /// The key, as it is stored.
    pub(crate) fn key(self) -> &'a [u8] {
        let (EntryChange::Added(entry) | EntryChange::Removed(entry) | EntryChange::Retyped(entry)) = self;
        entry.key
    }

    /// What the change puts into the tree beside the key.
    pub(crate) fn value(self) -> &'a [u8] {
        match self {
            EntryChange::Added(entry) | EntryChange::Retyped(entry) => entry.value,
            EntryChange::Removed(_) => &[],
        }
    }
}

/// Calls `visit` for each difference between the keys of the old and the new version, in key order. `None`: there is no
/// such version.
#[inline]
pub(crate) fn for_each_change<'a>(
    old: Option<&'a KeySet>,
    new: Option<&'a KeySet>,
    mut visit: impl FnMut(EntryChange<'a>),
) {
    let mut old_entries = old.into_iter().flat_map(KeySet::iter).peekable();
    let mut new_entries = new.into_iter().flat_map(KeySet::iter).peekable();
    loop {
        let order = match (old_entries.peek(), new_entries.peek()) {
            (None, None) => return,
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (Some(old), Some(new)) => old.key.cmp(new.key),
        };
        let removed = if order.is_le() { old_entries.next() } else { None };
        let added = if order.is_ge() { new_entries.next() } else { None };
        match (removed, added) {
            (Some(removed), Some(added)) if removed.value != added.value => {
                visit(EntryChange::Retyped(added));
            }
            (Some(removed), None) => visit(EntryChange::Removed(removed)),
            (None, Some(added)) => visit(EntryChange::Added(added)),
            _ => {}
        }
    }
}
