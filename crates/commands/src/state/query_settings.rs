//! Settings of queries by their shapes: what `setQuerySettings` has said, and what comes of it.
//!
//! Held by `ServerContext`; set and removed by commands, listed by `$querySettings`, looked up by what runs queries
//! (`handlers/crud/query_settings.rs`). Kept durably in a collection of `config`, one document a shape.
//!
//! They stand above index filters and hints. Which indexes may be used is what they say of a namespace; a collection
//! scan always may. A rejected query fails before it is planned; what runs goes on.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bson::raw::cstr;
use bson::{RawBsonRef, RawDocument, RawDocumentBuf};
use document::{Number, array_elements, elements, get_field};
use parking_lot::{Mutex, RwLock};
use planner::{AllowedIndex, CanonicalQuery, Hint, IndexFilter, ScanDirection};
use platform::{MemoryBudget, MemoryReservation, MemoryUse};

use crate::request::error::{CommandError, Result};
use crate::request::field::Field;
use crate::state::replica_set::stored;
use crate::state::writing::Writing;

/// Where they are stored.
pub(crate) const NAMESPACE: &str = "config.querySettings";

/// All of them together take no more than this, as MongoDB keeps them in one document.
const BYTES_MAX: usize = 16 << 20;

/// What is said of one shape.
#[derive(Debug)]
pub(crate) struct StoredSettings {
    /// The hash of the shape.
    pub(crate) hash: String,
    /// As they are told.
    pub(crate) settings: RawDocumentBuf,
    /// The query by which the shape was named, if it was.
    pub(crate) representative: Option<RawDocumentBuf>,
    hints: Vec<NamespaceHint>,
    rejects: bool,
    _memory: MemoryReservation,
}

/// The indexes for one namespace.
#[derive(Debug)]
struct NamespaceHint {
    namespace: String,
    filter: Arc<IndexFilter>,
    /// The direction of a scan, where nothing else is allowed.
    scan: Option<ScanDirection>,
}

/// See the module's head.
pub(crate) struct QuerySettings {
    budget: Arc<MemoryBudget>,
    by_hash: RwLock<BTreeMap<String, Arc<StoredSettings>>>,
    /// How many there are: mostly none, and then no query computes its shape.
    count: AtomicUsize,
    /// Held while they are changed, here and on disk.
    changing: Mutex<()>,
}

impl QuerySettings {
    /// No settings, which are counted in a budget.
    pub(crate) fn new(budget: Arc<MemoryBudget>) -> Self {
        Self { budget, by_hash: RwLock::default(), count: AtomicUsize::new(0), changing: Mutex::new(()) }
    }

    /// Reads what was set before the start.
    pub(crate) fn load(&self, writing: &Writing) -> Result<()> {
        for document in stored::read_all(writing, NAMESPACE)? {
            match self.decode(&document) {
                Ok(settings) => self.insert(settings),
                Err(error) => stored::tell_replaced(writing, NAMESPACE, error.to_string()),
            }
        }
        Ok(())
    }

    /// Whether there are none.
    pub(crate) fn is_empty(&self) -> bool {
        self.count.load(Ordering::Acquire) == 0
    }

    /// What is said of a shape.
    pub(crate) fn find(&self, hash: &str) -> Option<Arc<StoredSettings>> {
        self.by_hash.read().get(hash).cloned()
    }

    /// All of them, in the order of their hashes.
    pub(crate) fn all(&self) -> Vec<Arc<StoredSettings>> {
        self.by_hash.read().values().cloned().collect()
    }

    /// Says something of a shape, beside what is said of it already. Durable before it returns.
    ///
    /// # Errors
    /// BadValue, Location7746604 when nothing is left to be said; there is no memory for it.
    pub(crate) fn set(
        &self,
        writing: &Writing,
        hash: &str,
        given: &RawDocument,
        representative: Option<&RawDocument>,
    ) -> Result<Arc<StoredSettings>> {
        let _changing = self.changing.lock();
        let known = self.find(hash);
        let settings = merged(known.as_ref().map(|known| &*known.settings), given)?;
        let representative = representative.or(known.as_ref().and_then(|known| known.representative.as_deref()));
        let new = self.made(hash, settings, representative.map(ToOwned::to_owned))?;
        let others = self.all().iter().filter(|other| other.hash != hash).map(|other| other.bytes()).sum::<usize>();
        if others + new.bytes() > BYTES_MAX {
            let message = format!("query settings take more than {BYTES_MAX} bytes");
            return Err(CommandError::named("BSONObjectTooLarge", message));
        }
        stored::put(writing, NAMESPACE, &new.encode())?;
        self.insert(new);
        self.find(hash).ok_or_else(|| CommandError::bad_value("the settings are gone"))
    }

    /// Removes what is said of a shape; whether there was something.
    pub(crate) fn remove(&self, writing: &Writing, hash: &str) -> Result<bool> {
        let _changing = self.changing.lock();
        if self.find(hash).is_none() {
            return Ok(false);
        }
        let id = Some(RawBsonRef::String(hash));
        stored::retain(writing, NAMESPACE, |document| document::document_id(document) != id)?;
        let mut by_hash = self.by_hash.write();
        by_hash.remove(hash);
        self.count.store(by_hash.len(), Ordering::Release);
        Ok(true)
    }

    fn insert(&self, settings: StoredSettings) {
        let mut by_hash = self.by_hash.write();
        by_hash.insert(settings.hash.clone(), Arc::new(settings));
        self.count.store(by_hash.len(), Ordering::Release);
    }

    fn made(
        &self,
        hash: &str,
        settings: RawDocumentBuf,
        representative: Option<RawDocumentBuf>,
    ) -> Result<StoredSettings> {
        let hints = hints_of(&settings)?;
        let rejects = get_field(&settings, "reject").and_then(|value| value.as_bool()).unwrap_or_default();
        let bytes = bytes_of(&settings, representative.as_deref());
        // Their filters have the same once more.
        let bytes = 2 * bytes as u64;
        let no_memory =
            |error| CommandError::named("ExceededMemoryLimit", format!("the settings cannot be kept: {error}"));
        self.budget.check_lasting(MemoryUse::Remembered, bytes).map_err(no_memory)?;
        let memory = self.budget.reserve_fixed(MemoryUse::Remembered, bytes);
        Ok(StoredSettings { hash: hash.to_owned(), settings, representative, hints, rejects, _memory: memory })
    }

    fn decode(&self, stored: &RawDocument) -> Result<StoredSettings> {
        let embedded = |name| get_field(stored, name).and_then(|value| value.as_document());
        let hash = get_field(stored, "_id").and_then(|hash| hash.as_str());
        let (Some(hash), Some(settings)) = (hash, embedded("settings")) else {
            return Err(CommandError::bad_value("query settings without a hash or without settings"));
        };
        self.made(hash, merged(None, settings)?, embedded("representativeQuery").map(ToOwned::to_owned))
    }
}

impl StoredSettings {
    /// Refuses a query that is not to be run.
    ///
    /// # Errors
    /// QueryRejectedBySettings (412).
    pub(crate) fn check(&self) -> Result<()> {
        if !self.rejects {
            return Ok(());
        }
        let message = format!("Query rejected by admin query settings: its shape is {}", self.hash);
        Err(CommandError::named("QueryRejectedBySettings", message))
    }

    /// Restricts a query of a namespace to the indexes that it may use.
    pub(crate) fn restrict(&self, namespace: &str, query: &mut CanonicalQuery) {
        let Some(hint) = self.hints.iter().find(|hint| hint.namespace == namespace) else { return };
        match hint.scan {
            Some(direction) => query.hint = Hint::Natural(direction),
            None => query.settings = Some(hint.filter.clone()),
        }
    }

    fn bytes(&self) -> usize {
        bytes_of(&self.settings, self.representative.as_deref())
    }

    fn encode(&self) -> RawDocumentBuf {
        let mut document = RawDocumentBuf::new();
        document.append(cstr!("_id"), self.hash.as_str());
        document.append(cstr!("settings"), &*self.settings);
        if let Some(representative) = &self.representative {
            document.append(cstr!("representativeQuery"), &**representative);
        }
        document
    }
}

fn bytes_of(settings: &RawDocument, representative: Option<&RawDocument>) -> usize {
    const BESIDE: usize = 256;
    settings.as_bytes().len() + representative.map_or(0, |query| query.as_bytes().len()) + BESIDE
}

/// What is said with what is said anew, in MongoDB's order; what goes without saying is left out.
fn merged(known: Option<&RawDocument>, given: &RawDocument) -> Result<RawDocumentBuf> {
    check_fields(given)?;
    let part = |name| get_field(given, name).or_else(|| get_field(known?, name));
    let mut settings = RawDocumentBuf::new();
    match part("indexHints") {
        Some(RawBsonRef::Document(hint)) => {
            let one: bson::RawArrayBuf = std::iter::once(hint.to_owned()).collect();
            settings.append(cstr!("indexHints"), one);
        }
        Some(RawBsonRef::Array(hints)) if !hints.is_empty() => settings.append(cstr!("indexHints"), hints),
        _ => {}
    }
    if let Some(framework) = part("queryFramework") {
        settings.append(cstr!("queryFramework"), framework);
    }
    if let Some(RawBsonRef::Boolean(true)) = part("reject") {
        settings.append(cstr!("reject"), true);
    }
    if settings.is_empty() {
        let message = "the resulting settings cannot be empty or contain only default values";
        return Err(CommandError::numbered(7_746_604, message));
    }
    if let Some(comment) = part("comment") {
        settings.append(cstr!("comment"), comment);
    }
    Ok(settings)
}

fn check_fields(settings: &RawDocument) -> Result<()> {
    for element in elements(settings) {
        let field = Field::of("setQuerySettings.settings", element);
        match (field.name(), field.value()) {
            ("indexHints", RawBsonRef::Document(_) | RawBsonRef::Array(_)) => {}
            ("indexHints", _) => return Err(field.wrong_type("array")),
            ("queryFramework", RawBsonRef::String("classic" | "sbe")) => {}
            ("queryFramework", RawBsonRef::String(other)) => {
                let message = format!(
                    "Enumeration value '{other}' for field 'setQuerySettings.settings.queryFramework' is not a valid \
                     value."
                );
                return Err(CommandError::bad_value(message));
            }
            ("queryFramework", _) => return Err(field.wrong_type("string")),
            ("reject", RawBsonRef::Boolean(_)) => {}
            ("reject", _) => return Err(field.wrong_type("bool")),
            ("comment", _) => {}
            _ => return Err(field.unknown()),
        }
    }
    Ok(())
}

fn hints_of(settings: &RawDocument) -> Result<Vec<NamespaceHint>> {
    let Some(RawBsonRef::Array(hints)) = get_field(settings, "indexHints") else { return Ok(Vec::new()) };
    let mut found: Vec<NamespaceHint> = Vec::new();
    for hint in array_elements(hints) {
        let RawBsonRef::Document(hint) = hint.value() else {
            return Err(CommandError::bad_value("each of indexHints must be an object"));
        };
        let hint = hint_of(hint)?;
        if found.iter().any(|other| other.namespace == hint.namespace) {
            let message = format!("indexHints has the namespace {} twice", hint.namespace);
            return Err(CommandError::bad_value(message));
        }
        found.push(hint);
    }
    Ok(found)
}

fn hint_of(hint: &RawDocument) -> Result<NamespaceHint> {
    let (mut namespace, mut allowed) = (None, None);
    for element in elements(hint) {
        let field = Field::of("setQuerySettings.settings.indexHints", element);
        match field.name() {
            "ns" => namespace = field.document()?,
            "allowedIndexes" => allowed = field.array()?,
            _ => return Err(field.unknown()),
        }
    }
    let part = |name| get_field(namespace?, name)?.as_str().filter(|part| !part.is_empty());
    let (Some(database), Some(collection)) = (part("db"), part("coll")) else {
        return Err(CommandError::bad_value("indexHints requires 'ns' with 'db' and 'coll'"));
    };
    let Some(allowed) = allowed.filter(|allowed| !allowed.is_empty()) else {
        return Err(CommandError::bad_value("indexHints requires at least one of 'allowedIndexes'"));
    };
    let (mut indexes, mut scan) = (Vec::new(), None);
    for index in array_elements(allowed) {
        match index.value() {
            RawBsonRef::String(name) => indexes.push(AllowedIndex::Name(name.to_owned())),
            RawBsonRef::Document(pattern) => match get_field(pattern, "$natural").and_then(Number::from_bson) {
                Some(direction) if direction.sign() < 0 => scan = Some(ScanDirection::Backward),
                Some(_) => scan = Some(ScanDirection::Forward),
                None => indexes.push(AllowedIndex::KeyPattern(pattern.to_owned())),
            },
            _ => return Err(CommandError::bad_value("each of allowedIndexes must be a name or a key pattern")),
        }
    }
    // Where an index may be used, too, the planner scans if that is better.
    let scan = scan.filter(|_| indexes.is_empty());
    let filter = Arc::new(IndexFilter {
        query: RawDocumentBuf::new(),
        sort: RawDocumentBuf::new(),
        projection: RawDocumentBuf::new(),
        collation: RawDocumentBuf::new(),
        indexes,
    });
    Ok(NamespaceHint { namespace: format!("{database}.{collection}"), filter, scan })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_that_do_not_fit_are_refused() {
        let settings = QuerySettings::new(MemoryBudget::new(1 << 20));
        let said = bson::rawdoc! { "reject": true };
        let query = |bytes: usize| bson::rawdoc! { "find": "c", "filter": { "a": "x".repeat(bytes) } };
        assert!(settings.made("h", said.clone(), Some(query(100))).is_ok());
        let refused = settings.made("h", said, Some(query(1 << 20))).unwrap_err();
        assert_eq!(refused.code_name, "ExceededMemoryLimit");
    }

    #[test]
    fn what_is_said_anew_stands_beside_what_was_said() {
        let hint = bson::rawdoc! { "ns": { "db": "d", "coll": "c" }, "allowedIndexes": ["a_1"] };
        let known = merged(None, &bson::rawdoc! { "indexHints": hint.clone(), "reject": true }).unwrap();
        let anew = merged(Some(&known), &bson::rawdoc! { "reject": false, "comment": 5 }).unwrap();
        assert_eq!(anew, bson::rawdoc! { "indexHints": [hint], "comment": 5 });
        let nothing = merged(Some(&bson::rawdoc! { "reject": true }), &bson::rawdoc! { "reject": false });
        assert_eq!(nothing.unwrap_err().code, 7_746_604);
    }
}
