//! The `validate` command's work: every record against every index, both ways, and the pages underneath.
//!
//! Called by `transaction`. Reads one snapshot, so that writers go on meanwhile and what is compared belongs together. Only the
//! check of the trees' pages needs them to stand still; it is repeated behind the collection's gate when it complains.

use std::sync::Arc;

use bson::{RawDocument, Uuid};
use document::{Limits, validate_document, work};
use index_key::KeyError;
use storage_engine::{Engine, EngineError, Snapshot, TreeId};

use crate::collection::Collection;
use crate::document_keys::DocumentKeys;
use crate::error::{CollectionError, Result};
use crate::index::{Index, IndexList};
use crate::record_id::RecordId;
use crate::records::StoredRecords;

/// Problems listed one by one; the rest is counted.
const PROBLEMS_LISTED_MAX: usize = 100;

/// Records or entries between questions whether to go on.
const RECORDS_PER_CHECK: u64 = 128;

/// Units of work that looking up an entry is.
const ENTRY_UNITS: usize = 64;

/// Times that a tree is checked again before its complaints are believed.
const PAGE_CHECKS: usize = 8;

/// What a validation found.
#[derive(Clone, Debug)]
pub struct ValidateReport {
    /// `database.collection`.
    pub namespace: String,
    /// The collection's identity.
    pub uuid: Uuid,
    /// Records.
    pub records: u64,
    /// Bytes in them.
    pub bytes: u64,
    /// Records that are not valid BSON or have no `_id`.
    pub invalid_documents: u64,
    /// By index, in the order of the collection's list.
    pub indexes: Vec<IndexReport>,
    /// What is wrong with records and pages.
    pub problems: Problems,
}

/// What a validation found in one index.
#[derive(Clone, Debug)]
pub struct IndexReport {
    /// Its name.
    pub name: String,
    /// Entries in it.
    pub keys: u64,
    /// Entries that a record should have and that are there.
    present: u64,
    /// Entries that a record should have and that are missing or differ.
    pub missing: u64,
    /// Entries that no record has.
    pub extra: u64,
    /// What is wrong.
    pub problems: Problems,
}

/// A bounded list of problems.
#[derive(Clone, Debug, Default)]
pub struct Problems {
    /// The first ones.
    pub listed: Vec<String>,
    /// How many there are.
    pub count: u64,
}

impl Problems {
    fn add(&mut self, problem: impl FnOnce() -> String) {
        self.count += 1;
        if self.listed.len() < PROBLEMS_LISTED_MAX {
            self.listed.push(problem());
        }
    }
}

impl ValidateReport {
    fn of_set_aside(collection: &Collection, reason: &str) -> ValidateReport {
        let mut problems = Problems::default();
        problems.add(|| format!("collection {} is set aside: {reason}", collection.namespace()));
        ValidateReport {
            namespace: collection.namespace().as_str().to_owned(),
            uuid: collection.uuid(),
            records: 0,
            bytes: 0,
            invalid_documents: 0,
            indexes: Vec::new(),
            problems,
        }
    }

    /// Whether nothing is wrong.
    pub fn is_valid(&self) -> bool {
        self.problems.count == 0 && self.indexes.iter().all(|index| index.problems.count == 0)
    }
}

/// Validates a collection as of now. `is_stopped` is asked now and then whether to go on.
///
/// # Errors
/// `Engine` when pages cannot be read; `CollectionDropped`; `Stopped`.
pub fn validate(
    engine: &Arc<Engine>,
    collection: &Arc<Collection>,
    is_stopped: &dyn Fn() -> bool,
) -> Result<ValidateReport> {
    // What an insert overtakes is gone for every snapshot, so nobody may insert meanwhile.
    let ring = collection.ring().map(|ring| ring.lock());
    // Of a ring nothing older is whole.
    let snapshot = engine.begin_newest_snapshot();
    if !collection.is_dropped()
        && let Some(reason) = collection.aside()
    {
        return Ok(ValidateReport::of_set_aside(collection, reason));
    }
    collection.check_alive()?;
    let ready = collection.indexes().ready_at(snapshot.timestamp()).collect();
    let indexes = IndexList::new(ready);
    let mut report = ValidateReport {
        namespace: collection.namespace().as_str().to_owned(),
        uuid: collection.uuid(),
        records: 0,
        bytes: 0,
        invalid_documents: 0,
        indexes: indexes.all().iter().map(IndexReport::new).collect(),
        problems: Problems::default(),
    };
    for index in collection.indexes().complete() {
        index.check_usable().unwrap_or_else(|error| report.problems.add(|| error.to_string()));
    }
    let checked = check_records(engine, &snapshot, collection, &indexes, is_stopped, &mut report);
    note_damage(collection, checked, &mut report.problems)?;
    for (position, index_report) in report.indexes.iter_mut().enumerate() {
        let checked = check_entries(engine, &snapshot, collection, &indexes, position, is_stopped, index_report);
        note_damage(collection, checked, &mut index_report.problems)?;
    }
    if let Some(ring) = ring {
        match engine.verify_ring(ring.ring(), is_stopped) {
            Ok(None) => return Err(CollectionError::Stopped),
            Ok(Some(checked)) => checked.errors.into_iter().for_each(|error| report.problems.add(|| error)),
            Err(error) => note_damage(collection, Err(error.into()), &mut report.problems)?,
        }
    }
    let index_trees = indexes.all().iter().map(|index| index.tree());
    for tree in index_trees.chain([collection.record_tree()]) {
        check_pages(engine, collection, tree, is_stopped, &mut report.problems)?;
    }
    collection.check_alive()?;
    Ok(report)
}

/// Asks now and then.
fn check_stopped(done: u64, is_stopped: &dyn Fn() -> bool) -> Result<()> {
    if done.is_multiple_of(RECORDS_PER_CHECK) && is_stopped() { Err(CollectionError::Stopped) } else { Ok(()) }
}

/// A page that cannot be read ends the check that needed it, not the validation.
fn note_damage(collection: &Collection, checked: Result<()>, problems: &mut Problems) -> Result<()> {
    match checked {
        Err(CollectionError::Engine(error @ EngineError::Corrupt { .. })) => {
            problems.add(|| collection.locate(error).to_string());
            Ok(())
        }
        Err(error @ (CollectionError::Damaged(_) | CollectionError::DamagedData { .. })) => {
            problems.add(|| error.to_string());
            Ok(())
        }
        other => other,
    }
}

impl IndexReport {
    fn new(index: &Arc<Index>) -> IndexReport {
        let name = index.name().to_owned();
        IndexReport { name, keys: 0, present: 0, missing: 0, extra: 0, problems: Problems::default() }
    }
}

/// Every record: is it valid, and are its entries in the indexes?
fn check_records(
    engine: &Arc<Engine>,
    snapshot: &Snapshot,
    collection: &Collection,
    indexes: &IndexList,
    is_stopped: &dyn Fn() -> bool,
    report: &mut ValidateReport,
) -> Result<()> {
    let mut cursor = StoredRecords::new(engine, snapshot, collection);
    let mut keys = DocumentKeys::default();
    cursor.seek_first()?;
    while let Some(record_id) = cursor.next()? {
        let bytes = cursor.bytes()?;
        report.records += 1;
        check_stopped(report.records, is_stopped)?;
        report.bytes += bytes.len() as u64;
        let Some(document) = check_document(bytes, record_id, report) else { continue };
        keys.read(indexes, document)?;
        for (position, index_report) in report.indexes.iter_mut().enumerate() {
            match keys.generate(indexes, position, document) {
                Ok(()) => check_keys(engine, snapshot, indexes, position, record_id, &keys, index_report)?,
                Err(error) if error.is_interruption() => return Err(error),
                Err(error) => {
                    index_report.problems.add(|| format!("record {} cannot be indexed: {error}", record_id.0));
                }
            }
        }
    }
    Ok(())
}

/// Are the entries of one record in one index?
fn check_keys(
    engine: &Engine,
    snapshot: &Snapshot,
    indexes: &IndexList,
    position: usize,
    record_id: RecordId,
    keys: &DocumentKeys,
    report: &mut IndexReport,
) -> Result<()> {
    let Some(index) = indexes.all().get(position) else { return Ok(()) };
    if index.lacks_multikey(keys.keys().multikey_paths()) {
        report.problems.add(|| format!("record {} is multikey, the index is not", record_id.0));
    }
    let (mut entry_key, mut value) = (Vec::new(), Vec::new());
    for entry in keys.keys().iter() {
        work::done(ENTRY_UNITS).map_err(KeyError::from)?;
        record_id.write_entry_key(entry.key, &mut entry_key);
        let found = engine.get(snapshot, index.tree(), &entry_key, &mut value)?;
        report.present += u64::from(found);
        if !found || value != entry.value {
            report.missing += 1;
            let what = if found { "has another value" } else { "is missing" };
            report.problems.add(|| format!("an entry of record {} {what}", record_id.0));
        }
    }
    Ok(())
}

fn check_document<'a>(bytes: &'a [u8], record_id: RecordId, report: &mut ValidateReport) -> Option<&'a RawDocument> {
    let problem = match validate_document(bytes, &Limits::INTERNAL) {
        Err(error) => error.to_string(),
        Ok(()) => match RawDocument::from_bytes(bytes) {
            Err(error) => error.to_string(),
            Ok(document) => match document::elements(document).next() {
                Some(first) if first.name_bytes() == b"_id" => return Some(document),
                _ => "the first field is not _id".to_owned(),
            },
        },
    };
    report.invalid_documents += 1;
    report.problems.add(|| format!("record {}: {problem}", record_id.0));
    None
}

/// Every entry: does its record have it, and is a unique key there once? When there are as many as the records were found to have, each belongs to one.
fn check_entries(
    engine: &Arc<Engine>,
    snapshot: &Snapshot,
    collection: &Collection,
    indexes: &IndexList,
    position: usize,
    is_stopped: &dyn Fn() -> bool,
    report: &mut IndexReport,
) -> Result<()> {
    let Some(index) = indexes.all().get(position) else { return Ok(()) };
    let mut cursor = engine.cursor(snapshot, index.tree());
    let mut previous_key: Vec<u8> = Vec::new();
    let is_unique = index.specification().is_unique();
    cursor.seek_first()?;
    while cursor.next()? {
        let (key, record_id) = RecordId::split(cursor.key())?;
        if report.keys > 0 && is_unique && previous_key == key {
            report.problems.add(|| format!("record {} has a key that another record has too", record_id.0));
        }
        report.keys += 1;
        check_stopped(report.keys, is_stopped)?;
        previous_key.clear();
        previous_key.extend_from_slice(key);
    }
    match report.keys == report.present {
        true => Ok(()),
        false => find_extra_entries(engine, snapshot, collection, indexes, position, is_stopped, report),
    }
}

/// Looks up the record of each entry.
fn find_extra_entries(
    engine: &Arc<Engine>,
    snapshot: &Snapshot,
    collection: &Collection,
    indexes: &IndexList,
    position: usize,
    is_stopped: &dyn Fn() -> bool,
    report: &mut IndexReport,
) -> Result<()> {
    let Some(index) = indexes.all().get(position) else { return Ok(()) };
    let mut cursor = engine.cursor(snapshot, index.tree());
    let mut record = Record::default();
    let mut entries = 0;
    cursor.seek_first()?;
    while cursor.next()? {
        let (key, record_id) = RecordId::split(cursor.key())?;
        entries += 1;
        check_stopped(entries, is_stopped)?;
        if record.id != Some(record_id) {
            record.read(engine, snapshot, collection, record_id, (indexes, position))?;
        }
        let has_record = record.exists;
        if !has_record && is_overtaken(collection, record_id) {
            // The snapshot is from before the commit that overtakes it is visible.
            report.keys -= 1;
            continue;
        }
        if !record.has_key(key) {
            report.extra += 1;
            let what = if has_record { "does not have it" } else { "is not there" };
            report.problems.add(|| format!("an entry of record {}, which {what}", record_id.0));
        }
    }
    Ok(())
}

/// Of a capped collection: whether the record's place is before the head of the ring.
fn is_overtaken(collection: &Collection, record_id: RecordId) -> bool {
    collection.ring().is_some_and(|ring| ring.offset_of(record_id.0).is_none())
}

/// A record with its keys in one index. The next entry often is of the same record.
#[derive(Default)]
struct Record {
    id: Option<RecordId>,
    exists: bool,
    bytes: Vec<u8>,
    keys: DocumentKeys,
    /// Whether it could be indexed.
    has_keys: bool,
}

impl Record {
    fn read(
        &mut self,
        engine: &Arc<Engine>,
        snapshot: &Snapshot,
        collection: &Collection,
        id: RecordId,
        (indexes, position): (&IndexList, usize),
    ) -> Result<()> {
        (self.id, self.has_keys) = (Some(id), false);
        self.exists = collection.read_record(engine, snapshot, id, &mut self.bytes)?;
        if !self.exists {
            return Ok(());
        }
        let Ok(document) = RawDocument::from_bytes(&self.bytes) else { return Ok(()) };
        self.keys.read(indexes, document)?;
        match self.keys.generate(indexes, position, document) {
            Ok(()) => self.has_keys = true,
            Err(error) if error.is_interruption() => return Err(error),
            Err(_) => {}
        }
        Ok(())
    }

    fn has_key(&self, key: &[u8]) -> bool {
        self.has_keys && self.keys.keys().has(key)
    }
}

/// A complaint may only mean that somebody was changing the tree: writers, which the gate keeps out, or the engine's
/// background, which after a large deletion merges pages for as long as all the checks take, and longer on a busy machine. So
/// only what each of them finds of a page is believed.
fn check_pages(
    engine: &Engine,
    collection: &Collection,
    tree: TreeId,
    is_stopped: &dyn Fn() -> bool,
    problems: &mut Problems,
) -> Result<()> {
    let verify = || engine.verify_tree_unless(tree, is_stopped)?.ok_or(CollectionError::Stopped);
    if verify()?.is_ok() {
        return Ok(());
    }
    let _no_writers = collection.begin_definition_change();
    let mut report = verify()?;
    for _ in 1..PAGE_CHECKS {
        if report.is_ok() {
            break;
        }
        report.retain_found_again(&verify()?);
    }
    report.errors.into_iter().for_each(|error| problems.add(|| error));
    Ok(())
}
