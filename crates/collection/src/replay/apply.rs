//! Applying the logged change of one document to what is stored.

use std::sync::Arc;

use bson::{RawDocument, Uuid};
use index_key::KeySet;
use storage_engine::{Batch, Engine};

use crate::catalog::Catalog;
use crate::collection::Collection;
use crate::document_change::{NewlyMultikey, put_entry_change};
use crate::document_keys::{DocumentKeys, for_each_change};
use crate::error::{CollectionError, Result};
use crate::field_changes::FieldChanges;
use crate::index::IndexList;
use crate::oplog_entry::{DocumentEntry, DocumentOperation, apply_delta};
use crate::record_id::RecordId;

/// Applies document entries; has the buffers for it.
pub(crate) struct EntryApplier {
    catalog: Arc<Catalog>,
    engine: Arc<Engine>,
    /// The collection of the last entry: mostly the next one is about it, too.
    last: Option<(Uuid, Option<Arc<Collection>>)>,
    stored: Vec<u8>,
    patched: Vec<u8>,
    old_keys: DocumentKeys,
    new_keys: DocumentKeys,
    entry_key: Vec<u8>,
    field_changes: FieldChanges,
    batch: Batch,
}

impl EntryApplier {
    pub(crate) fn new(catalog: Arc<Catalog>, engine: Arc<Engine>) -> EntryApplier {
        EntryApplier {
            catalog,
            engine,
            last: None,
            stored: Vec::new(),
            patched: Vec::new(),
            old_keys: DocumentKeys::default(),
            new_keys: DocumentKeys::default(),
            entry_key: Vec::new(),
            field_changes: FieldChanges::default(),
            batch: Batch::new(),
        }
    }

    /// Forgets what a definition change may have changed.
    pub(crate) fn forget_collection(&mut self) {
        self.last = None;
    }

    pub(crate) fn apply(&mut self, entry: &DocumentEntry<'_>) -> Result<()> {
        let Some(collection) = self.collection(entry.uuid) else { return Ok(()) };
        collection.counts().add(entry.operation.count_change(), entry.size_change);
        let mut stored = std::mem::take(&mut self.stored);
        let mut patched = std::mem::take(&mut self.patched);
        let found = collection.read_latest(&self.engine, entry.record_id, &mut stored)?;
        let old = if found { Some(read(&stored)?) } else { None };
        let new = match (entry.operation, old) {
            (DocumentOperation::Insert(document), _) => Some(document),
            // A change of a record that is not there: a later entry deletes it.
            (DocumentOperation::Replace(_) | DocumentOperation::Delta(_) | DocumentOperation::Delete, None) => None,
            (DocumentOperation::Replace(document), Some(_)) => Some(document),
            (DocumentOperation::Delta(diff), Some(old)) => {
                apply_delta(old, diff, &mut patched)?;
                Some(read(&patched)?)
            }
            (DocumentOperation::Delete, Some(_)) => None,
        };
        let applied = self.replace(&collection, entry.record_id, old, new);
        self.stored = stored;
        self.patched = patched;
        applied
    }

    fn collection(&mut self, uuid: Uuid) -> Option<Arc<Collection>> {
        match &self.last {
            Some((last, collection)) if *last == uuid => collection.clone(),
            _ => {
                let collection = self.catalog.lookup_uuid(uuid);
                self.last = Some((uuid, collection.clone()));
                collection
            }
        }
    }

    fn replace(
        &mut self,
        collection: &Collection,
        record_id: RecordId,
        old: Option<&RawDocument>,
        new: Option<&RawDocument>,
    ) -> Result<()> {
        self.batch.clear();
        let key = record_id.record_key();
        match (old, new) {
            (None, None) => return Ok(()),
            (Some(old), Some(new)) => {
                self.field_changes.compare(old, new);
                if self.field_changes.is_empty() && old == new {
                    return Ok(());
                }
                self.batch.put(collection.record_tree(), &key, new.as_bytes());
            }
            (None, Some(new)) => self.batch.put(collection.record_tree(), &key, new.as_bytes()),
            (Some(_), None) => self.batch.delete(collection.record_tree(), &key),
        }
        let indexes = collection.indexes();
        old.into_iter().for_each(|old| self.old_keys.read(&indexes, old));
        new.into_iter().for_each(|new| self.new_keys.read(&indexes, new));
        let mut newly_multikey = Vec::new();
        for (position, index) in indexes.all().iter().enumerate() {
            let is_untouched = matches!((old, new), (Some(old), Some(new))
                if !index.is_touched_by(&self.field_changes, old, new));
            if is_untouched {
                continue;
            }
            let old_keys = generate(&mut self.old_keys, &indexes, position, old);
            let new_keys = generate(&mut self.new_keys, &indexes, position, new);
            let (batch, entry_key) = (&mut self.batch, &mut self.entry_key);
            for_each_change(old_keys, new_keys, |change| {
                put_entry_change(batch, index, record_id, change, entry_key);
            });
            if let Some(paths) = new_keys.map(KeySet::multikey_paths)
                && index.lacks_multikey(paths)
            {
                newly_multikey.push(NewlyMultikey { index: position, paths: paths.to_vec() });
            }
        }
        if !newly_multikey.is_empty() {
            self.catalog.add_multikey(collection, &newly_multikey)?;
        }
        Ok(self.engine.apply_settled(&self.batch)?)
    }
}

/// The keys of a document that has been read. One that cannot be indexed has none: it can only be met when the index
/// came into being after it was gone, so whatever it leaves out here, it leaves out again when it is replaced.
fn generate<'a>(
    keys: &'a mut DocumentKeys,
    indexes: &IndexList,
    position: usize,
    document: Option<&RawDocument>,
) -> Option<&'a KeySet> {
    keys.generate(indexes, position, document?).ok()?;
    Some(keys.keys())
}

fn read(bytes: &[u8]) -> Result<&RawDocument> {
    RawDocument::from_bytes(bytes).map_err(CollectionError::damaged("record"))
}
