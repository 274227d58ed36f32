//! The change of one document, ready to be logged and applied: its oplog entry, the batch of its record and index
//! entries, and the unique keys it claims.
//!
//! Called by `transaction` between taking the record lock and appending to the oplog. A `DocumentChange` is reusable: once
//! its buffers have grown, preparing a change allocates nothing.
//!
//! Index entries are changed blindly (known absent, known present), because a record and its entries always change
//! together. Only an index that is being built or rebuilt is changed the careful way: it may or may not have the entries yet.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::Range;
use std::sync::Arc;

use bson::RawDocument;
use index_key::KeySet;
use index_key::long_key::is_shortened;
use storage_engine::{Batch, Engine, LatestInRing, RingInsert, RingLimits, RingOverride, RingWriter, TreeId};

use crate::collection::{Collection, WriteAccess};
use crate::document_keys::{DocumentKeys, EntryChange, for_each_change};
use crate::error::{CollectionError, Result};
use crate::field_changes::FieldChanges;
use crate::index::{Index, IndexState};
use crate::oplog_entry::{EntryEncoder, EntryStyle, LoggedEntry, RingMove, StatementOrigin, UpdateStyle};
use crate::record_id::RecordId;
use crate::validator::{self, Validation};

/// Longest document, in bytes.
pub const DOCUMENT_BYTES_MAX: usize = 16 << 20;

/// Most index entries that one change of one document may add and remove; removing a document is always allowed.
const INDEX_ENTRIES_MAX: usize = 2_000_000;
/// Bytes of an index entry in the batch beside its value: a key with a record id.
const ENTRY_BYTES_MAX: usize = storage_engine::MAX_KEY_BYTES + 256;

/// A prepared change of one document.
#[derive(Debug, Default)]
pub struct DocumentChange {
    batch: Batch,
    entry: EntryEncoder,
    old_keys: DocumentKeys,
    new_keys: DocumentKeys,
    entry_key: Vec<u8>,
    field_changes: FieldChanges,
    claims: Vec<ClaimPlace>,
    claimed_bytes: Vec<u8>,
    newly_multikey: Vec<NewlyMultikey>,
    count_change: i64,
    size_change: i64,
    ring: Option<RingChange>,
    overtaken: Vec<u8>,
}

/// What the change does to the ring of a capped collection.
#[derive(Clone, Copy, Debug)]
pub enum RingChange {
    /// A document goes in.
    Insert(RingInsert),
    /// The tree gets the new state of one.
    Override(RingOverride),
}

#[derive(Clone, Debug)]
struct ClaimPlace {
    index: usize,
    hash: u64,
    key: Range<usize>,
    value: Range<usize>,
}

/// An index whose paths lead into arrays for the first time.
#[derive(Clone, Debug)]
pub struct NewlyMultikey {
    /// Position in the list of `WriteAccess`.
    pub index: usize,
    /// Per field of the key pattern, a bit for each component of its path that leads into an array.
    pub paths: Vec<u64>,
}

/// A key that the change puts into a unique index. Before the change is logged, no other record may have it, and
/// nobody else may be claiming it.
#[derive(Clone, Copy, Debug)]
pub struct UniqueClaim<'a> {
    /// Position of the index in the list of `WriteAccess`.
    pub index: usize,
    /// Identifies index and key for the lock table; equal keys have equal hashes.
    pub hash: u64,
    /// The index key as it is stored; entries that have it begin with it.
    pub key: &'a [u8],
    /// The value of its entry, to show it.
    pub value: &'a [u8],
}

/// Who changes, beside what.
#[derive(Clone, Copy, Debug)]
pub struct ChangeContext {
    /// Whether the collection's validator has a say.
    pub validation: Validation,
    /// Wall clock for the oplog entry, milliseconds since 1970.
    pub wall_millis: i64,
    /// Whether an update replaces the document as a whole.
    pub update_style: UpdateStyle,
}

impl DocumentChange {
    /// Prepares the insertion of `document`, whose first field is `_id` (see `insertable`).
    ///
    /// # Errors
    /// `DocumentTooLarge`, `ValidationFailed`, `IndexKey`, `KeyTooLong`, `Query`.
    pub fn prepare_insert(
        &mut self,
        access: &WriteAccess<'_>,
        record_id: RecordId,
        document: &RawDocument,
        context: ChangeContext,
    ) -> Result<()> {
        self.clear();
        check_size(document)?;
        validator::check_insert(&access.definition.options, document, context.validation)?;
        self.batch.put_record(access.collection.record_tree(), &record_id.record_key(), document.as_bytes());
        self.new_keys.read(&access.indexes, document)?;
        for (position, index) in access.indexes.all().iter().enumerate() {
            self.new_keys.generate(&access.indexes, position, document)?;
            self.take_entry_changes(position, index, record_id, Versions::NewOnly)?;
            self.check_entries()?;
        }
        self.count_change = 1;
        self.size_change = document.as_bytes().len() as i64;
        self.entry.insert(&access.definition.entry_prefix, record_id, document, context.wall_millis);
        Ok(())
    }

    /// Prepares the insertion of `document` into a capped collection, together with the removal of the index entries of what it overtakes.
    ///
    /// # Errors
    /// As `prepare_insert`; `BadValue` when the document is larger than the collection; `Engine`.
    pub fn prepare_ring_insert(
        &mut self,
        access: &WriteAccess<'_>,
        engine: &Engine,
        writer: &mut RingWriter<'_>,
        document: &RawDocument,
        context: ChangeContext,
    ) -> Result<RecordId> {
        self.clear();
        check_size(document)?;
        validator::check_insert(&access.definition.options, document, context.validation)?;
        let length = document.as_bytes().len();
        let mut insert = writer.plan(length, ring_limits(access, length)?);
        let mut overtaken = std::mem::take(&mut self.overtaken);
        let planned = self.overtake(access, engine, writer, &mut insert, &mut overtaken);
        self.overtaken = overtaken;
        planned?;
        let record_id = RecordId(insert.number());
        self.new_keys.read(&access.indexes, document)?;
        for (position, index) in access.indexes.all().iter().enumerate() {
            self.new_keys.generate(&access.indexes, position, document)?;
            self.take_entry_changes(position, index, record_id, Versions::NewOnly)?;
            self.check_entries()?;
        }
        self.count_change = 1 - insert.documents as i64;
        self.size_change = length as i64 - insert.bytes as i64;
        let moved = RingMove { head: RecordId(insert.head()), slots: insert.slots, documents: insert.documents };
        let prefix = &access.definition.entry_prefix;
        self.entry.insert_into_ring(prefix, record_id, document, (moved, self.size_change), context.wall_millis);
        self.ring = Some(RingChange::Insert(insert));
        Ok(record_id)
    }

    /// Puts into the batch that what `insert` overtakes goes.
    fn overtake(
        &mut self,
        access: &WriteAccess<'_>,
        engine: &Engine,
        writer: &mut RingWriter<'_>,
        insert: &mut RingInsert,
        buffer: &mut Vec<u8>,
    ) -> Result<()> {
        while let Some(overtaken) = writer.overtake(engine, insert, buffer)? {
            let record_id = RecordId(overtaken.number);
            if overtaken.has_override {
                self.batch.delete(access.collection.record_tree(), &record_id.record_key());
            }
            if !overtaken.is_live {
                continue;
            }
            let old = RawDocument::from_bytes(buffer).map_err(CollectionError::damaged("record"))?;
            self.old_keys.read(&access.indexes, old)?;
            for (position, index) in access.indexes.all().iter().enumerate() {
                self.old_keys.generate(&access.indexes, position, old)?;
                self.take_entry_changes(position, index, record_id, Versions::OldOnly)?;
            }
        }
        Ok(())
    }

    /// Notes what a prepared update or deletion does to the ring of a capped collection. A deleted document leaves an empty entry in the tree.
    ///
    /// # Errors
    /// `Engine`.
    pub fn override_in_ring(&mut self, access: &WriteAccess<'_>, engine: &Engine, record_id: RecordId) -> Result<()> {
        let tree = access.collection.record_tree();
        let is_first = engine.get_latest(tree, &record_id.record_key(), &mut self.overtaken)?.is_none();
        let (documents, bytes) = (self.count_change, self.size_change);
        if documents < 0 {
            self.batch.put(tree, &record_id.record_key(), &[]);
        }
        self.ring = Some(RingChange::Override(RingOverride { documents, bytes, is_first }));
        Ok(())
    }

    /// What the change does to a ring.
    pub fn ring_change(&self) -> Option<&RingChange> {
        self.ring.as_ref()
    }

    /// Prepares the replacement of `old`, the newest version, by `new`. `false`: they are the same, nothing is to be done.
    ///
    /// # Errors
    /// As `prepare_insert`, and `ImmutableField` when `_id` differs.
    pub fn prepare_update(
        &mut self,
        access: &WriteAccess<'_>,
        record_id: RecordId,
        old: &RawDocument,
        new: &RawDocument,
        context: ChangeContext,
    ) -> Result<bool> {
        self.clear();
        self.field_changes.compare(old, new);
        if self.field_changes.is_empty() {
            return Ok(false);
        }
        if self.field_changes.contains(b"_id", old, new) {
            let message = "Performing an update on the path '_id' would modify the immutable field '_id'";
            return Err(CollectionError::ImmutableField(message.to_owned()));
        }
        check_size(new)?;
        validator::check_update(&access.definition.options, old, new, context.validation)?;
        let (tree, key) = (access.collection.record_tree(), record_id.record_key());
        match access.collection.ring() {
            // The tree and the ring must be of one moment.
            Some(_) => self.batch.put(tree, &key, new.as_bytes()),
            None => self.batch.put_record(tree, &key, new.as_bytes()),
        }
        let mut is_read = false;
        for (position, index) in access.indexes.all().iter().enumerate() {
            self.field_changes.count_pass()?;
            if !index.is_touched_by(&self.field_changes, old, new) {
                continue;
            }
            if !is_read {
                self.old_keys.read(&access.indexes, old)?;
                self.new_keys.read(&access.indexes, new)?;
                is_read = true;
            }
            self.old_keys.generate(&access.indexes, position, old)?;
            self.new_keys.generate(&access.indexes, position, new)?;
            self.take_entry_changes(position, index, record_id, Versions::Both)?;
            self.check_entries()?;
        }
        self.size_change = new.as_bytes().len() as i64 - old.as_bytes().len() as i64;
        let prefix = &access.definition.entry_prefix;
        let keeps_pre_image = access.definition.options.has_pre_images;
        let style = EntryStyle { update: context.update_style, keeps_pre_image };
        self.entry.update(prefix, record_id, (old, new), &self.field_changes, style, context.wall_millis)?;
        Ok(true)
    }

    /// Prepares the deletion of `old`, the newest version.
    ///
    /// # Errors
    /// `Damaged` when the stored document has no `_id`.
    pub fn prepare_delete(
        &mut self,
        access: &WriteAccess<'_>,
        record_id: RecordId,
        old: &RawDocument,
        wall_millis: i64,
    ) -> Result<()> {
        self.clear();
        if access.collection.ring().is_none() {
            self.batch.delete_record(access.collection.record_tree(), &record_id.record_key());
        }
        self.old_keys.read(&access.indexes, old)?;
        for (position, index) in access.indexes.all().iter().enumerate() {
            self.old_keys.generate(&access.indexes, position, old)?;
            self.take_entry_changes(position, index, record_id, Versions::OldOnly)?;
        }
        self.count_change = -1;
        self.size_change = -(old.as_bytes().len() as i64);
        let keeps_pre_image = access.definition.options.has_pre_images;
        let style = EntryStyle { keeps_pre_image, ..EntryStyle::default() };
        self.entry.delete(&access.definition.entry_prefix, record_id, old, style, wall_millis)
    }

    /// From which statement the next prepared changes come; it stays until it is set again.
    pub fn set_origin(&mut self, origin: Option<StatementOrigin>) {
        self.entry.set_origin(origin);
    }

    fn clear(&mut self) {
        self.batch.clear();
        self.claims.clear();
        self.claimed_bytes.clear();
        self.newly_multikey.clear();
        self.count_change = 0;
        self.size_change = 0;
        self.ring = None;
    }

    /// Whoever commits after this one becomes visible after it, so that it may not take long to apply.
    fn check_entries(&self) -> Result<()> {
        if self.batch.len() > INDEX_ENTRIES_MAX {
            return Err(CollectionError::TooManyIndexEntries);
        }
        Ok(())
    }

    /// Turns the difference between `old_keys` and `new_keys` into changes of the batch and claims.
    fn take_entry_changes(
        &mut self,
        position: usize,
        index: &Arc<Index>,
        record_id: RecordId,
        versions: Versions,
    ) -> Result<()> {
        let old = (versions != Versions::NewOnly).then(|| self.old_keys.keys());
        let new = (versions != Versions::OldOnly).then(|| self.new_keys.keys());
        if let Some(paths) = new.map(KeySet::multikey_paths)
            && index.lacks_multikey(paths)
        {
            self.newly_multikey.push(NewlyMultikey { index: position, paths: paths.to_vec() });
        }
        let is_unique = index.specification().enforces_uniqueness();
        let (batch, entry_key) = (&mut self.batch, &mut self.entry_key);
        let mut room = Ok(());
        let (claims, bytes) = (&mut self.claims, &mut self.claimed_bytes);
        for_each_change(old, new, |change| {
            if room.is_ok() {
                room = batch.make_room(1, ENTRY_BYTES_MAX + change.value().len());
            }
            if room.is_err() {
                return;
            }
            put_entry_change(batch, index, record_id, change, entry_key);
            if let (EntryChange::Added(entry), true) = (change, is_unique) {
                let start = bytes.len();
                bytes.extend_from_slice(entry.key);
                let middle = bytes.len();
                bytes.extend_from_slice(entry.value);
                let hash = claim_hash(index.tree(), entry.key);
                claims.push(ClaimPlace { index: position, hash, key: start..middle, value: middle..bytes.len() });
            }
        });
        Ok(room?)
    }

    /// The changes of the record and its index entries.
    pub fn batch(&self) -> &Batch {
        &self.batch
    }

    /// The payload for the oplog.
    pub fn oplog_entry(&self) -> LoggedEntry<'_> {
        // The record comes first.
        self.entry.entry(self.batch.changes().next().map_or(&[], |record| record.value))
    }

    /// The same for a change of a capped collection. An inserted `document` is in the ring and not in the batch.
    pub fn ring_oplog_entry<'a>(&'a self, document: &'a [u8]) -> LoggedEntry<'a> {
        match self.ring {
            Some(RingChange::Insert(_)) => self.entry.entry(document),
            _ => self.oplog_entry(),
        }
    }

    /// The unique keys that the change puts into indexes.
    pub fn claims(&self) -> impl ExactSizeIterator<Item = UniqueClaim<'_>> {
        self.claims.iter().map(|place| UniqueClaim {
            index: place.index,
            hash: place.hash,
            key: self.claimed_bytes.get(place.key.clone()).unwrap_or_default(),
            value: self.claimed_bytes.get(place.value.clone()).unwrap_or_default(),
        })
    }

    /// What the catalog must know before the batch is applied: `Catalog::add_multikey`.
    pub fn newly_multikey(&self) -> &[NewlyMultikey] {
        &self.newly_multikey
    }

    /// By how many documents and bytes the collection grows.
    pub fn count_changes(&self) -> (i64, i64) {
        (self.count_change, self.size_change)
    }
}

/// Which versions of a document there are.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Versions {
    OldOnly,
    NewOnly,
    Both,
}

/// Puts one entry's change into a batch. `entry_key` is a buffer.
pub(crate) fn put_entry_change(
    batch: &mut Batch,
    index: &Index,
    record_id: RecordId,
    change: EntryChange<'_>,
    entry_key: &mut Vec<u8>,
) {
    record_id.write_entry_key(change.key(), entry_key);
    let tree = index.tree();
    if index.aside().is_some() {
        return;
    }
    if index.state().is_being_filled() {
        index.note_changed(record_id);
    }
    match (change, index.state()) {
        // The value of a long key may be on pages of its own, which nobody gives back blindly.
        (EntryChange::Added(entry), IndexState::Ready) if !is_shortened(entry.key) => {
            batch.blind_insert(tree, entry_key, entry.value);
        }
        (EntryChange::Removed(entry), IndexState::Ready) if !is_shortened(entry.key) => {
            batch.blind_remove(tree, entry_key);
        }
        (EntryChange::Removed(_), _) => batch.delete(tree, entry_key),
        (EntryChange::Added(entry) | EntryChange::Retyped(entry), _) => batch.put(tree, entry_key, entry.value),
    }
}

/// The hash of `UniqueClaim`.
pub fn claim_hash(tree: TreeId, key: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    tree.0.hash(&mut hasher);
    key.hash(&mut hasher);
    hasher.finish()
}

fn ring_limits(access: &WriteAccess<'_>, length: usize) -> Result<RingLimits> {
    let capped = access.definition.options.capped;
    let limits = RingLimits {
        bytes: capped.map_or(u64::MAX, |capped| capped.size),
        documents: capped.and_then(|capped| capped.max).unwrap_or(u64::MAX),
    };
    if length as u64 > limits.bytes {
        return Err(CollectionError::BadValue("object to insert exceeds cappedMaxSize".to_owned()));
    }
    Ok(limits)
}

fn check_size(document: &RawDocument) -> Result<()> {
    let bytes = document.as_bytes().len();
    if bytes > DOCUMENT_BYTES_MAX { Err(CollectionError::DocumentTooLarge { bytes }) } else { Ok(()) }
}

/// The record of a collection with what belongs to it, for callers that only have a handle.
impl Collection {
    /// The newest applied version of a record, visible or not; `false` when there is none.
    ///
    /// # Errors
    /// `Engine`.
    pub fn read_latest(
        &self,
        engine: &storage_engine::Engine,
        record_id: RecordId,
        document: &mut Vec<u8>,
    ) -> Result<bool> {
        let Some(ring) = self.ring() else {
            let latest = engine.get_latest(self.record_tree(), &record_id.record_key(), document);
            return Ok(latest.map_err(|error| self.locate(error))?.is_some());
        };
        match engine.get_latest_in_ring(ring, record_id.0, document).map_err(|error| self.locate(error))? {
            LatestInRing::Absent => Ok(false),
            LatestInRing::AsInserted | LatestInRing::Changed => Ok(true),
            LatestInRing::Unreadable => {
                Err(CollectionError::Damaged(format!("record {} of {}", record_id.0, self.namespace())))
            }
        }
    }
}
