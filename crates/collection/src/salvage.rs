//! Putting what was salvaged of a damaged directory into a new one.
//!
//! Called by `transaction`'s repair, with an engine that nobody else uses. Collections keep their identity and documents their record ids, so
//! the oplog's entries find them. What is put is whole documents; an entry that says only what changed is used when everything before it is known.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use bson::{RawDocument, Uuid};
use document::{Limits, validate_document};
use oplog::OplogPosition;
use platform::{MemoryBudget, MemoryUse};
use storage_engine::{Engine, Timestamp, TreeId};

use crate::catalog::{
    COLLECTION_KEY, Catalog, CatalogChange, DROPPED_TREE_KEY, IndexShapes, decode_collection, split_key,
};
use crate::collection::Collection;
use crate::error::{CollectionError, Result};
use crate::index::Index;
use crate::index_fill::build_alone;
use crate::index_specification::IndexSpecification;
use crate::namespace::Namespace;
use crate::oplog_entry::{
    DocumentEntry, DocumentOperation, Entry, TransactionCommit, TransactionEntry, TransactionStep,
};
use crate::options::{CappedOptions, CollectionOptions};
use crate::record_id::RecordId;
use crate::records::StoredRecords;
use crate::replay::EntryApplier;

/// The database of collections whose names are lost.
const LOST_DATABASE: &str = "lost_found";

/// What an entry of the old catalog tree says.
pub enum SalvagedDefinition {
    /// There was this collection, with its records in this tree.
    Collection(Box<SalvagedCollection>),
    /// This tree belongs to nobody.
    Dropped(TreeId),
    /// Something that can be computed again.
    Other,
}

/// A collection of the damaged directory.
pub struct SalvagedCollection {
    /// Its identity.
    pub uuid: Uuid,
    /// Its name.
    pub namespace: Namespace,
    /// Where its records were.
    pub record_tree: TreeId,
    /// Its indexes: name and tree.
    pub index_trees: Vec<(String, TreeId)>,
    /// The number of its ring, if it was capped.
    pub ring: Option<u64>,
    options: CollectionOptions,
    indexes: Vec<IndexSpecification>,
}

/// A capped collection while it is an ordinary one. Its record ids are the places in the old ring.
#[derive(Debug, Clone)]
struct CappedInWaiting {
    limits: CappedOptions,
    /// What is before this was overtaken.
    head: RecordId,
    /// Places that could not be read: the first, and the one behind.
    unreadable: Vec<(i64, i64)>,
}

/// What there is to say and to do after everything was put.
#[derive(Debug, Default)]
pub struct Salvaged {
    /// What could not be had, one line each.
    pub problems: Vec<String>,
    /// Collections to be made capped again.
    pub capped: Vec<(Uuid, CappedOptions)>,
}

/// Reads an entry of the old catalog tree.
///
/// # Errors
/// `Damaged`.
pub fn decode_definition(key: &[u8], value: &[u8]) -> Result<SalvagedDefinition> {
    let (kind, number) = split_key(key)?;
    match kind {
        COLLECTION_KEY => {
            let uncounted = MemoryBudget::unlimited();
            let stored =
                decode_collection(value, 0, &mut IndexShapes::new(uncounted.reservation(MemoryUse::Definitions)))?;
            let ready = stored.indexes.iter().filter(|index| index.is_complete() && index.is_readable());
            Ok(SalvagedDefinition::Collection(Box::new(SalvagedCollection {
                uuid: stored.uuid,
                namespace: stored.namespace,
                record_tree: stored.record_tree,
                index_trees: stored.indexes.iter().map(|index| (index.name().to_owned(), index.tree())).collect(),
                ring: stored.options.capped.map(|_| number),
                options: stored.options,
                indexes: ready.map(|index| index.specification().clone()).collect(),
            })))
        }
        DROPPED_TREE_KEY => Ok(SalvagedDefinition::Dropped(TreeId(number))),
        _ => Ok(SalvagedDefinition::Other),
    }
}

/// Fills a new catalog and engine.
pub struct Salvager {
    catalog: Arc<Catalog>,
    engine: Arc<Engine>,
    applier: EntryApplier,
    /// Indexes to be built once all records are there.
    indexes: HashMap<Uuid, Vec<IndexSpecification>>,
    capped: BTreeMap<Uuid, CappedInWaiting>,
    /// Collections of which documents may be older than the checkpoint: their newer states were lost, and what they were inserted as is there.
    doubtful: HashSet<Uuid>,
    /// Transactions that are decided, and whose commits have not been met.
    decided: Vec<TransactionCommit>,
}

/// Reads the payload of an entry of the damaged directory's oplog; `None`: it is lost.
pub type ReadPart<'a> = dyn Fn(OplogPosition) -> Option<Vec<u8>> + 'a;

impl Salvager {
    /// For an empty catalog.
    pub fn new(catalog: Arc<Catalog>, engine: Arc<Engine>) -> Salvager {
        let applier = EntryApplier::new(catalog.clone(), engine.clone());
        let (indexes, capped, doubtful, decided) = Default::default();
        Salvager { catalog, engine, applier, indexes, capped, doubtful, decided }
    }

    /// Makes a collection as it was; its indexes come with `finish`.
    ///
    /// # Errors
    /// `Engine`.
    pub fn add_collection(&mut self, salvaged: &SalvagedCollection) -> Result<()> {
        self.apply_change(CatalogChange::Create {
            namespace: salvaged.namespace.clone(),
            uuid: salvaged.uuid,
            options: salvaged.options.clone(),
        })?;
        let secondary = salvaged.indexes.iter().filter(|specification| !specification.is_id_index());
        self.indexes.insert(salvaged.uuid, secondary.cloned().collect());
        self.applier.forget_collection();
        Ok(())
    }

    /// Makes a collection for the records of a tree that no catalog entry is left of.
    ///
    /// # Errors
    /// `Engine`; `InvalidNamespace`.
    pub fn add_lost_collection(&mut self, tree: TreeId) -> Result<(Uuid, Namespace)> {
        let namespace = Namespace::new(LOST_DATABASE, &format!("tree_{}", tree.0))?;
        let uuid = self.catalog.new_uuid();
        let options = CollectionOptions::default();
        self.catalog.apply(&CatalogChange::Create { namespace: namespace.clone(), uuid, options })?;
        self.applier.forget_collection();
        Ok((uuid, namespace))
    }

    /// Whether an entry is a record: of whatever tree.
    pub fn is_record(key: &[u8], value: &[u8]) -> bool {
        let first_is_id = || {
            let document = RawDocument::from_bytes(value).ok()?;
            Some(document::elements(document).next()?.name_bytes() == b"_id")
        };
        RecordId::from_record_key(key).is_ok()
            && validate_document(value, &Limits::INTERNAL).is_ok()
            && first_is_id() == Some(true)
    }

    /// Puts a record.
    ///
    /// # Errors
    /// `Damaged` when it is none; `Engine`.
    pub fn put_record(&mut self, uuid: Uuid, key: &[u8], value: &[u8]) -> Result<()> {
        if !Salvager::is_record(key, value) {
            return Err(CollectionError::Damaged("a record that is no document".to_owned()));
        }
        let document = RawDocument::from_bytes(value).map_err(CollectionError::damaged("record"))?;
        let record_id = RecordId::from_record_key(key)?;
        let entry = DocumentEntry {
            uuid,
            record_id,
            size_change: 0,
            ring: None,
            operation: DocumentOperation::Insert(document),
            origin: None,
        };
        self.applier.apply(&entry, Timestamp::MIN)
    }

    /// What is known of the ring of a capped collection, beside its documents.
    pub fn note_ring(&mut self, uuid: Uuid, head: i64, unreadable: Vec<(i64, i64)>) {
        if let Some(capped) = self.capped.get_mut(&uuid) {
            capped.head = capped.head.max(RecordId(head));
            capped.unreadable = unreadable;
        }
    }

    /// Documents of a collection may be older than the checkpoint, so that what only says a change cannot be applied to them.
    pub fn doubt(&mut self, uuid: Uuid) {
        self.doubtful.insert(uuid);
    }

    fn apply_transaction(
        &mut self,
        transaction: &TransactionEntry<'_>,
        has_gap: bool,
        read_part: &ReadPart<'_>,
    ) -> Result<bool> {
        match &transaction.step {
            TransactionStep::Part => Ok(true),
            TransactionStep::Decision(decision) => {
                self.decided.push(decision.clone());
                Ok(true)
            }
            TransactionStep::Commit(commit) => {
                self.decided.retain(|decided| decided.parts != commit.parts);
                let is_whole = self.apply_parts(&commit.parts, has_gap, read_part)?;
                Ok(self.apply_operations(transaction, has_gap, read_part)? && is_whole)
            }
        }
    }

    fn apply_operations(
        &mut self,
        transaction: &TransactionEntry<'_>,
        has_gap: bool,
        read_part: &ReadPart<'_>,
    ) -> Result<bool> {
        let mut is_whole = true;
        for payload in transaction.operations() {
            is_whole &= self.apply_entry(payload, has_gap, read_part)?;
        }
        Ok(is_whole)
    }

    /// Applies the parts of a transaction, wherever they are: all, or none, since half of a transaction is worse.
    fn apply_parts(&mut self, parts: &[OplogPosition], has_gap: bool, read_part: &ReadPart<'_>) -> Result<bool> {
        let lost = |position: &OplogPosition| {
            CollectionError::Damaged(format!("a transaction was left out: its part at {position} cannot be read"))
        };
        let is_part = |payload: &[u8]| matches!(Entry::decode(payload), Ok(Entry::Transaction(part)) if part.step == TransactionStep::Part);
        for position in parts {
            read_part(*position).filter(|payload| is_part(payload)).ok_or_else(|| lost(position))?;
        }
        let mut is_whole = true;
        for position in parts {
            let payload = read_part(*position).ok_or_else(|| lost(position))?;
            if let Entry::Transaction(part) = Entry::decode(&payload)? {
                is_whole &= self.apply_operations(&part, has_gap, read_part)?;
            }
        }
        Ok(is_whole)
    }

    /// The oplog has been read to its end: transactions that were decided have happened.
    ///
    /// # Errors
    /// As `apply_entry`: of those that could not be applied, one each; `Engine`.
    pub fn complete_decided(&mut self, has_gap: bool, read_part: &ReadPart<'_>) -> Vec<Result<bool>> {
        let decided = std::mem::take(&mut self.decided);
        decided.iter().map(|decided| self.apply_parts(&decided.parts, has_gap, read_part)).collect()
    }

    /// Whether an entry of the oplog says all that it did: not a transaction of which parts are lost.
    pub fn can_apply(payload: &[u8], read_part: &ReadPart<'_>) -> bool {
        match Entry::decode(payload) {
            Ok(Entry::Transaction(TransactionEntry { step: TransactionStep::Commit(commit), .. })) => {
                commit.parts.iter().all(|part| read_part(*part).is_some())
            }
            decoded => decoded.is_ok(),
        }
    }

    /// Applies an entry of the oplog. `false`: it says only what changed, and something before it is missing, so it was left out.
    ///
    /// # Errors
    /// `Damaged`, `Engine`.
    pub fn apply_entry(&mut self, payload: &[u8], has_gap: bool, read_part: &ReadPart<'_>) -> Result<bool> {
        match Entry::decode(payload)? {
            Entry::Document(entry) => {
                if let (Some(moved), Some(capped)) = (entry.ring, self.capped.get_mut(&entry.uuid)) {
                    capped.head = capped.head.max(moved.head);
                }
                let entry = DocumentEntry { ring: None, ..entry };
                let operation = match entry.operation {
                    DocumentOperation::Delta(_) if has_gap || self.doubtful.contains(&entry.uuid) => return Ok(false),
                    // The record may be one of those that are lost.
                    DocumentOperation::Replace(document) => DocumentOperation::Insert(document),
                    other => other,
                };
                self.applier.apply(&DocumentEntry { operation, ..entry }, Timestamp::MIN)?;
            }
            Entry::Command { database, uuid, command, second } => {
                self.applier.forget_collection();
                self.apply_change(CatalogChange::decode(database, uuid, command, second)?)?;
            }
            Entry::Transaction(transaction) => return self.apply_transaction(&transaction, has_gap, read_part),
            Entry::Nothing => {}
        }
        Ok(true)
    }

    fn apply_change(&mut self, change: CatalogChange) -> Result<()> {
        match change {
            CatalogChange::CommitIndexBuild(build) => {
                let indexes = self.indexes.entry(build.uuid).or_default();
                if indexes.iter().all(|index| index.name != build.specification.name) {
                    indexes.push(build.specification);
                }
                Ok(())
            }
            CatalogChange::DropIndex(drop) => {
                let indexes = self.indexes.entry(drop.uuid).or_default();
                indexes.retain(|index| index.name != drop.specification.name);
                Ok(())
            }
            CatalogChange::Create { namespace, uuid, mut options } => {
                self.note_limits(uuid, &mut options);
                self.catalog.apply(&CatalogChange::Create { namespace, uuid, options })
            }
            CatalogChange::Modify { namespace, uuid, mut modification, before } => {
                if let Some(options) = &mut modification.options {
                    self.note_limits(uuid, options);
                }
                self.catalog.apply(&CatalogChange::Modify { namespace, uuid, modification, before })
            }
            change => self.catalog.apply(&change),
        }
    }

    /// Documents are put wherever there is room: what was capped is an ordinary collection until all is there.
    fn note_limits(&mut self, uuid: Uuid, options: &mut CollectionOptions) {
        let Some(limits) = options.capped.take() else { return };
        let new = CappedInWaiting { limits, head: RecordId(0), unreadable: Vec::new() };
        self.capped.entry(uuid).or_insert(new).limits = limits;
    }

    /// Takes away what its ring had overtaken.
    fn settle_capped(&mut self, collection: &Collection, problems: &mut Vec<String>) -> Result<()> {
        let Some(capped) = self.capped.get(&collection.uuid()).cloned() else { return Ok(()) };
        let mut cursor = StoredRecords::new(&self.engine, &self.engine.begin_snapshot(), collection);
        let mut overtaken = Vec::new();
        cursor.seek_first()?;
        while let Some(record_id) = cursor.next()?.filter(|record_id| *record_id < capped.head) {
            overtaken.push(record_id);
        }
        drop(cursor);
        for record_id in overtaken {
            self.delete(collection, record_id)?;
        }
        let lost: i64 = capped.unreadable.iter().map(|(from, to)| (to - (*from).max(capped.head.0)).max(0)).sum();
        if lost > 0 {
            problems.push(format!("{}: {} bytes of its ring cannot be read", collection.namespace(), lost * 8));
        }
        Ok(())
    }

    fn delete(&mut self, collection: &Collection, record_id: RecordId) -> Result<()> {
        let (uuid, operation) = (collection.uuid(), DocumentOperation::Delete);
        let entry = DocumentEntry { uuid, record_id, size_change: 0, ring: None, operation, origin: None };
        self.applier.apply(&entry, Timestamp::MIN)
    }

    /// Builds the indexes and counts the documents. Returns what could not be had: a unique index is left out when two
    /// documents have the same key.
    ///
    /// # Errors
    /// `Engine`.
    pub fn finish(mut self) -> Result<Salvaged> {
        let mut problems = Vec::new();
        self.catalog.rebuild_names();
        for collection in self.catalog.all_collections() {
            for specification in self.indexes.get(&collection.uuid()).into_iter().flatten() {
                build_alone(&self.catalog, &self.engine, &collection, specification.clone())?;
            }
            self.settle_capped(&collection, &mut problems)?;
            self.settle_duplicates(&collection, &mut problems)?;
            self.count(&collection)?;
        }
        let limits = self.capped.iter().map(|(uuid, capped)| (*uuid, capped.limits));
        Ok(Salvaged { problems, capped: limits.collect() })
    }

    /// Of documents with the same `_id` the last one inserted stays. Other unique indexes are left out when they cannot be.
    fn settle_duplicates(&mut self, collection: &Arc<Collection>, problems: &mut Vec<String>) -> Result<()> {
        let namespace = collection.namespace();
        let mut indexes: Vec<Arc<Index>> = collection.indexes().all().to_vec();
        indexes.retain(|index| index.specification().is_unique());
        indexes.sort_by_key(|index| !index.specification().is_id_index());
        for index in indexes {
            let older = self.older_duplicates(&index)?;
            if older.is_empty() {
                continue;
            }
            if !index.specification().is_id_index() {
                problems.push(format!(
                    "{namespace}: the unique index '{}' was left out: two documents have the same key",
                    index.name()
                ));
                self.catalog.remove_index(collection, &index)?;
                continue;
            }
            problems
                .push(format!("{namespace}: {} documents were left out: newer ones have the same _id", older.len()));
            for record_id in older {
                self.delete(collection, record_id)?;
            }
        }
        Ok(())
    }

    /// The records whose key in the index a later record has, too.
    fn older_duplicates(&self, index: &Index) -> Result<Vec<RecordId>> {
        let mut cursor = self.engine.cursor(&self.engine.begin_snapshot(), index.tree());
        let mut older = Vec::new();
        let mut previous: Option<(Vec<u8>, RecordId)> = None;
        cursor.seek_first()?;
        while cursor.next()? {
            let (key, record_id) = RecordId::split(cursor.key())?;
            match &mut previous {
                Some((previous_key, previous_record)) if previous_key == key => {
                    older.push(*previous_record);
                    *previous_record = record_id;
                }
                _ => previous = Some((key.to_vec(), record_id)),
            }
        }
        Ok(older)
    }

    fn count(&self, collection: &Collection) -> Result<()> {
        let mut cursor = StoredRecords::new(&self.engine, &self.engine.begin_snapshot(), collection);
        let (mut documents, mut bytes) = (0, 0);
        cursor.seek_first()?;
        while cursor.next()?.is_some() {
            documents += 1;
            bytes += cursor.bytes()?.len() as i64;
        }
        collection.counts().set(documents, bytes);
        collection.counts().add(0, 0);
        Ok(())
    }
}
