//! How much space a collection and its indexes take on disk.
//!
//! Used by `collStats`, `dbStats`, `listDatabases`. The engine only knows a tree's size by reading all its pages, which is fine for
//! small collections. For large ones the sizes are estimated: bytes of documents (which are counted), and the mean entry of an
//! index times the number of documents, both over the compression that the page store has reached. Where a tree turns out to have more pages than
//! are read, it is at least what was read.

use collection::{Collection, Index};
use storage_engine::TreeId;
use transaction::Store;

use crate::request::error::Result;

/// Collections with more bytes of documents than this are estimated.
const EXACT_BYTES_MAX: u64 = 16 << 20;
/// Pages of a tree that are read at most: one may hold far more than its documents now, those of a transaction that is being committed, or what a
/// snapshot still sees.
const EXACT_PAGES_MAX: usize = 4096;
/// Entries of an index that are looked at for their mean size.
const SAMPLE_ENTRIES: u64 = 500;

/// Sizes on disk in bytes.
pub(crate) struct CollectionSizes {
    pub(crate) record_bytes: u64,
    /// By the index's name.
    pub(crate) indexes: Vec<(String, u64)>,
    pub(crate) is_estimate: bool,
}

impl CollectionSizes {
    pub(crate) fn index_bytes(&self) -> u64 {
        self.indexes.iter().map(|(_, bytes)| bytes).sum()
    }

    pub(crate) fn total_bytes(&self) -> u64 {
        self.record_bytes + self.index_bytes()
    }
}

/// Measures collections of one store.
pub(crate) struct SizeEstimator<'a> {
    store: &'a Store,
    compression_ratio: f64,
}

impl<'a> SizeEstimator<'a> {
    pub(crate) fn new(store: &'a Store) -> Result<Self> {
        let ratio = store.engine().statistics()?.store.compression_ratio;
        Ok(Self { store, compression_ratio: ratio.max(1.0) })
    }

    pub(crate) fn sizes(&self, collection: &Collection) -> Result<CollectionSizes> {
        let (documents, bytes) = (collection.counts().documents(), collection.counts().bytes());
        let mut is_estimate = bytes > EXACT_BYTES_MAX;
        let record_bytes = if let Some(ring) = collection.ring() {
            ring.file_bytes()?
        } else if is_estimate {
            self.compressed(bytes as f64)
        } else {
            self.read(collection.record_tree(), &mut is_estimate)?
        };
        let mut indexes = Vec::new();
        for index in collection.indexes().ready() {
            let size = match is_estimate {
                true => self.estimate(index, documents)?,
                false => self.read(index.tree(), &mut is_estimate)?,
            };
            indexes.push((index.name().to_owned(), size));
        }
        Ok(CollectionSizes { record_bytes, indexes, is_estimate })
    }

    /// Bytes of a tree, or, noted as an estimate, of so much of it as is read.
    fn read(&self, tree: TreeId, is_estimate: &mut bool) -> Result<u64> {
        let figures = self.store.engine().first_tree_statistics(tree, EXACT_PAGES_MAX)?;
        *is_estimate |= !figures.is_whole;
        Ok(figures.disk_bytes)
    }

    fn compressed(&self, bytes: f64) -> u64 {
        (bytes / self.compression_ratio) as u64
    }

    fn estimate(&self, index: &Index, documents: u64) -> Result<u64> {
        let engine = self.store.engine();
        let mut cursor = engine.cursor(&engine.begin_snapshot(), index.tree());
        cursor.seek_first()?;
        let (mut entries, mut bytes) = (0, 0);
        while entries < SAMPLE_ENTRIES && cursor.next()? {
            bytes += (cursor.key().len() + cursor.value()?.len()) as u64;
            entries += 1;
        }
        let mean = bytes as f64 / entries.max(1) as f64;
        // Fewer entries than the sample is looking for are all there are.
        let total = if entries < SAMPLE_ENTRIES { bytes as f64 } else { mean * documents as f64 };
        Ok(self.compressed(total))
    }
}
