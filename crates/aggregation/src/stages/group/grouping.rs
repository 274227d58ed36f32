//! A running `$group`: fills the table, spills it as sorted runs when it grows too large, and gives the groups out.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::sync::Arc;

use bson::raw::{RawArrayBuf, RawBson, RawBsonRef, RawDocumentBuf, cstr};
use document::{array_elements, work};
use platform::RunMerge;
use query_language::expression::order::compare;
use query_language::expression::{EvaluationContext, Metadata, Value};
use query_language::growth::document_of;
use query_language::{ErrorKind, before_allocating_if_large};

use super::Group;
use super::table::{GroupState, GroupTable, new_group};
use crate::context::{Memory, RunContext};
use crate::error::{AggregationError, Result};
use crate::host::{BoxSource, DocumentSource, SpillReader};
use crate::spill::{self, Record, RecordFormat, Runs};

/// What one group may take in any case, and a part of one in a run that is not the first.
const GROUP_BYTES_MIN: usize = 1 << 20;

pub(super) struct Grouping {
    stage: Arc<Group>,
    source: BoxSource,
    run: RunContext,
    memory: Memory,
    output: Option<Output>,
}

enum Output {
    Memory(std::vec::IntoIter<GroupState>),
    Merge(RunMerge<RecordFormat>),
}

impl DocumentSource for Grouping {
    fn next(&mut self) -> Result<Option<RawDocumentBuf>> {
        let output = match self.output.take() {
            Some(output) => output,
            None => self.gather()?,
        };
        let group = match self.output.insert(output) {
            Output::Memory(groups) => groups.next(),
            Output::Merge(merge) => next_merged(&self.stage, merge, &self.run, &mut self.memory)?,
        };
        group.map(|group| self.document(group)).transpose()
    }
}

impl Grouping {
    pub(super) fn new(stage: Arc<Group>, source: BoxSource, run: RunContext) -> Self {
        let memory = run.begin_memory();
        Self { stage, source, run, memory, output: None }
    }

    /// Reads all documents.
    fn gather(&mut self) -> Result<Output> {
        let mut table = GroupTable::new();
        let mut runs = Runs::new(Arc::new(compare_keys));
        if self.stage.counts_documents()
            && let Some(documents) = self.source.count_rest()?
        {
            return self.counted(documents);
        }
        let reads_metadata = self.stage.reads_metadata();
        let Self { stage, source, run, memory, .. } = self;
        loop {
            // What is lent is lent by the source, which then cannot tell what it knows.
            let (next, metadata) = match reads_metadata {
                true => (source.next()?.map(Cow::Owned), source.metadata()),
                false => (source.lend()?, Metadata::default()),
            };
            let Some(document) = next else { break };
            let context = EvaluationContext::new(&document, run.variables()).with_metadata(&metadata);
            let key = stage.key.evaluate(&context)?;
            table.accumulate(stage, key.or_null(), &context)?;
            // Once groups are put together from runs, a merge holds a part of each run's next group in memory: no large parts.
            let has_large_part = !runs.is_empty() && table.largest_bytes() > GROUP_BYTES_MIN;
            if has_large_part || !memory.holds(table.memory_bytes()) {
                runs.push(spill_groups(&mut table, run, memory)?, run, "$group")?;
            }
        }
        if runs.is_empty() {
            return Ok(Output::Memory(table.drain().into_iter()));
        }
        runs.push(spill_groups(&mut table, run, memory)?, run, "$group")?;
        Ok(Output::Merge(runs.merge()?))
    }

    /// The one group of so many documents.
    fn counted(&self, documents: u64) -> Result<Output> {
        let (mut table, empty) = (GroupTable::new(), RawDocumentBuf::new());
        if documents > 0 {
            let context = EvaluationContext::new(&empty, self.run.variables());
            let key = self.stage.key.evaluate(&context)?;
            table.accumulate_count(&self.stage, key.or_null(), documents, self.run.variables())?;
        }
        Ok(Output::Memory(table.drain().into_iter()))
    }

    /// `{_id: key, field: result, ...}`.
    fn document(&self, group: GroupState) -> Result<RawDocumentBuf> {
        // The states' results beside the states, then the document.
        before_allocating_if_large(bytes_of(&group))?;
        let results =
            group.accumulators.iter().map(|state| state.finish()).collect::<std::result::Result<Vec<_>, _>>()?;
        let names = self.stage.fields.iter().map(|(name, _)| name.as_str());
        let fields = names.zip(results.iter().map(Value::or_null));
        Ok(document_of([("_id", group.key.as_raw_bson_ref())].into_iter().chain(fields))?)
    }
}

/// Writes the groups out, sorted by key, as partial results.
fn spill_groups(table: &mut GroupTable, run: &RunContext, memory: &mut Memory) -> Result<Box<dyn SpillReader>> {
    let mut writer = spill::begin_run(run, "$group")?;
    let mut groups = table.drain();
    work::sort_by(&mut groups, |left, right| {
        compare_keys(std::slice::from_ref(&left.key), std::slice::from_ref(&right.key))
    })?;
    let mut buffer = Vec::new();
    for group in groups {
        // Its state, the array of those, the body and the record.
        before_allocating_if_large(4 * bytes_of(&group))?;
        let mut partials = RawArrayBuf::new();
        for state in &group.accumulators {
            partials.push(state.to_partial()?);
        }
        let mut body = RawDocumentBuf::new();
        body.append(cstr!("partials"), partials);
        spill::append(writer.as_mut(), &mut buffer, &[group.key], &body)?;
    }
    memory.clear();
    writer.finish()
}

fn compare_keys(left: &[RawBson], right: &[RawBson]) -> Ordering {
    compare(left.first().map(RawBson::as_raw_bson_ref), right.first().map(RawBson::as_raw_bson_ref))
}

/// The next group of the runs: the partial results of all records with its key, in the order of the runs.
fn next_merged(
    stage: &Group,
    merge: &mut RunMerge<RecordFormat>,
    run: &RunContext,
    memory: &mut Memory,
) -> Result<Option<GroupState>> {
    let (mut first, mut record) = (Record::default(), Record::default());
    if !merge.next(&mut first)? {
        return Ok(None);
    }
    let key = first.key.first().cloned().unwrap_or(RawBson::Null);
    let mut group = new_group(stage, key, run.variables())?;
    add_partials(&mut group, &first.body)?;
    check_size(&group, memory)?;
    while merge.peek().is_some_and(|next| compare_keys(&next.key, &first.key).is_eq()) {
        merge.next(&mut record)?;
        add_partials(&mut group, &record.body)?;
        check_size(&group, memory)?;
    }
    Ok(Some(group))
}

fn bytes_of(group: &GroupState) -> usize {
    group.accumulators.iter().map(|state| state.memory_bytes()).sum()
}

/// A group is put together in memory, so one that does not fit there cannot be.
fn check_size(group: &GroupState, memory: &mut Memory) -> Result<()> {
    let bytes = bytes_of(group);
    if bytes <= GROUP_BYTES_MIN || memory.holds(bytes) {
        return Ok(());
    }
    let message = format!("$group used too much memory and cannot spill to disk: one group alone takes {bytes} bytes");
    Err(AggregationError::new(ErrorKind::ExceededMemoryLimit, message))
}

fn add_partials(group: &mut GroupState, body: &RawDocumentBuf) -> Result<()> {
    let partials = document::get_field(body, "partials").and_then(RawBsonRef::as_array);
    let partials = partials.into_iter().flat_map(array_elements);
    for (state, partial) in group.accumulators.iter_mut().zip(partials) {
        state.merge(partial.value())?;
    }
    Ok(())
}
