//! Reading the catalog tree at the start, as far as it can be read.
//!
//! Called by `Catalog::load`. Nothing that is stored keeps the rest from being served:
//!
//! - an entry that does not parse is passed over; a definition whose options or indexes this build cannot read is set aside (`stored`);
//! - behind a damaged page the catalog is read on where it can be. Then nothing may be written any more: the tree is set aside in the engine.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use storage_engine::{BTreeCursor, Batch, EngineError, TreeId};

use super::stored::{self, COLLECTION_KEY, COUNTS_KEY, DROPPED_TREE_KEY, SESSION_TREE_KEY, split_key};
use super::{Catalog, IndexShapes};
use crate::collection::Collection;
use crate::error::{CollectionError, Result};

/// Entries that are read before their pages are given back: of a catalog of a hundred megabytes nothing is wanted again soon, and page frames that
/// were never used take no memory.
const ENTRIES_IN_CACHE: u64 = 1000;
/// Keys are numbers of so many bytes.
const KEY_BYTES: usize = 9;

/// What was read so far.
#[derive(Default)]
struct Loading {
    by_ident: BTreeMap<u64, Arc<Collection>>,
    repairs: Batch,
    /// Trees that belong to nobody.
    abandoned: Vec<TreeId>,
}

impl Catalog {
    /// Fills the catalog from its tree.
    ///
    /// # Errors
    /// `Engine`: also when it is damaged so that nothing of it can be read.
    pub(super) fn load_all(&self) -> Result<()> {
        let mut loading = Loading::default();
        let mut cursor = self.engine.cursor(&self.engine.begin_snapshot(), TreeId::CATALOG);
        let mut next = cursor.seek_first().and_then(|()| cursor.next());
        let mut last = 0;
        for entry in 1_u64.. {
            match next {
                Ok(false) => break,
                Ok(true) => {
                    last = key_number(cursor.key()).max(last);
                    if let Err(error) = self.load_entry(&mut cursor, &mut loading) {
                        self.note_unreadable(&error, last)?;
                    }
                }
                Err(error) if error.is_damage() => {
                    self.set_catalog_aside(&error);
                    if !seek_behind_damage(&mut cursor, last) {
                        if loading.by_ident.is_empty() {
                            return Err(error.into());
                        }
                        break;
                    }
                }
                Err(error) => return Err(error.into()),
            }
            if entry % ENTRIES_IN_CACHE == 0 {
                self.engine.evict_all()?;
            }
            next = cursor.next();
        }
        let Loading { by_ident, repairs, abandoned, .. } = loading;
        self.by_uuid.fill(by_ident.into_values().map(|collection| (collection.uuid(), collection)));
        if !repairs.is_empty() {
            self.engine.apply_settled(&repairs)?;
        }
        abandoned.into_iter().try_for_each(|tree| Ok(self.engine.drop_tree(tree)?))
    }

    fn load_entry(&self, cursor: &mut BTreeCursor, loading: &mut Loading) -> Result<()> {
        let (kind, number) = split_key(cursor.key())?;
        match kind {
            COLLECTION_KEY => {
                self.next_ident.fetch_max(number + 1, Ordering::Relaxed);
                let collection = self.decode_collection(number, cursor.value()?, &mut self.shapes.lock())?;
                loading.by_ident.insert(number, collection);
            }
            // Keys are in order of kind: every collection has been seen.
            COUNTS_KEY => match loading.by_ident.get(&number) {
                Some(collection) => {
                    let (documents, bytes) = stored::decode_counts(cursor.value()?)?;
                    collection.counts().set(documents, bytes);
                }
                // Unless it could not be read.
                None if self.is_whole() => loading.repairs.delete(TreeId::CATALOG, cursor.key()),
                None => {}
            },
            DROPPED_TREE_KEY => {
                loading.repairs.delete(TreeId::CATALOG, cursor.key());
                loading.abandoned.push(TreeId(number));
            }
            SESSION_TREE_KEY => *self.session_tree.lock() = Some(TreeId(number)),
            _ => return Err(CollectionError::Damaged(format!("unknown kind {kind} of catalog key"))),
        }
        Ok(())
    }

    fn decode_collection(&self, ident: u64, value: &[u8], shapes: &mut IndexShapes) -> Result<Arc<Collection>> {
        let stored = stored::decode_collection(value, self.clock.wall_millis(), shapes)?;
        // Not collected in place: the memory of the larger elements would stay.
        let mut indexes = Vec::with_capacity(stored.indexes.len());
        indexes.extend(stored.indexes.into_iter().map(Arc::new));
        let indexes = shapes.list(indexes);
        let mut aside = stored.aside;
        let ring = match stored.options.capped {
            Some(capped) => match self.engine.open_ring(ident, stored.record_tree, capped.size) {
                Err(error) if error.is_damage() => {
                    aside = aside.or(Some(error.to_string()));
                    None
                }
                ring => Some(ring?),
            },
            None => None,
        };
        let (namespace, memory) = (stored.namespace, self.reservation());
        let collection =
            Collection::new(ident, stored.uuid, stored.record_tree, ring, namespace, stored.options, indexes, memory);
        collection.count_memory();
        if let Some(reason) = stored.unreadable_options {
            collection.set_unreadable();
            aside = aside.or(Some(reason));
        }
        aside.into_iter().for_each(|reason| collection.set_aside(&reason));
        Ok(Arc::new(collection))
    }

    /// An entry that cannot be read: of a collection of which nothing more is known.
    fn note_unreadable(&self, error: &CollectionError, key: u128) -> Result<()> {
        // Damage is of the pages that a long entry has of its own: the tree itself is whole.
        if let CollectionError::Engine(error) = error
            && !error.is_damage()
        {
            return Err(error.clone().into());
        }
        let (kind, number) = (key >> 64, key as u64);
        self.unreadable.lock().push(format!("entry {kind}/{number} of the catalog cannot be read: {error}"));
        Ok(())
    }

    fn set_catalog_aside(&self, error: &EngineError) {
        self.engine.set_tree_aside(TreeId::CATALOG, &error.to_string());
        self.unreadable.lock().push(format!("a part of the catalog cannot be read: {error}"));
    }

    /// Whether everything in the catalog could be read.
    pub fn is_whole(&self) -> bool {
        self.unreadable.lock().is_empty()
    }

    /// What of the catalog could not be read.
    pub fn unreadable(&self) -> Vec<String> {
        self.unreadable.lock().clone()
    }
}

/// A key as a number.
fn key_number(key: &[u8]) -> u128 {
    key.iter().take(KEY_BYTES).fold(0, |number, byte| number << 8 | u128::from(*byte))
}

/// Moves a cursor to the first place behind `last` from where on it can be read. `false`: there is none.
fn seek_behind_damage(cursor: &mut BTreeCursor, last: u128) -> bool {
    let mut seek = |number: u128| {
        let bytes = number.to_be_bytes();
        let key = bytes.get(bytes.len() - KEY_BYTES..).unwrap_or_default();
        cursor.seek(key).and_then(|()| cursor.next()).is_ok()
    };
    let end = 1_u128 << (8 * KEY_BYTES);
    let mut distance = 1_u128;
    while last + distance < end && !seek(last + distance) {
        distance *= 2;
    }
    if last + distance >= end {
        return false;
    }
    // What can be read begins behind the one and not behind the other.
    let (mut damaged, mut readable) = (last + distance / 2, last + distance);
    while damaged + 1 < readable {
        let middle = damaged.midpoint(readable);
        if seek(middle) { readable = middle } else { damaged = middle }
    }
    let bytes = readable.to_be_bytes();
    cursor.seek(bytes.get(bytes.len() - KEY_BYTES..).unwrap_or_default()).is_ok()
}
