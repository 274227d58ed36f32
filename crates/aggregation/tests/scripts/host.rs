//! A host over two collections in memory, `local` and `other`, with a spill store in memory.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use aggregation::{
    BoxSource, FindById, ForeignQuery, MergeRules, MergeWriter, Moment, Namespace, NearQuery, NearSource, Neighbour,
    OutputWriter, PipelineHost, RECORD_LENGTH_BYTES, Result, SpillReader, SpillStore, SpillWriter, StageMemory,
    WhenMatched, source_of,
};
use bson::raw::{RawBsonRef, RawDocument, RawDocumentBuf, cstr};
use query_language::expression::{Metadata, Variables};
use query_language::filter::{Filter, FilterOptions};
use query_language::update::{EmptyTimestamps, UpdateClock, UpdateContext, UpdateOutcome, UpdatePurpose};
use script_test::print_document;

pub(crate) struct TestHost {
    local: Vec<RawDocumentBuf>,
    other: Vec<RawDocumentBuf>,
    written: Arc<Mutex<Vec<String>>>,
    spilling: AtomicBool,
    store: MemoryStore,
}

impl TestHost {
    pub(crate) fn new(local: Vec<RawDocumentBuf>, other: Vec<RawDocumentBuf>) -> Self {
        Self { local, other, written: Arc::default(), spilling: AtomicBool::new(false), store: MemoryStore }
    }

    pub(crate) fn allow_spilling(&self) {
        self.spilling.store(true, Ordering::Relaxed);
    }

    pub(crate) fn written(&self) -> Vec<String> {
        self.written.lock().unwrap().clone()
    }
}

impl PipelineHost for TestHost {
    fn find(&self, namespace: &Namespace, query: &ForeignQuery) -> Result<BoxSource> {
        let filter = Filter::parse(&query.filter, &FilterOptions::new(Arc::clone(&query.variables)))?;
        let documents = match namespace.collection.as_str() {
            "local" => &self.local,
            "other" => &self.other,
            _ => return Ok(source_of([])),
        };
        let mut found: Vec<RawDocumentBuf> = Vec::new();
        for document in documents.iter() {
            if filter.matches(document)? {
                found.push(match &query.needed_paths {
                    Some(paths) => crate::only(paths, document, &query.variables),
                    None => document.clone(),
                });
            }
        }
        Ok(source_of(found))
    }

    fn by_id(&self, namespace: &Namespace) -> Result<Option<Box<dyn FindById>>> {
        let documents = match namespace.collection.as_str() {
            "local" => &self.local,
            "other" => &self.other,
            _ => return Ok(None),
        };
        Ok(Some(Box::new(ById(documents.clone()))))
    }

    fn near(&self, _: &Namespace, query: &NearQuery) -> Result<Box<dyn NearSource>> {
        let key = query.key.as_deref().unwrap_or("loc");
        let options = FilterOptions::new(Arc::clone(&query.variables)).with_nearness();
        let filter = Filter::parse(&query.filter(key), &options)?;
        let Some(near) = filter.near() else { return Ok(Box::new(Neighbours(Vec::new()))) };
        let mut found = Vec::new();
        for document in &self.local {
            if let (true, Some(nearest)) = (filter.matches(document)?, near.nearest(document)?) {
                let distance = Some(nearest.distance * near.near().scale());
                let metadata = Metadata { distance, place: Some(Arc::new(nearest.place)), ..Metadata::default() };
                found.push(Neighbour { document: document.clone(), metadata });
            }
        }
        let distance = |found: &Neighbour| found.metadata.distance.unwrap_or_default();
        found.sort_by(|left, right| distance(right).total_cmp(&distance(left)));
        Ok(Box::new(Neighbours(found)))
    }

    fn collection_statistics(&self, namespace: &Namespace, _: &RawDocument) -> Result<RawDocumentBuf> {
        let mut statistics = RawDocumentBuf::new();
        statistics.append(cstr!("ns"), namespace.to_string());
        statistics.append(cstr!("count"), self.local.len() as i32);
        Ok(statistics)
    }

    fn plan_cache_statistics(&self, _: &Namespace) -> Result<Vec<RawDocumentBuf>> {
        Ok(Vec::new())
    }

    fn index_statistics(&self, _: &Namespace) -> Result<Vec<RawDocumentBuf>> {
        let mut statistics = RawDocumentBuf::new();
        statistics.append(cstr!("name"), "_id_");
        Ok(vec![statistics])
    }

    fn has_index(&self, _: &Namespace, _: &str) -> Result<bool> {
        Ok(self.spilling.load(Ordering::Relaxed))
    }

    fn cluster_catalog(&self, database: Option<&str>, shows_shards: bool) -> Result<Vec<RawDocumentBuf>> {
        Ok(vec![bson::rawdoc! { "of": database.unwrap_or("all"), "shards": shows_shards }])
    }

    fn query_statistics(&self, _: Option<&[u8]>) -> Result<Vec<RawDocumentBuf>> {
        Ok(Vec::new())
    }

    fn query_settings(&self, shows_shape: bool) -> Result<Vec<RawDocumentBuf>> {
        Ok(vec![bson::rawdoc! { "shows": shows_shape }])
    }

    fn current_operations(&self, wanted: aggregation::IdleOperations) -> Result<Vec<RawDocumentBuf>> {
        let mut operation = RawDocumentBuf::new();
        operation.append(cstr!("active"), true);
        let mut idle = RawDocumentBuf::new();
        idle.append(cstr!("active"), false);
        Ok(if wanted.connections { vec![operation, idle] } else { vec![operation] })
    }

    fn sessions(&self, wanted: &aggregation::ListedSessions) -> Result<Vec<RawDocumentBuf>> {
        let mut session = RawDocumentBuf::new();
        session.append(cstr!("wanted"), format!("{wanted:?}"));
        Ok(vec![session])
    }

    fn replace_collection(
        &self,
        namespace: &Namespace,
        time_series: Option<&RawDocument>,
    ) -> Result<Box<dyn OutputWriter>> {
        let kind = time_series.map(|_| " as a time series").unwrap_or_default();
        Ok(Box::new(Recorder { lines: vec![format!("into {namespace}{kind}")], written: Arc::clone(&self.written) }))
    }

    fn begin_merge(&self, rules: &MergeRules) -> Result<Box<dyn MergeWriter>> {
        Ok(Box::new(Merged { rules: rules.clone(), written: Arc::clone(&self.written) }))
    }

    fn spill_store(&self) -> Option<&dyn SpillStore> {
        self.spilling.load(Ordering::Relaxed).then_some(&self.store as &dyn SpillStore)
    }

    fn stage_memory(&self) -> Box<dyn StageMemory> {
        Box::new(Uncounted)
    }

    fn check_interrupt(&self) -> Result<()> {
        Ok(())
    }
}

/// The nearest is last.
/// Documents that are found by their `_id`s, the last that is asked for first.
struct ById(Vec<RawDocumentBuf>);

impl FindById for ById {
    fn find(&mut self, id: RawBsonRef<'_>, _: Moment) -> Result<Option<&RawDocument>> {
        let is_it = |document: &&RawDocumentBuf| {
            document.get("_id").unwrap().is_some_and(|known| document::values_equal(known, id))
        };
        Ok(self.0.iter().find(is_it).map(|document| &**document))
    }

    fn find_all(
        &mut self,
        ids: &[RawBsonRef<'_>],
        told: &mut dyn FnMut(usize, Option<&RawDocument>) -> ControlFlow<()>,
    ) -> Result<()> {
        for (number, id) in ids.iter().enumerate().rev() {
            if told(number, self.find(*id, Moment::AsBefore)?).is_break() {
                break;
            }
        }
        Ok(())
    }

    fn rest(&mut self) {}
}

struct Neighbours(Vec<Neighbour>);

impl NearSource for Neighbours {
    fn next(&mut self) -> Result<Option<Neighbour>> {
        Ok(self.0.pop())
    }
}

struct Recorder {
    lines: Vec<String>,
    written: Arc<Mutex<Vec<String>>>,
}

impl OutputWriter for Recorder {
    fn write(&mut self, document: &RawDocument) -> Result<()> {
        self.lines.push(print_document(document));
        Ok(())
    }

    fn finish(self: Box<Self>) -> Result<()> {
        *self.written.lock().unwrap() = self.lines;
        Ok(())
    }
}

/// Writes what `whenMatched` makes of each document where `{_id: 0, old: true}` is there.
struct Merged {
    rules: MergeRules,
    written: Arc<Mutex<Vec<String>>>,
}

impl MergeWriter for Merged {
    fn write(&mut self, document: &RawDocument, variables: Variables) -> Result<()> {
        let mut old = RawDocumentBuf::new();
        old.append(cstr!("_id"), bson::RawBson::from(document.get("_id")?.unwrap_or(bson::RawBsonRef::Null)));
        old.append(cstr!("old"), true);
        let line = match &self.rules.when_matched {
            WhenMatched::Update(update) => {
                let context = UpdateContext {
                    match_position: None,
                    purpose: UpdatePurpose::Modify,
                    clock: &NoClock,
                    empty_timestamps: EmptyTimestamps::Keep,
                    variables: &variables,
                };
                match update.apply(&old, &context)? {
                    UpdateOutcome::Changed { document, .. } => print_document(&document),
                    UpdateOutcome::NoChange => "no change".to_owned(),
                }
            }
            other => format!("{other:?} {:?}", self.rules.when_not_matched),
        };
        self.written.lock().unwrap().push(line);
        Ok(())
    }
}

#[derive(Debug)]
struct NoClock;

impl UpdateClock for NoClock {
    fn now(&self) -> bson::DateTime {
        bson::DateTime::from_millis(0)
    }

    fn next_timestamp(&self) -> bson::Timestamp {
        bson::Timestamp { time: 0, increment: 0 }
    }
}

/// The scripts set the pipeline's own limit.
struct Uncounted;

impl StageMemory for Uncounted {
    fn holds(&mut self, _: usize) -> bool {
        true
    }

    fn shrink(&mut self, _: usize) {}
}

struct MemoryStore;

#[derive(Default)]
struct MemoryRun {
    records: Vec<Vec<u8>>,
    next: usize,
}

impl SpillStore for MemoryStore {
    fn begin_run(&self) -> Result<Box<dyn SpillWriter>> {
        Ok(Box::new(MemoryRun::default()))
    }
}

impl SpillWriter for MemoryRun {
    fn append(&mut self, record: &[u8]) -> Result<()> {
        self.records.push(record.to_vec());
        Ok(())
    }

    fn finish(self: Box<Self>) -> Result<Box<dyn SpillReader>> {
        Ok(self)
    }
}

impl SpillReader for MemoryRun {
    fn next(&mut self, record: &mut Vec<u8>) -> Result<bool> {
        record.clear();
        let Some(next) = self.records.get(self.next) else { return Ok(false) };
        record.extend(next);
        self.next += 1;
        Ok(true)
    }

    fn restart(&mut self) {
        self.next = 0;
    }

    fn seek(&mut self, position: u64) -> Result<()> {
        let mut end = 0;
        self.next = self
            .records
            .iter()
            .take_while(|record| {
                let is_before = end < position;
                end += (RECORD_LENGTH_BYTES + record.len()) as u64;
                is_before
            })
            .count();
        Ok(())
    }
}
