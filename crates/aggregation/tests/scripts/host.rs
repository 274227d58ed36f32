//! A host over two collections in memory, `local` and `other`, with a spill store in memory.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use aggregation::{
    BoxSource, ForeignQuery, Namespace, OutputWriter, PipelineHost, Result, SpillReader, SpillStore, SpillWriter,
    StageMemory, source_of,
};
use bson::raw::{RawDocument, RawDocumentBuf, cstr};
use query_language::filter::{Filter, FilterOptions};
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

    fn collection_statistics(&self, namespace: &Namespace, _: &RawDocument) -> Result<RawDocumentBuf> {
        let mut statistics = RawDocumentBuf::new();
        statistics.append(cstr!("ns"), namespace.to_string());
        statistics.append(cstr!("count"), self.local.len() as i32);
        Ok(statistics)
    }

    fn index_statistics(&self, _: &Namespace) -> Result<Vec<RawDocumentBuf>> {
        let mut statistics = RawDocumentBuf::new();
        statistics.append(cstr!("name"), "_id_");
        Ok(vec![statistics])
    }

    fn has_index(&self, _: &Namespace, _: &str) -> Result<bool> {
        Ok(self.spilling.load(Ordering::Relaxed))
    }

    fn current_operations(&self, wanted: aggregation::IdleOperations) -> Result<Vec<RawDocumentBuf>> {
        let mut operation = RawDocumentBuf::new();
        operation.append(cstr!("active"), true);
        let mut idle = RawDocumentBuf::new();
        idle.append(cstr!("active"), false);
        Ok(if wanted.connections { vec![operation, idle] } else { vec![operation] })
    }

    fn replace_collection(&self, namespace: &Namespace) -> Result<Box<dyn OutputWriter>> {
        Ok(Box::new(Recorder { lines: vec![format!("into {namespace}")], written: Arc::clone(&self.written) }))
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
}
