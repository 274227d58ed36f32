//! Applying the logged change of one document to what is stored.

use std::collections::BTreeSet;
use std::sync::Arc;

use bson::{RawDocument, Uuid};
use document::{Limits, validate_document};
use index_key::KeySet;
use storage_engine::{Batch, Engine, Timestamp};

use crate::catalog::Catalog;
use crate::collection::Collection;
use crate::document_change::{NewlyMultikey, put_entry_change};
use crate::document_keys::{DocumentKeys, for_each_change};
use crate::error::{CollectionError, Result};
use crate::field_changes::FieldChanges;
use crate::index::IndexList;
use crate::oplog_entry::{DocumentEntry, DocumentOperation, apply_delta};
use crate::record_id::RecordId;
use crate::replay::is_of_what_is_stored;

/// How entries are applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Applying {
    /// When a store is opened: nobody reads, and counts are changed at once.
    AtStart,
    /// While others read: what was before is kept for them. The caller counts.
    Live,
}

/// What is known of what is stored of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stored {
    /// It has to be looked at.
    Unknown,
    /// The record is new.
    Nothing,
}

/// Applies document entries; has the buffers for it.
pub(crate) struct EntryApplier {
    pub(super) applying: Applying,
    catalog: Arc<Catalog>,
    pub(super) engine: Arc<Engine>,
    /// The collection of the last entry: mostly the next one is about it, too.
    last: Option<(Uuid, Option<Arc<Collection>>)>,
    stored: Vec<u8>,
    patched: Vec<u8>,
    pub(super) old_keys: DocumentKeys,
    pub(super) new_keys: DocumentKeys,
    pub(super) entry_key: Vec<u8>,
    field_changes: FieldChanges,
    pub(super) batch: Batch,
    /// Capped collections of which overtaken documents were lost before their index entries could be removed.
    pub(super) to_sweep: BTreeSet<Uuid>,
}

impl EntryApplier {
    pub(crate) fn new(catalog: Arc<Catalog>, engine: Arc<Engine>) -> EntryApplier {
        EntryApplier::applying(Applying::AtStart, catalog, engine)
    }

    pub(crate) fn applying(applying: Applying, catalog: Arc<Catalog>, engine: Arc<Engine>) -> EntryApplier {
        EntryApplier {
            applying,
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
            to_sweep: BTreeSet::new(),
        }
    }

    /// Forgets what a definition change may have changed.
    pub(crate) fn forget_collection(&mut self) {
        self.last = None;
    }

    /// Where what is stored is damaged, the collection is set aside: it lacks this change, and so all later ones.
    pub(crate) fn apply(&mut self, entry: &DocumentEntry<'_>, timestamp: Timestamp) -> Result<()> {
        let Some(collection) = self.collection(entry.uuid) else { return Ok(()) };
        self.apply_in(&collection, entry, timestamp, Stored::Unknown)
    }

    /// The same in a collection that the caller has found.
    pub(crate) fn apply_in(
        &mut self,
        collection: &Arc<Collection>,
        entry: &DocumentEntry<'_>,
        timestamp: Timestamp,
        stored: Stored,
    ) -> Result<()> {
        if collection.aside().is_some() {
            return Ok(());
        }
        match self.apply_to(collection, entry, timestamp, stored) {
            Err(error) if is_of_what_is_stored(&error) => {
                collection.set_aside(&format!("changes since the last checkpoint could not be applied: {error}"));
                Ok(())
            }
            applied => applied,
        }
    }

    fn apply_to(
        &mut self,
        collection: &Arc<Collection>,
        entry: &DocumentEntry<'_>,
        timestamp: Timestamp,
        known: Stored,
    ) -> Result<()> {
        check_new(entry.operation)?;
        if self.applying == Applying::AtStart {
            collection.counts().add(entry.count_change(), entry.size_change);
        }
        if let Some(ring) = collection.ring() {
            return self.apply_to_ring(collection, ring, entry, timestamp);
        }
        let mut stored = std::mem::take(&mut self.stored);
        let mut patched = std::mem::take(&mut self.patched);
        let found = match known {
            Stored::Nothing => false,
            Stored::Unknown => collection.read_latest(&self.engine, entry.record_id, &mut stored)?,
        };
        let old = if found { Some(read(&stored)?) } else { None };
        let new = new_version(entry.operation, old, &mut patched)?;
        let applied = self.replace(collection, entry.record_id, (old, new), timestamp);
        self.stored = stored;
        self.patched = patched;
        applied
    }

    pub(super) fn collection(&mut self, uuid: Uuid) -> Option<Arc<Collection>> {
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
        (old, new): (Option<&RawDocument>, Option<&RawDocument>),
        timestamp: Timestamp,
    ) -> Result<()> {
        if !self.prepare(collection, record_id, old, new)? {
            return Ok(());
        }
        match self.applying {
            Applying::AtStart => Ok(self.engine.apply_settled(&self.batch)?),
            Applying::Live => Ok(self.engine.apply(&self.batch, timestamp)?),
        }
    }

    /// Fills the batch. `false`: there is nothing to do.
    pub(super) fn prepare(
        &mut self,
        collection: &Collection,
        record_id: RecordId,
        old: Option<&RawDocument>,
        new: Option<&RawDocument>,
    ) -> Result<bool> {
        self.batch.clear();
        let key = record_id.record_key();
        match (old, new) {
            (None, None) => return Ok(false),
            (Some(old), Some(new)) => {
                self.field_changes.compare(old, new);
                if self.field_changes.is_empty() && old == new {
                    return Ok(false);
                }
                self.put_record(collection, &key, new);
            }
            (None, Some(new)) => self.put_record(collection, &key, new),
            (Some(_), None) if collection.ring().is_some() => self.batch.put(collection.record_tree(), &key, &[]),
            (Some(_), None) if self.applying == Applying::Live => {
                self.batch.delete_record(collection.record_tree(), &key);
            }
            (Some(_), None) => self.batch.delete(collection.record_tree(), &key),
        }
        self.change_entries(collection, record_id, old, new)?;
        Ok(true)
    }

    /// As a primary does, which recovers in the same way: by the entry, which is in the oplog.
    fn put_record(&mut self, collection: &Collection, key: &[u8], new: &RawDocument) {
        let tree = collection.record_tree();
        match self.applying {
            Applying::Live if collection.ring().is_none() => self.batch.put_record(tree, key, new.as_bytes()),
            _ => self.batch.put(tree, key, new.as_bytes()),
        }
    }

    /// Puts the difference between the index entries of two versions into the batch.
    pub(super) fn change_entries(
        &mut self,
        collection: &Collection,
        record_id: RecordId,
        old: Option<&RawDocument>,
        new: Option<&RawDocument>,
    ) -> Result<()> {
        let indexes = collection.indexes();
        old.into_iter().try_for_each(|old| self.old_keys.read(&indexes, old))?;
        new.into_iter().try_for_each(|new| self.new_keys.read(&indexes, new))?;
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
        Ok(())
    }
}

/// Nothing is stored that whoever reads it would stumble over.
fn check_new(operation: DocumentOperation<'_>) -> Result<()> {
    let (DocumentOperation::Insert(new) | DocumentOperation::Replace(new)) = operation else { return Ok(()) };
    validate_document(new.as_bytes(), &Limits::INTERNAL)
        .map_err(|error| CollectionError::Damaged(format!("a document in an oplog entry: {error}")))
}

/// What an entry makes of what is stored.
pub(super) fn new_version<'a>(
    operation: DocumentOperation<'a>,
    old: Option<&'a RawDocument>,
    patched: &'a mut Vec<u8>,
) -> Result<Option<&'a RawDocument>> {
    Ok(match (operation, old) {
        (DocumentOperation::Insert(document), _) => Some(document),
        // A change of a record that is not there: a later entry deletes it.
        (DocumentOperation::Replace(_) | DocumentOperation::Delta(_) | DocumentOperation::Delete, None) => None,
        (DocumentOperation::Replace(document), Some(_)) => Some(document),
        (DocumentOperation::Delta(diff), Some(old)) => {
            apply_delta(old, diff, patched)?;
            Some(read(patched)?)
        }
        (DocumentOperation::Delete, Some(_)) => None,
    })
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

pub(super) fn read(bytes: &[u8]) -> Result<&RawDocument> {
    RawDocument::from_bytes(bytes).map_err(CollectionError::damaged("record"))
}
