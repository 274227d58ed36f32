//! Replaying changes of capped collections.
//!
//! Called by `apply`, in order for each collection. The checkpoint has the ring's state as of one moment and the index trees as of then or later; an insert that it has is at
//! a place before the ring's tail. What a replayed insert overtakes may already have been overwritten by a later lap, before the crash: then its index entries
//! cannot be derived any more, and `sweep` removes them at the end of replay, by their record ids.

use std::sync::Arc;

use bson::RawDocument;
use storage_engine::{
    Batch, Engine, LatestInRing, Ring, RingLimits, RingOverride, RingWriter, Timestamp, TreeId, ring_key,
};

use super::apply::{Applying, EntryApplier, new_version, read};
use crate::collection::Collection;
use crate::error::{CollectionError, Result};
use crate::oplog_entry::{DocumentEntry, DocumentOperation};
use crate::record_id::RecordId;

/// Changes of one batch of a sweep.
const BATCH_ENTRIES: usize = 256;

impl EntryApplier {
    pub(super) fn apply_to_ring(
        &mut self,
        collection: &Collection,
        ring: &Arc<Ring>,
        entry: &DocumentEntry<'_>,
        timestamp: Timestamp,
    ) -> Result<()> {
        let mut writer = ring.lock();
        match entry.operation {
            DocumentOperation::Insert(document) => {
                self.insert_into_ring(collection, &mut writer, entry, document, timestamp)?;
            }
            _ => self.change_in_ring(collection, &writer, entry, timestamp)?,
        }
        drop(writer);
        // Others write rings while others read.
        if self.applying == Applying::AtStart && self.engine.rings_are_full() {
            // What is being replayed is durable.
            match self.engine.write_rings(|| Ok(())) {
                // A start must not be refused because of that: it stays in memory until there is space.
                Err(error) if error.is_disk_full() => {}
                written => drop(written?),
            }
        }
        Ok(())
    }

    fn insert_into_ring(
        &mut self,
        collection: &Collection,
        writer: &mut RingWriter<'_>,
        entry: &DocumentEntry<'_>,
        document: &RawDocument,
        timestamp: Timestamp,
    ) -> Result<()> {
        if writer.ring().is_past(entry.record_id.0) {
            return Ok(());
        }
        let damaged = |what: &str| CollectionError::Damaged(format!("oplog entry of a capped collection: {what}"));
        let Some(moved) = entry.ring else { return Err(damaged("what it overtakes is missing")) };
        let limits = RingLimits { bytes: u64::MAX, documents: u64::MAX };
        let length = document.as_bytes().len();
        let mut insert = writer.plan(length, limits);
        if insert.number() != entry.record_id.0 {
            return Err(damaged("it goes to another place"));
        }
        self.batch.clear();
        let engine = self.engine.clone();
        let tree = collection.record_tree();
        let is_lost = writer.overtake_to(&engine, &mut insert, moved.head.0, |overtaken, old| {
            let record_id = RecordId(overtaken.number);
            if overtaken.has_override {
                self.batch.delete(tree, &record_id.record_key());
            }
            if overtaken.is_live {
                self.change_entries(collection, record_id, Some(read(old)?), None)?;
            }
            Ok::<(), CollectionError>(())
        })?;
        if is_lost {
            self.to_sweep.insert(collection.uuid());
        }
        insert.set_overtaken(moved.slots, moved.documents, (length as i64 - entry.size_change).max(0) as u64);
        self.change_entries(collection, entry.record_id, None, Some(document))?;
        match self.applying {
            Applying::AtStart => {
                Ok(engine.apply_ring_insert_settled(writer, &insert, document.as_bytes(), &self.batch, timestamp)?)
            }
            Applying::Live => {
                Ok(engine.apply_ring_insert(writer, &insert, document.as_bytes(), &self.batch, timestamp)?)
            }
        }
    }

    fn change_in_ring(
        &mut self,
        collection: &Collection,
        writer: &RingWriter<'_>,
        entry: &DocumentEntry<'_>,
        timestamp: Timestamp,
    ) -> Result<()> {
        let kept_at = (self.applying == Applying::Live).then_some(timestamp);
        let (mut stored, mut patched) = (Vec::new(), Vec::new());
        let latest = self.engine.get_latest_in_ring(writer.ring(), entry.record_id.0, &mut stored)?;
        match latest {
            LatestInRing::Absent => return Ok(()),
            LatestInRing::Unreadable => return self.change_of_lost(collection, writer, entry, kept_at),
            LatestInRing::AsInserted | LatestInRing::Changed => {}
        }
        let old = read(&stored)?;
        let new = new_version(entry.operation, Some(old), &mut patched)?;
        if !self.prepare(collection, entry.record_id, Some(old), new)? {
            return Ok(());
        }
        let new_bytes = new.map_or(0, |new| new.as_bytes().len());
        let change = RingOverride {
            documents: if new.is_some() { 0 } else { -1 },
            bytes: new_bytes as i64 - stored.len() as i64,
            is_first: latest == LatestInRing::AsInserted,
        };
        Ok(self.engine.apply_ring_override(writer, change, &self.batch, kept_at)?)
    }

    /// The document was overwritten before the crash, so a later entry overtakes it. Until then only the ring's counts matter.
    fn change_of_lost(
        &mut self,
        collection: &Collection,
        writer: &RingWriter<'_>,
        entry: &DocumentEntry<'_>,
        kept_at: Option<Timestamp>,
    ) -> Result<()> {
        self.to_sweep.insert(collection.uuid());
        self.batch.clear();
        let (tree, key) = (collection.record_tree(), entry.record_id.record_key());
        let is_first = match entry.operation {
            DocumentOperation::Replace(document) => {
                self.batch.put(tree, &key, document.as_bytes());
                true
            }
            DocumentOperation::Delete => {
                self.batch.put(tree, &key, &[]);
                true
            }
            DocumentOperation::Insert(_) | DocumentOperation::Delta(_) => false,
        };
        let (documents, bytes) = (entry.operation.count_change(), entry.size_change);
        let change = RingOverride { documents, bytes, is_first };
        Ok(self.engine.apply_ring_override(writer, change, &self.batch, kept_at)?)
    }
}

/// Removes what the indexes and the tree have of documents that were overtaken.
pub(super) fn sweep(engine: &Arc<Engine>, collection: &Collection) -> Result<()> {
    let Some(ring) = collection.ring() else { return Ok(()) };
    let head = ring.head_number();
    for index in collection.indexes().all() {
        remove_entries(engine, index.tree(), |key| Ok(RecordId::split(key)?.1.0 < head))?;
    }
    let (first, mut kept) = (ring_key(head), 0);
    remove_entries(engine, collection.record_tree(), |key| {
        let is_document = key.len() == first.len();
        kept += u64::from(is_document && key >= &first[..]);
        Ok(is_document && key < &first[..])
    })?;
    ring.set_overrides(kept);
    Ok(())
}

fn remove_entries(engine: &Arc<Engine>, tree: TreeId, mut is_removed: impl FnMut(&[u8]) -> Result<bool>) -> Result<()> {
    let mut cursor = engine.cursor(&engine.begin_snapshot(), tree);
    let mut batch = Batch::new();
    cursor.seek_first()?;
    while cursor.next()? {
        if is_removed(cursor.key())? {
            batch.delete(tree, cursor.key());
        }
        if batch.len() >= BATCH_ENTRIES {
            engine.apply_settled(&batch)?;
            batch.clear();
        }
    }
    Ok(engine.apply_settled(&batch)?)
}
