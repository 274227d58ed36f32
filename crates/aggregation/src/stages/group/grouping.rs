//! A running `$group`: fills the table from documents, and gives the groups out.

use std::borrow::Cow;
use std::sync::Arc;

use bson::raw::{RawBson, RawBsonRef, RawDocumentBuf};
use query_language::before_allocating_if_large;
use query_language::expression::{EvaluationContext, Metadata, Value};
use query_language::growth::document_of;

use super::Group;
use super::gatherer::Gatherer;
use super::merging::MergedGroups;
use super::table::GroupTable;
use crate::context::RunContext;
use crate::error::Result;
use crate::host::{BoxSource, DocumentSource};

/// The stage over documents.
pub(super) struct Grouping {
    stage: Arc<Group>,
    source: BoxSource,
    run: RunContext,
    output: Option<Groups>,
}

/// The groups, once all documents have been read.
pub(super) struct Groups {
    pub(super) stage: Arc<Group>,
    pub(super) found: Found,
}

/// Where the groups are.
pub(super) enum Found {
    /// In memory, which stays counted as long as they are; and the next one.
    Memory {
        gathered: Box<Gatherer>,
        next: usize,
    },
    Merge(Box<MergedGroups>),
}

impl DocumentSource for Grouping {
    fn next(&mut self) -> Result<Option<RawDocumentBuf>> {
        let output = match self.output.take() {
            Some(output) => output,
            None => self.gather()?,
        };
        self.output.insert(output).next()
    }
}

impl Grouping {
    pub(super) fn new(stage: Arc<Group>, source: BoxSource, run: RunContext) -> Self {
        Self { stage, source, run, output: None }
    }

    /// Reads all documents.
    fn gather(&mut self) -> Result<Groups> {
        let mut gatherer = Gatherer::new(&self.stage, &self.run);
        if self.stage.counts_documents()
            && let Some(documents) = self.source.count_rest()?
        {
            gatherer.take_count(documents)?;
            return gatherer.finish();
        }
        let reads_metadata = self.stage.reads_metadata();
        loop {
            // What is lent is lent by the source, which then cannot tell what it knows.
            let (next, metadata) = match reads_metadata {
                true => (self.source.next()?.map(Cow::Owned), self.source.metadata()),
                false => (self.source.lend()?, Metadata::default()),
            };
            let Some(document) = next else { return gatherer.finish() };
            let context = EvaluationContext::new(&document, self.run.variables()).with_metadata(&metadata);
            gatherer.take_document(&context)?;
        }
    }
}

impl DocumentSource for Groups {
    fn next(&mut self) -> Result<Option<RawDocumentBuf>> {
        match &mut self.found {
            Found::Memory { gathered, next } => {
                let group = *next;
                *next += 1;
                let table = gathered.table();
                (group < table.len()).then(|| document(&self.stage, table.key(group), table, group)).transpose()
            }
            Found::Merge(merged) => merged.next(&self.stage),
        }
    }
}

/// `{_id: key, field: result, ...}`.
pub(super) fn document(stage: &Group, key: RawBsonRef<'_>, table: &GroupTable, group: usize) -> Result<RawDocumentBuf> {
    let states = || table.states.iter().filter_map(|states| states.state(group));
    // The states' results beside the states, then the document.
    before_allocating_if_large(states().map(|state| state.memory_bytes()).sum())?;
    let results = states().map(|state| state.finish()).collect::<std::result::Result<Vec<_>, _>>()?;
    let names = stage.fields.iter().map(|(name, _)| name.as_str());
    let fields = names.zip(results.iter().map(Value::or_null));
    let shown: RawBson;
    let key = match stage.key.is_shown_bare() {
        true => key,
        false => {
            shown = stage.key.shown(key)?;
            shown.as_raw_bson_ref()
        }
    };
    Ok(document_of([("_id", key)].into_iter().chain(fields))?)
}
