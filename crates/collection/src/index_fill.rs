//! Filling an index from records that exist.
//!
//! Called record by record by the index builds of `transaction`, which hold the record's lock, and for a whole collection by replay,
//! when nobody else is there.

use std::sync::Arc;

use bson::RawDocument;
use storage_engine::{Batch, Engine, Timestamp};

use crate::catalog::Catalog;
use crate::collection::Collection;
use crate::document_change::{NewlyMultikey, UniqueClaim, claim_hash};
use crate::document_keys::DocumentKeys;
use crate::error::{CollectionError, Result};
use crate::index::{Index, IndexList};
use crate::index_specification::IndexSpecification;
use crate::record_id::RecordId;
use crate::records::StoredRecords;

/// Changes of one batch in replay: short enough to let a checkpoint begin between two.
const BATCH_ENTRIES: usize = 256;
/// Bytes of entries that are sorted before they go into the tree.
const SORT_BYTES: usize = 8 << 20;

/// The entries of one record for an index being built. Reusable.
#[derive(Debug, Default)]
pub struct RecordEntries {
    keys: DocumentKeys,
    entry_key: Vec<u8>,
    batch: Batch,
}

impl RecordEntries {
    /// Computes the entries of a record in the index at `position` of the list.
    ///
    /// # Errors
    /// `IndexKey`, `KeyTooLong`, `Query`.
    pub fn generate(
        &mut self,
        indexes: &IndexList,
        position: usize,
        record_id: RecordId,
        document: &RawDocument,
    ) -> Result<()> {
        self.batch.clear();
        let Some(index) = indexes.all().get(position) else { return Ok(()) };
        self.keys.read(indexes, document)?;
        self.keys.generate(indexes, position, document)?;
        for entry in self.keys.keys().iter() {
            record_id.write_entry_key(entry.key, &mut self.entry_key);
            self.batch.put(index.tree(), &self.entry_key, entry.value);
        }
        Ok(())
    }

    /// Puts for all of them. They may be there already.
    pub fn batch(&self) -> &Batch {
        &self.batch
    }

    /// What the catalog must know before the batch is applied, if anything.
    pub fn newly_multikey(&self, position: usize, index: &Index) -> Option<NewlyMultikey> {
        let paths = self.keys.keys().multikey_paths();
        index.lacks_multikey(paths).then(|| NewlyMultikey { index: position, paths: paths.to_vec() })
    }

    /// The keys as claims, for an index that enforces uniqueness.
    pub fn claims(&self, position: usize, index: &Index) -> impl Iterator<Item = UniqueClaim<'_>> {
        let tree = index.tree();
        self.keys.keys().iter().map(move |entry| UniqueClaim {
            index: position,
            hash: claim_hash(tree, entry.key),
            key: entry.key,
            value: entry.value,
        })
    }
}

/// Builds an index while nobody else uses the collection, in sorted runs.
///
/// The records may be newer than the oplog entry that is being replayed; one that cannot be indexed is left out,
/// because a later entry changes or removes it.
///
/// # Errors
/// `Engine`.
pub(crate) fn build_alone(
    catalog: &Catalog,
    engine: &Arc<Engine>,
    collection: &Arc<Collection>,
    specification: IndexSpecification,
) -> Result<()> {
    let index = catalog.add_building_index(collection, specification)?;
    let indexes = collection.indexes();
    let position = indexes.position(index.tree()).unwrap_or_default();
    let mut cursor = StoredRecords::new(engine, &engine.begin_snapshot(), collection);
    if let StoredRecords::Ring(cursor) = &mut cursor {
        cursor.skip_damage();
    }
    let (mut keys, mut entry_key) = (DocumentKeys::default(), Vec::new());
    let mut run = SortedRun::default();
    cursor.seek_first()?;
    while let Some(record_id) = cursor.next()? {
        let document = RawDocument::from_bytes(cursor.bytes()?).map_err(CollectionError::damaged("record"))?;
        keys.read(&indexes, document)?;
        if keys.generate(&indexes, position, document).is_err() {
            continue;
        }
        index.add_multikey(keys.keys().multikey_paths());
        for entry in keys.keys().iter() {
            record_id.write_entry_key(entry.key, &mut entry_key);
            run.push(&entry_key, entry.value);
        }
        if run.bytes >= SORT_BYTES {
            run.write(engine, &index)?;
        }
    }
    run.write(engine, &index)?;
    catalog.make_index_ready(collection, &index, Timestamp::MIN)
}

#[derive(Default)]
struct SortedRun {
    entries: Vec<(Vec<u8>, Vec<u8>)>,
    bytes: usize,
}

impl SortedRun {
    fn push(&mut self, key: &[u8], value: &[u8]) {
        self.bytes += key.len() + value.len() + 2 * size_of::<Vec<u8>>();
        self.entries.push((key.to_vec(), value.to_vec()));
    }

    fn write(&mut self, engine: &Engine, index: &Index) -> Result<()> {
        self.entries.sort_unstable();
        let mut batch = Batch::new();
        for chunk in self.entries.chunks(BATCH_ENTRIES) {
            batch.clear();
            chunk.iter().for_each(|(key, value)| batch.blind_insert(index.tree(), key, value));
            engine.apply_settled(&batch)?;
        }
        self.entries.clear();
        self.bytes = 0;
        Ok(())
    }
}
