//! Putting what was salvaged of a damaged directory into a new one.
//!
//! Called by `transaction`'s repair, with an engine that nobody else uses. Collections keep their identity and documents their record ids, so
//! the oplog's entries find them. What is put is whole documents; an entry that says only what changed is used when everything before it is known.

use std::collections::HashMap;
use std::sync::Arc;

use bson::{RawDocument, Uuid};
use document::{Limits, validate_document};
use storage_engine::{Engine, Timestamp, TreeId};

use crate::catalog::{COLLECTION_KEY, Catalog, CatalogChange, DROPPED_TREE_KEY, decode_collection, split_key};
use crate::collection::Collection;
use crate::error::{CollectionError, Result};
use crate::index::Index;
use crate::index_fill::build_alone;
use crate::index_specification::IndexSpecification;
use crate::namespace::Namespace;
use crate::oplog_entry::{DocumentEntry, DocumentOperation, Entry, TransactionEntry};
use crate::options::CollectionOptions;
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
    options: CollectionOptions,
    indexes: Vec<IndexSpecification>,
}

impl SalvagedCollection {
    /// Whether its documents were in a ring.
    pub fn is_capped(&self) -> bool {
        self.options.capped.is_some()
    }
}

/// Reads an entry of the old catalog tree.
///
/// # Errors
/// `Damaged`.
pub fn decode_definition(key: &[u8], value: &[u8]) -> Result<SalvagedDefinition> {
    let (kind, number) = split_key(key)?;
    match kind {
        COLLECTION_KEY => {
            let stored = decode_collection(value, 0)?;
            let ready = stored.indexes.iter().filter(|index| index.is_ready());
            Ok(SalvagedDefinition::Collection(Box::new(SalvagedCollection {
                uuid: stored.uuid,
                namespace: stored.namespace,
                record_tree: stored.record_tree,
                index_trees: stored.indexes.iter().map(|index| (index.name().to_owned(), index.tree())).collect(),
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
}

impl Salvager {
    /// For an empty catalog.
    pub fn new(catalog: Arc<Catalog>, engine: Arc<Engine>) -> Salvager {
        let applier = EntryApplier::new(catalog.clone(), engine.clone());
        Salvager { catalog, engine, applier, indexes: HashMap::new() }
    }

    /// Makes a collection as it was; its indexes come with `finish`.
    ///
    /// # Errors
    /// `Engine`.
    pub fn add_collection(&mut self, salvaged: &SalvagedCollection) -> Result<()> {
        // Documents are put wherever there is room: what was capped is capped no more.
        let options = CollectionOptions { capped: None, ..salvaged.options.clone() };
        self.catalog.apply(&CatalogChange::Create {
            namespace: salvaged.namespace.clone(),
            uuid: salvaged.uuid,
            options,
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

    fn apply_transaction(&mut self, transaction: &TransactionEntry<'_>, has_gap: bool) -> Result<bool> {
        match &transaction.commit {
            None => return Ok(true),
            Some(commit) if !commit.parts.is_empty() => return Ok(false),
            Some(_) => {}
        }
        let mut is_whole = true;
        for payload in transaction.operations() {
            is_whole &= self.apply_entry(payload, has_gap)?;
        }
        Ok(is_whole)
    }

    /// Applies an entry of the oplog. `false`: it says only what changed, and something before it is missing, so it was left out.
    ///
    /// # Errors
    /// `Damaged`, `Engine`.
    pub fn apply_entry(&mut self, payload: &[u8], has_gap: bool) -> Result<bool> {
        match Entry::decode(payload)? {
            Entry::Document(entry) => {
                let entry = DocumentEntry { ring: None, ..entry };
                let operation = match entry.operation {
                    DocumentOperation::Delta(_) if has_gap => return Ok(false),
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
            // Parts are somewhere before it, and may be lost: half of a transaction is worse than none.
            Entry::Transaction(transaction) => return self.apply_transaction(&transaction, has_gap),
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
            change => self.catalog.apply(&change),
        }
    }

    /// Builds the indexes and counts the documents. Returns what could not be had: a unique index is left out when two
    /// documents have the same key.
    ///
    /// # Errors
    /// `Engine`.
    pub fn finish(mut self) -> Result<Vec<String>> {
        let mut problems = Vec::new();
        self.catalog.rebuild_names();
        for collection in self.catalog.all_collections() {
            for specification in self.indexes.get(&collection.uuid()).into_iter().flatten() {
                build_alone(&self.catalog, &self.engine, &collection, specification.clone())?;
            }
            self.settle_duplicates(&collection, &mut problems)?;
            self.count(&collection)?;
        }
        Ok(problems)
    }

    /// Of documents with the same `_id` the last one inserted stays. Other unique indexes are left out when they cannot be.
    fn settle_duplicates(&mut self, collection: &Arc<Collection>, problems: &mut Vec<String>) -> Result<()> {
        let namespace = collection.namespace();
        let mut indexes: Vec<Arc<Index>> = collection.indexes().all().to_vec();
        indexes.retain(|index| index.specification().enforces_uniqueness());
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
                let (uuid, operation) = (collection.uuid(), DocumentOperation::Delete);
                let entry = DocumentEntry { uuid, record_id, size_change: 0, ring: None, operation, origin: None };
                self.applier.apply(&entry, Timestamp::MIN)?;
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
